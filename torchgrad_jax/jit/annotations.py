"""Types that TorchScript's annotations name; here they are for readers alone."""

from __future__ import annotations

from typing import Any as Any, Dict as Dict, List as List, Optional as Optional, Tuple as Tuple, Union as Union  # noqa: UP035 - the names that old annotations are written with


class _BroadcastingList:
    def __getitem__(self, types: Any) -> Any:
        return list[types]


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = BroadcastingList4 = BroadcastingList5 = (
    BroadcastingList6
) = _BroadcastingList()
