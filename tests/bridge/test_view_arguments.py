"""Arguments of compiled functions that are views: their strides decide what is a copy, and what is written where."""

import warnings

import pytest

import torchgrad_jax as torch


def _memory():
    return torch.arange(24.0)


ARGUMENTS = {
    "whole": lambda base: base.view(4, 6),
    "part": lambda base: base[4:10].view(2, 3),
    "every second column": lambda base: base.view(4, 6)[:, ::2],
    "columns from the second row on": lambda base: base.view(4, 6)[1:, 1:3],
    "transposed": lambda base: base.view(4, 6).t(),
    "transposed columns": lambda base: base.view(4, 6)[:, :3].t(),
    "expanded": lambda base: base[:3].expand(2, 3),
    "overlapping": lambda base: base.as_strided((3, 3), (1, 1)),
    "three dimensions": lambda base: base.view(2, 3, 4)[:, 1:, ::3],
    "complex parts": lambda base: torch.view_as_complex(base.view(12, 2)).view(4, 3).real,
}

FUNCTIONS = {
    "strides": lambda v: v.stride(),
    "is contiguous": lambda v: v.is_contiguous(),
    "strides of clones": lambda v: (v.clone().stride(), torch.empty_like(v).stride()),
    "write to contiguous": lambda v: v.contiguous().add_(1),
    "write to reshape": lambda v: v.reshape(-1).mul_(2),
    "write to flatten": lambda v: v.flatten().sub_(1),
    "write": lambda v: v.mul_(3),
    "write to a part": lambda v: v[1:].fill_(-1),
    "view as one dimension": lambda v: v.view(-1),
    "transpose": lambda v: v.mT,
    "detach": lambda v: v.detach(),
    "unsqueeze": lambda v: v.unsqueeze(1),
    "expand": lambda v: v.expand(2, *v.shape),
    "memory from its beginning on": lambda v: v.as_strided((2,), (1,)),
    "memory before it": lambda v: v.as_strided((2,), (1,), 0),
    "a copy of memory before it": lambda v: torch.as_strided_copy(v, (2,), (1,), 0),
    "where it begins": lambda v: v.storage_offset(),
    "how large its memory is": lambda v: v.untyped_storage().nbytes(),
    "computation": lambda v: (v * 2 + v.sum(), v @ v.mT),
}


def _described(result):
    if isinstance(result, torch.Tensor):
        offset = result.storage_offset() if result._is_view() else None
        return result.tolist(), result.stride(), offset, result._is_view()
    if isinstance(result, tuple):
        return tuple(map(_described, result))
    return result


def _outcome(f, argument):
    base = _memory()
    v = ARGUMENTS[argument](base)
    try:
        result = _described(f(v))
    except RuntimeError as error:
        result = str(error).partition("\n")[0]
    return result, base.tolist(), v._version, v.tolist()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_view_as_an_argument_is_what_it_is_in_eager_code(function):
    f = torch.compile(FUNCTIONS[function])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that memory around an argument is looked at
        for argument in ARGUMENTS:
            expected = _outcome(FUNCTIONS[function], argument)
            for call in ("first", "second"):
                assert _outcome(f, argument) == expected, (argument, call)


@pytest.mark.parametrize("argument", [a for a in ARGUMENTS if a != "complex parts"])
def test_gradients_go_through_such_an_argument(argument):
    def gradient(f):
        base = _memory().requires_grad_()
        result = f(ARGUMENTS[argument](base * 1))
        (result.reshape(-1) * torch.arange(result.numel())).sum().backward()
        return base.grad.tolist() + result.reshape(-1).tolist()

    for f in (lambda v: v.contiguous() * v, lambda v: v.reshape(-1).exp(), lambda v: v.mT.clone()):
        compiled = torch.compile(f)
        assert gradient(compiled) == gradient(compiled) == pytest.approx(gradient(f))
