"""What code does with tensors from outside of the run that it is in, for an observer that depends on it.

A program of `compile` is right as long as what it used is as it was: `compile` keeps an object of its own in the run's
`uses`, which hears of each use and remembers what it depends on, or refuses the use. Other runs keep one that does
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..memory.strided import read_stored
from ..memory.tensor import Tensor


class Uses:
    """Hears what a run does with what is outside. A subclass remembers, or refuses."""

    __slots__ = ()
    log: Any = None
    """Numbers of Python that are carried from run to run, where this is a run of `compile`."""
    keeps_kernels: bool = False
    """Whether the steps of the run will be calls of the kernels that it calls: then it hears of them."""

    def kernel_called(self, kernel: Any, args: Sequence[Any], single: bool, runs: Any = None) -> None:
        """A kernel was called on tracers.

        Args:
            kernel: the kernel.
            args: its arguments.
            single: whether it gives its one result, and not a list.
            runs: what code that runs at once calls instead, a kernel of the leaves of these arguments.
        """

    def read(self, t: Tensor) -> Any:
        """The tensor's elements as they are now."""
        return read_stored(t)

    def array_to_write(self, t: Tensor) -> Any:
        """The elements of the storage that `t` is about to be written to."""
        return t._st.array

    # --- memory
    def alias_born(self, t: Tensor, src: Tensor) -> None:
        """A tensor on the storage of another one, `src`, was made."""

    def rely_on_memory(self, t: Tensor) -> None:
        """What is made of a tensor from outside is right as long as it has the storage that it has now."""

    def made_of_array(self, t: Tensor, array: Any) -> None:
        """A tensor holds a copy of a NumPy array, whose memory it has where code runs at once."""

    def give_to_numpy(self, t: Tensor) -> None:
        """Code that runs now gets a NumPy array on the memory of a tensor."""

    def look_around(self, t: Tensor) -> None:
        """The user is about to know or reach the memory that `t` is a part of."""

    def replace_memory(self, t: Tensor) -> None:
        """A tensor is about to leave its storage for another one, or to get another size."""

    # --- values
    def look_at_values(self, t: Tensor) -> None:
        """Python is about to know the values of a tensor from outside."""

    def look_at_version(self, t: Tensor) -> None:
        """The user is about to know how often `t` was written to."""

    def check(self, arrays: Sequence[Any], check: Callable[..., None]) -> None:
        """Values are to be checked once they are there, in a run that may check later."""

    # --- the graph
    def alter(self, t: Tensor) -> None:
        """The shape of a tensor, or whether it requires a gradient, is about to change in place."""

    def depend_on_leaf(self, t: Tensor) -> None:
        """What the user does depends on `t` being a leaf, not the result of a graph."""

    def look_at_grad(self, t: Tensor) -> None:
        """Somebody looks at the gradient of a leaf."""

    def assign_grad(self, t: Tensor) -> None:
        """The gradient of a leaf is replaced by the user."""


NO_USES = Uses()
"""For runs of which nobody wants to know."""
