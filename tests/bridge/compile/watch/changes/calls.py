"""Steps that depend on what is called through builtins, libraries, context managers and transforms."""

ROWS = r"""
sorted by a function from outside
    order = {"a": 1, "b": 2}
    def place(name): return order[name]
    step: return x, sorted(["b", "a"], key=place)
    then: order["a"] = 3

the largest by a function from outside
    sign = 1
    def place(n): return sign * n
    step: return x * max([1.0, 2.0], key=place)
    then: sign = -1

map with a function from outside
    factor = 2.0
    def scale(n): return n * factor
    step: return x * sum(map(scale, [1.0, 2.0]))
    then: factor = 3.0

filter with a function from outside
    limit = 1
    def wanted(n): return n > limit
    step: return x * len(list(filter(wanted, [1, 2, 3])))
    then: limit = 2

reduce with a function from outside
    import functools
    factor = 2.0
    def join(a, b): return a * factor + b
    step: return x * functools.reduce(join, [1.0, 2.0])
    then: factor = 3.0

a substitution with a function from outside
    import re
    text = "b"
    def other(match): return text
    step: return x, re.sub("a", other, "aa")
    then: text = "c"

iter with a function from outside
    values = [1, 2, 0]
    def source():
        i = [0]
        def following():
            i[0] += 1
            return values[i[0] - 1]
        return following
    step: return x * sum(iter(source(), 0))
    then: values.insert(0, 5)

a builtin that a global shadows
    step: return x * len([1, 2])
    then: len = lambda held: 7

a builtin that is no longer shadowed
    abs = lambda n: 7
    step: return x * abs(-2)
    then: del abs

a builtin that is patched
    import builtins
    step: return x * max(1, 2)
    then: patch.setattr(builtins, "max", lambda *values: 7)

a name added to the builtins
    import builtins
    step:
        try:
            return x * factor_of_everybody
        except NameError:
            return x
    then: patch.setattr(builtins, "factor_of_everybody", 7, raising=False)

a function of a library that is patched
    import math
    step: return x * math.floor(2.5)
    then: patch.setattr(math, "floor", lambda n: 7)

a function of a library in Python that is patched
    import statistics
    step: return x * statistics.mean([1.0, 3.0])
    then: patch.setattr(statistics, "mean", lambda values: 7.0)

what a library's function calls
    import statistics
    step: return x * float(statistics.median([3.0, 1.0, 2.0]))
    then: patch.setattr(statistics, "sorted", lambda values: [7.0] * 3, raising=False)

a class of a library that is patched
    import fractions
    step: return x * float(fractions.Fraction(1, 2))
    then: patch.setattr(fractions.Fraction, "__float__", lambda self: 7.0, raising=False)

a setting of a library
    import decimal
    step: return x * float(decimal.Decimal(1) / 3)
    then: afterwards(decimal.setcontext, decimal.getcontext()); decimal.setcontext(decimal.Context(prec=2))

a number that a generator outside reads
    factor = 2.0
    def values():
        yield factor
    step: return x * next(values())
    then: factor = 3.0

a context manager in a step
    import contextlib
    factor = 2.0
    @contextlib.contextmanager
    def scaled(): yield factor
    step:
        with scaled() as value:
            return x * value
    then: factor = 3.0

a context manager of the user's class
    class Own:
        n = 2.0
        def __enter__(self): return self.n
        def __exit__(self, *error): return None
    own = Own()
    step:
        with own as value:
            return x * value
    then: own.n = 3.0

a context manager that swallows errors
    class Own:
        swallows = True
        def __enter__(self): return self
        def __exit__(self, *error): return self.swallows
    own = Own()
    step:
        try:
            with own:
                raise ValueError
            return x * 2
        except ValueError:
            return x
    then: own.swallows = False

a coroutine that is run to its end
    factor = 2.0
    async def scale(x): return x * factor
    step:
        try:
            scale(x).send(None)
        except StopIteration as e:
            return e.value
    then: factor = 3.0

a recursive function
    n, factor = 2, 2.0
    def power(x, n): return x if n == 0 else power(x * factor, n - 1)
    step: return power(x, n)
    then: factor = 3.0

an unpickled function
    import pickle
    factor = 2.0
    def scale(x): return x * factor
    text = pickle.dumps(scale)
    step: return pickle.loads(text)(x)
    then: factor = 3.0

a function that is compiled itself
    factor = 2.0
    @torch.compile
    def scale(x): return x * factor
    step: return scale(x)
    then: factor = 3.0

a function in no_grad
    factor = 2.0
    @torch.no_grad()
    def scale(x): return x * factor
    step: return scale(x)
    then: factor = 3.0

a custom Function's forward
    factor = 2.0
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x): return x * factor
        @staticmethod
        def backward(ctx, g): return g
    step: return Scale.apply(x)
    then: factor = 3.0

a custom Function's backward
    factor = 2.0
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x): return x * 2
        @staticmethod
        def backward(ctx, g): return g * factor
    step:
        y = x.clone().requires_grad_()
        return torch.autograd.grad(Scale.apply(y).sum(), y)
    then: factor = 3.0

a function under vmap
    factor = 2.0
    def scale(n): return n * factor
    step: return torch.func.vmap(scale)(x)
    then: factor = 3.0

a function under grad
    factor = 2.0
    def scale(x): return (x * factor).sum()
    step: return torch.func.grad(scale)(x)
    then: factor = 3.0

a function under checkpoint
    from torchgrad_jax.utils.checkpoint import checkpoint
    factor = 2.0
    def scale(x): return x * factor
    step: return checkpoint(scale, x, use_reentrant=False)
    then: factor = 3.0
"""
