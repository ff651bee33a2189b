"""Lines that run a backward pass, take a step of an optimizer, or ask for gradients."""

from __future__ import annotations

from typing import Any

from ..maker import Maker, races, real, rule, touches, tracked, writable
from .shared import looked_at, ordinary, partner


def scalar_of(m: Maker, x: str) -> str:
    t = m.env[x]
    if t.is_complex():
        return f"{x}.abs().sum()" if m.chance(0.5) else f"{x}.real.sum()"
    return x if t.dim() == 0 and m.chance(0.5) else m.one(f"{x}.sum()", f"({x} * {x}).sum()", f"{x}.mean()")


@rule("passes", 3.5)
def backward(m: Maker) -> str | None:
    x = m.pick(lambda t: tracked(t) and t.grad_fn is not None) if m.chance(0.95) else m.pick()
    if x is None:
        return None
    options = m.one("", "", "", "retain_graph=True", "retain_graph=True", "create_graph=True", "inputs")
    if options == "inputs":
        options = f"inputs=[{m.pick(tracked)}]"
    if m.chance(0.3):
        given = m.like(x) if m.chance(0.95) else "torch.tensor([1.0])"
        return f"{x}.backward({given}{', ' if options else ''}{options})"
    target = scalar_of(m, x) if m.chance(0.95) else x
    return f"{target}.backward({options})"


@rule("passes", 2.5)
def grad(m: Maker) -> str | None:
    x = m.pick(lambda t: tracked(t) and t.grad_fn is not None)
    if x is None:
        return None
    count = m.one(1, 1, 2)
    inputs = [m.pick(tracked, recent=False) for _ in range(count)]
    options = m.one("", ", create_graph=True", ", create_graph=True", ", retain_graph=True", ", materialize_grads=True")
    if m.chance(0.8) and "materialize" not in options:
        options += ", allow_unused=True"
    if m.chance(0.2):
        out, options = x, f", {m.like(x)}{options}"
    else:
        out = scalar_of(m, x)
    return f"{m.news(count)} = grads({out}, [{', '.join(map(str, inputs))}]{options})"


@rule("passes", 0.7)
def backward_of_several(m: Maker) -> str | None:
    x, y = m.pick(lambda t: tracked(t) and real(t)), m.pick(lambda t: tracked(t) and real(t))
    keep = m.one("", ", retain_graph=True")
    return f"torch.autograd.backward([{x}.sum(), {y}.mean()]{keep})" if x and y else None


@rule("passes", 1)
def use_grad(m: Maker) -> str | None:
    x = m.pick(lambda t: t.is_leaf and t.grad is not None)
    if x is None:
        return None
    return m.one(
        f"{x}.grad = None",
        f"{x}.grad.zero_()",
        f"{m.new()} = {x}.grad",
        f"{x}.grad.mul_(0.5)",
        f"{x}.grad = {m.like(x)}",
        f"{x}.data.sub_({x}.grad)",
    )


@rule("passes", 1.5, "autograd.Function")
def function(m: Maker) -> str | None:
    x = m.pick(real)
    if x is None:
        return None
    y = m.pick(lambda t: real(t) and t.shape == m.env[x].shape) or x
    kind = m.one("Cube", "Saturate", "Twice", "Pair", "Sign", "Same", "Lazy")
    if kind == "Twice" and not writable(m.env[x]):
        return None
    match kind:
        case "Saturate":
            return f"{m.new()} = Saturate.apply({x}, 1.0)"
        case "Pair" | "Lazy":
            return f"{m.news(2)} = {kind}.apply({x}, {y})"
        case "Sign":
            return f"{m.news(2)} = Sign.apply({x})"
        case _:
            return f"{m.new()} = {kind}.apply({x})"


@rule("passes", 3, rarity=1)
def passes(m: Maker) -> str | None:
    x = m.pick(lambda t: tracked(t) and real(t) and t.grad_fn is not None)
    y = m.pick(lambda t: tracked(t) and real(t) and t.is_leaf) or m.pick(lambda t: tracked(t) and real(t))
    if x is None or y is None:
        return None
    z = m.pick(tracked)
    return m.one(
        "{x}.sum().backward(inputs=[{y}])",
        "{x}.sum().backward(inputs={y}, retain_graph=True)",
        "({x} * {x}).sum().backward(inputs=[{y}, {z}], create_graph=True)",
        "({x} * {x}).sum().backward(create_graph=True); {y}.grad.pow(2).sum().backward()",
        "{n}, = grads(({x} ** 3).sum(), [{y}], create_graph=True); ({n} * {n}).sum().backward()",
        "{n}, = grads(({x} ** 2).sum(), [{y}], create_graph=True); {n}.norm().backward(inputs=[{y}])",
        "{x}.sum().backward(retain_graph=True); {x}.sum().backward()",
        "{x}.sum().backward(retain_graph=True); {y}.grad.zero_(); ({x} * 2).sum().backward()",
        "torch.autograd.backward([{x}.sum(), {x}.mean()], inputs=[{y}])",
        "with torch.no_grad(): {x}.sum().backward(retain_graph=True)",
        "{x}.backward(torch.ones_like({x}), retain_graph=True)",
        "{x}.backward({x}.detach())",
        "{n}, = grads({x}.sum(), [{y}], retain_graph=True, allow_unused=True)",
        "{n}, = grads({x}, [{y}], torch.ones_like({x}).expand_as({x}), retain_graph=True)",
        "{n}, = torch.autograd.grad({x}.sum(), [{y}], retain_graph=True); {n} = {n}.clone()",
        "{n}, = grads([{x}], [{y}], [torch.ones(2, *{x}.shape, dtype={x}.dtype)], is_grads_batched=True)",
        "with torch.autograd.set_grad_enabled(False): {x}.mean().backward()",
        "with torch.autograd.set_multithreading_enabled(False): {x}.mean().backward(retain_graph=True)",
        "(lambda u: u.backward())({x}.sum()); {y}.grad = None",
        "{x}.sum().add({x}.mean()).backward(retain_graph=True); {y}.grad.mul_(0.5)",
    ).format(x=x, y=y, z=z, n=m.new())


@rule("passes", 1.2, "utils.checkpoint.checkpoint", rarity=1)
def recomputed(m: Maker) -> str | None:
    x = m.pick(lambda t: tracked(t) and real(t) and not t.is_inference())
    if x is None:
        return None
    y = m.pick(lambda t: real(t) and t.shape == m.env[x].shape and not t.is_inference()) or x
    body = m.one(
        "(t.sin() * u).exp()",
        "t.clone().mul_(u).tanh()",
        "Cube.apply(t) * u",
        "(t * u, t + u)[0]",
        "t.clone().index_fill_(0, torch.tensor([0]), 2.0) * u if t.numel() and t.dim() else t * u",
        "torch.utils.checkpoint.checkpoint(lambda s: s.exp(), t, use_reentrant=False) * u",
        "(t * u).sum()",
        "torch.where(t > 0, t, u).exp()",
        "t[..., :1].exp() if t.dim() else t.exp()",
    )
    option = m.one(
        "use_reentrant=False",
        "use_reentrant=False",
        "use_reentrant=True",
        "use_reentrant=False, preserve_rng_state=False",
        "use_reentrant=False, determinism_check='none'",
    )
    n = m.new()
    line = f"{n} = torch.utils.checkpoint.checkpoint(lambda t, u: {body}, {x}, {y}, {option})"
    return line + m.one("", "", f"; {n}.sum().backward()", f"; {n}.sum().backward(retain_graph=True)")


@rule("passes", 3, "autograd.Function", rarity=1)
def function_of_a_written_tensor(m: Maker) -> str | None:
    x = m.pick(lambda t: real(t) and t.dim() > 0 and t.numel() > 0 and writable(t) and not t.is_inference())
    if x is None:
        return None
    t = m.env[x]
    y = m.pick(lambda u: real(u) and u.shape == t.shape and not races(t, u) and not u.is_inference()) or x
    kind = m.one(
        "TwoViews",
        "DirtyPart",
        "PlainAndTensor",
        "Between",
        "Detached",
        "OnlySecond",
        "Grown",
        "Chained",
        "SelfAndCopy",
        "InputBack",
        "Summed",
        "Casting",
    )
    match kind:
        case "TwoViews" | "SelfAndCopy" | "Detached":
            line = f"{m.news(2)} = {kind}.apply({x})"
        case "PlainAndTensor":
            line = f"{m.news(2)} = PlainAndTensor.apply({x}, 2)"
        case "Between" | "OnlySecond" | "Chained" | "InputBack":
            line = f"{m.new()} = {kind}.apply({x}, {y})"
        case "DirtyPart":
            line = f"{m.new()} = DirtyPart.apply({x}[:1])"
        case _:
            line = f"{m.new()} = {kind}.apply({x})"
    made = f"v{m.count - 1}"
    if kind == "PlainAndTensor":
        return line
    return line + m.one("", "", "", f"; {made}.mul_(2)", f"; {made} = {made}.view(-1)", f"; {made}.sum().backward()")


@rule("passes", 1)
def rarer_backward(m: Maker) -> str | None:
    x = m.pick(lambda t: tracked(t) and real(t) and t.grad_fn is not None)
    y = m.pick(lambda t: tracked(t) and real(t))
    z, w = m.pick(tracked), m.pick(tracked)
    if None in (x, y, z, w):
        return None
    keep = m.one("", ", retain_graph=True", ", create_graph=True")
    return m.one(
        f"torch.autograd.backward([{x}, {y}], [torch.ones_like({x}), torch.full_like({y}, 2.0)]{keep})",
        f"torch.autograd.backward({x}.sum(), inputs=[{z}, {w}]{keep})",
        f"torch.autograd.backward([{x}.sum(), {y}.sum()], inputs=[{z}]{keep})",
        f"torch.autograd.backward(({x}.mean(), {x}.sum()){keep})",
        f"{x}.backward(torch.ones_like({x}), inputs=[{z}]{keep})",
    )


@rule("passes", 1)
def rarer_grad(m: Maker) -> str | None:
    x = m.pick(lambda t: tracked(t) and real(t) and t.grad_fn is not None)
    y = m.pick(lambda t: tracked(t) and real(t))
    z, w = m.pick(tracked), m.pick(tracked)
    if None in (x, y, z, w):
        return None
    keep = m.one("", ", retain_graph=True", ", create_graph=True")
    extra = m.one("", ", allow_unused=True", ", materialize_grads=True", ", allow_unused=True")
    kind = m.one(0, 1, 2, 3)
    if kind == 0:
        return f"{m.news(1)} = grads([{x}.sum(), {y}.mean()], [{z}]{keep}{extra})"
    if kind == 1:
        return f"{m.news(2)} = grads([{x}, {y}], [{z}, {w}], [torch.ones_like({x}), torch.ones_like({y})]{keep}{extra})"
    if kind == 2 and m.has("autograd.graph.get_gradient_edge"):
        edge = f"torch.autograd.graph.get_gradient_edge({z})"
        return f"{m.news(1)} = grads({x}.sum(), [{edge}]{keep}{extra})"
    first, second = m.new(), m.new()
    return (
        f"{first}, = grads(({x} * {x}).sum(), [{z}], create_graph=True{extra}); "
        f"{second}, = grads({first}.sum(), [{w}]{keep}{extra})"
    )


@rule("passes", 2, "autograd.Function")
def rarer_function(m: Maker) -> str | None:
    x = m.pick(lambda t: real(t) and t.dim() > 0 and t.numel() > 0)
    if x is None:
        return None
    y = m.pick(lambda t: real(t) and t.shape == m.env[x].shape) or x
    kind = m.one("Scale", "Once", "Window", "Swap", "Half", "SaveOut", "Needs", "Both", "Fresh", "Write", "Nothing")
    if kind in ("Both", "Write") and (not writable(m.env[x]) or races(m.env[x], m.env[y])):
        return None
    match kind:
        case "Scale":
            return f"{m.new()} = Scale.apply({x}, {m.scalar()})"
        case "Swap" | "Both":
            return f"{m.news(2)} = {kind}.apply({x}, {y})"
        case "Half" | "Needs" | "Write":
            return f"{m.new()} = {kind}.apply({x}, {y})"
        case _:
            return f"{m.new()} = {kind}.apply({x})"


@rule("passes", 0.8, "utils.checkpoint.checkpoint")
def checkpointed(m: Maker) -> str | None:
    x = m.pick(lambda t: tracked(t) and real(t))
    if x is None:
        return None
    y = m.pick(lambda t: real(t) and t.shape == m.env[x].shape) or x
    body = m.one(
        "t.sin() * u", "(t * u).exp().sum()", "t.clone().mul_(u)", "torch.cat([t.view(-1), u.view(-1)]).tanh()"
    )
    how = m.one("False", "False", "True")
    if how == "True" and x == y and "cat" in body and not m.env[x].numel():
        return None  # the gradients of cat are new tensors then, in torch
    call = f"torch.utils.checkpoint.checkpoint(lambda t, u: {body}, {x}, {y}, use_reentrant={how})"
    return f"{m.new()} = {call}"


def fits_next(t: Any) -> bool:
    """Whether the node before that of `t` gets gradients of its shape: of others, kernels complain in their ways."""
    before = t.grad_fn.next_functions[:1]
    if not before or before[0][0] is None:
        return True
    return tuple(before[0][0]._input_metadata[0].shape) == tuple(t.shape)


@rule("passes", 1.5, rarity=2)
def grads_again(m: Maker) -> str | None:
    x = m.pick(lambda t: tracked(t) and real(t) and t.grad_fn is not None)
    z = m.pick(tracked, recent=False)
    if x is None or z is None:
        return None
    by_hand = f"{x}.grad_fn.next_functions[0][0](torch.ones_like({x}))"
    line = m.one(
        f"torch.autograd.grad({x}.sum(), {z}, create_graph=True, allow_unused=True)[0]",
        f"{m.new()}, = grads({x}.square().sum(), [{z}], create_graph=True, allow_unused=True)",
        f"{m.new()}, = grads({x}, [{z}], torch.eye({x}.numel(), dtype={x}.dtype).reshape(-1, *{x}.shape), "
        "is_grads_batched=True, allow_unused=True, retain_graph=True)",
        f"g_, = torch.autograd.grad(({x} * {x}).sum(), [{z}], create_graph=True, allow_unused=True); "
        "g_ is not None and g_.requires_grad and g_.abs().sum().backward(retain_graph=True)",
        f"({x}.sum() + {z}.abs().sum()).backward(retain_graph=True)",
        f"{x}.backward({x}.detach(), retain_graph=True)",
        f"{x}.register_hook(lambda g: g * {x}.detach()); {x}.sum().backward(retain_graph=True)",
        f"{x}.grad_fn(torch.ones_like({x}))",
        f"torch.autograd.backward([{x}], [None])",
        f"torch.autograd.grad({x}, {z}, torch.ones(1))",
        f"torch.autograd.grad([{x}.sum()], [{z}, {x}], retain_graph=True, allow_unused=True)",
        f"{x}.sum().backward(retain_graph=True); {z}.grad = None",
        f"{x}.grad_fn.next_functions[0][0].register_hook(node_hook('next-{m.count}'))",
        f"{x}.grad_fn.next_functions[0][0].register_prehook(node_prehook('pre-{m.count}', 2.0))",
        by_hand,
    )
    return None if line == by_hand and not fits_next(m.env[x]) else line


CLASSES = ("ScaleBy", "Several", "Views", "InPlaceTwo", "Nested", "PassThrough", "HalfGrad", "Stateful", "Outer")


@rule("passes", 2, "autograd.Function", rarity=2)
def rarest_function(m: Maker) -> str | None:
    x = m.pick(lambda t: real(t) and t.dim() > 0 and t.numel() > 0 and writable(t) and not t.is_inference())
    if x is None:
        return None
    y = m.pick(lambda t: real(t) and t.shape == m.env[x].shape and not races(m.env[x], t) and not t.is_inference()) or x
    kind = m.one(*CLASSES)
    match kind:
        case "Several":
            return f"{m.news(3)} = Several.apply({x}, {y}, 2.0)"
        case "Views":
            return f"{m.news(2)} = Views.apply({x})"
        case "InPlaceTwo":
            return None if touches(m.env[x], m.env[y]) else f"{m.news(2)} = InPlaceTwo.apply({x}, {y})"
        case "ScaleBy" | "Nested" | "Outer":
            return f"{m.new()} = {kind}.apply({x}, {y})"
        case _:
            return f"{m.new()} = {kind}.apply({x})"


@rule("passes", 2.5, rarity=3)
def passes_around_hooks_and_anomalies(m: Maker) -> str | None:
    x = m.pick(lambda t: tracked(t) and real(t) and t.grad_fn is not None and not t.is_inference())
    y = m.pick(lambda t: tracked(t) and not t.is_inference())
    if x is None or y is None:
        return None
    n, label = m.new(), f"'{x}-{m.count}'"
    look = looked_at(m, x) + (looked_at(m, y) if y != x else "")
    return look + m.one(
        f"with torch.autograd.detect_anomaly(check_nan=True): {x}.sum().backward()",
        f"with torch.autograd.detect_anomaly(): ({x} * 0).log().sum().mul(0).backward()",
        f"with torch.autograd.detect_anomaly(): ({x}.sqrt() / {x}.sqrt()).sum().backward(retain_graph=True)",
        f"with torch.autograd.detect_anomaly(check_nan=False): {x}.sum().backward(retain_graph=True)",
        f"{x}.register_hook(lambda g: (({y}.detach().requires_grad_() * 2).abs().sum().backward(), g * 2)[1])",
        f"{y}.register_hook(lambda g: log.append(({label}, torch.is_grad_enabled(), g.requires_grad, g.is_leaf)))",
        f"{n}, = grads({x}.sum(), [{y}], allow_unused=True, create_graph=True); {x}.sum().backward()",
        f"{x}.sum().backward(gradient=torch.tensor(2.0, dtype={x}.dtype), retain_graph=True)",
        f"torch.autograd.backward([{x}, {x}], [torch.ones_like({x}), {x}.detach()], retain_graph=True)",
        f"{x}.grad_fn.register_prehook(lambda g: (g[0] * 2,)); {x}.sum().backward(retain_graph=True)",
        f"{n} = {x}.grad_fn.next_functions; {n} = [k for _, k in {n}]",
        f"{n} = {x}.grad_fn.metadata; {x}.grad_fn.metadata['a'] = 1; {n} = dict({x}.grad_fn.metadata)",
        f"{n} = torch.autograd.graph.get_gradient_edge({x}); {n} = {n}.output_nr",
        f"torch.autograd.backward([torch.autograd.graph.get_gradient_edge({x})], [torch.ones_like({x})])",
        f"{y}.register_hook(lambda g: g.double() if g.dtype != torch.float64 else g.float())",
        f"{y}.register_hook(lambda g: g.to_dense().reshape({y}.shape).requires_grad_())",
        f"with torch.autograd.graph.save_on_cpu(): {n} = {x} * {x}; {n}.sum().backward(inputs=[{y}])",
        f"{n} = {x}.detach().requires_grad_(); ({n} * 2).sum().backward(); {x}.backward({n}.grad)",
        f"{n} = {x} * 1; {n}.retain_grad(); {n}.sum().backward(retain_graph=True); {n}.sum().backward()",
    )


@rule("passes", 4, "autograd.Function", rarity=3)
def rarer_function_of_a_tensor(m: Maker) -> str | None:
    x = m.pick(lambda t: ordinary(t) and writable(t))
    if x is None:
        return None
    y, n = partner(m, x), m.new()
    pair = m.news(2)
    made = m.one(
        f"{pair} = WithNone.apply({x})",
        f"{n} = Variadic.apply(3, {x}, {y}, {x})",
        f"{n} = Vmapped.apply({x})",
        f"{pair} = Dualled.apply({x}, {y})",
        f"{n} = Recorded.apply({x})",
        f"{n} = Failing.apply({x})",
        f"{pair} = PartAndWhole.apply({x})",
        f"{n} = WritesGrad.apply({x}, {y})",
        f"{pair} = SharedOut.apply({x})",
        f"{n} = Twice.apply({x}.clone().view(-1))",
        f"{n} = Twice.apply({x}.view(-1))",
        f"{pair} = DirtyAndNew.apply({x}, {y})",
        f"{n} = InnerWrite.apply({x})",
        f"{pair} = forward(lambda d: Dualled.apply(d, {y})[1], {x}, {y}.detach())",
        f"{n} = torch.vmap(Vmapped.apply)({x}).detach().clone()",
    )
    out = n if f"{n} = " in made else pair.split(", ")[m.one(0, 1)]
    return made + m.one(
        "",
        "",
        f"; {out}.mul_(2)",
        f"; {out}.sum().backward()",
        f"; {out} = {out}[:1]; {out}.add_(1)",
        f"; grads({out}.pow(2).sum(), [{x}], create_graph=True)[0].sum().backward()",
        f"; {out}.register_hook(hook('{out}', 2.0)); {out}.sum().backward(retain_graph=True)",
        f"; {x}.mul_(2); {out}.sum().backward()",
        f"; {out}.retain_grad(); {out}.mul_(2)",
    )
