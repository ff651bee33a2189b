"""Read a checkpoint, also one that another number of processes has written."""

from __future__ import annotations

import os
from typing import Any

from ..._core.errors import warn
from ._storages import reader_for
from ._together import Together, alone
from .default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner
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
    together = Together(process_group, no_dist, coordinator_rank)
    _load(state_dict, storage_reader, together, planner or DefaultLoadPlanner())


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
    together = Together(process_group, by_itself)
    states = {k: v.state_dict() if isinstance(v, Stateful) else v for k, v in sorted(state_dict.items())}
    _load(states, reader, together, planner or DefaultLoadPlanner())
    for key, state in states.items():
        value = state_dict[key]
        if isinstance(value, Stateful):
            value.load_state_dict(state)
        else:
            state_dict[key] = state


def _load(state: dict[str, Any], reader: StorageReader, together: Together, planner: LoadPlanner) -> None:
    def local() -> LoadPlan:
        metadata, shared = _metadata(reader, together.rank)
        planner.set_up_planner(state, metadata, together.is_coordinator)
        reader.set_up_storage_reader(metadata, together.is_coordinator, rank=together.rank, use_collectives=shared)
        return reader.prepare_local_plan(planner.create_local_plan())

    def decide(plans: list[LoadPlan]) -> list[LoadPlan]:
        return reader.prepare_global_plan(planner.create_global_plan(plans))

    def read(plan: LoadPlan) -> None:
        reader.read_data(planner.finish_plan(plan), planner).wait()
        if isinstance(planner, DefaultLoadPlanner):
            planner._finish_reading()

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


def _load_state_dict_from_keys(
    keys: set[str] | str | None = None,
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: StorageReader | None = None,
    process_group: Any = None,
) -> dict[str, Any]:
    """What is in a checkpoint, in a new dictionary.

    Args:
        keys: only entries with these names, or below them; all if it is None.
        checkpoint_id: the folder.
        storage_reader: reads elsewhere.
        process_group: which processes.
    """
    reader = reader_for(storage_reader, checkpoint_id)
    found: dict[str, Any] = {}
    wanted = {keys} if isinstance(keys, str) else keys
    _load(found, reader, Together(process_group, alone(False)), _EmptyStateDictLoadPlanner(wanted))
    return found
