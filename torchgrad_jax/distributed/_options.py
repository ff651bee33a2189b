"""Options of the methods of a process group, such as `AllreduceOptions`: names and defaults are torch's."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

from ._arguments import ReduceOp

_UNSET = datetime.timedelta(milliseconds=-1)
"""The timeout that stands for the one of the group."""


@dataclasses.dataclass(slots=True, eq=False)
class Options:
    """What the options of all methods have."""

    timeout: datetime.timedelta = _UNSET
    asyncOp: bool = True


@dataclasses.dataclass(slots=True, eq=False)
class AllreduceOptions(Options):
    """How values become one."""

    reduceOp: Any = ReduceOp.SUM


@dataclasses.dataclass(slots=True, eq=False)
class AllreduceCoalescedOptions(AllreduceOptions):
    """How values of several tensors become one."""


@dataclasses.dataclass(slots=True, eq=False)
class ReduceScatterOptions(AllreduceOptions):
    """How values become one, before each process gets its part."""


@dataclasses.dataclass(slots=True, eq=False)
class ReduceOptions(AllreduceOptions):
    """How values become one, and the rank in the group that gets it."""

    rootRank: int = 0
    rootTensor: int = 0


@dataclasses.dataclass(slots=True, eq=False)
class BroadcastOptions(Options):
    """The rank in the group whose values all get."""

    rootRank: int = 0
    rootTensor: int = 0


@dataclasses.dataclass(slots=True, eq=False)
class GatherOptions(Options):
    """The rank in the group that gets the tensors."""

    rootRank: int = 0


@dataclasses.dataclass(slots=True, eq=False)
class ScatterOptions(Options):
    """The rank in the group that has the tensors."""

    rootRank: int = 0


@dataclasses.dataclass(slots=True, eq=False)
class AllgatherOptions(Options):
    """Nothing but the timeout."""


@dataclasses.dataclass(slots=True, eq=False)
class AllToAllOptions(Options):
    """Nothing but the timeout."""


@dataclasses.dataclass(slots=True, eq=False)
class BarrierOptions(Options):
    """Devices, which nothing here reads."""

    device_ids: list[int] = dataclasses.field(default_factory=list)
    device: Any = None
