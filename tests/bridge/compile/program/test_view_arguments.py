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


def _keep_in_a_list(kept, t):
    kept.setdefault("all", []).append(t)
    del kept["all"][:-1]


KEEPERS = {
    "detached": lambda kept, v: kept.update(last=v.detach()),
    "a row": lambda kept, v: kept.update(last=v[0]),
    "transposed": lambda kept, v: kept.update({len(kept): v.mT}),
    "a detached row, in a list": lambda kept, v: _keep_in_a_list(kept, v.detach()[0]),
    "a row, written to": lambda kept, v: kept.update(last=v[1].add_(1)),
    "a row, printed": lambda kept, v: print(end="", file=kept.update(last=v[0])),
}


@pytest.mark.filterwarnings("ignore:torch.compile")
@pytest.mark.parametrize("argument", ["part", "every second column", "transposed columns", "complex parts"])
@pytest.mark.parametrize("keeper", KEEPERS)
def test_a_view_of_an_argument_that_is_kept_has_its_memory(keeper, argument):
    def run(wrap):
        kept, found = {}, []

        def step(v):
            KEEPERS[keeper](kept, v)
            return v * 2

        step = wrap(step)
        for i in range(5):
            memory = _memory() + i
            v = ARGUMENTS[argument](memory)
            found.append(step(v).tolist())
            last = kept["all"][-1] if "all" in kept else list(kept.values())[-1]
            found += [last.tolist(), last.stride(), last.storage_offset(), last._base is v._base]
            memory.add_(1)
            found += [last.tolist(), last._version == memory._version]
            last.mul_(2)
            found += [memory.tolist(), v.tolist(), memory._version]
        return found

    assert run(torch.compile) == run(lambda f: f)


@pytest.mark.filterwarnings("ignore:torch.compile")
def test_a_row_of_an_argument_with_a_graph_is_kept_with_that_graph():
    def run(wrap):
        kept, found = {}, []
        step = wrap(lambda x: (kept.update(last=x[0]), x * 2)[1])
        for i in range(4):
            w = torch.ones(2, requires_grad=True)
            leaf = torch.full((2, 2), 1.0 + i, requires_grad=True)
            for x in (torch.ones(2, 2) * w * (i + 1), leaf, leaf.view(4)[:2].view(1, 2)):
                step(x)
                (kept["last"] * 3).sum().backward(retain_graph=True)
                found += [w.grad, leaf.grad, kept["last"]._version]
                w.grad = leaf.grad = None
        return [g.tolist() if isinstance(g, torch.Tensor) else g for g in found]

    assert run(torch.compile) == run(lambda f: f)
