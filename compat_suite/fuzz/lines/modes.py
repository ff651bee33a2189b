"""Lines that change whether gradients are recorded."""

from __future__ import annotations

from ..maker import Maker, inexact, real, rule, tracked, writable


@rule("modes", 0.8)
def flags(m: Maker) -> str | None:
    x = m.pick()
    return x and x + m.one(
        ".requires_grad_()",
        ".requires_grad_(False)",
        ".detach_()",
        ".requires_grad = True",
        ".retain_grad()",
        ".retain_grad()",
        ".requires_grad = False",
    )


@rule("modes", 1.5, "autocast", rarity=1)
def autocast(m: Maker) -> str | None:
    x = m.pick(lambda t: t.dtype == m.torch.float32 and t.dim() in (1, 2) and t.numel() > 0)
    if x is None:
        y = m.pick(lambda t: real(t) and t.dim() in (1, 2) and t.numel() > 0)
        return y and f"{m.new()} = {y}.float()"
    n = m.new()
    kind = m.one("bfloat16", "bfloat16", "float16")
    body = m.one(
        "{x} @ {x}.t()",
        "{x}.exp()",
        "{x} * {x}",
        "({x} @ {x}.t()).sum()",
        "({x} @ {x}.t()).float().exp()",
        "torch.nn.functional.linear({x}, {x})",
        "{x}.softmax(-1)",
        "{x} @ {x}.t() + {x}.sum()",
        "torch.nn.functional.mse_loss({x} @ {x}.t(), ({x} @ {x}.t()).detach() * 2)",
        "torch.cat([{x}, {x}.half()])",
        "torch.matmul({x}, {x}.t()).relu()",
        "torch.einsum('...i,...i->...', {x}, {x})",
        "{x}.sum()",
        "{x}.norm()",
        "torch.stack([{x}, {x}.bfloat16()])",
        "torch.addmm({x} @ {x}.t(), {x}, {x}.t())",
    )
    return f"with torch.autocast('cpu', dtype=torch.{kind}): {n} = {body.format(x=x)}"


@rule("modes", 1.5)
def under_modes(m: Maker) -> str | None:
    """A computation or a write under nested modes."""
    x = m.pick(inexact)
    if x is None:
        return None
    modes = m.one(
        "torch.no_grad(), torch.enable_grad()",
        "torch.set_grad_enabled(False)",
        "torch.set_grad_enabled(True)",
        "torch.enable_grad(), torch.no_grad()",
        "torch.inference_mode(), torch.enable_grad()",
        "torch.inference_mode(False)",
        "torch.no_grad(), torch.inference_mode(False)",
        "torch.no_grad(), torch.set_grad_enabled(True)",
    )
    name = m.new()
    body = m.one(
        "{1} = {0} * 2",
        "{1} = {0}.view(-1)",
        "{1} = {0}.clone(); {1}.mul_(2)",
        "{0}.mul_(2)",
        "{1} = {0}.detach()",
        "{1} = {0}.exp(); {1}.add_({0})",
        "{1} = {0}.unsqueeze(0); {1}.neg_()",
    )
    if not writable(m.env[x]) and "_(" in body:
        return None
    return f"with {modes}: " + body.format(x, name)


@rule("modes", 0.8, "autograd.graph.allow_mutation_on_saved_tensors", rarity=2)
def mutation_allowed(m: Maker) -> str | None:
    x = m.pick(lambda t: tracked(t) and real(t) and t.grad_fn is not None and writable(t) and t._base is None)
    if x is None:
        return None
    name = m.new()
    body = m.one(
        "{0} = ({1} * {1}).sum(); {1}.mul_(2); {0}.backward(retain_graph=True)",
        "{0} = {1}.exp(); {0}.add_(1); {0}.sum().backward(retain_graph=True)",
        "{0} = {1}.sin(); {1}.zero_(); {0}.sum().backward()",
    ).format(name, x)
    return f"exec('''with torch.autograd.graph.allow_mutation_on_saved_tensors():\n    {body}''')"


@rule("modes", 1.5, "inference_mode", rarity=3)
def inference(m: Maker) -> str | None:
    x = m.pick(lambda t: inexact(t) and t.numel() > 0 and t.dim() > 0 and writable(t))
    if x is None:
        return None
    n = m.new()
    return m.one(
        f"with torch.inference_mode(): {n} = {x}.clone(); {n}.mul_(2); {n} = {n}[:1]",
        f"with torch.inference_mode(): {n} = {x}[:1]; {n}.mul_(2)",
        f"with torch.inference_mode(): {x}.mul_(2); {n} = {x}.view(-1)",
        f"with torch.inference_mode(): {n} = {x}.detach(); {n}.add_(1)",
        f"with torch.inference_mode(), torch.inference_mode(False): {n} = {x} * 2",
        f"with torch.inference_mode(): {n} = torch.ones(3); {n} = {n}.view(-1); {n}[0] = 2",
        f"with torch.no_grad(): {n} = {x}[:1].view(-1); {n}.mul_(2)",
        f"with torch.inference_mode(): {n} = {x}.view(-1)\n{n} = {n}.clone()",
    )
