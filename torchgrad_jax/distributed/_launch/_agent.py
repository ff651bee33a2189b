"""Starts the processes of one machine, watches them, and starts them again when one of any machine fails."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

from ..._core.signals import contextmanager
from .._jax_processes import PLACE
from ..elastic.multiprocessing import SignalException
from ..elastic.multiprocessing.errors import ChildFailedError
from ._children import Children, Guard
from ._logs import Folder, prefix
from ._meeting import Met
from ._settings import Launch

log = logging.getLogger("torchgrad_jax.distributed.run")


def launch(asked: Launch) -> None:
    """Run the processes to their end.

    Raises:
        ChildFailedError: a process failed here, in the last attempt.
        RuntimeError: one failed on another machine.
        SignalException: the launcher was told to end.
    """
    with _signals_raise(asked.signals), contextlib.closing(Guard()) as guard:
        met = Met(asked.meeting, asked.processes)
        folder = Folder(asked.logs, asked.meeting.run_id)
        failure: Exception | None = None
        try:
            for attempt in range(asked.max_restarts + 1):
                failure = _attempt(asked, attempt, met, folder, guard)
                if failure is None:
                    folder.remove()
                    return
                left = asked.max_restarts - attempt
                if left:
                    log.warning("%s\n%d of %d restarts are left", failure, left, asked.max_restarts)
            assert failure is not None
            raise failure
        finally:
            met.leave()


def _attempt(asked: Launch, attempt: int, met: Met, folder: Folder, guard: Guard) -> Exception | None:
    """Run all processes once; what failed, or None."""
    children, how = Children(guard), signal.SIGTERM
    try:
        for local_rank in range(asked.processes):
            place = folder.place(attempt, local_rank)
            env = _environment(asked, attempt, met, local_rank)
            before = prefix(asked.logs, asked.role, int(env["RANK"]), local_rank)
            env["TORCHELASTIC_ERROR_FILE"] = place.error_file
            children.start(_filled(asked.command, local_rank), env, place, before)
        return _watch(asked, attempt, met, children)
    except SignalException as e:
        how = e.sigval
        raise
    finally:
        children.end(how, asked.shutdown_timeout)


def _watch(asked: Launch, attempt: int, met: Met, children: Children) -> Exception | None:
    while True:
        if failed := children.failures():
            for rank, failure in failed.items():
                log.error("rank %d failed (exitcode: %d)", rank, failure.exitcode)
            met.tell_failure(attempt, f"rank {min(failed)}, on node {met.node}, failed")
            children.end(signal.SIGTERM, asked.shutdown_timeout)
            return ChildFailedError(asked.name, {**failed, **_others(failed, children)})
        if said := met.failure(attempt):
            children.end(signal.SIGTERM, asked.shutdown_timeout)
            return RuntimeError(f"{asked.name} FAILED: {said}")
        if not children.running() and not children.failures() and met.all_done(attempt):
            return None
        children.pause(asked.monitor_interval)


def _others(failed: dict[int, Any], children: Children) -> dict[int, Any]:
    return {rank: f for rank, f in children.failures().items() if rank not in failed}


def _filled(command: tuple[str, ...], local_rank: int) -> list[str]:
    return [part.replace("${local_rank}", str(local_rank)) for part in command]


def _environment(asked: Launch, attempt: int, met: Met, local_rank: int) -> dict[str, str]:
    """Return what a process is told: this process's environment, and who it is."""
    rank, world = sum(met.sizes[: met.node]) + local_rank, sum(met.sizes)
    variables = {
        "RANK": rank,
        "LOCAL_RANK": local_rank,
        "WORLD_SIZE": world,
        "LOCAL_WORLD_SIZE": asked.processes,
        "GROUP_RANK": met.node,
        "GROUP_WORLD_SIZE": len(met.sizes),
        "ROLE_RANK": rank,
        "ROLE_WORLD_SIZE": world,
        "ROLE_NAME": asked.role,
        "MASTER_ADDR": met.address,
        "MASTER_PORT": met.port,
        "TORCHELASTIC_RESTART_COUNT": attempt,
        "TORCHELASTIC_MAX_RESTARTS": asked.max_restarts,
        "TORCHELASTIC_RUN_ID": asked.meeting.run_id,
        "TORCHELASTIC_USE_AGENT_STORE": True,
        "TORCHELASTIC_SIGNALS_TO_HANDLE": ",".join(asked.signals),
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": os.environ.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
    }
    if asked.virtual_local_rank:
        variables.update(CUDA_VISIBLE_DEVICES=_own_device(local_rank))
    inherited = {name: value for name, value in os.environ.items() if name != PLACE}
    return {**inherited, **{name: str(value) for name, value in variables.items()}}


def _own_device(local_rank: int) -> str:
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if seen is None:
        return str(local_rank)
    devices = seen.split(",")
    if local_rank >= len(devices):
        raise ValueError(f"local_rank {local_rank} exceeds available GPUs in CUDA_VISIBLE_DEVICES={seen}")
    return devices[local_rank].strip()


@contextmanager
def _signals_raise(names: tuple[str, ...]) -> Iterator[None]:
    """While it lasts, signals to this process raise `SignalException`."""

    def got(number: int, frame: Any) -> None:
        which = signal.Signals(number)
        raise SignalException(f"Process {os.getpid()} got signal: {number}", which)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, got) for number in map(_number, names)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _number(name: str) -> signal.Signals:
    try:
        return signal.Signals[name]
    except KeyError:
        raise ValueError(f"--signals-to-handle: {name} is not the name of a signal") from None
