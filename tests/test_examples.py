"""Every program of examples/ runs, and train_mlp notices gradients that differ.

Those whose losses are compared with torch's, line by line, run in tests/alias/test_programs.py, and ddp.py, which
needs several processes, in tests/distributed/test_example.py.
"""

import os
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import jax
import pytest

from tests.alias.test_programs import EXAMPLES as COMPARED

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"

# Arguments that make a program short, and what its output has to say.
PROGRAMS = {
    "flax_in_a_torch_loop.py": ([], "optax: more than 9 of 10 are right: True"),
    "optax_beside_optim.py": ([], "the same after 20 steps: True"),
    "port_to_flax.py": ([], "and back: True"),
    "force_field.py": ([], "energy drifts by 0.0"),
    # Without the compilers it says which package has them.
    "plan_for_a_tpu.py": ([], "v5e:2x2"),
    "plan_gpt.py": (["--layers=2", "--width=24", "--tokens=40", "--length=16", "--steps=2"], "step 1  loss "),
    "plan_llama.py": (["--layers=2", "--width=64", "--tokens=40", "--length=16", "--steps=2"], "step 1  loss "),
    "plan_resnet.py": (["--blocks", "1", "1", "--width=4", "--size=32", "--batch=2", "--steps=2"], "step 1  loss "),
    "port_to_jax_tested.py": ([], "values and gradients agree, with"),
    "sharded_training.py": ([], "as on one device: True\nas on one device: True\nas on one device: True"),
    "train_cnn.py": (["--epochs", "4", "--examples", "500", "--compile"], "accuracy"),
    "train_mlp.py": (["--steps", "20"], "The gradients agree."),
}
ECOSYSTEM = {"flax_in_a_torch_loop.py", "optax_beside_optim.py", "port_to_flax.py"}
"""Programs that need the ecosystem extra."""
PACKAGES = ROOT / "build" / "packages"
"""Where `python -m compat_suite packages --name transformers` installs that package."""
# Programs written for PyTorch, which the runner starts.
RUN = {name: ["-m", "torchgrad_jax"] for name in ("plan_gpt.py", "plan_llama.py", "plan_resnet.py", "train_cnn.py")}


def test_every_example_is_run():
    compared = {command.split()[0] for command in COMPARED}
    assert sorted([*PROGRAMS, *compared, "ddp.py"]) == sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_example(name):
    if name in ECOSYSTEM:
        pytest.importorskip("flax", reason="needs the ecosystem extra")
        pytest.importorskip("optax", reason="needs the ecosystem extra")
    if name == "plan_llama.py" and find_spec("transformers") is None and not (PACKAGES / "transformers").is_dir():
        pytest.skip("needs transformers: python -m compat_suite packages --name transformers")
    arguments, expected = PROGRAMS[name]
    # The programs choose XLA's options themselves, such as how many devices stand in for accelerators.
    env = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    env["PYTHONPATH"] = os.pathsep.join([*filter(None, [env.get("PYTHONPATH")]), str(PACKAGES)])
    done = subprocess.run(
        [sys.executable, *RUN.get(name, ()), EXAMPLES / name, *arguments],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout


@pytest.mark.parametrize("factor, agree", [(1.0, True), (1.001, False), (float("nan"), False)])
def test_train_mlp_compares_gradients(factor, agree, capsys):
    example = runpy.run_path(str(EXAMPLES / "train_mlp.py"))
    x, y = example["spiral"]()
    parameters = example["make_parameters"](8)
    parameters[2].register_hook(lambda g: g * factor)
    with jax.numpy_rank_promotion("allow"):  # an example is user code
        assert example["report_gradients"](parameters, x, y) is agree
    assert ("differs" in capsys.readouterr().out) is not agree
