"""What two functions compute, as JAX writes it, side by side."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

_WIDTH, _LINES = 58, 60


def side_by_side(left: Callable[[], Any], right: Callable[[], Any], names: tuple[str, str]) -> str:
    """Two jaxprs in two columns; why one could not be made stands in its place."""
    columns = [_lines(names[0], left), _lines(names[1], right)]
    rows = itertools.zip_longest(*columns, fillvalue="")
    return "\n".join(f"{a:<{_WIDTH}}  {b}".rstrip() for a, b in rows)


def _lines(name: str, make: Callable[[], Any]) -> list[str]:
    try:
        text = str(make()).splitlines()
    except Exception as e:
        text = [f"none: {type(e).__name__}: {(str(e).splitlines() or [''])[0]}"]
    wrapped = [line[i : i + _WIDTH] for line in text for i in range(0, max(len(line), 1), _WIDTH)]
    more = [f"... {len(wrapped) - _LINES} more lines"] if len(wrapped) > _LINES else []
    return [name, *wrapped[:_LINES], *more]
