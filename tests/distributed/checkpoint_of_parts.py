"""Run in a process with 8 virtual devices: tensors in parts go to and come from checkpoints of other parts."""

import sys
import tempfile

import jax
from jax.sharding import NamedSharding, PartitionSpec as P

import torchgrad_jax as torch
import torchgrad_jax.distributed.checkpoint as dcp

MESH = jax.make_mesh((2, 3), ("a", "b"), devices=jax.devices()[:6])
PLACES = {"grid": P("a", "b"), "columns": P(None, "b"), "rows": P("a"), "swapped": P(None, "a"), "whole": P()}
W = torch.arange(24.0).reshape(4, 6)


def spread(x, spec):
    return x.to(NamedSharding(MESH, spec))


for spec in PLACES.values():
    found = {"rows": spread(torch.zeros(4, 6), spec), "cols": spread(torch.zeros(4, 6), spec)}
    dcp.load(found, checkpoint_id=sys.argv[1])
    assert all(torch.equal(x, W) for x in found.values()), found
    assert found["rows"].sharding.is_equivalent_to(NamedSharding(MESH, spec), 2)

for saved in PLACES.values():
    for dtype in (torch.float32, torch.bfloat16):
        folder = tempfile.mkdtemp()
        metadata = dcp.save({"w": spread(W.to(dtype), saved)}, checkpoint_id=folder)
        parts = len({tuple(c.offsets) for c in metadata.state_dict_metadata["w"].chunks})
        shards = spread(W, saved).addressable_shards
        assert parts == len({str(s.index) for s in shards}), saved
        for spec in PLACES.values():
            parameter = torch.nn.Parameter(spread(torch.zeros(4, 6, dtype=dtype), spec))
            dcp.load({"w": parameter}, checkpoint_id=folder)
            assert torch.equal(parameter, W.to(dtype)), (saved, spec)
            assert parameter.sharding.is_equivalent_to(NamedSharding(MESH, spec), 2)
