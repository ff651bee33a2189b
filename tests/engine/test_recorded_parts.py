"""Recorded gradients as torch composes them: of writes to parts, of sums of several steps, of numbers that decide."""

from __future__ import annotations

from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()


def _told(g):
    return None if g is None else [g.detach().clone(), g._version, g.grad_fn and g.grad_fn.name()]


@program
def writes_to_parts(m):
    """What the write itself records stands in the graph, not one step for all of it."""
    found = []
    for write in (
        lambda v, b: v.div_(b), lambda v, b: v.mul_(b), lambda v, b: v.pow_(b), lambda v, b: v.sub_(b),
        lambda v, b: v.copy_(b), lambda v, b: v.lerp_(b, 0.25), lambda v, b: v.addcmul_(b, b), lambda v, b: v.sin_(),
        lambda v, b: v.masked_fill_(v > 0.3, b.sum()), lambda v, b: v.fill_(2.0), lambda v, b: v.sqrt_(),
        lambda v, b: v.cumsum_(0), lambda v, b: v.__setitem__(0, b.expand(2)),
    ):  # fmt: skip
        for part in (lambda x: x[:2, :2], lambda x: x[1:, 1:].t()):
            for size in ((), (2,)):
                for recorded in (False, True):
                    a = (m.arange(1.0, 10, dtype=m.float64).view(3, 3) / 8).requires_grad_()
                    b = m.full(size, 0.5, dtype=m.float64, requires_grad=True)
                    x = a * 1
                    write(part(x), b)
                    given = m.arange(1.0, 10, dtype=m.float64).view(3, 3).requires_grad_(recorded)
                    grads = m.autograd.grad(
                        x * 1, [a, b], given, create_graph=True, allow_unused=True
                    )
                    found.append([_told(g) for g in grads])
                    total = sum(
                        g.sum() * g.sum() for g in grads if g is not None and g.requires_grad
                    )
                    if isinstance(total, m.Tensor):
                        again = m.autograd.grad(total, [a, b], allow_unused=True)
                        found.append([None if g is None else g.detach().clone() for g in again])
    return found


@program
def parts_outside_of_memory_and_overlapping_ones(m):
    """What cannot be cut out of the gradient, or put back, says so in a recorded pass too."""

    def passed(x, of, recorded):
        return m.autograd.grad((x * 2).sum(), of, create_graph=recorded, retain_graph=True)

    found = []
    for other in (False, True):
        for recorded in (False, True):
            a, b = m.ones(4, requires_grad=True), m.ones(2, requires_grad=other)
            x = a * 1
            v = x[2:]
            x.data = m.ones(3)
            v.mul_(b)
            a2 = m.ones(1, requires_grad=True)
            y = a2 * 1
            y.expand(2).masked_fill_(m.tensor([True, True]), b.sum())
            cases = [(x, [a]), (x, [a, b]), (y, [a2]), (y, [a2, b]), (y, [b])]
            found += [
                complaint(lambda t=t, of=of, r=recorded: passed(t, of, r))
                for t, of in cases
                if other or all(s is not b for s in of)
            ]
    return found


_SUMS = """
acos(a); acosh(a + 1); asin(a); atan(a); logit(a); nn.functional.silu(a); nn.functional.mish(a); sinc(a); var(a); std(a)
special.i0e(a); logcumsumexp(a, 0); nn.functional.layer_norm(a, (2,)); var_mean(a, 0)[0]; std_mean(a)[0]
renorm(a, 2, 0, 0.1); div(a, b); pow(a, b); addcdiv(a, b, b + 1); nn.functional.mse_loss(a, b)
nn.functional.huber_loss(a, b); nn.functional.smooth_l1_loss(a, b); div(b, a * a); mul(a, b); hypot(a, b); lerp(a, b, b)
"""


@program
def versions_of_second_gradients(m):
    """torch adds in place what the steps of a recorded gradient give to the same tensor."""
    found = []
    for expression in _SUMS.replace("\n", ";").split(";"):
        if not expression.strip():
            continue
        code = compile(expression.strip(), "<expression>", "eval")
        names = {n: getattr(m, n) for n in code.co_names if hasattr(m, n)}
        for size in ((2, 2), (), (2,), (1, 2)):
            for of in (0, 1):
                for middle in (False, True):
                    a = m.tensor([[0.9, 0.6], [0.3, 0.45]], dtype=m.float64, requires_grad=True)
                    b = m.full(size, 0.7, dtype=m.float64, requires_grad=True)
                    x, y = (a * 1, b * 1) if middle else (a, b)
                    out = eval(code, {}, names | {"a": x, "b": y})
                    (g,) = m.autograd.grad(
                        out, (x, y)[of], m.ones_like(out), create_graph=True, allow_unused=True
                    )
                    if g is None or not g.requires_grad or (out.ndim == 0 and size != (2, 2)):
                        continue
                    seen = []
                    if middle:
                        x.register_hook(lambda t, seen=seen: seen.append(t._version))
                        y.register_hook(lambda t, seen=seen: seen.append(t._version))
                    g.sum().backward()
                    versions = [t.grad if t.grad is None else t.grad._version for t in (a, b)]
                    found.append([expression.strip(), size, of, versions, sorted(seen)])
    return found


@program
def names_of_sums_over_what_was_expanded(m):
    found = []
    for size in ((), (2,), (1,), (1, 2), (2, 1), (1, 1)):
        for to in ((1, 2), (2, 2), (1, 1, 2), (3, 2, 2), (1, 1), (2,), (1,), (1, 1, 1)):
            b = m.full(size, 0.5, dtype=m.float64, requires_grad=True)
            if len(to) < len(size) or any(n not in (1, t) for n, t in zip(size[::-1], to[::-1])):
                continue
            for fn in (m.Tensor.expand, lambda b, to: b * m.ones(to, dtype=m.float64)):
                y = fn(b, to)
                (g,) = m.autograd.grad(y, b, m.ones_like(y).requires_grad_(), create_graph=True)
                found.append([size, to, g.grad_fn and g.grad_fn.name()])
    return found


@program
def products_with_zeros(m):
    """Of a product with a zero the recorded gradient reads copies of the factors alone: writes are not seen."""
    found = []
    for values in (
        [[1.0, 2, 3], [0.5, 0.25, 3]],
        [[1.0, 0, 3], [0.5, 0.25, 3]],
        [[0.0, 0, 3], [2, 0, 3]],
    ):
        for fn in (
            lambda x: x.prod(), lambda x: x.prod(0), lambda x: x.prod(1, keepdim=True), lambda x: x.cumprod(0),
            lambda x: x.cumprod(1), lambda x: m.cat([x, x]).prod(0, keepdim=True),
        ):  # fmt: skip
            for written in range(4):
                a = m.tensor(values, dtype=m.float64, requires_grad=True)
                x = a * 1
                y = fn(x)
                given = m.ones_like(y).requires_grad_()
                (g,) = m.autograd.grad(y, x, given, create_graph=True)
                found.append([g.detach().clone(), g.grad_fn.name()])
                if written:
                    with m.no_grad():
                        [x, y, given][written - 1].mul_(1)
                second_gradients = []

                def second(g=g, a=a, given=given, second_gradients=second_gradients):
                    second_gradients += m.autograd.grad((g * g).sum(), [a, given])

                found.append([complaint(second)[0], *second_gradients])
    return found


@program
def forbidden_views_before_complex_results(m):
    """A view that must not be used any more says so before an operator without gradients of complex results does."""
    x = m.tensor(1.0 - 1j, requires_grad=True)
    with m.no_grad():
        v = x.unsqueeze(0)
        v.neg_()
    return [
        complaint(lambda: m.select_scatter(v, x * 2, 0, 0)),
        complaint(lambda: v.slice_scatter(m.ones(1, dtype=m.complex64), 0, 0, 1)),
        complaint(lambda: m.select_scatter(x.unsqueeze(0), x * 2, 0, 0)),
    ]


@program
def factors_that_are_finer_numbers(m):
    """torch's gradients of `addcdiv` and `addcmul` compute with two numbers alone before these meet coarser tensors."""
    found = []
    for fine, coarse in ((m.float64, m.float32), (m.complex128, m.complex64)):
        a = m.tensor(0.37, dtype=fine, requires_grad=True)
        b = m.tensor(0.41, dtype=fine, requires_grad=True)
        for fn in (m.addcdiv, m.addcmul, m.Tensor.addcdiv_, m.Tensor.addcmul_):
            for value in (1, 1.7):
                for t1, t2 in ((a, b), (a, a), (b, m.full((2, 3), 0.3)), (m.full((), 2), a)):
                    y = fn(m.full((2, 3), 1.5, dtype=coarse), t1, t2, value=value)
                    grads = m.autograd.grad(y.sum().abs(), [a, b], allow_unused=True)
                    found += [y.detach(), *[g if g is None else g.to(coarse) for g in grads]]
    y = m.addcdiv(
        m.full((2, 3), 1.5), m.tensor(0.37, dtype=m.float64), m.tensor(0.41, dtype=m.float64)
    )
    x = m.tensor(0.37, dtype=m.float64, requires_grad=True)
    (g,) = m.autograd.grad(m.addcdiv(m.full((2, 3), 1.5), x, x).sum(), x)
    return [*found, y, g.item() == 0]


@program
def second_derivatives_of_products_of_several_zeros(m):
    """The first are 0, the second are not: those of the two zeros are the product of the others."""
    found = []
    for values in ([0.0, 0, 6], [0.0, 2, 0, 5], [0.0, 0, 0, 2], [0.0, 3, 4], [[0.0, 0], [3, 4]]):
        x = m.tensor(values, dtype=m.float64, requires_grad=True)
        for fn in (
            lambda x: x.prod(), lambda x: x.prod(0).sum(), lambda x: x.prod(-1, keepdim=True).sum(),
            lambda x: x.cumprod(0).sum(), lambda x: m.linalg.vecdot(x, x.cumprod(-1)).sum(),
        ):  # fmt: skip
            found += [m.autograd.grad(fn(x), x)[0], m.autograd.functional.hessian(fn, x)]
            found.append(m.func.hessian(fn)(x).detach())
    return found


@program
def names_of_last_steps_by_argument(m):
    """What a recorded gradient is called depends on numbers, shapes, reductions, and which results have a gradient."""
    functional, linalg = m.nn.functional, m.linalg
    table, row = (2, 3), (3,)
    cases = [
        (m.hypot, table, row), (m.logaddexp2, table, table), (m.fmax, table, row), (m.fmin, table, table),
        (m.copysign, table, table), (lambda x: m.copysign(x, -1.0), table), (linalg.cross, table, table),
        (m.rsub, table, table), (lambda x: m.rsub(x, 1.0), table), (lambda x: m.rsub(x, 1.0, alpha=3), table),
        (m.ldexp, table, table), (lambda x: m.ldexp(x, m.tensor([1, 2, 3])), table), (m.clamp, table, table, table),
        (lambda x: m.cummin(x, 0)[0], table), (lambda x, y: m.cholesky_solve(x, y), table, (2, 2)),
        (linalg.pinv, (2, 3)), (linalg.pinv, (3, 2)), (linalg.pinv, (2, 2)), (m.block_diag, table, row, ()),
        (lambda x, y: x.diagonal_scatter(y, 1), table, (2,)), (lambda x, y: x.put(m.tensor([0, 1]), y), table, (2,)),
        (lambda x, y: m.as_strided_scatter(x, y, (3,), (1,)), table, row),
        (lambda y: m.special.gammainc(m.full_like(y.detach(), 0.75), y), table),
        (lambda y: m.special.gammaincc(m.full_like(y.detach(), 0.75), y), table),
        (lambda *parts: m.cat(parts), *[table] * 5), (lambda *parts: m.stack(parts), *[row] * 5),
    ]  # fmt: skip
    cases += [
        (lambda x, y, p=p: m.dist(x, y, p), table, table) for p in (0.5, 1.0, 2.0, float("inf"))
    ]
    for alpha in (2, 2.5):
        cases.append((lambda x, y, alpha=alpha: m.add(x, y, alpha=alpha), table, table))
        cases.append((lambda x, y, alpha=alpha: m.sub(x, y, alpha=alpha), table, row))
        cases.append((lambda x, y, alpha=alpha: m.rsub(x, y, alpha=alpha), table, table))
    for how in ("none", "sum", "mean"):
        losses = (functional.binary_cross_entropy, functional.binary_cross_entropy_with_logits)
        cases += [(lambda x, y, f=f, how=how: f(x, y, reduction=how), table, table) for f in losses]
    zeros = m.zeros(2, 3, dtype=m.int64)
    for how in ("sum", "prod", "mean", "amax", "amin"):
        for own in (True, False):
            options = {"reduce": how, "include_self": own}
            cases.append((lambda x, y, o=options: x.scatter_reduce(0, zeros, y, **o), table, table))
    for shape in ((2, 3), (3, 2), (2, 2)):
        parts = (slice(None), slice(1), slice(1, 2))
        cases += [(lambda x, picked=picked: tuple(linalg.qr(x))[picked], shape) for picked in parts]
    found = []
    for fn, *sizes in cases:
        for recorded in (False, True):
            leaves = []
            for j, size in enumerate(sizes):
                n = 1
                for s in size:
                    n *= s
                x = m.arange(1.0, 1 + n, dtype=m.float64)
                leaves.append(((x / (8 + j) + x.sin() / 64 + j / 32).view(size)).requires_grad_())
            out = fn(*leaves)
            outs = [out] if isinstance(out, m.Tensor) else list(out)
            given = [m.ones_like(y).requires_grad_(recorded) for y in outs]
            grads = m.autograd.grad(outs, leaves, given, create_graph=True, allow_unused=True)
            found.append(
                [None if g is None else [g._version, g.grad_fn and g.grad_fn.name()] for g in grads]
            )
    return found


@program
def writes_after_running_products(m):
    """A result that was written to is noticed by the product alone, unless the incoming gradient asks for it."""
    found = []
    for recorded in (False, True):
        for write in ("nothing", "result", "factors", "given"):
            x = m.arange(1.0, 7, dtype=m.float64).view(2, 3).requires_grad_()
            factors = x * 1
            y = factors.cumprod(0)
            seen = []
            given = m.ones(2, 3, dtype=m.float64).requires_grad_(recorded)
            came = given * 1
            (g,) = m.autograd.grad(y, factors, came, create_graph=True)
            y.register_hook(lambda g, seen=seen: seen.append(g.clone()))
            for name, t in (("result", y), ("factors", factors), ("given", came)):
                if write == name:
                    t.mul_(2)
            found.append([complaint(g.sum().backward), x.grad, given.grad, seen])
    return found


@program
def versions_of_sums_over_nothing(m):
    """A gradient that is summed is a new tensor, also where there is nothing to be summed."""
    found = []
    for fn in (m.maximum, m.minimum, m.fmax, m.mul, m.add, m.div):
        for size in ((), (3,), (1, 3), (1, 1)):
            for empty in ((0, 3), (2, 0, 3), (0, 1)):
                x, y = m.zeros(empty, requires_grad=True), m.ones(size, requires_grad=True)
                fn(x, y).sum().backward()
                found.append([x.grad._version, y.grad._version, y.grad.stride(), y.grad.clone()])
    x, y, z = [m.ones(s, requires_grad=True) for s in ((2, 3), (0,), (2, 1))]
    (m.cat([x, y, z], 1) * 2).sum().backward()
    found.append([[t.grad._version, t.grad.stride(), t.grad.storage_offset()] for t in (x, y, z)])
    return found
