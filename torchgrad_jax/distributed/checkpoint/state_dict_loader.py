"""Read a checkpoint, also one that another number of processes has written."""

from __future__ import annotations

import os
from typing import Any

from ..._core.errors import warn
from ._storages import reader_for
from ._together import Together, alone
from .default_planner import DefaultLoadPlanner
from .metadata import Metadata
from .planner import LoadPlan, LoadPlanner
from .stateful import Stateful
from .storage import StorageReader

__all__ = ["load", "load_state_dict"]


def load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: StorageReader,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: LoadPlanner | None = None,
) -> None:
    """Deprecated in torch: `load`."""
    warn.to_user(
        "`load_state_dict` is deprecated and will be removed in future versions. Please use `load` instead.",
        FutureWarning,
    )
    storage_reader.reset()
    _load_state_dict(state_dict, storage_reader, process_group, coordinator_rank, no_dist, planner)


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: StorageReader | None = None,
    planner: LoadPlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Read a checkpoint into what is there: each process reads the parts that it has.

    Tensors get their values in place, also those that are in parts on several devices. Everything else is replaced
    in the dictionary. Modules, optimizers and whatever else has `load_state_dict()` are given their states.

    Args:
        state_dict: what is loaded into, with the names that were saved.
        checkpoint_id: the folder.
        storage_reader: reads elsewhere.
        planner: decides what each process reads; `DefaultLoadPlanner(allow_partial_load=True)` lets entries be missing.
        process_group: which processes; all of them if it is None.
        no_dist: whether this process reads alone.

    Raises:
        CheckpointException: something went wrong in some process; all of them raise it.
    """
    by_itself = alone(no_dist, to="load")
    reader = reader_for(storage_reader, checkpoint_id)
    states = {k: v.state_dict() if isinstance(v, Stateful) else v for k, v in sorted(state_dict.items())}
    _load_state_dict(states, reader, process_group, no_dist=by_itself, planner=planner)
    for key, state in states.items():
        value = state_dict[key]
        if isinstance(value, Stateful):
            value.load_state_dict(state)
        else:
            state_dict[key] = state


def _load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: StorageReader,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: LoadPlanner | None = None,
) -> None:
    """Read entries as they are. Lightning and Accelerate call this, for what a checkpoint of unknown names has."""
    reader, together = storage_reader, Together(process_group, no_dist, coordinator_rank)
    plans = DefaultLoadPlanner() if planner is None else planner

    def local() -> LoadPlan:
        metadata, shared = _metadata(reader, together.rank)
        plans.set_up_planner(state_dict, metadata, together.is_coordinator)
        reader.set_up_storage_reader(metadata, together.is_coordinator, rank=together.rank, use_collectives=shared)
        return reader.prepare_local_plan(plans.create_local_plan())

    def decide(local_plans: list[LoadPlan]) -> list[LoadPlan]:
        return reader.prepare_global_plan(plans.create_global_plan(local_plans))

    def read(plan: LoadPlan) -> None:
        reader.read_data(plans.finish_plan(plan), plans).wait()
        if isinstance(plans, DefaultLoadPlanner):
            plans._finish_reading()

    plan = together.shared_out("plan", local, decide)
    together.all_done("read", lambda: read(plan))


def _metadata(reader: StorageReader, rank: int) -> tuple[Metadata, bool]:
    """The metadata of all processes, or those of this one where each has written its own."""
    try:
        return reader.read_metadata(), True
    except Exception as everybody:
        try:
            return reader.read_metadata(rank=rank), False
        except Exception as own:
            raise AssertionError(
                f"metadata is None; global metadata read failed: {everybody}; rank local metadata read failed: {own}"
            ) from None
