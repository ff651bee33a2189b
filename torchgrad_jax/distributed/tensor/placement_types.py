"""torch.distributed.tensor.placement_types: what a dimension of a mesh does with a tensor."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """What one dimension of a mesh does with a tensor: `Shard`, `Replicate` or `Partial`."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Return whether it splits the tensor, or this dimension of it."""
        return False

    def is_replicate(self) -> bool:
        """Return whether each device has all of it."""
        return False

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Return whether each device has a summand."""
        return False


@dataclass(frozen=True)
class Shard(Placement):
    """The devices along the mesh's dimension have equal parts of dimension `dim` of the tensor."""

    dim: int

    def __post_init__(self) -> None:
        if not isinstance(self.dim, int):
            raise TypeError(f"Shard(): dim must be an int, not {type(self.dim).__name__}")

    def is_shard(self, dim: int | None = None) -> bool:
        """Return whether it splits the tensor, or this dimension of it."""
        return dim is None or dim == self.dim

    def __repr__(self) -> str:
        return f"Shard(dim={self.dim})"

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclass(frozen=True)
class _StridedShard(Placement):
    """The dimension is split by `split_factor` devices along later dimensions of the mesh first, then by these."""

    dim: int
    split_factor: int

    def is_shard(self, dim: int | None = None) -> bool:
        """Return whether it splits the tensor, or this dimension of it."""
        return dim is None or dim == self.dim

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True, repr=False)
class Replicate(Placement):
    """Each device along the mesh's dimension has all of the tensor."""

    def is_replicate(self) -> bool:
        """Return whether each device has all of it."""
        return True

    def __repr__(self) -> str:
        return "Replicate()"

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """The tensor is a reduction of what the processes along the mesh's dimension have.

    So is the sum over a dimension that is split, what is linear in one, and what a program says to be one, by
    `from_local` or the layout of a module's output.
    """

    reduce_op: str = "sum"

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Return whether each device has a summand."""
        return reduce_op is None or reduce_op == self.reduce_op

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"
