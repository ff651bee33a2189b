"""Names of torch in the modules where packages import them from."""

import pytest

import torchgrad_jax as torch
from torchgrad_jax import _tensor_str
from torchgrad_jax.cpu.amp import autocast_mode as cpu_mode, grad_scaler as cpu_scaler
from torchgrad_jax.cuda.amp import autocast_mode, common, grad_scaler
from torchgrad_jax.nn.utils import stateless
from torchgrad_jax.optim import _functional


def test_modules_of_amp():
    assert common.amp_definitely_not_available() is not torch.cuda.is_available()
    assert torch.cuda.amp.amp_definitely_not_available is common.amp_definitely_not_available
    assert torch.cuda.amp.autocast is autocast_mode.autocast
    assert torch.cuda.amp.custom_bwd is autocast_mode.custom_bwd
    assert torch.cuda.amp.custom_fwd is autocast_mode.custom_fwd
    assert torch.cuda.amp.GradScaler is grad_scaler.GradScaler
    assert torch.cpu.amp.autocast is cpu_mode.autocast
    assert torch.cpu.amp.GradScaler is cpu_scaler.GradScaler


def test_what_the_arguments_of_to_name():
    parse = torch._C._nn._parse_to
    assert parse("cuda", torch.float64) == (torch.device("cuda"), torch.float64, False, None)
    assert parse(device="cuda:1", non_blocking=True) == (torch.device("cuda:1"), None, True, None)
    assert parse(torch.float16) == (None, torch.float16, False, None)
    assert parse(torch.ones(1, dtype=torch.int8))[:2] == (torch.device("cpu"), torch.int8)


@pytest.mark.parametrize("stacked", [False, True])
def test_a_module_with_other_tensors_inside(stacked):
    layer = torch.nn.BatchNorm1d(2)
    before = dict(layer.named_parameters()) | dict(layer.named_buffers())
    given = {"weight": torch.tensor([2.0, 3.0]), "running_mean": torch.tensor([1.0, 1.0])}
    kept = given["running_mean"]
    with stateless._reparametrize_module(layer, given, stack_weights=stacked):
        assert layer.weight is given["weight"]
        layer.running_mean = torch.tensor([5.0, 5.0])
        layer(torch.ones(3, 2))
    assert all(a is before[n] for n, a in [*layer.named_parameters(), *layer.named_buffers()])
    assert given["running_mean"] is not kept
    assert given["running_mean"].tolist() == pytest.approx([4.6, 4.6])


def test_all_tensors_have_to_be_given_where_that_is_asked():
    layer = torch.nn.Linear(1, 1)
    with (
        pytest.raises(RuntimeError) as raised,
        stateless._reparametrize_module(layer, {"w": torch.ones(1)}, strict=True),
    ):
        pass
    assert str(raised.value) == (
        "Error(s) in reparametrizing for Linear:\n\tUnexpected key(s): 'w'.\n\tMissing key(s): 'bias', 'weight'."
    )


def test_tied_tensors_follow_each_other():
    pair = torch.nn.ModuleList([torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)])
    pair[1].weight = pair[0].weight
    given = torch.ones(1, 1)
    with stateless._reparametrize_module(pair, {"0.weight": given}, tie_weights=True):
        assert pair[1].weight is given
    assert pair[1].weight is pair[0].weight


def test_printing_under_its_own_module():
    x = torch.tensor([1.25])
    assert _tensor_str._str(x) == repr(x)
    assert _tensor_str._str(x, tensor_contents="x") == "tensor(x)"
    for y in (x, torch.arange(2000).view(2, 1000), torch.ones(()), torch.ones(2, 0), torch.ones(1) * 1j):
        text = _tensor_str._tensor_str(y.bfloat16() if y is x else y, 7)
        assert repr(y).startswith(f"tensor({text}")
    assert _tensor_str._add_suffixes("a(1", ["b=2"], 2, force_newline=False) == "a(1, b=2)"
    assert _tensor_str._add_suffixes("a(1", ["b=2", "c"], 2, force_newline=True) == "a(1,\n  b=2, c)"
    with _tensor_str.printoptions():
        assert (_tensor_str.PRINT_OPTS.precision, _tensor_str.PRINT_OPTS.sci_mode) == (4, None)
        _tensor_str.PRINT_OPTS.precision = 1
        assert repr(x) == "tensor([1.2])"
        assert "precision=1, " in repr(_tensor_str.PRINT_OPTS)
    assert repr(x) == "tensor([1.2500])"
    for act in (lambda o: o.colour, lambda o: setattr(o, "colour", 1)):
        with pytest.raises(AttributeError, match="colour"):
            act(_tensor_str.PRINT_OPTS)


def test_modes_of_functions_are_counted():
    assert torch.overrides._len_torch_function_stack() == 0
    with torch.overrides.TorchFunctionMode():
        assert torch.overrides._len_torch_function_stack() == 1


def test_names_beside_others():
    assert _functional.adam is torch.optim.adam.adam
    assert torch.nn.functional._Reduction.get_enum("sum") == 2
