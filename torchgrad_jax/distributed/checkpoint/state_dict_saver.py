"""Write a checkpoint, now or in a thread."""

from __future__ import annotations

import enum
import os
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from ..._core.errors import warn
from ._storages import writer_for
from ._together import Together, alone, in_turn
from .default_planner import DefaultSavePlanner
from .metadata import Metadata
from .planner import SavePlan, SavePlanner
from .staging import AsyncStager, DefaultStager
from .stateful import Stateful
from .storage import StorageWriter

__all__ = ["AsyncCheckpointerType", "AsyncSaveResponse", "async_save", "save", "save_state_dict"]


class AsyncCheckpointerType(enum.Enum):
    """What writes a checkpoint while training goes on."""

    THREAD = "thread"
    PROCESS = "process"


@dataclass
class AsyncSaveResponse:
    """Futures of the copy and of the checkpoint, where the stager gave a future."""

    staging_completion: Future[None]
    upload_completion: Future[Any]


def save_state_dict(
    state_dict: dict[str, Any],
    storage_writer: StorageWriter,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: SavePlanner | None = None,
) -> Metadata:
    """Deprecated in torch: `save`."""
    warn.to_user(
        "`save_state_dict` is deprecated and will be removed in future versions.Please use `save` instead.",
        FutureWarning,
    )
    storage_writer.reset()
    together = Together(process_group, no_dist, coordinator_rank)
    return _save(state_dict, storage_writer, together, planner or DefaultSavePlanner())


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Metadata:
    """Write a checkpoint: each process writes its parts, and what all have is shared out among them.

    Args:
        state_dict: what is saved; modules, optimizers and whatever else has `state_dict()` are asked for it.
        checkpoint_id: the folder.
        storage_writer: writes elsewhere, or with other options.
        planner: decides what each process writes.
        process_group: which processes; all of them if it is None.
        no_dist: whether this process writes alone.
        use_collectives: False lets each process write metadata of its own, without the others.

    Returns:
        The metadata of the checkpoint.

    Raises:
        CheckpointException: something went wrong in some process; all of them raise it.
    """
    by_itself = alone(no_dist, to="save")
    writer = writer_for(storage_writer, checkpoint_id)
    together = Together(process_group, by_itself)
    return _save(_states(state_dict), writer, together, planner or DefaultSavePlanner(), use_collectives)


def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Any = None,
    async_checkpointer_type: AsyncCheckpointerType = AsyncCheckpointerType.THREAD,
    async_stager: AsyncStager | None = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Future[Any] | AsyncSaveResponse:
    """`save` in a thread, of a copy that is made before this returns. Training may go on, collectives included.

    Args:
        state_dict: what is saved.
        checkpoint_id: the folder.
        storage_writer: writes elsewhere, or with other options.
        planner: decides what each process writes.
        process_group: which processes.
        async_checkpointer_type: only `AsyncCheckpointerType.THREAD`.
        async_stager: makes the copy.
        no_dist: whether this process writes alone.
        use_collectives: as for `save`.

    Returns:
        A future of the metadata. What goes wrong is raised by its `result()`.

    Raises:
        NotImplementedError: another process is to write.
    """
    if async_checkpointer_type is not AsyncCheckpointerType.THREAD:
        raise NotImplementedError("torch.distributed.checkpoint.async_save: in a process of its own")
    given = storage_writer if isinstance(storage_writer, AsyncStager) else DefaultStager()
    copied = (async_stager or given).stage(_states(state_dict))
    writer = writer_for(storage_writer, checkpoint_id)
    by_itself = alone(no_dist)
    together = Together(None if by_itself else in_turn(process_group), by_itself)
    done: Future[Any] = Future()

    def write() -> None:
        try:
            state = copied.result() if isinstance(copied, Future) else copied
            plans = planner or DefaultSavePlanner()
            done.set_result(_save(state, writer, together, plans, use_collectives))
        except BaseException as e:
            done.set_exception(e)

    threading.Thread(target=write, name="checkpoint").start()
    return AsyncSaveResponse(_without_result(copied), done) if isinstance(copied, Future) else done


def _without_result(copied: Future[Any]) -> Future[None]:
    found: Future[None] = Future()

    def over(f: Future[Any]) -> None:
        error = f.exception()
        found.set_result(None) if error is None else found.set_exception(error)

    copied.add_done_callback(over)
    return found


def _states(state_dict: dict[str, Any]) -> dict[str, Any]:
    """The entries, and the states of those that have one."""
    return {k: v.state_dict() if isinstance(v, Stateful) else v for k, v in state_dict.items()}


def _save(
    state: dict[str, Any], writer: StorageWriter, together: Together, planner: SavePlanner, use_collectives: bool = True
) -> Metadata:
    described: list[Metadata] = []

    def local() -> SavePlan:
        planner.set_up_planner(state, writer.storage_meta(), together.is_coordinator)
        writer.set_up_storage_writer(together.is_coordinator, rank=together.rank, use_collectives=use_collectives)
        return writer.prepare_local_plan(planner.create_local_plan())

    def decide(plans: list[SavePlan]) -> list[SavePlan]:
        plans, metadata = planner.create_global_plan(plans)
        described.append(metadata)
        return writer.prepare_global_plan(plans)

    def write(plan: SavePlan) -> Any:
        return writer.write_data(planner.finish_plan(plan), planner).wait()

    def finish(results: list[Any]) -> Metadata:
        writer.finish(metadata=described[0], results=results)
        return described[0]

    if use_collectives:
        plan = together.shared_out("plan", local, decide)
        return together.agreed("write", lambda: write(plan), finish)
    (plan,) = decide([local()])
    metadata = finish([write(plan)])
    together.all_done("write", lambda: None)
    return metadata
