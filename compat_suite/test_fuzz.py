"""Random programs: the same lines on torch and here, compared after each line."""

import subprocess
import sys
from pathlib import Path

import pytest

from compat_suite.fuzz import recorded, small
from compat_suite.fuzz.maker import writable
from compat_suite.fuzz.programs import Kind, Program, compare
from compat_suite.fuzz.search import Finding, _moved_apart, _rounded_apart, program_of, search
from compat_suite.judge import Oracle
from compat_suite.ledger import current
from compat_suite.libs import live_torch, ours

DRAWN = Path(__file__).resolve().parent / "fuzz" / "drawn.py"
PROGRAMS = recorded.PROGRAMS
"""The same whether torch is there or its recorded answers; `make fuzz` compares any number."""
TOGETHER = 10
"""Programs per test: few enough to spread over the workers."""


def expect_no_finding(seed: int, finding: Finding | None) -> str | None:
    """A complaint, in the light of the ledger."""
    known = current().expected_failure(f"fuzz {seed}", "torch")
    if finding is None:
        return f"fuzz {seed} is in the ledger, but agrees now: remove the entry" if known else None
    return None if known else finding.report()


@pytest.mark.oracle
@pytest.mark.parametrize("first", range(0, PROGRAMS, TOGETHER))
def test_programs(first: int, torch_oracle: Oracle) -> None:
    seeds = range(first, first + TOGETHER)
    bad = [expect_no_finding(seed, finding) for seed, finding in zip(seeds, search(seeds))]
    if any(bad):
        pytest.fail("\n\n".join(filter(None, bad)), pytrace=False)


@pytest.mark.oracle
def test_programs_do_something() -> None:
    lengths = [len(program_of(seed).lines) for seed in range(20)]
    assert sum(lengths) > 10 * len(lengths), lengths


SUMMED = (
    "v0 = torch.tensor([[-1.85, 0.91, -1.99], [0.75, 0.41, 0.91]], dtype=torch.float64)",
    "v1 = torch.nn.functional.layer_norm(v0, v0.shape)",
    "v2 = v1.sum()",
    "v3 = v2 / v2",
)
DIVIDED = (
    "v0 = torch.tensor([(0.15+0.49j), (0.41+1.53j), (0.18+1.04j)], dtype=torch.complex128)",
    "v1 = v0.clone()",
    "v1.div_(v0)",
)
CENTRED = (
    "v0 = torch.tensor([[0.0, 0.0, 1.91]], dtype=torch.float32)",
    "v1 = torch.nn.functional.batch_norm(torch.cat([v0, v0]), None, None, training=True)",
)


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("lines", "values", "errors"),
    [
        (SUMMED, True, False),
        ((*DIVIDED, "v2 = v1 == 1"), True, False),
        ((*DIVIDED[:2], "v1.mul_(2)", "v2 = v1 == v0"), False, False),
        ((*CENTRED, "v2 = v1 > 0"), True, False),
        ((*CENTRED, "v2 = v1 < 0"), True, False),
        ((*CENTRED, "v2 = v1[v1 > 0] + torch.ones(5)"), True, True),
        ((*CENTRED[:1], "v2 = v0 > 0"), False, False),
        ((*CENTRED[:1], "v2 = v0.view(7)"), False, False),
    ],
)
def test_what_rounding_decides(lines: tuple[str, ...], values: bool, errors: bool) -> None:
    """Centred numbers that are nearly 0 may lie on either side of it, and so may what follows."""
    assert _moved_apart(Program(lines), live_torch()) == (values, errors)


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("x", "line", "apart"),
    [
        (19.0, "v1 = jacobian(torch.tanh, v0).log()", True),
        (1.0, "v1 = jacobian(torch.tanh, v0).log()", False),
        (19.0, "v1 = vmap(jacrev(lambda t: t.tanh()))(v0).log()", True),
        (19.0, "v1 = vmap(jacrev(lambda t: t * t))(v0).log()", False),
        (19.0, "v1 = checkpoint(lambda t: 1 - t.sigmoid(), 2 * v0).log()", True),
    ],
)
def test_what_rounding_inside_of_functions_decides(x: float, line: str, apart: bool) -> None:
    """1 - tanh(x)**2 of a large x is the rounding of tanh, which nothing that a program can move moves."""
    lines = (
        "from torch.autograd.functional import jacobian",
        "from torch.func import vmap, jacrev",
        "from torch.utils.checkpoint import checkpoint",
        f"v0 = torch.full((2,), {x}, dtype=torch.float64)",
        line,
    )
    assert _rounded_apart(Program(lines), live_torch(), "v1.value") is apart
    assert not _rounded_apart(Program(lines), live_torch(), "v0.value")


def test_what_programs_write_to() -> None:
    """Expanded tensors are refused; which element of a part of them stays is up to torch's loops."""
    x = ours().module.ones(2, 3)
    wide = x[0].expand(2, 3)
    assert all(map(writable, (x, x.t(), x[:, :0], x[0, 0], x[:, ::2], wide, wide.unfold(1, 1, 1))))
    assert not any(map(writable, (x[0].unfold(0, 2, 1), wide.unfold(1, 2, 1), x.unfold(1, 2, 1)[0])))


@pytest.mark.oracle
def test_small_programs_are_compared_to_the_last_version() -> None:
    program = small.made(3, "hooks")
    assert small.compare(program) is None
    line, seen = program[-1]
    assert "backward" in line
    seen["x"]["version"] += 1
    found = small.compare(program)
    assert found is not None
    assert found[0] == len(program) - 1
    assert found[1][0].startswith("x.version")


@pytest.mark.oracle
@pytest.mark.parametrize("kind", ["hooks", "modes"])
def test_small_programs(kind: str) -> None:
    bad = {seed: found for seed, program in small.told(range(40), kind) if (found := small.compare(program))}
    assert not bad


@pytest.mark.oracle
def test_drawn_programs() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--oracle=live", DRAWN]
    done = subprocess.run(command, capture_output=True, text=True, cwd=DRAWN.parents[2], check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


@pytest.mark.parametrize("seed", range(recorded.PROGRAMS))
def test_recorded_programs(seed: int, torch_oracle: Oracle) -> None:
    if not torch_oracle.name.startswith("recorded"):
        pytest.skip("live torch runs these programs")
    program, outcomes = recorded.load()[seed]
    found = compare(program, ours(), outcomes)
    bad = expect_no_finding(seed, None if found is None else Finding(seed, program, found))
    if bad:
        pytest.fail(bad, pytrace=False)


@pytest.mark.oracle
@pytest.mark.parametrize("way", ["compile", "vmap"])
def test_programs_run_in_another_way(way: str, torch_oracle: Oracle) -> None:
    """As one compiled function, and for each row of a batch; `fuzz --way` runs any number."""
    seeds = range(8)
    found = search(seeds, kind=Kind(way=way), length=10)
    bad = [f.report() for f in found if f is not None]
    if bad:
        pytest.fail("\n\n".join(bad), pytrace=False)


@pytest.mark.oracle
def test_programs_on_two_devices(torch_oracle: Oracle) -> None:
    command = [sys.executable, "-m", "compat_suite", "fuzz", "5", "--way", "devices"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=DRAWN.parents[2], check=False)
    assert done.returncode == 0, done.stdout + done.stderr
