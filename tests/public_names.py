"""The public names of this package, kept in tests/public_names.list: `python -m tests.public_names` adds new ones.

A name that is stored may go only after a deprecation, as docs/support.md says. Its line then gets a note, and stays:

    torchgrad_jax.old_name  gone in 0.3, deprecated in 0.2
"""

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FILE = Path(__file__).with_suffix(".list")
"""Not .txt: such a file of the tests is a table of programs."""
MODULES = (
    "", "amp", "autograd", "autograd.forward_ad", "autograd.functional", "autograd.graph", "compiler", "distributed",
    "distributed.checkpoint", "distributed.device_mesh", "distributed.fsdp", "distributed.tensor",
    "distributed.tensor.parallel", "distributions", "export", "fft", "func", "interop", "interop.weights", "library",
    "linalg", "nn", "nn.attention", "nn.functional", "nn.init", "nn.utils", "optim", "optim.lr_scheduler", "overrides",
    "profiler", "random", "serialization", "special", "testing", "utils.benchmark", "utils.checkpoint", "utils.data",
    "utils.flop_counter",
)  # fmt: skip
COMMANDS = re.compile(r'first == "([a-z]+)"')
VARIABLES = re.compile(r"\bTORCHGRAD_JAX_[A-Z0-9_]+")
GONE = re.compile(r"^(\S+)  gone in (\d+\.\d+), deprecated in (\d+\.\d+)$")


def present() -> set[str]:
    """All public names: of modules, methods of Tensor, commands, and variables of the environment that pages name."""
    names = {name for module in MODULES for name in _of_module(module)}
    tensor = importlib.import_module("torchgrad_jax").Tensor
    names |= {f"torchgrad_jax.Tensor.{name}" for name in dir(tensor) if not name.startswith("_")}
    commands = (ROOT / "torchgrad_jax" / "_alias" / "run.py").read_text(encoding="utf-8")
    names |= {f"python -m torchgrad_jax {name}".replace(" ", "_") for name in COMMANDS.findall(commands)}
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")]
    return names | {name for text in pages for name in VARIABLES.findall(text) if not name.endswith("_")}


def _of_module(name: str) -> set[str]:
    full = f"torchgrad_jax.{name}".rstrip(".")
    module = importlib.import_module(full)
    listed = getattr(module, "__all__", None)
    public = [n for n, x in vars(module).items() if not n.startswith("_") and _is_ours(x)] if listed is None else listed
    return {f"{full}.{n}" for n in public}


def _is_ours(x: Any) -> bool:
    where = str(getattr(x, "__module__", ""))
    return (inspect.isclass(x) or inspect.isroutine(x)) and where.startswith(("torchgrad_jax", "torch."))


def stored() -> tuple[set[str], dict[str, tuple[str, str]]]:
    """The names that have to be there, and those that are gone: in which version, and where they were deprecated."""
    lines = FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else []
    gone = {m[1]: (m[2], m[3]) for line in lines if (m := GONE.match(line))}
    return {line for line in lines if not GONE.match(line)}, gone


def in_a_fresh_process() -> set[str]:
    """`present()`, where no test has imported anything that gives tensors further attributes."""
    command = [sys.executable, "-c", "from tests.public_names import present; print(*present(), sep='\\n')"]
    return set(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split())


def main() -> None:
    """Add the names that are new; a name that is missing stays, for the test to complain of."""
    names, gone = stored()
    lines = [*(names | present()) - set(gone), *(f"{n}  gone in {a}, deprecated in {b}" for n, (a, b) in gone.items())]
    FILE.write_text("\n".join(sorted(lines)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
