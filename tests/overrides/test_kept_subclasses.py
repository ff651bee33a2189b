"""Subclasses of Tensor: which functions that make tensors of tensors keep the class, and run what it overrides.

`exp` of the class in these programs gives three times the exponential. A function that drops the class on its way to
the user's function computes other numbers, in silence.
"""

from __future__ import annotations

import copy
import io
import pickle

import pytest

import torchgrad_jax as tg
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


class Tools:
    """The class, tensors of it, and functions of them, for one of the two modules."""

    def __init__(self, m):
        class Tripled(m.Tensor):
            def exp(self):
                return super().exp() * 3

        Tripled.__module__, Tripled.__qualname__ = __name__, "Tripled"
        globals()["Tripled"] = Tripled  # where pickle looks for it
        self.m, self.kind = m, Tripled

    def x(self):
        return self.of(self.m.tensor([0.1, 0.2]))

    def of(self, t):
        return t.as_subclass(self.kind)

    def leaf(self):
        return self.x().requires_grad_()

    def parameter(self):
        return self.m.nn.Parameter(self.x())

    def plain(self):
        return self.m.tensor([0.3, 0.4])

    def along(self):
        return self.m.ones(2)

    def module(self):
        out = self.m.nn.Linear(2, 2, bias=False)
        out.weight = self.m.nn.Parameter(self.of(self.m.ones(2, 2)))
        out.register_buffer("b", self.x())
        return out

    def loss(self, t):
        return t.exp().sum()

    def two(self, a, b):
        return a.exp() + b, b.exp() * a

    def told(self, r):
        """Classes beside values."""
        if isinstance(r, self.m.Tensor):
            return type(r).__name__, r.detach().as_subclass(self.m.Tensor), r.requires_grad
        if isinstance(r, dict):
            return {k: self.told(v) for k, v in r.items()}
        return [self.told(v) for v in r] if isinstance(r, list | tuple) else r


def doubled(t):
    return t.exp() * 2


def _rows(m, table):
    """What each row gives: the classes and values of its tensors, or the class of its error."""
    found = {}
    for name, row in table.items():
        tools = Tools(m)
        m.manual_seed(0)
        try:
            found[name] = tools.told(row(m, tools))
        except Exception as error:
            found[name] = type(error).__name__
    return found


STRATEGIES = {
    "plain": {},
    "for gradients": {"create_graph": True},
    "vectorized": {"vectorize": True},
    "strict": {"strict": True},
}
DERIVATIVES = {
    "vjp": lambda m, t: m.autograd.functional.vjp(doubled, t.x(), t.along()),
    "vjp for gradients": lambda m, t: m.autograd.functional.vjp(doubled, t.leaf(), t.along(), create_graph=True),
    "vjp of two": lambda m, t: m.autograd.functional.vjp(t.two, (t.x(), t.plain()), (t.along(), t.along())),
    "vjp along the class": lambda m, t: m.autograd.functional.vjp(doubled, t.plain(), t.x()),
    "vjp independent": lambda m, t: m.autograd.functional.vjp(lambda a, b: a.exp(), (t.x(), t.x()), t.along()),
    "jvp": lambda m, t: m.autograd.functional.jvp(doubled, t.x(), t.along()),
    "jvp for gradients": lambda m, t: m.autograd.functional.jvp(doubled, t.leaf(), t.along(), create_graph=True),
    "jvp of two": lambda m, t: m.autograd.functional.jvp(t.two, (t.x(), t.plain()), (t.along(), t.along())),
    "jvp along the class": lambda m, t: m.autograd.functional.jvp(doubled, t.plain(), t.x()),
    "jvp independent": lambda m, t: m.autograd.functional.jvp(lambda a: t.x(), t.x(), t.along()),
    "vhp": lambda m, t: m.autograd.functional.vhp(t.loss, t.x(), t.along()),
    "vhp for gradients": lambda m, t: m.autograd.functional.vhp(t.loss, t.leaf(), t.along(), create_graph=True),
    "hvp": lambda m, t: m.autograd.functional.hvp(t.loss, t.x(), t.along()),
    "hvp for gradients": lambda m, t: m.autograd.functional.hvp(t.loss, t.leaf(), t.along(), create_graph=True),
    "hvp along the class": lambda m, t: m.autograd.functional.hvp(t.loss, t.plain(), t.x()),
    "jacobian of a parameter": lambda m, t: m.autograd.functional.jacobian(doubled, t.parameter()),
    "jacobian of a leaf": lambda m, t: m.autograd.functional.jacobian(doubled, t.leaf()),
    "jacobian of a view": lambda m, t: m.autograd.functional.jacobian(doubled, t.x()[:1]),
    "jacobian made inside": lambda m, t: m.autograd.functional.jacobian(lambda a: t.of(a).exp(), t.plain()),
    "jacobian of a number": lambda m, t: m.autograd.functional.jacobian(t.loss, t.x()),
} | {
    f"{name}, {how}": row
    for how, options in STRATEGIES.items()
    for name, row in {
        "jacobian": lambda m, t, o=options: m.autograd.functional.jacobian(doubled, t.x(), **o),
        "jacobian of two": lambda m, t, o=options: m.autograd.functional.jacobian(t.two, (t.x(), t.plain()), **o),
        "hessian": lambda m, t, o=options: m.autograd.functional.hessian(t.loss, t.x(), **o),
        "hessian of two": lambda m, t, o=options: m.autograd.functional.hessian(
            lambda a, b: (a.exp() * b.exp()).sum(), (t.x(), t.plain()), **o
        ),
    }.items()
}


@program
def derivatives_of_functions(m):
    return _rows(m, DERIVATIVES)


def _pull(m, t, transform):
    out, push = transform(doubled, t.x())
    return out, push(t.along())


def _looking(t, seen):
    def loss(a):
        seen.append(type(a).__name__)
        return t.loss(a)

    return loss


def _stacked(m, t):
    return m.func.stack_module_state([t.module(), t.module()])


TRANSFORMS = {
    "grad": lambda m, t: m.func.grad(t.loss)(t.x()),
    "grad_and_value": lambda m, t: m.func.grad_and_value(t.loss)(t.x()),
    "vjp": lambda m, t: _pull(m, t, m.func.vjp),
    "jvp": lambda m, t: m.func.jvp(doubled, (t.x(),), (t.along(),)),
    "jvp along the class": lambda m, t: m.func.jvp(doubled, (t.plain(),), (t.x(),)),
    "jvp of two": lambda m, t: m.func.jvp(t.two, (t.x(), t.plain()), (t.along(), t.along())),
    "jacrev": lambda m, t: m.func.jacrev(doubled)(t.x()),
    "jacfwd": lambda m, t: m.func.jacfwd(doubled)(t.x()),
    "hessian": lambda m, t: m.func.hessian(t.loss)(t.x()),
    "vmap": lambda m, t: m.func.vmap(doubled)(t.x()),
    "what they see": lambda m, t: [
        (seen := [], getattr(m.func, name)(_looking(t, seen))(t.x()), seen)
        for name in ("grad", "jacrev", "jacfwd", "hessian", "vmap")
    ],
    "functional_call": lambda m, t: m.func.functional_call(t.module(), {"weight": t.of(m.eye(2))}, (t.plain(),)),
    "stack_module_state": _stacked,
}


@program
def transforms(m):
    return _rows(m, TRANSFORMS)


def _dual(m, t, tensor, tangent):
    with m.autograd.forward_ad.dual_level():
        dual = m.autograd.forward_ad.make_dual(tensor, tangent)
        out = doubled(dual)
        parts = [m.autograd.forward_ad.unpack_dual(d) for d in (dual, out)]
        return type(dual).__name__, type(parts[0]).__name__, [t.told(tuple(p)) for p in parts]


FORWARD = {
    "primal": lambda m, t: _dual(m, t, t.x(), t.along()),
    "tangent": lambda m, t: _dual(m, t, t.plain(), t.x()),
    "both": lambda m, t: _dual(m, t, t.x(), t.x()),
    "parameter": lambda m, t: _dual(m, t, m.nn.Parameter(t.plain()), t.along()),
    "parameter of the class": lambda m, t: _dual(m, t, t.parameter(), t.along()),
}


@program
def dual_numbers(m):
    return _rows(m, FORWARD)


def _passed(a, fn):
    out = fn(a)
    out.sum().backward()
    return out, a.grad


def _checkpointed(m, t, reentrant):
    seen = []

    def block(a):
        seen.append(type(a).__name__)
        return doubled(a)

    return _passed(t.leaf(), lambda a: m.utils.checkpoint.checkpoint(block, a, use_reentrant=reentrant)), seen


def _saved(m, t):
    seen, a = [], t.leaf()

    def see(x):
        seen.append(type(x).__name__)
        return x

    with m.autograd.graph.saved_tensors_hooks(see, see):
        out = m.Tensor.exp(a) * a
    out.sum().backward()
    return seen, a.grad


def _on_cpu(m, a):
    with m.autograd.graph.save_on_cpu():
        return a.exp() * a


def _hooked(kind):
    def row(m, t):
        seen, a = [], t.leaf()
        if kind == "tensor":
            a.register_hook(lambda g: seen.append(t.told(g)))
        if kind == "after":
            a.register_post_accumulate_grad_hook(lambda p: seen.append(t.told([p, p.grad])))
        if kind == "replaces":
            a.register_hook(lambda g: t.of(g / 10).exp())
        out = doubled(a)
        if kind == "inner":
            out.register_hook(lambda g: seen.append(t.told(g)))
        if kind == "node":
            out.grad_fn.register_hook(lambda gi, go: seen.append(t.told([gi, go])))
        if kind == "before a node":
            out.grad_fn.register_prehook(lambda go: seen.append(t.told(go)))
        out.sum().backward()
        return seen, a.grad

    return row


def _function(m, t):
    seen = []

    class Exp(m.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            seen.append(type(a).__name__)
            return a.exp()

        @staticmethod
        def backward(ctx, g):
            (a,) = ctx.saved_tensors
            seen.extend([type(a).__name__, type(g).__name__])
            return g * a.exp()

    return _passed(t.leaf(), Exp.apply), seen


def _grad(make, **options):
    def row(m, t):
        a = make(t)
        return m.autograd.grad(doubled(a).sum(), a, **options)

    return row


def _along_class(m, t):
    a = t.plain().requires_grad_()
    return m.autograd.grad(doubled(a), a, t.x()), m.autograd.grad([doubled(a)], [a], grad_outputs=[t.x()])


def _backward_along_class(m, t):
    a = t.plain().requires_grad_()
    a.exp().backward(t.x())
    return a.grad


def _batched(m, t):
    a = t.leaf()
    return m.autograd.grad(doubled(a), a, m.eye(2), is_grads_batched=True)


def _assigned(m, t):
    a = t.plain().requires_grad_()
    a.grad = t.x()
    return a.grad


PASSES = {
    "backward": lambda m, t: _passed(t.leaf(), doubled),
    "backward of a parameter": lambda m, t: _passed(t.parameter(), doubled),
    "backward along the class": _backward_along_class,
    "grad": _grad(Tools.leaf),
    "grad of a parameter": _grad(Tools.parameter),
    "grad for gradients": _grad(Tools.leaf, create_graph=True),
    "grad along the class": _along_class,
    "grad of batches": _batched,
    "an assigned grad": _assigned,
    "checkpoint": lambda m, t: _checkpointed(m, t, False),
    "reentrant checkpoint": lambda m, t: _checkpointed(m, t, True),
    "checkpoint_sequential": lambda m, t: _passed(
        t.leaf(),
        lambda a: m.utils.checkpoint.checkpoint_sequential([doubled, lambda b: b / 9], 2, a, use_reentrant=False),
    ),
    "saved_tensors_hooks": _saved,
    "save_on_cpu": lambda m, t: _passed(t.leaf(), lambda a: _on_cpu(m, a)),
    "Function": _function,
} | {f"hook: {k}": _hooked(k) for k in ("tensor", "after", "replaces", "inner", "node", "before a node")}


@program
def passes_and_hooks(m):
    return _rows(m, PASSES)


OPTIMIZERS = {
    "SGD": {"lr": 0.1, "momentum": 0.9},
    "Adam": {"lr": 0.1},
    "AdamW": {"lr": 0.1, "amsgrad": True},
    "Adagrad": {"lr": 0.1},
    "RMSprop": {"lr": 0.1, "momentum": 0.9, "centered": True},
    "Adadelta": {},
    "Adamax": {},
    "NAdam": {},
    "RAdam": {},
    "Rprop": {},
    "ASGD": {},
}


def _stepped(name, make):
    def row(m, t):
        p = make(t)
        optimizer = getattr(m.optim, name)([p], **OPTIMIZERS[name])
        for _ in range(2):
            optimizer.zero_grad()
            doubled(p).sum().backward()
            optimizer.step()
        before = {k: v for k, v in optimizer.state[p].items() if isinstance(v, m.Tensor)}
        optimizer.load_state_dict(optimizer.state_dict())
        return p, before, {k: v for k, v in optimizer.state[p].items() if isinstance(v, m.Tensor)}

    return row


def _clipped(m, t):
    p = t.parameter()
    doubled(p).sum().backward()
    return m.nn.utils.clip_grad_norm_([p], 0.1), p.grad


def _from_vector(m, t):
    p = t.parameter()
    m.nn.utils.vector_to_parameters(t.x() * 2, [p])
    return p, m.nn.utils.parameters_to_vector([p, p])


TRAINING = {name: _stepped(name, Tools.parameter) for name in OPTIMIZERS} | {
    "SGD of a leaf": _stepped("SGD", Tools.leaf),
    "Adam of a leaf": _stepped("Adam", Tools.leaf),
    "clip_grad_norm_": _clipped,
    "vectors of parameters": _from_vector,
}


@program
def optimizers(m):
    return _rows(m, TRAINING)


def _loaded(m, t, **options):
    held = io.BytesIO()
    m.save(t, held)
    held.seek(0)
    return m.load(held, **options)


def _first(m, data, **options):
    return next(iter(m.utils.data.DataLoader(data, **options)))


def _assigned_state(m, t):
    module = t.module()
    module.load_state_dict({"weight": t.of(m.zeros(2, 2)), "b": t.x() * 2}, assign=True)
    return module.weight, module.b


def _copied_state(m, t):
    module = t.module()
    module.load_state_dict({"weight": m.zeros(2, 2), "b": t.plain()})
    return module.weight, module.b


def _converted(m, t):
    module = t.module().to(m.float64)
    return module.weight, module.b


def _noted(m, t):
    x = t.x()
    x.note = "kept"
    return [getattr(y, "note", None) for y in (copy.copy(x), pickle.loads(pickle.dumps(x)), _loaded(m, x, **UNSAFE))]


def _parametrized(m, t):
    module = t.module()
    m.nn.utils.parametrize.register_parametrization(module, "weight", m.nn.Identity())
    return module.weight


UNSAFE = {"weights_only": False}
COPIES = {
    "default_collate": lambda m, t: m.utils.data.default_collate([t.x(), t.x()]),
    "default_collate of both": lambda m, t: m.utils.data.default_collate([t.plain(), t.x()]),
    "default_collate of dicts": lambda m, t: m.utils.data.default_collate([{"a": t.x()}, {"a": t.x()}]),
    "default_convert": lambda m, t: m.utils.data.default_convert([t.x()]),
    "DataLoader": lambda m, t: _first(m, [t.x(), t.x()], batch_size=2),
    "DataLoader one by one": lambda m, t: _first(m, [t.x(), t.x()], batch_size=None),
    "TensorDataset": lambda m, t: (
        m.utils.data.TensorDataset(t.x())[0],
        _first(m, m.utils.data.TensorDataset(t.x()), batch_size=2),
    ),
    "Subset": lambda m, t: m.utils.data.Subset(t.x(), [0])[0],
    "copy": lambda m, t: (copy.copy(t.x()), copy.copy(t.parameter())),
    "deepcopy": lambda m, t: copy.deepcopy(t.x()),
    "deepcopy of a module": lambda m, t: copy.deepcopy(t.module()).weight,
    "pickle": lambda m, t: pickle.loads(pickle.dumps([t.x(), t.parameter()])),
    "save and load": lambda m, t: (_loaded(m, t.x(), **UNSAFE), _loaded(m, t.parameter(), **UNSAFE)),
    "load of weights alone": lambda m, t: _loaded(m, t.x(), weights_only=True),
    "attributes": _noted,
    "Parameter": lambda m, t: (
        t.parameter(),
        isinstance(t.parameter(), t.kind),
        isinstance(t.parameter(), m.nn.Parameter),
        doubled(t.parameter()),
        t.parameter().data,
    ),
    "Buffer": lambda m, t: (m.nn.Buffer(t.x()), isinstance(m.nn.Buffer(t.x()), t.kind)),
    "ParameterList": lambda m, t: (m.nn.ParameterList([t.x()])[0], m.nn.ParameterDict({"a": t.x()})["a"]),
    "state_dict": lambda m, t: dict(t.module().state_dict()),
    "load_state_dict": _copied_state,
    "load_state_dict that assigns": _assigned_state,
    "Module.to": _converted,
    "forward": lambda m, t: t.module()(t.plain()),
    "parametrize": _parametrized,
    "tree_map": lambda m, t: m.utils._pytree.tree_map(doubled, {"a": t.x()}),
    "like": lambda m, t: (m.zeros_like(t.x()), m.full_like(t.x(), 2.0), t.x().new_zeros(1), t.x().clone()),
    "as data": lambda m, t: (m.as_tensor(t.x()), m.asarray(t.x()), m.Tensor(t.x())),
    "moved": lambda m, t: (t.x().to(m.float64), t.x().cpu(), t.x().contiguous(), t.x().detach(), t.x().data),
    "lists": lambda m, t: (m.cat([t.plain(), t.x()]), m.stack([t.x()]), m.split(t.x(), 1), t.x().chunk(2)),
    "written to": lambda m, t: (t.x().add_(1), t.x().copy_(t.plain()), t.plain().copy_(t.x())),
    "foreach": lambda m, t: m._foreach_add([t.x()], 1.0),
}


@program
def data_copies_and_modules(m):
    return _rows(m, COPIES)


# --- where torch raises an error ----------------------------------------------------------------


def _values(x):
    return x.detach().as_subclass(tg.Tensor).tolist()


def test_forward_mode_jacobians_run_what_the_class_overrides():
    tools = Tools(tg)
    want = _values(tg.autograd.functional.jacobian(doubled, tools.x()))
    found = tg.autograd.functional.jacobian(doubled, tools.x(), vectorize=True, strategy="forward-mode")
    assert _values(found) == [pytest.approx(row) for row in want]
    want = _values(tg.autograd.functional.hessian(tools.loss, tools.x()))
    found = tg.autograd.functional.hessian(
        tools.loss, tools.x(), vectorize=True, outer_jacobian_strategy="forward-mode"
    )
    assert _values(found) == [pytest.approx(row) for row in want]


def test_linearize_runs_what_the_class_overrides():
    tools = Tools(tg)
    out, push = tg.func.linearize(doubled, tools.x())
    assert _values(out) == pytest.approx(_values(push(tg.ones(2))))
