"""Programs written for torch print what they print under torch: losses line by line, words exactly.

They are those of programs/, and those of examples/ made small.
What torch printed lies in recorded/programs.json, which TORCHGRAD_RECORD=1 writes again.
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
PROGRAMS = [path.stem for path in sorted((HERE / "programs").glob("*.py"))]
EXAMPLES = (
    "word_language_model.py --model LSTM --epochs 2 --sentences 30 --columns 4 --width 8",
    "word_language_model.py --model GRU --epochs 1 --sentences 20 --columns 4 --width 8 --layers 1",
    "word_language_model.py --model Transformer --epochs 1 --sentences 20 --columns 4 --width 8 --layers 1",
    "dcgan.py --steps 3 --batch-size 4 --noise 4 --width 4 --print-every 1",
    "reinforce.py --episodes 3 --limit 12 --width 8 --print-every 1",
    "reinforce.py --critic --episodes 3 --limit 12 --width 8 --print-every 1",
    "neural_style.py --steps 1 --size 12 --width 4",
    "graph_attention.py --model GAT --nodes 24 --epochs 3 --hidden 4 --print-every 1",
    "graph_attention.py --model GCN --nodes 24 --epochs 3 --hidden 4 --print-every 1",
    "diffusion.py --steps 4 --noise-steps 4 --batch-size 16 --width 8 --layers 1 --print-every 1",
    "flow.py --steps 4 --batch-size 16 --layers 2 --width 8 --print-every 1",
    "maml.py --rounds 3 --tasks 2 --shots 5 --width 8 --print-every 1",
    "maml.py --first-order --rounds 2 --tasks 2 --shots 5 --width 8 --print-every 1",
    "pinn.py --steps 3 --polish 1 --points 16 --width 8 --print-every 1",
    "neural_ode.py --steps 3 --times 12 --length 4 --batch-size 4 --width 8 --print-every 1",
    "neural_ode.py --no-adjoint --steps 3 --times 12 --length 4 --batch-size 4 --width 8 --print-every 1",
    "gpt2.py --steps 3 --batch-size 2 --length 8 --layers 1 --width 8 --write 6 --print-every 1",
    "per_sample_gradients.py --steps 4 --examples 40 --width 8 --print-every 1",
    "laplace.py --steps 4 --points 12 --width 4 --print-every 1",
    "gpt2.py --compile --dropout 0 --steps 3 --batch-size 2 --length 8 --layers 1 --width 8 --write 2 --print-every 1",
)
"""Programs of examples/ with arguments that keep them short."""
GROUPS = 6
"""Processes that the programs are shared out among."""
RECORDED = HERE / "recorded" / "programs.json"
NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:e[-+]?\d+)?")
SHOWN = 2e-5
"""The programs print four to six digits: rounding may move the last one."""
RUN = """
import runpy, sys, warnings
warnings.simplefilter("ignore")
for command in sys.argv[1:]:
    print("<program>", flush=True)
    sys.argv = command.split("\\t")
    runpy.run_path(sys.argv[0], run_name="__main__")
"""


def commands(names):
    """What to run for programs and examples by name: a path and arguments, between tabs."""
    for name in names:
        first, *rest = name.split()
        folder = ROOT / "examples" if first.endswith(".py") else HERE / "programs"
        yield "\t".join([str(folder / first.removesuffix(".py")) + ".py", *rest])


def outputs(*start, names):
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, *start, "-c", RUN, *commands(names)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-4000:]
    found = [text.strip("\n").split("\n") for text in done.stdout.split("<program>\n")[1:]]
    return dict(zip(names, found, strict=True))


def recorded():
    return json.loads(RECORDED.read_text(encoding="utf-8"))


def differences(want, got):
    if len(want) != len(got):
        return [f"{len(want)} lines, not {len(got)}"]
    return [f"{a!r}, not {b!r}" for a, b in zip(want, got) if not same_words_and_near_numbers(a, b)]


def same_words_and_near_numbers(a, b):
    if NUMBER.sub("#", a) != NUMBER.sub("#", b):
        return False
    pairs = zip(map(float, NUMBER.findall(a)), map(float, NUMBER.findall(b)))
    return all(math.isclose(x, y, rel_tol=SHOWN, abs_tol=SHOWN) for x, y in pairs)


@pytest.mark.parametrize("group", range(GROUPS))
def test_programs(group):
    """Several programs in one process: starting it takes longer than most of them."""
    names = [*PROGRAMS, *EXAMPLES][group::GROUPS]
    printed = outputs("-m", "torchgrad_jax", names=names)
    wanted = recorded()
    found = {name: differences(wanted[name], printed[name]) for name in names}
    assert not any(found.values()), {name: lines for name, lines in found.items() if lines}


def test_the_records_are_what_torch_prints(oracle):
    assert oracle.__version__.startswith("2.")
    if os.environ.get("TORCHGRAD_RECORD") == "1":
        found = outputs(names=[*PROGRAMS, *EXAMPLES])
        RECORDED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    quick = ["regression", "lbfgs", "vae", "time_series", EXAMPLES[0], EXAMPLES[3]]
    for name, lines in outputs(names=quick).items():
        assert not differences(recorded()[name], lines)


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
    assert same_words_and_near_numbers(a, b) is equal
    assert bool(differences([a], [b])) is not equal
    assert differences([a], [a, b])
