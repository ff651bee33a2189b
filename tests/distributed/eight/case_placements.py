"""Results and gradients stay in the parts that their operators allow, on meshes of one and of two dimensions.

Where PyTorch leaves a result `Partial`, XLA has added up, and the row says `Replicate`.
"""

from collections.abc import Callable
from typing import Any

import pytest

import torchgrad_jax as torch
import torchgrad_jax.nn.functional as F
from torchgrad_jax.distributed.device_mesh import init_device_mesh
from torchgrad_jax.distributed.tensor import Replicate, Shard, distribute_tensor

SHAPES = {
    "x": (16, 32), "w": (32, 8), "b": (8,), "batch": (4, 4, 32), "v": (8, 32), "left": (8, 4, 6), "right": (8, 6, 4),
    "e": (64, 8),
}  # fmt: skip
CLASSES = torch.arange(16) * 5 % 32
WORDS = torch.arange(64).reshape(16, 4) * 7 % 64

# The operator; each tensor as "name placements"; the placements of the result, and those of the gradients. A letter
# stands for one dimension of the mesh: r for Replicate, a number for Shard.
ROWS: list[tuple[str, Callable[..., Any], str, str, str]] = [
    ("a batch times a whole matrix", torch.mm, "x 0, w r", "0", "0, r"),
    ("columns", torch.mm, "x r, w 1", "1", "r, 1"),
    ("the inner dimension", torch.mm, "x 1, w 0", "r", "1, 0"),
    ("a batch times columns", torch.mm, "x 0r, w r1", "01", "0r, r1"),
    ("a batch and the inner dimension", torch.mm, "x 01, w r0", "0r", "01, r0"),
    ("with a summand", torch.addmm, "b r0, x 0r, w r1", "01", "r0, 0r, r1"),
    ("a layer of columns", F.linear, "batch 0r, v r0, b r0", "02", "0r, r0, r0"),
    ("a layer in parts over all", F.linear, "batch 0r, v 01", "0r", "0r, 01"),
    ("products of a batch", torch.bmm, "left 01, right 0r", "01", "01, 0r"),
    ("a norm", torch.linalg.vector_norm, "x 0", "r", "0"),
    ("the largest", lambda t: torch.linalg.vector_norm(t, float("inf")), "x 01", "rr", "01"),
    ("norms of rows", lambda t: torch.linalg.vector_norm(t, 2, 1), "x 0", "0", "0"),
    ("norms of columns", lambda t: torch.linalg.vector_norm(t, 1, 0), "x 01", "r0", "01"),
    ("sums of columns", lambda t: t.sum(0), "x 01", "r0", "01"),
    ("layer norm", lambda t: F.layer_norm(t, (32,)), "batch 01", "01", "01"),
    ("classes in parts", lambda t: F.cross_entropy(t, CLASSES), "x 1", "r", "1"),
    ("a batch of classes in parts", lambda t: F.cross_entropy(t, CLASSES), "x 01", "rr", "01"),
    ("log softmax of parts", lambda t: F.log_softmax(t, 1), "x 01", "01", "01"),
    ("an embedding in rows", lambda t: F.embedding(WORDS, t), "e 0", "r", "0"),
    ("an embedding in columns", lambda t: F.embedding(WORDS, t), "e 1", "2", "1"),
    ("an embedding in rows over one of two", lambda t: F.embedding(WORDS, t), "e r0", "rr", "r0"),
]


def placed(text: str) -> tuple[Any, ...]:
    return tuple(Replicate() if c == "r" else Shard(int(c)) for c in text)


@pytest.mark.parametrize(("fn", "given", "out", "grads"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_parts_are_kept(fn, given, out, grads):
    names, places = zip(*(item.split() for item in given.split(", ")))
    mesh = init_device_mesh("cpu", (8,) if len(places[0]) == 1 else (4, 2))
    torch.manual_seed(0)
    plain = [torch.randn(SHAPES[name]).requires_grad_() for name in names]
    parts = [distribute_tensor(t.detach(), mesh, placed(p)).requires_grad_() for t, p in zip(plain, places)]
    expected, found = fn(*plain), fn(*parts)
    slopes = torch.randn(expected.shape)
    expected.backward(slopes)
    found.backward(slopes)
    assert found.placements == placed(out)
    torch.testing.assert_close(found.full_tensor(), expected)
    for t, plain_t, p in zip(parts, plain, grads.split(", ")):
        assert t.grad.placements == placed(p)
        torch.testing.assert_close(t.grad.full_tensor(), plain_t.grad)
