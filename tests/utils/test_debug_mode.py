"""torch.utils._debug_mode: operators as text, hashes of values, two runs compared; against torch where names agree."""

import importlib
import io
import json

import pytest

import torchgrad_jax as tg
from tests.programs import Programs, complaint
from torchgrad_jax.utils._debug_mode import DebugMode, get_active_debug_mode

program = Programs()
test_same_as_torch = program.test()


def mode_of(m):
    return importlib.import_module(f"{m.__name__}.utils._debug_mode").DebugMode


def some(m):
    x = m.arange(6.0).reshape(2, 3)
    return (x @ m.ones(3, 4)).relu() + 1


@program
def operators_with_shapes(m):
    x, w, y = m.arange(6.0).reshape(2, 3), m.ones(3, 4), m.ones(2, 4)
    with mode_of(m)() as mode:
        z = (x @ w).relu() * y
        z.add_(2.0)
        with m.autograd.profiler.record_function("stretch"):
            (z.exp() > y).logical_not()
    return mode.debug_string(), len(mode.logs)


@program
def numbers_and_attributes_of_tensors(m):
    x, y = m.ones(2, requires_grad=True), m.ones(2, dtype=m.float64)
    with mode_of(m)(record_ids=True, record_tensor_attributes=["ndim"]) as mode:
        (x * x).sin().add_(y)
    with mode_of(m)(record_output=False) as other:
        x.exp()
    return mode.debug_string(), other.debug_string()


@program
def hashes_of_values(m):
    x, z = m.arange(6.0).reshape(2, 3), m.tensor([1 + 2j, 3j])
    n = m.tensor([1, -2])
    found = []
    for options in ({"hash_inputs": True}, {"hash_fn": "hash_tensor"}, {"hash_fn": ["norm", "hash_tensor"]}):
        with mode_of(m)() as mode, mode_of(m).log_tensor_hashes(**options):
            x.mul(2.0).neg()
            n.abs()
            z.neg()
            x.clone().add_(1.0)
        found.append([call.log for call in mode.logs])
    with mode_of(m)() as mode, mode_of(m).log_tensor_hashes(lambda t: t.numel()):
        x.exp()
    return found, mode.logs[0].log


@program
def results_kept(m):
    x = m.arange(3.0)
    with mode_of(m)() as mode, mode_of(m).record_outputs():
        y = x.exp()
        y.mul_(2)
    return [call.record["output"] for call in mode.logs]


@program
def hooks_of_programs(m):
    seen = []

    def before(func, types, args, kwargs, call):
        seen.append(len(args))

    def after(func, types, args, kwargs, result):
        return {"n": result.numel()}

    x = m.ones(3)
    with mode_of(m)() as mode, mode_of(m).dispatch_hooks(log_hook=after, pre_log_hook=before):
        x.mul(2.0)
    with mode_of(m)() as later:
        x.exp()
    return seen, mode.logs[0].log, later.logs[0].log


@program
def runs_compared(m):
    def run(y):
        with mode_of(m)() as mode, mode_of(m).log_tensor_hashes(hash_inputs=True):
            y.exp().mul(2.0).neg()
        return mode.logs

    check = mode_of(m).check_hash_mismatches
    first, other = run(m.ones(3)), run(m.ones(3) * 2)
    pairs = (check(first, run(m.ones(3))), check(first, other), check(first, other, compare_inputs=True))
    found = [[(d["pytree_path"], d["rel_diff"] > 0.1, d["is_input_hash"], d["call_type"]) for d in p] for p in pairs]
    return found, complaint(lambda: check(first, first[:1]))


@program
def what_is_refused(m):
    def enter(what):
        with mode_of(m).log_tensor_hashes(what):
            pass

    return complaint(lambda: enter("other")), complaint(lambda: enter(["norm", 3])), complaint(lambda: enter(3))


@program
def labels(m):
    with mode_of(m)() as mode:
        mode_of(m)._annotate("here")
        m.ones(2).exp()
    mode_of(m)._annotate("nowhere")
    return [str(c) for c in mode.logs if "annotate" in str(c)]


@program
def a_mode_that_is_emptied(m):
    mode = mode_of(m)()
    with mode:
        m.ones(2).exp()
        mode.reset()
        m.ones(2).abs()
    return [s.strip() for s in mode.debug_string().splitlines() if "abs" in s or "exp" in s]


# --- what torch has otherwise, or not at all -------------------------------------------------------


def test_options_are_written_by_name_and_backward_passes_by_node():
    x = tg.ones(2, 3, requires_grad=True)
    with DebugMode() as mode:
        x.sin().sum(0, keepdim=True).sum().backward()
    assert mode.debug_string().splitlines() == [
        "    aten::sin(t: f32[2, 3])  ->  t: f32[2, 3]",
        "    aten::sum(t: f32[2, 3], dim=(0,), keepdim=True)  ->  t: f32[1, 3]",
        "    aten::sum(t: f32[1, 3], keepdim=False)  ->  t: f32[]",
        "    SumBackward0(t: f32[])  ->  t: f32[1, 3]",
        "    SumBackward1(t: f32[1, 3])  ->  t: f32[2, 3]",
        "    SinBackward0(t: f32[2, 3])  ->  t: f32[2, 3]",
        "    torch::autograd::AccumulateGrad(t: f32[2, 3])",
    ]


def test_public_functions_and_modules_around_their_operators():
    lin, x = tg.nn.Sequential(tg.nn.Linear(3, 2)), tg.ones(1, 3)
    with DebugMode(record_torchfunction=True) as mode:
        tg.cat([x, x], 1)
    assert mode.debug_string().splitlines() == [
        "  torch.cat(['t: f32[1, 3]', 't: f32[1, 3]'], 1)  ->  t: f32[1, 6]",
        "      aten::cat(t: f32[1, 3], t: f32[1, 3], dim=1)  ->  t: f32[1, 6]",
    ]
    with DebugMode(record_nn_module=True, record_realtensor=False) as mode:
        lin(x)
        lin(x)
    assert mode.debug_string() == "\n".join(["    [nn.Mod] Sequential", "      [nn.Mod] Sequential.0"] * 2)


def test_a_module_that_fails_leaves_the_depth_as_it_was():
    class Fails(tg.nn.Module):
        def forward(self, x):
            raise ValueError("no")

    with DebugMode(record_nn_module=True) as mode:
        with pytest.raises(ValueError, match="no"):
            Fails()(tg.ones(2))
        tg.ones(2).exp()
    assert mode.debug_string().splitlines()[-1].startswith("    aten::exp")
    assert not tg.nn.modules.module._global_forward_hooks_always_called


def test_places_in_the_program():
    with DebugMode(record_stack_trace=True) as mode:
        tg.ones(2).exp()
    assert "# File: " in mode.debug_string()
    assert "test_debug_mode.py" in mode.debug_string()
    assert "# File" not in mode.debug_string(show_stack_trace=False)


def test_arguments_that_are_kept():
    x = tg.ones(2)
    with DebugMode(store_original_args=True) as mode:
        x.exp()
    assert mode.logs[-1].args[0] is x


def test_compiled_functions_run_op_by_op():
    compiled = tg.compile(lambda t: t.sin().exp())
    compiled(tg.ones(2))
    x = tg.ones(2)
    with DebugMode() as mode:
        compiled(x)
    assert [c.op for c in mode.logs] == ["aten::sin", "aten::exp"]


def test_the_mode_that_is_entered():
    assert get_active_debug_mode() is None
    with DebugMode(), DebugMode() as inner:
        assert get_active_debug_mode() is inner
    assert get_active_debug_mode() is None


def test_logs_in_a_file(tmp_path):
    def run(x):
        with DebugMode() as mode, DebugMode.log_tensor_hashes(["norm", "hash_tensor"], hash_inputs=True):
            DebugMode._annotate("a")
            x.exp().max(0)
            tg.tensor([float("inf")]).neg()
        return mode.logs

    first = run(tg.ones(3))
    DebugMode.save_logs(first, tmp_path / "run.json")
    text = io.StringIO()
    DebugMode.save_logs(first, text)
    assert (tmp_path / "run.json").read_text() == text.getvalue()
    text.seek(0)
    for loaded in (DebugMode.load_logs(tmp_path / "run.json"), DebugMode.load_logs(text)):
        assert [str(c) for c in loaded] == [str(c) for c in first]
        assert DebugMode.check_hash_mismatches(loaded, run(tg.ones(3)), compare_inputs=True) == []
        assert DebugMode.check_hash_mismatches(loaded, run(tg.zeros(3)))
    (tmp_path / "other.json").write_text(json.dumps({"format": "other"}))
    with pytest.raises(ValueError, match="no log of"):
        DebugMode.load_logs(tmp_path / "other.json")
    with DebugMode() as mode, DebugMode.log_tensor_hashes(lambda t: object()):
        tg.ones(2).exp()
    with pytest.raises(TypeError, match="no place in JSON"):
        DebugMode.save_logs(mode.logs, tmp_path / "bad.json")
    assert not (tmp_path / "bad.json").exists()
