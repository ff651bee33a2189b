"""How tensor code runs: at once, or as steps that are written down for later.

`MODES.run` is the run that the code is in. `Run` itself is the ordinary case: values are there, kernels run when they
are called, and a write is done when it is made. `lift.Lift` (for `vmap` and for JAX functions made of tensor code)
and `traced_program.StateLift` (for `compile`) answer the same questions in their own way, so that whoever asks need
not know which of them runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..._core.state import Modes
from ..graph.history import requires_grad_of
from ..memory.shared_values import LIVE, with_shared_values
from ..memory.strided import read, read_stored
from ..memory.tensor import Tensor


class Run:
    """Code that runs at once, and what the other ways to run answer differently."""

    __slots__ = ()
    at_once = True
    """Whether the array of a storage is its value."""
    size: Any = None
    """How many examples stand side by side, where this is a run of `vmap`."""
    collects_checks = False
    """Whether a check of values that are not there yet becomes a result of the program or the operator."""
    stateful = False
    """Whether what is outside may be written to, and is read anew each time the steps are run."""
    pure = False
    """Whether what the run amounts to is differentiated by JAX."""
    derived = False
    """The same, or of `vmap`: whether code that JAX derives started it."""
    tape: Any = None
    """Where the steps are written down, if they are not JAX's to trace."""
    rows: Any = None
    """For a run of `vmap`: gives tensors of the run for all examples, outside."""
    walks = False
    """Whether backward passes go node by node: then what they are made of does not depend on what ran before."""
    log: Any = None
    """Numbers of Python that are carried from run to run, where this is a run of `compile`."""
    randomness = ""
    """What random numbers may be in it: "error", "same", "different", or "host" where they are drawn for each run."""

    # --- what belongs to the run
    def inside(self, t: Tensor) -> bool:
        """Whether a tensor's elements belong to this run."""
        return True

    def touches(self, leaves: Sequence[Any]) -> bool:
        """Whether a call on these belongs to this run, rather than to what is around it."""
        return True

    def hides(self, t: Tensor) -> bool:
        """Whether nothing inside knows that `t` requires a gradient."""
        return False

    def follows(self, array: Any) -> bool:
        """Whether the derivative goes on through what a transform of JAX's returned to this run."""
        return False

    def given_as(self, t: Tensor) -> tuple[Any, Tensor, int, Tensor] | None:
        """For one example of a batch: what it held, what was given for all, the batch's dimension, the example."""
        return None

    @contextmanager
    def outside(self, users: bool = False) -> Iterator[None]:
        """Run what is inside where this run was started."""
        yield

    # --- calls
    def keys_of(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], list[Any], int]:
        """Plan key, arrays and numbers that are present, and the mask of leaves that require grad."""
        keys, xs, mask = [], [], 0
        for i, v in enumerate(leaves):
            if isinstance(v, Tensor):
                keys.append(v._m)
                al = v._al
                if al is None:
                    xs.append(v._st.array)
                    if v._rg:
                        mask |= 1 << i
                else:
                    xs.append(read(v))
                    if v._rg or requires_grad_of(v):
                        mask |= 1 << i
            elif v is None:
                keys.append(None)
            else:
                keys.append(v.__class__)
                xs.append(v)
        return tuple(keys), xs, mask

    def kernel(self, plan: Any, xs: Sequence[Any]) -> Any:
        """What the forward of a plan gives."""
        return plan.fwd(*xs)

    def check_later(self, tensors: Sequence[Tensor], check: Callable[..., None]) -> None:
        """Check values once they are there; where JAX traces ordinary code, which knows no errors, they never are."""

    def lay_out(self, call: Any, leaves: Sequence[Any], outs: Sequence[Tensor]) -> None:
        """Let the results lie in memory as torch's, which computes them for all examples together."""

    def lay_out_like(self, model: Tensor, t: Tensor) -> None:
        """Let a new tensor of the shape of `model` lie in memory as one like it does in torch."""

    def record_move(self, me: Tensor, call: Any, leaves: Sequence[Any]) -> None:
        """Note that dimensions of a tensor are about to be moved, removed or added in place."""

    # --- nodes
    def edge_outside(self, t: Tensor) -> Any:
        """Where the gradient of a tensor goes that requires none, but that JAX follows outside of the run."""

    def to_save(self, values: list[Any]) -> list[Any]:
        """The inputs that a node saves, as it holds them."""
        return values

    def versions(self, saved: Sequence[Any], versions: tuple[int, ...]) -> tuple[int, ...]:
        """The versions that a node keeps of what it saves, with the values of what NumPy may write to."""
        return with_shared_values(saved, versions) if LIVE else versions

    # --- reading and writing
    def read(self, t: Tensor) -> Any:
        """The tensor's elements as they are now."""
        return read_stored(t)

    def array_of(self, t: Tensor) -> Any:
        """A tensor's elements for a step of this run."""
        return read_stored(t)

    def array_to_write(self, t: Tensor) -> Any:
        """The elements of the storage that `t` is about to be written to."""
        return t._st.array

    def storage_born(self, storage: Any) -> None:
        """A storage was made during this run."""

    def alias_born(self, t: Tensor, src: Tensor) -> None:
        """A tensor on the storage of another one, `src`, was made during this run."""

    def rely_on_memory(self, t: Tensor) -> None:
        """What is made of a tensor from outside is right as long as it has the storage that it has now."""

    def made_of_array(self, t: Tensor, array: Any) -> None:
        """A tensor holds a copy of a NumPy array, whose memory it has where code runs at once."""

    def give_to_numpy(self, t: Tensor) -> None:
        """Code that runs now gets a NumPy array on the memory of a tensor."""

    def look_at_values(self, t: Tensor) -> None:
        """Python is about to know the values of a tensor from outside."""

    def look_around(self, t: Tensor) -> None:
        """The user is about to know or reach the memory that `t` is a part of."""

    def look_at_version(self, t: Tensor) -> None:
        """The user is about to know how often `t` was written to."""

    def depend_on_leaf(self, t: Tensor) -> None:
        """What the user does depends on `t` being a leaf, not the result of a graph."""

    def begin_pass(self, nodes: Sequence[Any], targets: Sequence[Any] | None) -> None:
        """The user begins a backward pass that can reach these nodes, to some targets or to all leaves."""

    def replace_memory(self, t: Tensor) -> None:
        """A tensor is about to leave its storage for another one, or to get another size."""

    def alter(self, t: Tensor) -> None:
        """The shape of a tensor, or whether it requires a gradient, is about to change in place."""

    # --- leaves
    def leaf_made(self) -> None:
        """Somebody has a tensor require a gradient."""

    def before_accumulation(self, leaf: Tensor) -> None:
        """The gradient of a leaf is about to be looked at or replaced by a pass."""

    def look_at_grad(self, t: Tensor) -> None:
        """The user looks at the gradient of a leaf."""

    def assign_grad(self, t: Tensor) -> None:
        """The gradient of a leaf is replaced by the user."""


AT_ONCE = Run()
Modes.run = AT_ONCE
