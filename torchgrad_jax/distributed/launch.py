"""`python -m torchgrad_jax.distributed.launch script.py`: the older command line of `torch.distributed.run`.

Unless it is given `--use-env`, it tells each program its local rank as an argument, `--local-rank=0` and so on.
"""

from __future__ import annotations

from typing import Any

from . import run as _run
from .elastic.multiprocessing.errors import record


def parse_args(args: list[str] | None) -> Any:
    """The options of a command line."""
    parser = _run.get_args_parser()
    parser.add_argument(
        "--use-env", "--use_env", action="store_true", help="tell the local rank only by the environment"
    )
    return parser.parse_args(args)


def launch(args: Any) -> None:
    """Start the processes that the options ask for, and wait for their end."""
    if args.no_python and not args.use_env:
        raise ValueError("When using the '--no-python' flag, you must also set the '--use-env' flag.")
    if not args.use_env:
        args.training_script_args.insert(0, "--local-rank=${local_rank}")
    _run.run(args)


@record
def main(args: list[str] | None = None) -> None:
    """The command line."""
    launch(parse_args(args))


if __name__ == "__main__":
    main()
