"""`python -m torchgrad_jax.distributed.run script.py`: torchrun, which starts a program in several processes."""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
import uuid
from typing import Any

from torchgrad_jax._alias.start import tell_children

from ._launch._agent import launch
from ._launch._logs import streams
from ._launch._settings import Launch, Logs, Meeting
from .elastic.multiprocessing.errors import record

log = logging.getLogger("torchgrad_jax.distributed.run")

_VALUES: dict[str, tuple[Any, Any, str]] = {
    "nnodes": (str, "1:1", "how many machines"),
    "nproc-per-node": (str, "1", "how many processes on this machine: a number, auto, cpu or gpu"),
    "rdzv-backend": (str, "static", "how machines find each other: static or c10d"),
    "rdzv-endpoint": (str, "", "where they do, host:port"),
    "rdzv-id": (str, "none", "a name of this launch"),
    "rdzv-conf": (str, "", "timeout=..., join_timeout=..., is_host=..."),
    "max-restarts": (int, 0, "how often all processes are started again when one fails"),
    "monitor-interval": (float, 0.1, "seconds between two looks at the processes"),
    "role": (str, "default", "a name of the processes"),
    "log-dir": (str, None, "the folder of logs and error files"),
    "redirects": (str, "0", "what is written to files: 1 output, 2 errors, 3 both; or 0:1,1:2"),
    "tee": (str, "0", "what is written to files and shown, as --redirects"),
    "local-ranks-filter": (str, "", "only these local ranks are shown, as 0,1"),
    "node-rank": (int, 0, "the number of this machine, of a static meeting"),
    "master-addr": (str, "127.0.0.1", "the address of machine 0"),
    "master-port": (int, None, "its port"),
    "local-addr": (str, None, "the address of this machine"),
    "signals-to-handle": (str, "SIGTERM,SIGINT,SIGHUP,SIGQUIT", "signals that end everything"),
    "shutdown-timeout": (float, 30, "seconds until processes that were told to end are killed"),
    "start-method": (str, "spawn", "spawn"),
    "event-log-handler": (str, "null", "null"),
    "logs-specs": (str, None, "not supported"),
    "numa-binding": (str, None, "not supported"),
    "duplicate-stdout-filters": (str, "", "not supported"),
    "duplicate-stderr-filters": (str, "", "not supported"),
}
_FLAGS = {
    "standalone": "one machine, a free port",
    "module": "the program is a module, as with python -m",
    "no-python": "the program is run as it is, without python",
    "run-path": "not supported",
    "virtual-local-rank": "each process sees only its own GPU, as device 0",
}
_SHORT = {"redirects": ["-r"], "tee": ["-t"], "module": ["-m"]}
_ONLY = {
    "start_method": "spawn",
    "event_log_handler": "null",
    "logs_specs": None,
    "numa_binding": None,
    "duplicate_stdout_filters": "",
    "duplicate_stderr_filters": "",
    "run_path": False,
}


def get_args_parser() -> argparse.ArgumentParser:
    """The options; `PET_NNODES` and so on in the environment are their defaults."""
    parser = argparse.ArgumentParser(prog="torchrun", description="Start a program in several processes.")
    for name, (kind, default, said) in _VALUES.items():
        default = os.environ.get("PET_" + name.replace("-", "_").upper(), default)
        parser.add_argument(*_spellings(name), type=kind, default=default, help=said)
    for name, said in _FLAGS.items():
        on = os.environ.get("PET_" + name.replace("-", "_").upper(), "0") != "0"
        parser.add_argument(*_spellings(name), action="store_true", default=on, help=said)
    parser.add_argument("training_script", help="the program")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER)
    return parser


def _spellings(name: str) -> list[str]:
    return [*_SHORT.get(name, []), *dict.fromkeys(["--" + name, "--" + name.replace("-", "_")])]


def parse_args(args: list[str] | None) -> argparse.Namespace:
    """The options of a command line."""
    return get_args_parser().parse_args(args)


def _nodes(text: str) -> int:
    parts = [int(p) for p in text.split(":")]
    if len(parts) > 2:
        raise RuntimeError(f'nnodes={text} is not in "MIN:MAX" format')
    if parts[0] != parts[-1]:
        raise NotImplementedError(f"--nnodes={text}: a number of machines that changes is not supported")
    if parts[0] < 1:
        raise AssertionError(f"min_nodes must be > 0, got {text}")
    return parts[0]


def determine_local_world_size(nproc_per_node: str) -> int:
    """Return how many processes a machine starts. Devices are counted in another process, which gives them back."""
    if nproc_per_node.isdecimal():
        return int(nproc_per_node)
    if nproc_per_node not in ("auto", "cpu", "gpu"):
        raise ValueError(f"Unsupported nproc_per_node value: {nproc_per_node}")
    cores = os.cpu_count() or 1
    if nproc_per_node == "cpu":
        return cores
    code = "import jax; print(jax.default_backend(), jax.local_device_count())"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    platform, count = said.stdout.split()[-2:]
    if nproc_per_node == "gpu" and platform not in ("gpu", "cuda", "rocm"):
        raise ValueError("Cuda is not available.")
    return cores if platform == "cpu" else int(count)


def _meeting(args: argparse.Namespace) -> Meeting:
    nodes, static = _nodes(args.nnodes), args.rdzv_backend == "static"
    if args.rdzv_backend not in ("static", "c10d"):
        raise NotImplementedError(f"--rdzv-backend={args.rdzv_backend} is not supported; static and c10d are")
    alone = static and not args.rdzv_endpoint and args.master_port is None and nodes == 1
    endpoint, run_id = args.rdzv_endpoint, args.rdzv_id
    if args.standalone or alone:
        static, endpoint, run_id = False, "localhost:0", str(uuid.uuid4())
    elif static and not endpoint:
        port = 29500 if args.master_port is None else args.master_port
        endpoint = f"{args.master_addr}:{port}"
    host, _, port = (endpoint or "localhost").partition(":")
    conf = dict(p.split("=", 1) for p in args.rdzv_conf.split(",") if p)
    if unknown := set(conf) - {"timeout", "join_timeout", "is_host", "rank"}:
        raise NotImplementedError(f"--rdzv-conf: {', '.join(sorted(unknown))} is not supported")
    is_host = conf["is_host"].lower() in ("1", "true", "yes") if "is_host" in conf else None
    wait = float(conf.get("timeout", conf.get("join_timeout", 600)))
    where = host, int(port or 29400)
    return Meeting(static, *where, nodes, args.node_rank, run_id, wait, is_host, args.local_addr)


def _command(args: argparse.Namespace) -> tuple[str, ...]:
    if args.no_python and args.module:
        raise ValueError("Don't use both the '--no-python' flag and the '--module' flag at the same time.")
    python = [] if args.no_python else [os.environ.get("PYTHON_EXEC", sys.executable), "-u"]
    module = ["-m"] if args.module else []
    return (*python, *module, args.training_script, *args.training_script_args)


def _logs(args: argparse.Namespace, n: int) -> Logs:
    shown = frozenset(map(int, args.local_ranks_filter.split(","))) if args.local_ranks_filter else None
    before = os.environ.get("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE")
    return Logs(args.log_dir, streams(args.redirects, n), streams(args.tee, n), shown, before)


def run(args: argparse.Namespace) -> None:
    """Start the processes that the options ask for, and wait for their end."""
    for name, value in _ONLY.items():
        if getattr(args, name) != value:
            raise NotImplementedError(f"--{name.replace('_', '-')}={getattr(args, name)} is not supported")
    if args.max_restarts < 0:
        raise AssertionError("max_restarts must be >= 0")
    n, meeting, command = (determine_local_world_size(args.nproc_per_node), _meeting(args), _command(args))
    if n < 1:
        raise AssertionError(f"--nproc-per-node={args.nproc_per_node}: must be >= 1")
    if "OMP_NUM_THREADS" not in os.environ and n > 1:
        log.warning("Setting OMP_NUM_THREADS environment variable for each process to be 1 in default")
        os.environ["OMP_NUM_THREADS"] = "1"
    tell_children()
    signals = tuple(s.strip() for s in args.signals_to_handle.split(",") if s.strip())
    launch(
        Launch(
            args.training_script,
            command,
            n,
            args.role,
            meeting,
            _logs(args, n),
            args.max_restarts,
            args.monitor_interval,
            signals,
            args.shutdown_timeout,
            args.virtual_local_rank,
        )
    )


@record
def main(args: list[str] | None = None) -> None:
    """The command line."""
    run(parse_args(args))


if __name__ == "__main__":
    main()
