"""Objects that save and restore their own state."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

__all__ = ["Stateful"]


@runtime_checkable
class Stateful(Protocol):
    """What has `state_dict()` and `load_state_dict(state)`, as modules and optimizers do."""

    def state_dict(self) -> dict[str, Any]:
        """The state, to be saved."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a state that was loaded.

        Args:
            state_dict: the state.
        """
        ...
