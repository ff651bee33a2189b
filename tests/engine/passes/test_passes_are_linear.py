"""The work of a pass grows with its nodes, roots and outputs, and no faster: what is looked at is counted."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import Any

import pytest

import torchgrad_jax as torch
from torchgrad_jax._engine.memory import shared
from torchgrad_jax._engine.passes import task

N = 4000
"""More nodes than one segment has."""


class _Counted(list[Any]):
    """A list that counts which of its elements somebody came past."""

    seen = 0

    def __iter__(self) -> Any:
        for x in super().__iter__():
            _Counted.seen += 1
            yield x

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        _Counted.seen += len(found) if isinstance(at, slice) else 1
        return found


def _chain(n: int) -> Any:
    x = y = torch.ones(3, requires_grad=True)
    for _ in range(n):
        y = y * 1.0001
    return lambda: torch.autograd.grad(y.sum(), x)


def test_a_pass_looks_at_each_node_a_few_times(monkeypatch):
    find = task.execution_order
    monkeypatch.setattr(task, "execution_order", lambda *args: _Counted(find(*args)))
    looked = []
    for n in (N, 2 * N):
        run = _chain(n)
        _Counted.seen = 0
        run()
        looked.append(_Counted.seen)
    assert 0 < looked[0] < 8 * N
    assert looked[1] < 2.2 * looked[0]


def _ones(n: int, *shape: int) -> list[Any]:
    return [torch.ones(*shape)] * n


def _leaf(n: int = 1) -> Any:
    return torch.ones(n, 4, requires_grad=True)


def _roots_of_one_leaf(n: int) -> Any:
    x = _leaf()
    roots = [x * float(i) for i in range(n)]
    return lambda: torch.autograd.grad(roots, x, _ones(n, 1, 4))


def _roots_of_many_leaves(n: int) -> Any:
    roots = [_leaf() * 2 for _ in range(n)]
    return lambda: torch.autograd.backward(roots, _ones(n, 1, 4))


def _leaves_of_one_root(n: int) -> Any:
    leaves = [_leaf() for _ in range(n)]
    out = leaves[0]
    for leaf in leaves[1:]:
        out = out + leaf
    return lambda: torch.autograd.grad(out.sum(), leaves)


def _rows(n: int) -> Any:
    x = _leaf(n)
    rows = torch.unbind(x * 2)
    return lambda: torch.autograd.grad(rows, x, _ones(n, 4))


def _pieces(n: int) -> Any:
    x = _leaf(n)
    rows = torch.split(x * 2, 1)
    return lambda: torch.autograd.grad(rows, x, _ones(n, 1, 4))


def _views(n: int) -> Any:
    x = _leaf(n)
    y = x * 2
    rows = [y[i] for i in range(n)]
    return lambda: torch.autograd.grad(rows, x, _ones(n, 4))


def _outputs_of_a_function(n: int) -> Any:
    class Many(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return tuple(x * i for i in range(n))

        @staticmethod
        def backward(ctx, *grads):
            return grads[0]

    x = _leaf()
    outs: Any = Many.apply(x)
    return lambda: torch.autograd.grad(outs, x, _ones(n, 1, 4))


def _calls(fn: Any) -> int:
    count = 0

    def seen(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        fn()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    "make",
    [
        _roots_of_one_leaf, _roots_of_many_leaves, _leaves_of_one_root, _rows, _pieces, _views, _outputs_of_a_function,
    ],
)  # fmt: skip
def test_calls_of_a_pass_grow_with_its_roots_and_outputs(make):
    counts = []
    for n in (150, 300):
        for _ in range(3):  # the first passes trace and compile
            make(n)()
        counts.append(_calls(make(n)))
    assert counts[1] < 2.3 * counts[0], counts


@pytest.mark.parametrize("cut", [torch.unbind, lambda x: torch.split(x, 1)], ids=["unbind", "split"])
def test_a_tensor_is_cut_and_joined_in_as_many_steps_for_any_number_of_parts(cut):
    steps = []
    for n in (9, 90):
        node = cut(_leaf(n) * 2)[0].grad_fn
        steps.append(len(node.gp.formula.program.eqns))
    assert steps[0] == steps[1] < 8


WRITES = {
    "add_": (lambda x: x.add_(1), 2),
    "copy_": (lambda x: x.copy_(x * 2), 3),
    "fill_": (lambda x: x.fill_(2.0), 2),
    "a part": (lambda x: x[1:3].add_(1), 3),
    "an element": (lambda x: x.__setitem__(0, 2.0), 3),
}


def looks_of_writes():
    """How often each of these writes looks at memory that NumPy has, and what NumPy writes afterwards is seen."""
    found, look = {}, shared.Shared.is_as_seen
    for name, (write, _) in WRITES.items():
        x, looks = torch.ones(8, 8), []
        array = x.numpy()
        for _ in range(2):
            write(x)
        shared.Shared.is_as_seen = lambda memory, looks=looks: looks.append(1) or look(memory)
        write(x)
        shared.Shared.is_as_seen = look
        array[2] = 7
        assert x[2].tolist() == [7] * 8
        assert x.tolist() == array.tolist()
        found[name] = len(looks)
    return found


def test_how_often_a_write_looks_for_what_numpy_wrote():
    """In a process of its own: once some test has a subclass override functions, each call looks more often."""
    code = f"from {__name__} import looks_of_writes; print(looks_of_writes())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = ast.literal_eval(run.stdout.splitlines()[-1])
    assert {name for name, (_, most) in WRITES.items() if found[name] > most} == set(), found
