"""Seeded faults in compiled functions, in `vmap` and in where tensors lie are found by programs run in that way."""

import types
from collections.abc import Callable
from typing import Any

import pytest

from compat_suite.fuzz import omitted, ways
from compat_suite.fuzz.programs import InvalidProgram, Program
from compat_suite.ledger import LedgerError
from compat_suite.libs import Lib, ours

LINES = (
    "v0 = torch.tensor([[1.25, -2.0], [0.5, 0.75]], dtype=torch.float64, requires_grad=True)",
    "v1 = torch.tensor([0.5, -1.5], dtype=torch.float64)",
    "v2 = v0 * 3.0 + v1",
    "v3 = v2.view(-1)",
    "v4 = v1.detach()",
    "v4.mul_(2.0)",
)


def broken(**wrong: Callable[..., Any]) -> Lib:
    """Our own package with some functions replaced."""
    module = types.ModuleType("broken")
    module.__dict__.update({k: getattr(ours().module, k) for k in dir(ours().module)})
    module.__dict__.update(wrong)
    return Lib("torchgrad_jax", module)


def each(change: Callable[[str, Any], Any]) -> Callable[..., Any]:
    """A `compile` that changes each result of the function."""

    def compiled(f: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            return {k: change(k, t) for k, t in f(*args).items()}

        return call

    return compiled


def baked_in(f: Callable[..., Any]) -> Callable[..., Any]:
    seen: list[Any] = []

    def call(*args: Any) -> Any:
        out = f(*args)
        seen.append({k: t.detach().clone() for k, t in out.items()})
        for k, t in out.items():
            if k == "v2":
                t.data.copy_(seen[0][k])
        return out

    return call


def stale_write(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: f(*[t.clone() if not t.requires_grad else t for t in args])


def half(grad: Any) -> Any:
    return grad * 0.5


def scaled_gradient(name: str, t: Any) -> Any:
    if t.requires_grad and name == "v2":
        t.register_hook(half)
    return t


COMPILED = {
    "sign": each(lambda k, t: -t if k == "v2" else t),
    "dtype": each(lambda k, t: t.float() if k == "v2" else t),
    "missing gradient": each(lambda k, t: t.detach() if k == "v2" else t),
    "wrong gradient": each(scaled_gradient),
    "stale view": each(lambda k, t: t.clone() if k == "v3" else t),
    "write lost": stale_write,
    "numbers of the first call": baked_in,
}


@pytest.mark.parametrize("fault", COMPILED)
def test_faults_of_compiled_functions(fault: str) -> None:
    program = Program(LINES, way="compile")
    assert ways.compare_compiled(program, broken(), ours()) is None
    found = ways.compare_compiled(program, broken(compile=COMPILED[fault]), ours())
    assert found is not None


def first_row(f: Any, in_dims: Any) -> Any:
    original = ours().module.vmap(f, in_dims=in_dims)
    return lambda *args: {k: t[:1].expand(t.shape) for k, t in original(*args).items()}


def wrong_sign(f: Any, in_dims: Any) -> Any:
    original = ours().module.vmap(f, in_dims=in_dims)
    return lambda *args: {k: -t for k, t in original(*args).items()}


def refuses(f: Any, in_dims: Any) -> Any:
    raise RuntimeError("planted")


@pytest.mark.parametrize("fault", [first_row, wrong_sign, refuses])
def test_faults_of_vmap(fault: Callable[..., Any]) -> None:
    lines = (LINES[0], LINES[1], "v2 = v0 * v1", "v3 = v2.sum()")
    program = Program(lines, way="vmap")
    assert ways.compare_rows(program, broken(), ours()) is None
    assert ways.compare_rows(program, broken(vmap=fault), ours()) is not None


class Sharding:
    """Where a tensor lies, as far as `moved` asks."""

    def __init__(self, where: str) -> None:
        self.where = where

    def is_equivalent_to(self, other: Any, dims: int) -> bool:
        return bool(self.where == other.where)


def lying(where: str) -> Any:
    return types.SimpleNamespace(shape=(2,), sharding=Sharding(where), dim=lambda: 1)


def test_a_dropped_sharding_is_seen() -> None:
    t = lying("rows")
    placed = {"v0": (t, ((2,), t.sharding))}
    assert not ways.moved({"v0": t}, dict(placed))
    t.sharding = Sharding("whole")
    ((where, text),) = ways.moved({"v0": t}, dict(placed))
    assert where == "v0.sharding"
    assert "want" in text
    assert not ways.moved({"v0": lying("whole")}, dict(placed)), "another tensor has the name now"


def test_what_is_a_function_of_a_program() -> None:
    lines = (*LINES, "v5 = v9 + 1", "v6 = v5 * 2", "v7 = torch.ones(3) + torch.ones(4)")
    function = ways.whole(Program(lines), "compile", ours())
    assert function.names == ["v0", "v1"]
    assert function.body == LINES[2:]
    assert function.elsewhere({"v1"}).head[0] == LINES[0]
    assert ways.other_numbers("[(-1-0.1j), -1.0]") == "[(-1+0.09j), -0.63]"
    with pytest.raises(InvalidProgram):
        ways.compare_compiled(Program(LINES[:2], way="compile"), ours(), ours())


def test_sources_are_programs() -> None:
    for way in ("compile", "vmap"):
        text = ways.source(Program(LINES[:4], way=way), ours())
        exec(compile(text.replace("print", "str"), way, "exec"), {})
    assert "placed(torch.tensor" in ways.source(Program(LINES, way="devices"), ours())


GOOD = {
    "id": "x",
    "way": "compile",
    "part": "line",
    "pattern": "a",
    "kind": "differs",
    "reason": "r",
    "date": omitted.current()[0].date,
}
WRONG = {
    "way": {"way": "eager"},
    "part": {"part": "lines"},
    "kind": {"kind": "bad"},
    "pattern": {"pattern": "("},
    "reason": {"reason": " "},
    "date": {"date": "2026-01-01"},
    "field": {"more": 1},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_the_ledger_of_omissions_is_typed(wrong: str) -> None:
    assert omitted.parse({"entry": [GOOD]})
    with pytest.raises(LedgerError):
        omitted.parse({"entry": [{**GOOD, **WRONG[wrong]}]})


def test_an_omission_is_entered_once() -> None:
    with pytest.raises(LedgerError):
        omitted.parse({"entry": [GOOD, GOOD]})
