"""``python -m torchgrad_jax._codegen [--check]``: write the stubs, or fail when they are stale."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .files import stale, write


def main(argv: list[str] | None = None) -> int:
    """Write the stubs that differ from what the package is now; with ``--check`` only name them."""
    parser = argparse.ArgumentParser(prog="python -m torchgrad_jax._codegen", description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 when a stub is stale")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1], help="the package's directory")
    args = parser.parse_args(argv)
    old = stale(args.root)
    for path in old:
        print(("stale: " if args.check else "wrote ") + str(path))
    if args.check:
        if old:
            print("run `python -m torchgrad_jax._codegen`", file=sys.stderr)
        return int(bool(old))
    write(args.root, old)
    return 0


if __name__ == "__main__":
    sys.exit(main())
