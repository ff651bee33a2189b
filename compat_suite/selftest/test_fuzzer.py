"""The fuzzer finds planted bugs and makes programs small."""

import types
from collections.abc import Callable
from typing import Any

import pytest

from compat_suite.fuzz import observe
from compat_suite.fuzz.precision import Precision
from compat_suite.fuzz.programs import InvalidProgram, Program, compare, made_of_gradients
from compat_suite.fuzz.search import Finding, judge, shrink
from compat_suite.libs import Lib, ours

LINES = (
    "v0 = torch.tensor([1.25, -2.0], dtype=torch.float64, requires_grad=True)",
    "v1 = torch.sin(v0)",
    "v2 = torch.exp(v0)",
    "v3 = v2 * v2",
    "v3.sum().backward()",
)


def broken(**wrong: Callable[..., Any]) -> Lib:
    """Our own package with some functions replaced."""
    module = types.ModuleType("broken")
    module.__dict__.update({k: getattr(ours().module, k) for k in dir(ours().module)})
    module.__dict__.update(wrong)
    return Lib("torchgrad_jax", module)


def fails(*args: Any) -> Any:
    raise ValueError("planted")


BUGS: dict[str, tuple[dict[str, Any], str]] = {
    "value": ({"exp": lambda x: ours().module.exp(x) * 1.001}, "v2.grad_fn"),
    "silent value": ({"exp": lambda x: ours().module.exp(x + 1e-6)}, "v2"),
    "dtype": ({"exp": lambda x: ours().module.exp(x.float())}, "v2.dtype"),
    "detached": ({"exp": lambda x: ours().module.exp(x.detach())}, "v2.requires_grad"),
    "version": ({"exp": lambda x: ours().module.exp(x).mul_(1.0)}, "v2"),
    "exception": ({"exp": fails}, "exception"),
}


@pytest.mark.parametrize("bug", BUGS)
@pytest.mark.parametrize("watched", [True, False])
def test_planted_bugs_are_found(bug: str, watched: bool) -> None:
    wrong, where = BUGS[bug]
    found = compare(Program(LINES, watched=watched), broken(**wrong), ours())
    assert found is not None
    if watched:
        assert found.attribute.startswith(where)
        assert found.line == 2


def test_equal_libraries_agree() -> None:
    assert compare(Program(LINES), ours(), ours()) is None


def test_shrinking_keeps_the_bug_and_drops_the_rest() -> None:
    bad = broken(exp=BUGS["dtype"][0]["exp"])
    found = judge(Program(LINES), bad, ours())
    assert found is not None
    small = shrink(Finding(0, Program(LINES), found), bad, ours())
    assert len(small.program.lines) == 2
    assert "torch.exp" in small.program.lines[1]
    assert "import torchgrad_jax as torch" in small.report()


def test_programs_with_unknown_variables_are_refused() -> None:
    with pytest.raises(InvalidProgram):
        compare(Program(("v1 = v0 + 1",)), ours(), ours())


def test_different_exceptions_and_known_texts_differ() -> None:
    lines = ("v0 = torch.tensor([1.0], requires_grad=True)", "torch.exp(v0)")

    def says(text: str, kind: type = RuntimeError) -> Callable[..., Any]:
        def call(x: Any) -> Any:
            raise kind(text)

        return call

    known = "a leaf Variable that requires grad is being used in an in-place operation."
    assert compare(Program(lines), broken(exp=says("x")), broken(exp=says("x", TypeError))) is not None
    assert compare(Program(lines), broken(exp=says("x")), broken(exp=says("y"))) is None
    assert compare(Program(lines), broken(exp=says(known + "!")), broken(exp=says(known))) is not None


def shifted(by: float) -> Lib:
    """Our own package with `exp` off by a relative amount."""
    return broken(exp=lambda x: ours().module.exp(x) * (1 + by))


ROUGH = {
    "through float32": (("v0 = torch.tensor([1, 2])", "v1 = torch.exp(v0)"), 3e-7, True),
    "cast afterwards": (("v0 = torch.tensor([1, 2])", "v1 = torch.exp(v0)", "v2 = v1.double()"), 3e-7, True),
    "written into": (
        (
            "v0 = torch.ones(2, dtype=torch.float64)",
            "v1 = v0.view(-1)",
            "v2 = torch.exp(torch.tensor([1, 2]))",
            "v1.copy_(v2)",
        ),
        3e-7,
        True,
    ),
    "too far for float32": (("v0 = torch.tensor([1, 2])", "v1 = torch.exp(v0).double()"), 1e-3, False),
    "beside float32": (
        ("v0 = torch.tensor([1.0, 2.0])", "v1 = torch.tensor([1.0], dtype=torch.float64)", "v2 = torch.exp(v1)"),
        3e-7,
        False,
    ),
    "beside float16": (
        ("v0 = torch.ones(2).half()", "v1 = torch.tensor([1.0, 2.0])", "v2 = torch.exp(v1)"),
        1e-4,
        False,
    ),
}
"""Lines, how far off `exp` is in them, and whether that is within what the numbers went through."""


@pytest.mark.parametrize("which", ROUGH)
@pytest.mark.parametrize("watched", [True, False])
def test_numbers_are_as_exact_as_the_coarsest_they_came_from(which: str, watched: bool) -> None:
    lines, off, fine = ROUGH[which]
    if not watched and which.startswith("beside"):
        lines = lines[1:]  # all lines at once: what each changed is not known then
    found = compare(Program(lines, watched=watched), shifted(off), ours())
    assert (found is None) is fine


def test_the_zeros_of_a_transform_are_rounding() -> None:
    lines = ("v0 = torch.fft.fft(torch.tensor([0.3, -1.25, 0.5, 0.25]))", "v1 = v0.imag.sign()")
    other = broken()
    other.module.fft = types.SimpleNamespace(  # type: ignore[attr-defined]
        fft=lambda x: ours().module.fft.fft(x) + 1e-9j
    )
    assert compare(Program(lines), other, ours()) is not None
    assert judge(Program(lines), other, ours()) is None


def test_nodes_of_recorded_gradients_are_not_compared() -> None:
    """Such a gradient is one node here, and the steps of its formula in torch."""
    got = {"grad_fn": "SinBackwardBackward0", "output_nr": 1, "graph": "SinBackwardBackward0"}
    want = {"grad_fn": "MulBackward0", "output_nr": 0, "graph": "MulBackward0"}
    assert not observe.differences(got, want, Precision())


def test_layouts_of_gradients_are_not_compared() -> None:
    lines = ("x = v0", "v1, = grads(v0, v0)", "v2 = v1 * 2", "v3 = v0 * 2", "v4, v5 = v2, v3")
    assert made_of_gradients(lines) == {"v1", "v2", "v4", "v5"}
    assert made_of_gradients(lines, "v6 = v3.view(v2.shape)") == {"v2"}
