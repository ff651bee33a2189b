"""Submodules that run again in backward, as torch.distributed.algorithms._checkpoint wraps them."""

import functools
import importlib

from tests.programs import Programs

from .processes import complaint

program = Programs()
test_same_as_torch = program.test()


def wrappers(m):
    """The module that wraps."""
    return importlib.import_module(f"{m.__name__}.distributed.algorithms._checkpoint.checkpoint_wrapper")


def network(m):
    """Layers within layers, with dropout."""
    m.manual_seed(0)
    inner = m.nn.Sequential(m.nn.Linear(4, 4), m.nn.Dropout(0.5))
    return m.nn.Sequential(m.nn.Linear(4, 4), inner, m.nn.ReLU())


@program
def chosen_layers_run_again(m):
    w = wrappers(m)
    found = []
    for kind in w.CheckpointImpl:
        net, runs = network(m), []
        net[1][0].register_forward_hook(lambda *_, runs=runs: runs.append(1))
        wrap = functools.partial(w.checkpoint_wrapper, checkpoint_impl=kind)
        w.apply_activation_checkpointing(net, wrap, lambda layer: isinstance(layer, m.nn.Linear | m.nn.Sequential))
        m.manual_seed(1)
        x = m.arange(8.0).view(2, 4).requires_grad_()
        y = net(x).sum()
        y.backward()
        found += [y, x.grad, [p.grad for p in net.parameters()], len(runs), repr(net)]
    return found


@program
def names_are_those_inside(m):
    w, net = wrappers(m), network(m)
    w.apply_activation_checkpointing(net, check_fn=lambda layer: isinstance(layer, m.nn.Linear))
    net.load_state_dict(network(m).state_dict())
    own = [n for n, _ in net[0].named_parameters()]
    item = w.checkpoint_wrapper(network(m))[1][0]
    return list(net.state_dict()), own, net[0].in_features, net[0].weight.shape, repr(item)


@program
def keywords_are_differentiated(m):
    class Scaled(m.nn.Module):
        def forward(self, x, *, by):
            return x * by

    w, found = wrappers(m), []
    for kind in w.CheckpointImpl:
        x, by = m.ones(2, requires_grad=True), m.full((2,), 3.0, requires_grad=True)
        w.checkpoint_wrapper(Scaled(), kind)(x, by=by).sum().backward()
        found += [x.grad, by.grad]
    return found


@program
def what_is_not_there(m):
    w = wrappers(m)
    layer = w.offload_wrapper(m.nn.Linear(2, 2))
    return repr(layer), complaint(lambda: layer.nope), complaint(lambda: layer[0])
