"""Run a script, a module or code as Python itself would, with `torch` meaning torchgrad_jax."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from .finder import install_as_torch
from .start import have_64_bits, module, run, script, source, tell_children

USAGE = """\
usage: python -m torchgrad_jax [-m MODULE | -c CODE | SCRIPT | -] [ARGUMENT ...]

Runs a program written for PyTorch on XLA, with every `import torch` resolved to torchgrad_jax:

  python -m torchgrad_jax train.py --epochs 3
  python -m torchgrad_jax -m package.train

Other commands:

  check [--json] [--all] PATH ...          list the names of torch in source files, and which are missing
  compare [OPTION ...] SCRIPT ...          run a script here and under torch: where do the two part?
  plan SCRIPT --on TARGET ... [-- ...]     what its compiled step needs on a TPU or GPU that is not here
  doctor                                   what is wrong with this environment, and how to mend it
  info                                     what a report of a bug should say about machine and software
  --version                                the version, and that of the torch which it follows

`compare --help` and `plan --help` have the options.
"""
# Shown without arguments: what there is to begin with.
FIRST_LOOK = """
In a program of your own:

  import torchgrad_jax as torch        tensors, autograd, nn, optim: PyTorch's names
  step = torch.compile(step)           a whole training step as one program of XLA
  f = torch.to_jax(model)              a function for jax.jit, jax.grad and jax.vmap
  op = torch.from_jax(f)               a JAX function as an operator with gradients
  JAX_DEFAULT_DEVICE=gpu               in the environment: tensors are on the GPU
"""


def main(argv: Sequence[str] | None = None) -> Any:
    """The command line of `python -m torchgrad_jax` and of `torchgrad-jax`."""
    args = list(sys.argv[1:] if argv is None else argv)
    if not args or args[0] in ("-h", "--help"):
        sys.stdout.write(USAGE if args else USAGE + FIRST_LOOK)
        return 0 if args else 2
    first = args[0]
    if first == "check":
        from .check import main as check

        return check(args[1:])
    if first == "compare":
        from ..testing._programs.command import main as compare

        return compare(args[1:])
    if first == "plan":
        from .plan import main as plan

        return plan(args[1:])
    if first == "info":
        from .info import main as info

        return info()
    if first == "doctor":
        from .doctor import main as doctor

        return doctor()
    if first == "--version":
        from .. import version

        sys.stdout.write(f"torchgrad_jax {version.__version__}, torch {version.torch}\n")
        return 0
    if first in ("-m", "-c") and len(args) == 1:
        sys.stderr.write(f"Argument expected for the {first} option\n{USAGE}")
        return 2
    if first.startswith("-") and first[:2] not in ("-m", "-c") and first != "-":
        sys.stderr.write(f"unknown option {first}\n{USAGE}")
        return 2
    try:
        install_as_torch()
    except RuntimeError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    tell_children()
    have_64_bits()
    if first[:2] == "-m":
        name, rest = (first[2:], args[1:]) if len(first) > 2 else (args[1], args[2:])
        return run(module(name), rest)
    if first[:2] == "-c":
        code, rest = (first[2:], args[1:]) if len(first) > 2 else (args[1], args[2:])
        return run(source(code, "<string>", "-c", ""), rest)
    if first == "-":
        return run(source(sys.stdin.read(), "<stdin>", "-", ""), args[1:])
    return run(script(first), args[1:])
