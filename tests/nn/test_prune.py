"""`nn.utils.prune`; compared with torch."""

import importlib

from tests.programs import Programs

from .programs import attempt, gradients, numbers, weighted

program = Programs()
test_same_as_torch = program.test()


def prune_of(m):
    """The module, which torch does not import by itself."""
    return importlib.import_module(f"{m.__name__}.nn.utils.prune")


def layer(m):
    out = m.nn.Linear(4, 3).double()
    with m.no_grad():
        out.weight.copy_(numbers(m, 3, 4))
        out.bias.copy_(numbers(m, 3))
    return out


@program
def methods(m):
    p, seen = prune_of(m), []
    for prune in (
        lambda x: p.identity(x, "weight"),
        lambda x: p.l1_unstructured(x, "weight", 0.3),
        lambda x: p.l1_unstructured(x, "weight", 5, importance_scores=numbers(m, 3, 4).flip(0)),
        lambda x: p.random_unstructured(x, "weight", 4),
        lambda x: p.random_structured(x, "weight", 2, dim=1),
        lambda x: p.random_structured(x, "weight", 0, dim=0),
        lambda x: p.ln_structured(x, "weight", 0.5, n=2, dim=0),
        lambda x: p.ln_structured(x, "weight", 1, n=1, dim=-1),
        lambda x: p.l1_unstructured(x, "bias", 0),
        lambda x: p.custom_from_mask(x, "bias", m.tensor([1, 0, 1])),
    ):
        m.manual_seed(3)
        x = layer(m)
        assert prune(x) is x
        weighted(x(numbers(m, 2, 4))).backward()
        seen += [x.weight.detach(), list(x.state_dict().items()), gradients(x), p.is_pruned(x), m.rand(1)]
    return seen


@program
def one_after_the_other(m):
    p, x = prune_of(m), layer(m)
    m.manual_seed(0)
    p.l1_unstructured(x, "weight", 0.25)
    p.ln_structured(x, "weight", 1, n=2, dim=0)
    p.random_unstructured(x, "weight", 2)
    (hook,) = x._forward_pre_hooks.values()
    seen = [type(hook).__name__, len(hook), [type(h).__name__ for h in hook], x.weight_mask, x.weight.detach()]
    p.remove(x, "weight")
    return seen, x.weight, list(x.state_dict()), p.is_pruned(x), len(x._forward_pre_hooks)


@program
def several_together(m):
    p = prune_of(m)
    net = m.nn.Sequential(layer(m), layer(m))
    with m.no_grad():
        net[1].weight.mul_(0.5)
    p.global_unstructured([(net[0], "weight"), (net[1], "weight")], p.L1Unstructured, amount=0.5)
    return [x.weight_mask for x in net], p.is_pruned(net), p.is_pruned(m.nn.Linear(1, 1))


@program
def refused(m):
    p = prune_of(m)
    x = layer(m)
    tries = [
        lambda: p.L1Unstructured("a"),
        lambda: p.L1Unstructured(-1),
        lambda: p.RandomUnstructured(1.5),
        lambda: p.l1_unstructured(x, "weight", 100),
        lambda: p.ln_structured(x, "bias", 1, 2, 0),
        lambda: p.random_structured(x, "weight", 1, 5),
        lambda: p.remove(x, "weight"),
        lambda: p.custom_from_mask(x, "bias", m.ones(2)),
        lambda: p.global_unstructured(3, p.L1Unstructured),
        lambda: p.global_unstructured([(x, "weight")], p.L1Unstructured, importance_scores=3, amount=1),
        lambda: p.l1_unstructured(x, "bias", 1, importance_scores=m.ones(2)),
        lambda: p.Identity().prune(m.ones(2), importance_scores=m.ones(3)),
        lambda: p.PruningContainer(3),
    ]
    return ([attempt(t) for t in tries], list(x.state_dict()), p.L1Unstructured(1).prune(m.tensor([1.0, -0.5, 2.0])))
