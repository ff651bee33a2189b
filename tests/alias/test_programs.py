"""Programs written for torch print what they print under torch: losses line by line, words exactly.

What torch printed lies in recorded/programs.json, which TORCHGRAD_RECORD=1 writes anew.
"""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAMS = sorted((HERE / "programs").glob("*.py"))
RECORDED = HERE / "recorded" / "programs.json"
NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:e[-+]?\d+)?")
SHOWN = 2e-5
"""The programs print four to six digits: rounding may move the last one."""
RUN = """
import runpy, sys, warnings
warnings.simplefilter("ignore")
for path in sys.argv[1:]:
    print("=====", flush=True)
    sys.argv = [path]
    runpy.run_path(path, run_name="__main__")
"""


def outputs(*start, paths):
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, *start, "-c", RUN, *map(str, paths)], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-4000:]
    return [text.strip("\n").split("\n") for text in done.stdout.split("=====\n")[1:]]


def recorded():
    return json.loads(RECORDED.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def printed():
    """All programs in one process: starting it takes longer than most of them."""
    return dict(zip([p.stem for p in PROGRAMS], outputs("-m", "torchgrad_jax", paths=PROGRAMS)))


def differences(want, got):
    if len(want) != len(got):
        return [f"{len(want)} lines, not {len(got)}"]
    return [f"{a!r}, not {b!r}" for a, b in zip(want, got) if not same(a, b)]


def same(a, b):
    if NUMBER.sub("#", a) != NUMBER.sub("#", b):
        return False
    pairs = zip(map(float, NUMBER.findall(a)), map(float, NUMBER.findall(b)))
    return all(math.isclose(x, y, rel_tol=SHOWN, abs_tol=SHOWN) for x, y in pairs)


@pytest.mark.parametrize("name", [p.stem for p in PROGRAMS])
def test_program(name, printed):
    assert not differences(recorded()[name], printed[name])


def test_the_records_are_what_torch_prints(oracle):
    assert oracle.__version__.startswith("2.")
    if os.environ.get("TORCHGRAD_RECORD") == "1":
        found = dict(zip([p.stem for p in PROGRAMS], outputs(paths=PROGRAMS)))
        RECORDED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    quick = [HERE / "programs" / f"{name}.py" for name in ("regression", "lbfgs", "vae")]
    for path, lines in zip(quick, outputs(paths=quick)):
        assert not differences(recorded()[path.stem], lines)


@pytest.mark.parametrize(
    "a, b, equal",
    [
        ("loss 1.0", "loss 1.000001", True),
        ("loss 1.0", "loss 1.001", False),
        ("loss 1.0", "cost 1.0", False),
        ("[1, 2]", "[1, 3]", False),
        ("x -0.5 1e-9", "x -0.5 0", True),
    ],
)
def test_the_comparison(a, b, equal):
    assert same(a, b) is equal
    assert bool(differences([a], [b])) is not equal
    assert differences([a], [a, b])
