"""What every random program starts with: hooks that log, and custom Functions.

The text runs once per library, with `torch` standing for that library.
"""

HOOKS = """
log = []

def hook(label, scale=None):
    def call(grad):
        log.append((label, grad.detach().clone()))
        return None if scale is None else grad * scale
    return call

def node_hook(label, scale=None):
    def call(grad_inputs, grad_outputs):
        for g in (*grad_inputs, *grad_outputs):
            log.append((label, g if g is None else g.detach().clone()))
        return None if scale is None else tuple(g if g is None else g * scale for g in grad_inputs)
    return call

def node_prehook(label, scale=None):
    def call(grad_outputs):
        for g in grad_outputs:
            log.append((label, g if g is None else g.detach().clone()))
        return None if scale is None else tuple(g if g is None else g * scale for g in grad_outputs)
    return call

def grads(*args, **options):
    # How a formula lays out a gradient (expanded, say) is its own affair: look at contiguous copies.
    found = torch.autograd.grad(*args, **options)
    return tuple(g if g is None else g.clone(memory_format=torch.contiguous_format) for g in found)

def grad_hook(label):
    def call(leaf):
        log.append((label, leaf.grad.detach().clone()))
    return call

def all_hook(label):
    def call(grads):
        for g in grads:
            log.append((label, g if g is None else g.detach().clone()))
    return call

def any_hook(label):
    return lambda grad: log.append((label, grad.detach().clone()))

def once_hook(label):
    def call(grad):
        log.append((label, grad.detach().clone()))
        return grad * (2.0 if len(log) % 2 else 1.0)
    return call

def forget_grad(leaf):
    leaf.grad = None

def set_part(x, y):
    x[0:1] = y[-1:] * 2
    return x

def with_no_grad(x):
    with torch.no_grad():
        x.mul_(2)

def copied(x, y):
    x.view(-1)[:1].copy_(y.reshape(-1)[:1])
    return x

def pickled(x):
    import pickle

    return pickle.loads(pickle.dumps(x))

def saved(x):
    import io

    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    return torch.load(file)

def one(x):
    return torch.ones((), dtype=x.dtype)

def put(x, y):
    z = torch.zeros_like(x)
    z[0:1] = x[-1:] * y.reshape(-1)[0]
    z.mul_(x)
    return z

def packing(label):
    def call(t):
        log.append((label, t.detach().clone()))
        return t.detach().clone()
    return call

def unpacking(label):
    def call(t):
        log.append((label, t.detach().clone()))
        return t
    return call

def forward(f, x, tangent):
    level = torch.autograd.forward_ad
    with level.dual_level():
        primal, out = level.unpack_dual(f(level.make_dual(x, tangent)))
    if out is None:
        return primal, None
    log.append(("tangent", out.requires_grad))
    if out.requires_grad and x.requires_grad:  # its nodes have names of their own; their values count
        found = torch.autograd.grad(out.sum(), x, allow_unused=True, retain_graph=True)[0]
        log.append(("grad of tangent", found if found is None else found.detach().clone()))
    # whose memory it is, and how it lies in it, is the library's affair
    return primal, out.detach().clone(memory_format=torch.contiguous_format)

def dual_values(f, x, tangent):
    # what transforms leave behind besides values, versions and nodes say, is the library's affair
    level = torch.autograd.forward_ad
    with level.dual_level():
        found = level.unpack_dual(f(level.make_dual(x, tangent)))
    return tuple(t if t is None else t.detach().clone(memory_format=torch.contiguous_format) for t in found)
"""

FUNCTIONS = """
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        log.append(("Cube", g.detach().clone()))
        return 3 * x * x * g


class Saturate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, limit):
        y = x.clamp(-limit, limit)
        ctx.save_for_backward(x, y)
        ctx.limit = limit
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * (x == y), None


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2.0)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 2.0


class Pair(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y, x + y

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return g * y + h, g * x + h


class Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        s = x.sign()
        ctx.mark_non_differentiable(s)
        return x * 1.5, s

    @staticmethod
    def backward(ctx, g, h):
        return g * 1.5


class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return g * -1.0


class Lazy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        return x * 2.0, y * 3.0

    @staticmethod
    def backward(ctx, g, h):
        return None if g is None else g * 2.0, None if h is None else h * 3.0


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(x, k):
        return x * k

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.k = inputs[1]

    @staticmethod
    def backward(ctx, g):
        return g * ctx.k, None

    @staticmethod
    def jvp(ctx, t, k):
        return t * ctx.k


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        return g * ctx.saved_tensors[0].cos()


class Window(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x[0:1]

    @staticmethod
    def backward(ctx, g):
        return g.expand(ctx.shape)


class Swap(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return y, x

    @staticmethod
    def backward(ctx, g, h):
        return h * 2.0, g * 3.0


class Half(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * y

    @staticmethod
    def backward(ctx, g):
        return g * 2.0, None


class SaveOut(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y, None)
        return y

    @staticmethod
    def backward(ctx, g):
        y, nothing = ctx.saved_tensors
        return g * y


class Needs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        log.append(("Needs", tuple(ctx.needs_input_grad)))
        return (g * y if ctx.needs_input_grad[0] else None), (g * x if ctx.needs_input_grad[1] else None)


class Both(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        x.mul_(2.0)
        ctx.mark_dirty(x)
        ctx.save_for_backward(y)
        return x, y * 2.0

    @staticmethod
    def backward(ctx, g, h):
        return g * 2.0, h * 2.0


class Fresh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.zeros_like(x)
        y[0:1] = x[-1:]
        return y.view(-1)

    @staticmethod
    def backward(ctx, g):
        return None


class Write(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_dirty(x)
        ctx.set_materialize_grads(False)
        return x.add_(y)

    @staticmethod
    def backward(ctx, g):
        return g, g


class Nothing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_non_differentiable(x)
        return x


class ScaleBy(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y, g * x

    @staticmethod
    def jvp(ctx, s, t):
        x, y = ctx.saved_tensors
        return s * y + x * t


class Several(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, k):
        ctx.k = k
        ctx.save_for_backward(x)
        return x * k, y.clone(), (x > y)

    @staticmethod
    def backward(ctx, g, h, unused):
        (x,) = ctx.saved_tensors
        log.append(("Several", (g is None, h is None, unused is None)))
        return g * ctx.k, h * x, None


class Views(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.view(-1), x.detach()[0:1]

    @staticmethod
    def backward(ctx, g, h):
        return g.view(ctx.shape) * 2 + h.sum()


class InPlaceTwo(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        x.add_(1)
        y.mul_(3)
        ctx.mark_dirty(x, y)
        return x, y

    @staticmethod
    def backward(ctx, g, h):
        return g, h * 3


class Nested(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, g):
        x, y = (t.detach().requires_grad_() for t in ctx.saved_tensors)
        with torch.enable_grad():
            out = x.sin() * y
        return torch.autograd.grad(out, (x, y), g)


class PassThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        log.append(("PassThrough", g.detach().clone()))
        return g


class HalfGrad(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        y = x.clone()
        ctx.mark_non_differentiable(y)
        return x * 2, y

    @staticmethod
    def backward(ctx, g, h):
        return None if g is None else g[:1].expand_as(g)


class Stateful(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.out = x.exp()
        return ctx.out * 1

    @staticmethod
    def backward(ctx, g):
        return g * 2 * ctx.out


class Outer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        with torch.enable_grad():
            z = x * y
        return z

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return Cube.apply(g) * y, None


class TwoViews(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x[:1], x[-1:]

    @staticmethod
    def backward(ctx, g, h):
        return (g * 2 + h).expand(ctx.shape)


class DirtyPart(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(3)

    @staticmethod
    def backward(ctx, g):
        log.append(("DirtyPart", g.detach().clone()))
        return g * 3


class PlainAndTensor(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.k = k
        return x * k, k

    @staticmethod
    def backward(ctx, g, h):
        log.append(("PlainAndTensor", h is None))
        return g * ctx.k, None


class Between(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        z = x * y
        ctx.save_for_backward(x, y, z)
        return z.exp()

    @staticmethod
    def backward(ctx, g):
        x, y, z = ctx.saved_tensors
        e = g * z.exp()
        return e * y, e * x


class Detached(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.detach() * 2
        ctx.mark_non_differentiable(y)
        return y, x.exp()

    @staticmethod
    def backward(ctx, g, h):
        return h


class OnlySecond(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x)
        return x + y

    @staticmethod
    def backward(ctx, g):
        return None, g * ctx.saved_tensors[0]


class Grown(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.cat([x, x])

    @staticmethod
    def backward(ctx, g):
        half = g.shape[0] // 2
        return g[:half] + g[half:]


class Chained(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return Cube.apply(x) * y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return 3 * x * x * y * g, x ** 3 * g


class SelfAndCopy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x, x.clone()

    @staticmethod
    def backward(ctx, g, h):
        return g + 2 * h


class InputBack(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_non_differentiable(y)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2, None


class Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.sum()

    @staticmethod
    def backward(ctx, g):
        return g.expand(ctx.shape)


class Casting(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.dtype = x.dtype
        return x.to(torch.float32)

    @staticmethod
    def backward(ctx, g):
        return g


class WithNone(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2, None

    @staticmethod
    def backward(ctx, g, h):
        log.append(("WithNone", h is None))
        return g * 2


class Variadic(torch.autograd.Function):
    @staticmethod
    def forward(ctx, k, *xs):
        ctx.save_for_backward(*xs)
        ctx.k = k
        return sum(xs) * k

    @staticmethod
    def backward(ctx, g):
        log.append(("Variadic", tuple(ctx.needs_input_grad)))
        return None, *[g * ctx.k if k else None for k in ctx.needs_input_grad[1:]]


class Vmapped(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0].cos() * 2

    @staticmethod
    def jvp(ctx, t):
        return t * ctx.saved_tensors[0].cos() * 2

    @staticmethod
    def vmap(info, in_dims, x):
        return Vmapped.apply(x), in_dims[0]


class Dualled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        ctx.save_for_forward(x, y)
        return x * y, x + y

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return g * y + h, g * x + h

    @staticmethod
    def jvp(ctx, s, t):
        x, y = ctx.saved_tensors
        return s * y + x * t, s + t


class Recorded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        log.append(("Recorded", torch.is_grad_enabled(), x.requires_grad, g.requires_grad))
        return 3 * x ** 2 * g


class Failing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        if g.sum() > 2:
            raise ValueError("too much")
        return g[:1]


class PartAndWhole(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * 2
        ctx.save_for_backward(y)
        return y[:1], y

    @staticmethod
    def backward(ctx, g, h):
        (y,) = ctx.saved_tensors
        return h * 2 + g.sum()


class WritesGrad(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        return x + y

    @staticmethod
    def backward(ctx, g):
        g = g.clone()
        return g.mul_(2), g


class SharedOut(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        return y, y

    @staticmethod
    def backward(ctx, g, h):
        log.append(("SharedOut", g.detach().clone()))
        return g + h * 2


class DirtyAndNew(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(y)
        x.mul_(y)
        ctx.mark_dirty(x)
        return x, x * 2

    @staticmethod
    def backward(ctx, g, h):
        (y,) = ctx.saved_tensors
        return (g + h * 2) * y, None


class InnerWrite(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.clone()
        y.view(-1)[0] = 3.0
        ctx.save_for_backward(y)
        y.add_(1)
        return y

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]
"""


def used(text: str) -> str:
    """The parts of the prelude that a program needs, to be printed with it."""
    classes = [
        part
        for part in FUNCTIONS.strip().split("\n\n\n")
        if part.split("(")[0].removeprefix("class ") + ".apply(" in text
    ]
    hooks = (
        HOOKS
        if classes
        or any(
            name in text
            for name in (
                "hook(",
                "grads(",
                "forward(",
                "forget_grad",
                "with_no_grad(",
                "log.append",
                "pickled(",
                "saved(",
                "one(",
                "put(",
                "packing(",
                "dual_values(",
            )
        )
        else ""
    )
    return hooks + "".join(f"\n\n{part}\n" for part in classes)
