"""Rows of torch.autograd.functional and torch.autograd.gradcheck."""

import importlib

from tests.autograd.page.rows import Rows, leaf, text_of_error

FUNCTIONAL, CHECKS = Rows(), Rows()


# --- functional -----------------------------------------------------------------------------------


def exp_reducer(x):
    return x.exp().sum(dim=1)


def pow_reducer(x):
    return x.pow(3).sum()


def adder(x, y):
    return 2 * x + 3 * y


def square(m):
    return m.tensor([[0.5, 1.0], [1.5, 2.0]])


def pair(m):
    return m.tensor([1.0, 2.0]), m.tensor([3.0, 4.0])


def examples(name, of_one, one_v, of_two, two_v):
    """A function of `functional` of one input and of two, and with `create_graph`."""

    def run(m):
        call, x = getattr(m.autograd.functional, name), square(m)
        single = () if one_v is None else (one_v(m),)
        both = () if one_v is None else (two_v(m),)
        recorded = call(of_one, x.requires_grad_(), *single, create_graph=True)
        flat = recorded if isinstance(recorded, tuple) else (recorded,)
        return call(of_one, square(m), *single), call(of_two, pair(m), *both), [t.requires_grad for t in flat]

    return run


FUNCTIONAL |= {
    "jacobian: example": examples("jacobian", exp_reducer, None, lambda x, y: 2 * x.exp() + 3 * y, None),
    "hessian: example": examples("hessian", pow_reducer, None, lambda x, y: (2 * x**2 + 3 * y**2).sum(), None),
    "vjp: example": examples("vjp", exp_reducer, lambda m: m.ones(2), adder, lambda m: m.ones(2)),
    "jvp: example": examples("jvp", exp_reducer, lambda m: m.ones(2, 2), adder, lambda m: (m.ones(2), m.ones(2))),
    **{
        f"{name}: example": examples(
            name, pow_reducer, lambda m: m.ones(2, 2), lambda x, y: (2 * x**2 + 3 * y**2).sum(),
            lambda m: (m.zeros(2), m.ones(2)),
        )
        for name in ("vhp", "hvp")
    },
}  # fmt: skip


def options(name, func, *v):
    """`func` and `inputs` by name, `create_graph`, and `strict` where an output does not depend on the input."""

    def run(m):
        call, vectors = getattr(m.autograd.functional, name), [make(m) for make in v]
        named = {"v": vectors[0]} if vectors else {}
        x = square(m).requires_grad_()
        by_name = call(func=func, inputs=square(m), **named)
        recorded = call(func=func, inputs=x, create_graph=True, **named)
        last = recorded[-1] if isinstance(recorded, tuple) else recorded
        again = m.autograd.grad(last.sum(), x)

        def unrelated(t):
            return m.ones(2) if name in ("jacobian", "vjp", "jvp") else m.ones(())

        loose = call(unrelated, square(m), strict=False, **named)
        return by_name, again, loose, text_of_error(lambda: call(unrelated, square(m), strict=True, **named))

    return run


FUNCTIONAL |= {
    "jacobian(func, inputs, create_graph, strict)": options("jacobian", exp_reducer),
    "hessian(func, inputs, create_graph, strict)": options("hessian", pow_reducer),
    "vjp(func, inputs, v, create_graph, strict)": options("vjp", exp_reducer, lambda m: m.ones(2)),
    "jvp(func, inputs, v, create_graph, strict)": options("jvp", exp_reducer, lambda m: m.ones(2, 2)),
    "vhp(func, inputs, v, create_graph, strict)": options("vhp", pow_reducer, lambda m: m.ones(2, 2)),
    "hvp(func, inputs, v, create_graph, strict)": options("hvp", pow_reducer, lambda m: m.ones(2, 2)),
    "jacobian(vectorize, strategy)": lambda m: [
        m.autograd.functional.jacobian(exp_reducer, square(m), vectorize=True, strategy="reverse-mode"),
        m.autograd.functional.jacobian(exp_reducer, square(m), vectorize=True, strategy="forward-mode"),
        text_of_error(lambda: m.autograd.functional.jacobian(exp_reducer, square(m), strategy="forward-mode")),
        text_of_error(lambda: m.autograd.functional.jacobian(exp_reducer, square(m), strategy="sideways")),
    ],
    "hessian(vectorize, outer_jacobian_strategy)": lambda m: [
        m.autograd.functional.hessian(pow_reducer, square(m), vectorize=v, outer_jacobian_strategy=s)
        for v, s in ((True, "reverse-mode"), (True, "forward-mode"), (False, "reverse-mode"))
    ],
}


# --- gradcheck ------------------------------------------------------------------------------------


def wrong(m):
    """A function whose backward is off by a hundredth."""

    class Wrong(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2.01

    return Wrong.apply


def double(m):
    return leaf(m, 0.5, -1.5, dtype="float64")


def verdicts(name, func, **tried):
    """What the check says with each of the values of an option, of `x.exp()` and of a function of the row."""

    def run(m):
        check = getattr(m.autograd, name)
        return [
            text_of_error(lambda f=f, o=o: check(f, (double(m),), raise_exception=False, **o))
            for f in (lambda x: x.exp(), func(m))
            for values in (next(iter(tried.values())),)
            for o in (dict.fromkeys(tried, value) for value in values)
        ]

    return run


def plain(m):
    return lambda x: x.sin() * x


def second_wrong(m):
    """A function whose second derivative is off."""

    class Wrong(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x.detach() ** 2

    return Wrong.apply


@CHECKS("gradcheck(func, inputs)")
def gradcheck(m):
    return m.autograd.gradcheck(func=lambda x, y: x * y.exp(), inputs=(double(m), double(m)))


@CHECKS("gradcheck(raise_exception), GradcheckError")
def gradcheck_raises(m):
    E = importlib.import_module(f"{m.__name__}.autograd.gradcheck").GradcheckError
    raised = text_of_error(lambda: m.autograd.gradcheck(wrong(m), (double(m),), raise_exception=True))
    return raised, m.autograd.gradcheck(wrong(m), (double(m),), raise_exception=False), issubclass(E, RuntimeError)


@CHECKS("gradcheck(nondet_tol)")
def gradcheck_of_noise(m):
    calls = iter(range(10**6))

    class Noisy(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * (2 + 1e-7 * next(calls))

    x = double(m)
    return [m.autograd.gradcheck(Noisy.apply, (x,), nondet_tol=t, raise_exception=False) for t in (0.0, 1.0)]


@CHECKS("gradcheck(check_grad_dtypes)")
def gradcheck_of_dtypes(m):
    check = m.autograd.gradcheck
    return [check(lambda x: x.cos(), (double(m),), check_grad_dtypes=c) for c in (True, False)]


@CHECKS("gradcheck(masked)")
def gradcheck_masked(m):
    return [m.autograd.gradcheck(plain(m), (double(m),), masked=mask) for mask in (True, False)]


CHECKS |= {
    "gradcheck(eps)": verdicts("gradcheck", lambda m: lambda x: x**5, eps=(1e-6, 0.3)),
    "gradcheck(atol)": verdicts("gradcheck", wrong, atol=(1e-5, 1.0)),
    "gradcheck(rtol)": verdicts("gradcheck", wrong, rtol=(1e-3, 1.0)),
    "gradcheck(check_undefined_grad)": verdicts("gradcheck", plain, check_undefined_grad=(True, False)),
    "gradcheck(check_batched_grad)": verdicts("gradcheck", plain, check_batched_grad=(True, False)),
    "gradcheck(check_batched_forward_grad, check_forward_ad)": lambda m: m.autograd.gradcheck(
        plain(m), (double(m),), check_forward_ad=True, check_batched_forward_grad=True
    ),
    "gradcheck(check_backward_ad)": lambda m: [
        m.autograd.gradcheck(
            plain(m), (double(m),), check_backward_ad=b, check_forward_ad=not b, check_undefined_grad=b,
            check_batched_grad=b,
        )
        for b in (True, False)
    ],
    "gradcheck(fast_mode)": verdicts("gradcheck", wrong, fast_mode=(True, False)),
    "gradgradcheck(func, inputs, grad_outputs)": lambda m: m.autograd.gradgradcheck(
        func=plain(m), inputs=(double(m),), grad_outputs=(double(m),)
    ),
    "gradgradcheck(raise_exception)": lambda m: [
        text_of_error(lambda r=r: m.autograd.gradgradcheck(second_wrong(m), (double(m),), raise_exception=r))
        for r in (True, False)
    ],
    "gradgradcheck(eps)": verdicts("gradgradcheck", lambda m: lambda x: x**5, eps=(1e-6, 0.3)),
    "gradgradcheck(atol)": verdicts("gradgradcheck", second_wrong, atol=(1e-5, 100.0)),
    "gradgradcheck(rtol)": verdicts("gradgradcheck", second_wrong, rtol=(1e-3, 1e9)),
    "gradgradcheck(gen_non_contig_grad_outputs)": verdicts(
        "gradgradcheck", plain, gen_non_contig_grad_outputs=(True, False)
    ),
    "gradgradcheck(nondet_tol)": verdicts("gradgradcheck", plain, nondet_tol=(0.0, 1.0)),
    "gradgradcheck(check_undefined_grad)": verdicts("gradgradcheck", plain, check_undefined_grad=(True, False)),
    "gradgradcheck(check_grad_dtypes)": verdicts("gradgradcheck", plain, check_grad_dtypes=(True, False)),
    "gradgradcheck(check_batched_grad)": verdicts("gradgradcheck", plain, check_batched_grad=(True, False)),
    "gradgradcheck(check_fwd_over_rev, check_rev_over_rev)": lambda m: [
        m.autograd.gradgradcheck(
            plain(m), (double(m),), check_fwd_over_rev=f, check_rev_over_rev=r, check_undefined_grad=r
        )
        for f, r in ((True, True), (True, False), (False, True))
    ],
    "gradgradcheck(fast_mode)": verdicts("gradgradcheck", second_wrong, fast_mode=(True, False)),
    "gradgradcheck(masked)": verdicts("gradgradcheck", plain, masked=(True, False)),
}  # fmt: skip
