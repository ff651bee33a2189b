"""Lines with hooks, and with Functions that Python code differentiates."""

from __future__ import annotations

from ..maker import Maker, inexact, overlaps, real, rule, tracked, writable
from .shared import looked_at, partner


@rule("hooks", 1.2)
def hooks(m: Maker) -> str | None:
    x = m.pick(tracked)
    if x is None:
        return None
    scale = m.one("", "", ", 2.0", ", -1.0")
    label = f"'{x}-{m.count}'"
    look = looked_at(m, x)
    options = [f"{look}{x}.register_hook(hook({label}{scale}))"] * 3 + [f"{x}.retain_grad()"] * 2
    options.append(f"{x}.register_post_accumulate_grad_hook(grad_hook({label}))")
    options.append(f"{look}v_{m.count} = {x}.register_hook(hook({label}{scale})); v_{m.count}.remove()")
    if m.env[x].grad_fn is not None:
        options += [
            f"{x}.grad_fn.register_hook(node_hook({label}{scale}))",
            f"{x}.grad_fn.register_prehook(node_prehook({label}{scale}))",
        ]
    return m.one(*options)


@rule("hooks", 1, rarity=1)
def kept_gradients(m: Maker) -> str | None:
    """A view keeps its gradient while its base is written to."""
    x = m.pick(lambda t: tracked(t) and real(t) and t.grad_fn is not None and t.numel() > 0)
    if x is None or overlaps(m.env[x]):
        return None
    n = m.new()
    return m.one(
        "{n} = {x}.view(-1); {n}.retain_grad(); {x}.mul_(2); {x}.sum().backward(retain_graph=True)",
        "{n} = {x}.reshape(-1)[:1]; {n}.retain_grad(); {n}.mul_(2); {n}.sum().backward(retain_graph=True)",
        "{x}.retain_grad(); {n} = {x}.view(-1); {n}.mul_(2); {n}.sum().backward(retain_graph=True)",
        "{x}.retain_grad(); {x}.mul_(2); {n} = {x}.sum(); {n}.backward(retain_graph=True)",
        "{n} = {x} * 2; {n}.retain_grad(); ({n} * {x}).sum().backward(retain_graph=True)",
        "{n} = {x}.clone(); {n}.retain_grad(); {n}.view(-1)[:1].mul_(3); {n}.sum().backward(retain_graph=True)",
    ).format(x=x, n=n)


@rule("hooks", 1.5, rarity=1)
def replaced_gradients(m: Maker) -> str | None:
    x = m.pick(tracked)
    y = m.pick(tracked)
    if x is None or y is None:
        return None
    look = looked_at(m, x) + looked_at(m, y)
    label = f"'{x}-{m.count}'"
    option = m.one(
        "{x}.register_hook(lambda g: g * 2)",
        "{x}.register_hook(lambda g: torch.zeros_like(g))",
        "{x}.register_hook(lambda g: g.clamp(-0.5, 0.5))",
        "{x}.register_hook(lambda g: g.mul_(2))",
        "{x}.register_hook(lambda g: g.t() if g.dim() == 2 and g.shape[0] == g.shape[1] else g.clone())",
        "{x}.register_hook(lambda g: g + {x}.detach())",
        "{x}.register_hook(lambda g: g.expand_as(g).contiguous())",
        "h_ = [{x}.register_hook(lambda g, k=k: g * k) for k in (2, 3)]; h_[0].remove()",
        "{x}.register_hook(lambda g: log.append(({l}, g.requires_grad)))",
        "h_ = torch.autograd.graph.register_multi_grad_hook(({x}, {y}), all_hook({l}))",
        "h_ = torch.autograd.graph.register_multi_grad_hook(({x}, {y}), any_hook({l}), mode='any')",
        "h_ = torch.autograd.graph.register_multi_grad_hook(({x} * 1, {y}), all_hook({l})); h_.remove()",
        "{x}.register_hook(lambda g: {y}.detach().sum().to(g.dtype) * g)",
        "{x}.register_post_accumulate_grad_hook(lambda t: t.grad.mul_(0.5) and None if t.grad.numel() < 2 else None)",
        "{x}.register_post_accumulate_grad_hook(lambda t: t.data.sub_(t.grad))",
    )
    return look + option.format(x=x, y=y, l=label)


@rule("hooks", 1, "autograd.graph.saved_tensors_hooks")
def under_saved_hooks(m: Maker) -> str | None:
    x = m.pick(lambda t: tracked(t) and inexact(t))
    if x is None:
        return None
    hooks = m.one(
        "torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)",
        "torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t)",
        "torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2)",
        "torch.autograd.graph.save_on_cpu()",
        "torch.autograd.graph.disable_saved_tensors_hooks('no hooks')",
    )
    body = m.one("{0} * {0}", "{0}.sin()", "{0}.exp()", "({0} * 2).tanh()", "{0} / ({0} + 3)", "{0}.clone().mul_({0})")
    return f"with {hooks}: {m.new()} = " + body.format(x)


@rule("hooks", 1, "autograd.graph.register_multi_grad_hook")
def multi_hook(m: Maker) -> str | None:
    x, y = m.pick(tracked), m.pick(tracked)
    if x is None or y is None:
        return None
    mode = m.one("", "", ", mode='any'")
    label = f"'{x}-{y}-{m.count}'"
    kind = "any_hook" if mode else "all_hook"
    line = f"torch.autograd.graph.register_multi_grad_hook([{x}, {y}], {kind}({label}){mode})"
    line = f"{looked_at(m, x)}{looked_at(m, y)}h_{m.count} = {line}"
    return line if m.chance(0.8) else f"{line}; h_{m.count}.remove()"


@rule("hooks", 1.2)
def rarer_hook(m: Maker) -> str | None:
    x = m.pick(lambda t: tracked(t))
    if x is None:
        return None
    label = f"'{x}-{m.count}'"
    look = looked_at(m, x)
    options = [
        f"{look}h_{m.count} = {x}.register_hook(once_hook({label}))",
        f"{look}{x}.register_hook(lambda g: g.clone())",
        f"{look}{x}.register_hook(lambda g: None)",
        f"{look}{x}.register_hook(lambda g: g.detach() * 0.5)",
        f"{look}{x}.register_hook(lambda g: g[0])",
        f"{x}.register_post_accumulate_grad_hook(forget_grad)",
    ]
    if m.env[x].grad_fn is not None:
        options += [
            f"h_{m.count} = {x}.grad_fn.register_hook(node_hook({label})); h_{m.count}.remove()",
            f"{x}.grad_fn.register_prehook(lambda gs: tuple(None if g is None else g * 2 for g in gs))",
            f"{x}.grad_fn.register_hook(lambda gs, _: tuple(None for g in gs))",
            f"{x}.grad_fn.register_prehook(node_prehook({label}))",
        ]
    return m.one(*options)


SAVING = ("{x} * {x}", "{x}.exp()", "({x} * 2).sin()", "{x}.tanh() * {x}", "{x}.clone().mul_({x})", "{x} / {y}",
          "Cube.apply({x})", "Between.apply({x}, {y})", "{x}.pow(2).exp()", "{x}.view(-1) * 2.5", "{x}.prod()",
          "{x}.softmax(-1)", "({x} + {y}).relu()", "torch.where({x} > 0, {x}, {y}) * {y}", "{x}.std()")  # fmt: skip


HOOKS = (
    "saved_tensors_hooks(lambda t: t, lambda t: t)",
    "saved_tensors_hooks(lambda t: (t.clone(), 1), lambda p: p[0])",
    "saved_tensors_hooks(lambda t: t.detach().numpy().copy(), lambda p: torch.from_numpy(p))",
    "saved_tensors_hooks(packing('p'), lambda t: t)",
    "save_on_cpu()",
    "disable_saved_tensors_hooks('no')",
    "allow_mutation_on_saved_tensors()",
    "saved_tensors_hooks(lambda t: t, lambda t: t.detach())",
    "saved_tensors_hooks(lambda t: t.clone(), unpacking('u'))",
)


@rule("hooks", 3, "autograd.graph.saved_tensors_hooks", "autograd.Function", rarity=3)
def saving(m: Maker) -> str | None:
    x = m.pick(lambda t: tracked(t) and real(t) and not t.is_inference())
    if x is None:
        return None
    y, n = partner(m, x), m.new()
    hooks = [f"torch.autograd.graph.{m.one(*HOOKS)}" for _ in range(m.one(1, 1, 2))]
    body = m.one(*SAVING).format(x=x, y=y)
    write = ""
    if writable(m.env[x]) and m.chance(0.3):
        write = f"; {m.one(f'{x}.mul_(2)', f'{n}.mul_(2)', f'{x}.data.mul_(2)', f'{y}.detach().add_(1)')}"
    end = m.one(
        "",
        f"; {n}.sum().backward()",
        f"; {n}.sum().backward(retain_graph=True)",
        f"; grads({n}.sum(), [{x}], create_graph=True)[0].sum().backward()",
    )
    inside = m.chance(0.5) and "create_graph" not in end  # what that saves is up to the formulas
    line = f"with {', '.join(hooks)}: {n} = {body}{write}"
    return line + end if inside or not end else f"exec({line!r}, globals()){end}"


@rule("hooks", 2, rarity=3)
def saved_values(m: Maker) -> str | None:
    x = m.pick(lambda t: tracked(t) and real(t) and not t.is_inference())
    if x is None:
        return None
    y, n = partner(m, x), m.new()
    made, name = m.one(
        (f"{x}.exp()", "result"),
        (f"{x}.sin()", "self"),
        (f"{x} * {y}", "self"),
        (f"{x} * {y}", "other"),
        (f"{x}.tanh()", "result"),
        (f"{x} ** 2", "self"),
        (f"{x}.log()", "self"),
    )
    node = f"{n}.grad_fn"
    return f"{n} = {made}; " + m.one(
        f"log.append(('s', {node}._saved_{name}.detach().clone()))",
        f"log.append(('s', {node}._saved_{name}.grad_fn is {x}.grad_fn, {node}._saved_{name}.requires_grad))",
        f"{node}._raw_saved_{name}.register_hooks(lambda t: t * 2, lambda t: t / 2); {n}.sum().backward()",
        f"{n}.sum().backward(); {node}._saved_{name}",
        f"{x}.detach().add_(1); {node}._saved_{name}",
        f"{n}.mul_(2); {node}.next_functions[0][0]._saved_{name}",
        f"{n}.sum().backward(retain_graph=True); {node}._raw_saved_{name}.register_hooks(lambda t: t, lambda t: t)",
    )
