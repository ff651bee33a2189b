"""Messages from one process to another: `send`, `recv`, and those that do not wait."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._engine.memory.tensor import Tensor
from ..compiler import is_compiling
from ._arguments import fill, group_for, one_rank, tensor_of
from ._call import array_of, begin, like
from ._exchange import Turn
from ._groups import ProcessGroup, get_group_rank
from ._work import ReceiveWork, Work


def _peer(pg: ProcessGroup, rank: int | None, group_rank: int | None, name: str) -> int:
    found = one_rank(rank, group_rank)
    peer = group_rank if found is None else get_group_rank(pg, found)
    assert peer is not None
    if peer == pg.rank():
        side = "destination" if name == "dst" else "source"
        raise ValueError(f"Invalid {side} rank: {side} rank should not be the same as the rank of the current process.")
    return peer


def _named(tag: int) -> tuple[str, str]:
    """Return what a message is, and what it is known by."""
    return f"send or recv with tag {tag}", f"message {tag}"


def isend(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> Work | None:
    """Send a tensor; it is kept at the other process until that receives it."""
    tensor_of(tensor, "tensor")
    pg = group_for("isend", group)
    if pg is None:
        return None
    peer = _peer(pg, dst, group_dst, "dst")
    what, key = _named(tag)

    def step(turn: Turn, x: Any) -> list[Any]:
        turn.send(peer, x)
        return []

    begin(pg, what, [array_of(tensor)], [], step, key)()
    return Work([tensor])


def send(tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Send a tensor to another process.

    Args:
        tensor: what is sent.
        dst: the global rank of the other process.
        group: the group in which both are.
        tag: a number, by which messages between the same two are told apart.
        group_dst: the rank in the group, instead of `dst`.

    Differs from torch: it does not wait until the other one receives.

    Raises:
        ValueError: the other process is this one, or not in the group.
        DistBackendError: it has ended.
    """
    isend(tensor, dst, group, tag, group_dst)


def irecv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> ReceiveWork | None:
    """Begin to receive a tensor; the one that comes is there after `wait()`."""
    tensor_of(tensor, "tensor")
    pg = group_for("irecv", group)
    if pg is None:
        return None
    receive = _receiving(pg, _sources(pg, src, group_src), tensor, tag)
    work: ReceiveWork

    def run() -> None:
        work.source = receive()

    work = ReceiveWork.__new__(ReceiveWork)
    if is_compiling():
        run()
    # `run` may begin before a constructor has returned.
    work.__init__([tensor], None if is_compiling() else run)
    return work


def _sources(pg: ProcessGroup, src: int | None, group_src: int | None) -> list[int]:
    if src is None and group_src is None:
        return [r for r in range(pg.size()) if r != pg.rank()]
    return [_peer(pg, src, group_src, "src")]


def _receiving(pg: ProcessGroup, sources: Sequence[int], tensor: Tensor, tag: int) -> Callable[[], int]:
    """Return what receives a tensor, and says who sent it; a compiled program cannot say that if it may be anybody."""
    what, key = _named(tag)
    size, dtype, sent_by = tensor.numel(), tensor._m.dtype.np, [pg._members[s] for s in sources]

    def step(turn: Turn) -> list[Any]:
        source, found = turn.take_any(sources)
        if found.size != size or found.dtype != dtype:
            raise RuntimeError(
                f"recv: rank {turn.members[source]} sent {found.size} elements of {found.dtype}, and the tensor has "
                f"{size} of {dtype}"
            )
        sent_by[:] = [turn.members[source]]
        return [found]

    found = begin(pg, what, [], [like(tensor)], step, key)

    def receive() -> int:
        fill(tensor, found()[0])
        return sent_by[0] if len(sent_by) == 1 else -1

    return receive


def recv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    """Receive a tensor from another process, or from any if none is named; who sent it.

    Raises:
        RuntimeError: it has another size or dtype.
        DistBackendError: nothing came in time.
    """
    tensor_of(tensor, "tensor")
    pg = group_for("recv", group)
    if pg is None:
        return -1
    return _receiving(pg, _sources(pg, src, group_src), tensor, tag)()


class P2POp:
    """One operation for `batch_isend_irecv`.

    Args:
        op: `isend` or `irecv`.
        tensor: what is sent or received.
        peer: the global rank of the other process.
        group: the group.
        tag: as of `send`.
        group_peer: the rank in the group, instead of `peer`.
    """

    def __init__(
        self,
        op: Any,
        tensor: Tensor,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        one_rank(peer, group_peer)
        self.op, self.tensor, self.group, self.tag = op, tensor_of(tensor, "tensor"), group, tag
        self.peer, self.group_peer = peer, group_peer


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Any]:
    """Begin several sends and receives."""
    if not isinstance(p2p_op_list, list) or not all(isinstance(p, P2POp) for p in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to to be of type ``torch.distributed.P2POp``.")
    begun = [p.op(p.tensor, p.peer, p.group, p.tag, p.group_peer) for p in p2p_op_list]
    return [work for work in begun if work is not None]


# --- objects --------------------------------------------------------------------------------------


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send objects to another process."""
    pg = group_for("send_object_list", group)
    if pg is not None:
        sent = np.frombuffer(pickle.dumps(object_list), np.uint8)
        pg.turn("objects", "objects").send(_peer(pg, dst, group_dst, "dst"), sent)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receive objects into a list; who sent them."""
    pg = group_for("recv_object_list", group)
    if pg is None:
        return -1
    turn = pg.turn("objects", "objects")
    source, found = turn.take_any(_sources(pg, src, group_src))
    object_list[:] = pickle.loads(found.tobytes())
    return turn.members[source]
