"""The base class: groups, errors, hooks, saving and loading, closures."""

import copy
import importlib
import pickle
from typing import Any

import jax
import numpy as np
import pytest

import torchgrad_jax as tg
from tests.engine.helpers import Programs, attempt, table
from torchgrad_jax._core.arrays.meta import meta
from torchgrad_jax.optim import _scalars

from .training import give_gradients, parameters, report, train

PROGRAMS = Programs()


def leaf(m, *values, **kind):
    return m.tensor(list(values), requires_grad=True, **kind)


def base_of(m):
    """The module of the base class, which the package does not name."""
    return importlib.import_module(m.__name__ + ".optim.optimizer")


def sgd(m, *args, **options):
    return m.optim.SGD([leaf(m, 1.0, 2.0)], *args, **options)


REFUSED = {
    "no-parameters": lambda m: m.optim.SGD([], lr=0.1),
    "one-tensor": lambda m: m.optim.SGD(leaf(m, 1.0), lr=0.1),
    "numbers": lambda m: m.optim.SGD([1.0], lr=0.1),
    "strings": lambda m: m.optim.SGD(["a"], lr=0.1),
    "set": lambda m: m.optim.SGD([{"params": {leaf(m, 1.0)}}], lr=0.1),
    "not-a-leaf": lambda m: m.optim.SGD([leaf(m, 1.0) * 2], lr=0.1),
    "group-not-a-dict": lambda m: sgd(m).add_param_group([leaf(m, 1.0)]),
    "duplicates-across-groups": lambda m: (lambda p: m.optim.SGD([{"params": [p]}, {"params": [p]}], lr=0.1))(
        leaf(m, 1.0)
    ),
    "some-names": lambda m: m.optim.SGD([("a", leaf(m, 1.0)), leaf(m, 2.0)], lr=0.1),
    "names-in-one-group": lambda m: m.optim.SGD(
        [{"params": [("a", leaf(m, 1.0))]}, {"params": [leaf(m, 2.0)]}], lr=0.1
    ),
    "no-names-in-one-group": lambda m: m.optim.SGD(
        [{"params": [leaf(m, 1.0)]}, {"params": [("a", leaf(m, 2.0))]}], lr=0.1
    ),
    "required": lambda m: m.optim.Optimizer([leaf(m, 1.0)], {"lr": base_of(m).required}),
    "base-step": lambda m: m.optim.Optimizer([leaf(m, 1.0)], {}).step(),
    "sgd-lr": lambda m: sgd(m, lr=-1),
    "sgd-long-lr": lambda m: sgd(m, lr=m.tensor([0.1, 0.2])),
    "sgd-momentum": lambda m: sgd(m, momentum=-0.5),
    "sgd-decay": lambda m: sgd(m, weight_decay=-0.5),
    "sgd-nesterov": lambda m: sgd(m, nesterov=True),
    "sgd-nesterov-dampening": lambda m: sgd(m, nesterov=True, momentum=0.9, dampening=0.1),
    "sgd-fused-differentiable": lambda m: sgd(m, fused=True, differentiable=True),
    "sgd-fused-foreach": lambda m: sgd(m, fused=True, foreach=True),
    "sgd-positional": lambda m: sgd(m, 0.1, 0, 0, 0, False, True),
    "muon-vector": lambda m: m.optim.Muon([leaf(m, 1.0)]),
    "muon-adjust": lambda m: m.optim.Muon([m.ones(2, 2)], adjust_lr_fn="no"),
    "sparse-lr": lambda m: m.optim.SparseAdam([leaf(m, 1.0)], lr=0.0),
    "sparse-complex": lambda m: m.optim.SparseAdam([leaf(m, 1j)]),
    "lbfgs-groups": lambda m: m.optim.LBFGS([{"params": [leaf(m, 1.0)]}, {"params": [leaf(m, 2.0)]}]),
}
ARGUMENTS = {
    "Adam": [
        {"lr": -1.0}, {"eps": -1.0}, {"betas": (1.0, 0.9)}, {"betas": (0.9, -0.1)}, {"betas": (0.9, 0)},
        {"weight_decay": -1}, {"fused": True, "foreach": True}, {"fused": True, "differentiable": True},
        {"betas": (1, 0.9)},
    ],
    "Adamax": [{"lr": -1.0}, {"eps": -1.0}, {"betas": (1.0, 0.9)}, {"weight_decay": -1}],
    "NAdam": [{"lr": -1.0}, {"betas": (0.9, 1.5)}, {"momentum_decay": -1}, {"weight_decay": -1}],
    "RAdam": [{"lr": -1.0}, {"eps": -1.0}, {"betas": (0.9, 1.5)}, {"weight_decay": -1}],
    "Adagrad": [
        {"lr": -1.0}, {"lr_decay": -1.0}, {"weight_decay": -1}, {"initial_accumulator_value": -1}, {"eps": -1},
        {"fused": True, "foreach": True},
    ],
    "Adadelta": [{"lr": -1.0}, {"rho": 1.5}, {"eps": -1}, {"weight_decay": -1}],
    "RMSprop": [{"lr": -1.0}, {"alpha": -1}, {"eps": -1}, {"weight_decay": -1}, {"momentum": -1}],
    "Rprop": [{"lr": -1.0}, {"etas": (1.5, 2.0)}, {"etas": (0.5, 0.9)}],
    "ASGD": [{"lr": -1.0}, {"weight_decay": -1}],
    "Adafactor": [
        {"lr": -1.0}, {"beta2_decay": 0.5}, {"eps": (-1, 1.0)}, {"eps": (None, -1)}, {"d": 0.5},
        {"weight_decay": -1},
    ],
    "LBFGS": [{"lr": -1.0}],
    "SparseAdam": [{"eps": 0.0}, {"betas": (1.0, 0.9)}],
}  # fmt: skip
for name, rows in ARGUMENTS.items():
    for row in rows:
        label = f"{name}-{row}"
        REFUSED[label] = lambda m, name=name, row=row: getattr(m.optim, name)([leaf(m, 1.0)], **row)


test_refused = table(REFUSED).test(raises=True)


@PROGRAMS
def duplicates_warn(m):
    p = leaf(m, 1.0)
    p.grad = m.tensor([1.0])
    o = m.optim.SGD([p, p], lr=0.1, momentum=0.9)
    o.step()
    return p.detach()


@PROGRAMS
def refused_at_the_step(m):
    p = leaf(m, 1.0, 2.0)
    p.grad = m.tensor([1.0, 1.0])
    whole = m.tensor([1, 2])
    z = leaf(m, 1j)
    z.grad = m.tensor([1j])
    return [
        attempt(lambda: m.optim.Adam([p], capturable=True).step()),
        attempt(lambda: m.optim.Adadelta([p], capturable=True).step()),
        attempt(lambda: m.optim.ASGD([p], capturable=True).step()),
        attempt(lambda: m.optim.NAdam([p], capturable=True).step()),
        attempt(lambda: m.optim.Adafactor([z]).step()),
        attempt(lambda: m.optim.LBFGS([p]).step()),
        attempt(lambda: m.optim.LBFGS([p], line_search_fn="x").step(lambda: (p.detach() ** 2).sum())),
        attempt(lambda: m.optim.Adam([p], lr=m.tensor(0.1), foreach=True)),
        attempt(lambda: m.optim.Adam([p], betas=(m.tensor(0.1), 0.9))),
        attempt(lambda: m.optim.Adam([p], betas=(m.tensor([0.1, 0.2]), m.tensor(0.9)))),
        attempt(lambda: m.optim.SGD([whole], fused=True)),
    ]


@PROGRAMS
def groups(m):
    a, b, c = parameters(m)
    o = m.optim.SGD([{"params": a, "lr": 0.5}, {"params": iter([b]), "momentum": 0.9}], lr=0.1)
    o.add_param_group({"params": c, "extra": "kept"})
    out = [{k: v for k, v in g.items() if k != "params"} for g in o.param_groups]
    return [out, [len(g["params"]) for g in o.param_groups], o.state_dict(), repr(o)]


@PROGRAMS
def names(m):
    a, b, c = parameters(m)
    o = m.optim.Adam([("a", a), ("b", b)], lr=0.1)
    o.add_param_group({"params": [("c", c)], "lr": 1.0})
    return [o.state_dict(), repr(o), o.param_groups[0]["params"][0] is a]


@PROGRAMS
def representations(m):
    kinds = "SGD Adam AdamW Adamax NAdam RAdam Adagrad Adadelta RMSprop Rprop ASGD LBFGS Adafactor SparseAdam"
    made = [getattr(m.optim, k)([leaf(m, 1.0)]) for k in kinds.split()]
    return [[repr(o), o.defaults, sorted(o.__getstate__())] for o in made]


@PROGRAMS
def zero_grad(m):
    p, q = leaf(m, 1.0), leaf(m, 2.0)
    o = m.optim.SGD([p, q], lr=0.1)
    p.grad = m.tensor([3.0])
    g = p.grad
    o.zero_grad(set_to_none=False)
    kept = [p.grad is g, g, g._version, q.grad]
    o.zero_grad()
    return [kept, p.grad]


@PROGRAMS
def zero_grad_cuts_the_graph_of_a_gradient(m):
    p = leaf(m, 1.0, 2.0)
    (p**3).sum().backward(create_graph=True)
    o = m.optim.SGD([p], lr=0.1)
    o.zero_grad(set_to_none=False)
    return [p.grad, p.grad.requires_grad, p.grad.grad_fn]


@PROGRAMS
def closures(m):
    p = leaf(m, 1.0, 2.0)
    o = m.optim.Adam([p], lr=0.1)
    seen = []

    def closure():
        seen.append(m.is_grad_enabled())
        o.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with m.no_grad():
        out = [o.step(closure), o.step(closure), o.step()]
    return [out, seen, p]


@PROGRAMS
def hooks_of_steps(m):
    p = leaf(m, 1.0)
    p.grad = m.tensor([1.0])
    o, other = m.optim.SGD([p], lr=0.1), m.optim.SGD([leaf(m, 2.0)], lr=0.1)
    seen = []
    from_module = base_of(m)
    handles = [
        from_module.register_optimizer_step_pre_hook(lambda o, a, k: seen.append(("global before", len(a), k))),
        from_module.register_optimizer_step_post_hook(lambda o, a, k: seen.append(("global after", len(a), k))),
        o.register_step_pre_hook(lambda o, a, k: seen.append(("before", len(a), k))),
        o.register_step_post_hook(lambda o, a, k: seen.append(("after", len(a), k))),
    ]
    o.step()
    other.step()
    for h in handles:
        h.remove()
    o.step()
    h = o.register_step_pre_hook(lambda o, a, k: ((o, lambda: "changed"), {}))
    seen.append(o.step())
    h.remove()
    o.register_step_pre_hook(lambda o, a, k: "wrong")
    return [seen, str(attempt(lambda: o.step())).partition(" must ")[2]]


@PROGRAMS
def hooks_of_saving(m):
    p = leaf(m, 1.0)
    o = m.optim.SGD([p], lr=0.1)
    seen = []
    o.register_state_dict_pre_hook(lambda o: seen.append("before saving"))
    o.register_state_dict_pre_hook(lambda o: seen.append("first"), prepend=True)
    o.register_state_dict_post_hook(lambda o, s: {**s, "more": 1})
    o.register_state_dict_post_hook(lambda o, s: seen.append(sorted(s)), prepend=True)

    def change(o, s):
        s["param_groups"][0]["lr"] = 7.0
        return {**s}

    o.register_load_state_dict_pre_hook(change)
    o.register_load_state_dict_post_hook(lambda o: seen.append(o.param_groups[0]["lr"]))
    saved = o.state_dict()
    o.load_state_dict(saved)
    return [seen, sorted(saved), o.param_groups[0]["lr"]]


def resumed(m, name, options, again):
    """Half of the steps, then on with a copy of the optimizer, however made."""
    import numpy as np

    params = parameters(m)
    o = getattr(m.optim, name)(params, **options)
    rs = np.random.RandomState(1)
    for _ in range(3):
        give_gradients(m, params, rs)
        o.step()
    params, o = again(m, params, o)
    for _ in range(3):
        give_gradients(m, params, rs)
        o.step()
    return [report(o, params), o.state_dict()["param_groups"]]


def by_state_dict(m, params, o):
    saved = o.state_dict()
    other = type(o)([p.detach().clone().requires_grad_() for p in params], lr=5.0)
    other.load_state_dict(saved)
    return other.param_groups[0]["params"], other


def by_deepcopy(m, params, o):
    copied = copy.deepcopy(o)
    return copied.param_groups[0]["params"], copied


RESUMED: dict[str, Any] = {
    f"{name}-{how.__name__}": lambda m, name=name, how=how: resumed(m, name, {"lr": 0.1}, how)
    for name in ("Adam", "NAdam", "ASGD", "RMSprop", "Adagrad")
    for how in (by_state_dict, by_deepcopy)
}
RESUMED["SGD-momentum"] = lambda m: resumed(m, "SGD", {"lr": 0.1, "momentum": 0.9}, by_deepcopy)


test_resumed = table(RESUMED).test()


@PROGRAMS
def loading_casts(m):
    a, b = leaf(m, 1.0, 2.0, dtype=m.float64), leaf(m, 1.0, 2.0)
    o, other = m.optim.Adam([a]), m.optim.Adam([b])
    a.grad = m.ones(2, dtype=m.float64)
    o.step()
    other.load_state_dict(o.state_dict())
    state = other.state[b]
    return [dict(state), state["exp_avg"] is o.state[a]["exp_avg"]]


@PROGRAMS
def loading_several_groups(m):
    def make():
        groups = [
            [m.ones(2, 2, requires_grad=True)],
            [leaf(m, 1.0), m.ones(2, requires_grad=True, dtype=m.float64), leaf(m, 1.0, 2.0)],
        ]
        return groups, m.optim.Adam([{"params": ps, "lr": 0.1 + i} for i, ps in enumerate(groups)])

    groups, o = make()
    for group in groups:
        for p in group:
            p.grad = m.full_like(p, 0.5)
    o.step()
    o.state["note"] = {"kept": m.ones(1, dtype=m.float64)}
    others, other = make()
    other.load_state_dict(o.state_dict())
    kept = other.state["note"] is o.state["note"]
    return [[dict(other.state[p]) for group in others for p in group], other.param_groups, kept]


@PROGRAMS
def loading_what_does_not_fit(m):
    o = sgd(m)
    two = m.optim.SGD([{"params": [leaf(m, 1.0)]}, {"params": [leaf(m, 1.0)]}])
    more = m.optim.SGD([leaf(m, 1.0), leaf(m, 1.0)])
    return [attempt(lambda s=s: o.load_state_dict(s.state_dict())) for s in (two, more)]


@PROGRAMS
def old_states_with_numbers(m):
    p = leaf(m, 1.0)
    p.grad = m.tensor([0.5])
    o = m.optim.Adam([p], lr=0.1)
    o.step()
    saved = o.state_dict()
    saved["state"][0]["step"] = 4
    del saved["param_groups"][0]["maximize"]
    o.load_state_dict(saved)
    o.step()
    return [o.state_dict(), p.detach()]


@PROGRAMS
def parameter_without_gradient_has_no_state(m):
    a, b = leaf(m, 1.0), leaf(m, 2.0)
    o = m.optim.Adam([a, b])
    a.grad = m.tensor([1.0])
    o.step()
    return [b in o.state, o.state_dict()]


@PROGRAMS
def own_optimizer(m):
    class Half(m.optim.Optimizer):
        def __init__(self, params, rate=0.5):
            super().__init__(params, {"rate": rate})

        def step(self, closure=None):
            with m.no_grad():
                for group in self.param_groups:
                    for p in group["params"]:
                        p.add_(p.grad, alpha=-group["rate"])
                        self.state[p]["count"] = self.state[p].get("count", 0) + 1

    p = leaf(m, 1.0, 2.0)
    p.grad = m.ones(2)
    o = Half([p])
    o.step()
    return [p, o.state_dict(), repr(o), hasattr(Half.step, "hooked")]


@PROGRAMS
def parameters_of_modules(m):
    p, q = m.nn.Parameter(m.tensor([1.0, 2.0])), m.nn.Parameter(m.tensor(3.0))
    o = m.optim.Adam([p, q], lr=0.5)
    for _ in range(2):
        o.zero_grad()
        ((p * q) ** 2).sum().backward()
        o.step()
    return [p, q, p._version, repr(p), o.state_dict()]


@PROGRAMS
def swapped_in(m):
    p, q = leaf(m, 1.0), leaf(m, 5.0)
    o = m.optim.Adam([p], lr=0.1)
    swap = m.optim.swap_in_optimizer_params_and_state
    p.grad, q.grad = m.tensor([1.0]), m.tensor([1.0])

    def enter(parameters, state):
        with swap(o, parameters, state):
            o.step()

    early = attempt(lambda: enter({"q": q}, o.state_dict()))
    o.step()
    enter({"q": q}, o.state_dict())
    wrong = [
        attempt(lambda s=s: enter({"q": q}, s))
        for s in (
            3,
            {"state": 3},
            {"state": {}, "param_groups": 3},
            {"state": {}, "param_groups": []},
            {"state": {0: 3}},
            {"state": {p: {}}},
            {"state": {}, "param_groups": [3]},
            {"state": {}, "param_groups": [{"params": [p]}]},
            {"state": {}, "param_groups": [{"params": []}]},
            {"state": {}, "param_groups": [{"params": [0], "new": 1}]},
            {**o.state_dict(), "state": {7: {}}},
        )
    ]
    wrong.append(attempt(lambda: enter({}, o.state_dict())))
    return [early, p.detach(), q.detach(), o.state_dict(), wrong]


test_same_as_torch = PROGRAMS.test()


def test_names_in_a_profile():
    p = tg.tensor([1.0], requires_grad=True)
    p.grad = tg.ones(1)
    o = tg.optim.AdamW([p])
    with tg.autograd.profiler.profile() as prof:
        o.step()
        o.zero_grad()
    names = [e.name for e in prof.function_events]
    assert {"Optimizer.step#AdamW.step", "Optimizer.zero_grad#AdamW.zero_grad"} <= set(names)


def test_pickled():
    p = tg.tensor([1.0, 2.0], requires_grad=True)
    o = tg.optim.SGD([p], lr=0.1, momentum=0.9)
    p.grad = tg.ones(2)
    o.step()
    copied = pickle.loads(pickle.dumps(o))
    (q,) = copied.param_groups[0]["params"]
    q.grad = p.grad = tg.ones(2)
    o.step()
    copied.step()
    assert q.tolist() == p.tolist() != [1.0, 2.0]
    assert copied.state[q]["momentum_buffer"].tolist() == o.state[p]["momentum_buffer"].tolist()


def test_missing_name():
    with pytest.raises(AttributeError, match=r"torchgrad_jax does not implement torch\.optim\.Lion"):
        tg.optim.Lion


def test_train_is_deterministic():
    once, again = (train(tg, lambda ps: tg.optim.Adam(ps), steps=2) for _ in range(2))
    assert [p.tolist() for p in once["params"]] == [p.tolist() for p in again["params"]]


def test_a_count_of_steps_compiles_nothing():
    compiled = []

    def note(event: str, duration_secs: float, **kwargs: Any) -> None:
        compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        array, number = _scalars._array_of(3.0, meta((), tg.uint16, tg.device("cpu")))
    finally:
        jax.monitoring.unregister_event_duration_listener(note)
    assert (array.dtype, array.weak_type, number) == (np.uint16, False, 3.0)
    assert not [event for event in compiled if "compile" in event]
