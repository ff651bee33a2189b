"""FSDP with tensor parallelism, and groups of a mesh, over four processes, as torch's with gloo."""

from . import spanning
from .processes import Together

together = Together(4)
test_same_as_torch = together.test()


@together
def both(m, d):
    return spanning.both(m, d)


@together
def groups_of_a_mesh(m, d):
    return spanning.groups_of_a_mesh(m, d)


@together
def checkpoint_of_sizes_that_do_not_divide(m, d):
    return spanning.checkpoint_of_sizes_that_do_not_divide(m, d)


@together
def summands(m, d):
    return spanning.summands(m, d)


@together
def layers_that_give_summands(m, d):
    return spanning.layers_that_give_summands(m, d)


@together
def summands_along_two_dimensions(m, d):
    return spanning.summands_along_two_dimensions(m, d)


@together
def meshes_of_the_same_devices(m, d):
    return spanning.meshes_of_the_same_devices(m, d)


@together
def stages_that_differ(m, d):
    """Each stage of a pipeline splits its own layer over a mesh of its ranks; a slice of one mesh is refused."""
    meshes, _, fsdp, _, _ = spanning.parts(m)
    first = d.get_rank() // 2 * 2
    stages = [meshes.DeviceMesh("cpu", [0, 1]), meshes.DeviceMesh("cpu", [2, 3])]
    m.manual_seed(first)
    layer = fsdp.fully_shard(m.nn.Linear(4, 2), mesh=stages[first // 2])
    layer(m.ones(2, 4) * d.get_rank()).square().sum().backward()
    if m.__name__ != "torch":
        both = meshes.init_device_mesh("cpu", (2, 2), mesh_dim_names=("stages", "dp"))
        m.manual_seed(first)
        text = spanning.complaint(lambda: fsdp.fully_shard(m.nn.Linear(4, 2), mesh=both["dp"]))
        assert "stages of a pipeline need a mesh each" in str(text)
    return [spanning.whole(p.grad) for p in layer.parameters()]
