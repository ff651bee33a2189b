"""Steps that depend on globals and closures."""

ROWS = r"""
a number in a global
    factor = 2.0
    step: return x * factor
    then: factor = 3.0

a whole number in a global
    n = 2
    step: return x.repeat(n)
    then: n = 3

a bool in a global
    flag = True
    step: return x * 2 if flag else x
    then: flag = False

a text in a global
    kind = "mul"
    step: return x * 2 if kind == "mul" else x + 2
    then: kind = "add"

None in a global
    bias = None
    step: return x if bias is None else x + bias
    then: bias = 1.0

a complex number in a global
    factor = 2j
    step: return x * abs(factor)
    then: factor = 3j

an equal number of another type in a global
    factor = 2
    step: return torch.arange(2) * factor
    then: factor = 2.0

True in the place of 1
    factor = 1
    step: return x, str(factor)
    then: factor = True

a zero that gets a sign
    zero = 0.0
    step: return x / zero
    then: zero = -0.0

a number that becomes nan
    factor = 2.0
    step: return x, factor != factor
    then: factor = float("nan")

a tensor in a global
    w = torch.ones(2)
    step: return x * w
    then: w = torch.zeros(2)

a tensor in a global of another shape
    w = torch.ones(2)
    step: return x * w
    then: w = torch.ones(1, 2)

a dtype in a global
    kind = torch.float32
    step: return str(x.to(kind).dtype)
    then: kind = torch.float16

a fraction in a global
    from fractions import Fraction
    factor = Fraction(2)
    step: return x * float(factor)
    then: factor = Fraction(3)

a date in a global
    import datetime
    day = datetime.date(2000, 1, 2)
    step: return x * day.day
    then: day = datetime.date(2000, 1, 3)

a pattern in a global
    import re
    pattern = re.compile("a")
    step: return x * (2.0 if pattern.match("abc") else 1.0)
    then: pattern = re.compile("b")

a path in a global
    from pathlib import Path
    path = Path("a")
    step: return x, path.name
    then: path = Path("b")

a global that appears, by a NameError
    step:
        try:
            return x * later
        except NameError:
            return x
    then: later = 3.0

a global that disappears
    factor = 2.0
    step: return x * (factor if "factor" in globals() else 1.0)
    then: del factor

a global through globals()
    factor = 2.0
    step: return x * globals()["factor"]
    then: factor = 3.0

a global through globals().get
    step: return x * globals().get("later", 1.0)
    then: later = 3.0

a global through eval
    factor = 2.0
    step: return x * eval("factor * 2")
    then: factor = 3.0

a global through exec
    factor = 2.0
    step:
        found = {}
        exec("a = factor * 2", globals(), found)
        return x * found["a"]
    then: factor = 3.0

a text for eval
    text = "2 + 1"
    step: return x * eval(text)
    then: text = "2 + 2"

a code object for eval
    factor = 2.0
    code = compile("factor + 1", "text", "eval")
    step: return x * eval(code)
    then: factor = 3.0

a global through the function's module in sys.modules
    import sys
    factor = 2.0
    step: return x * vars(sys.modules[__name__])["factor"]
    then: factor = 3.0

a global through a function's __globals__
    factor = 2.0
    def other(): pass
    step: return x * other.__globals__["factor"]
    then: factor = 3.0

a global through the frame
    import sys
    factor = 2.0
    step: return x * sys._getframe().f_globals["factor"]
    then: factor = 3.0

a global that a class body reads
    factor = 2.0
    step:
        class Own:
            scale = factor
        return x * Own.scale
    then: factor = 3.0

a base of a class that the step makes
    class Base: scale = 2.0
    step:
        class Own(Base):
            pass
        return x * Own().scale
    then: Base.scale = 3.0

a global that a comprehension reads
    factor = 2.0
    step: return sum([x * factor for _ in range(2)])
    then: factor = 3.0

a global that an inner function reads
    factor = 2.0
    step:
        def inner():
            return factor
        return x * inner()
    then: factor = 3.0

a global that a generator inside reads
    factor = 2.0
    step:
        def values():
            yield factor
            yield 1.0
        return x * sum(values())
    then: factor = 3.0

a global that the default of an inner function reads
    factor = 2.0
    step: return (lambda x, scale=factor: x * scale)(x)
    then: factor = 3.0

a global that a decorator inside reads
    factor = 2.0
    def scaled(fn): return lambda x: fn(x) * factor
    step:
        @scaled
        def inner(x):
            return x
        return inner(x)
    then: factor = 3.0

a global in an assertion
    limit = 1.0
    step:
        try:
            assert limit > 0, "small"
        except AssertionError:
            return x * 2
        return x
    then: limit = -1.0

a global in a chained comparison
    low, high = 1, 3
    step: return x * (2.0 if low < 2 < high else 1.0)
    then: high = 2

a global in a text
    n = 2
    step: return x, f"{n:>4}|{n!r}"
    then: n = 3

a format in a global
    form = ".1f"
    step: return x, f"{1.25:{form}}", format(1.25, form)
    then: form = ".2f"

a text formatted by %
    n = 2
    step: return x, "%d of %s" % (n, "a")
    then: n = 3

a name that a template reads
    import string
    n = 2
    step: return x, string.Template("$n").substitute(globals())
    then: n = 3

a global counted by a while loop
    n = 2
    step:
        i = 0
        while i < n:
            x, i = x * 2, i + 1
        return x
    then: n = 3

an exception that a handler names
    Expected = KeyError
    step:
        try:
            raise KeyError("a")
        except Expected:
            return x
        except LookupError:
            return x * 2
    then: Expected = ValueError

an exception that a step raises
    text = "a"
    step:
        try:
            raise ValueError(text)
        except ValueError as e:
            return x, str(e)
    then: text = "b"

a number in a closure
    enclosed: factor = 2.0
    step: return x * factor
    then: nonlocal factor; factor = 3.0

a tensor in a closure
    enclosed: w = torch.ones(2)
    step: return x * w
    then: nonlocal w; w = torch.zeros(2)

a function in a closure
    enclosed: scale = lambda x: x * 2
    step: return scale(x)
    then: nonlocal scale; scale = lambda x: x * 3

a number in the closure of a helper
    def make():
        factor = 2.0
        def scale(x): return x * factor
        def change():
            nonlocal factor
            factor = 3.0
        return scale, change
    scale, change_it = make()
    step: return scale(x)
    then: change_it()

a cell of a helper, written from outside
    def make(factor): return lambda x: x * factor
    scale = make(2.0)
    step: return scale(x)
    then: scale.__closure__[0].cell_contents = 3.0

a cell that is read by its contents
    def make(factor): return lambda x: x * factor
    scale = make(2.0)
    step: return x * scale.__closure__[0].cell_contents
    then: scale.__closure__[0].cell_contents = 3.0

a number two closures deep
    def make():
        factor = 2.0
        def outer():
            def inner(x): return x * factor
            return inner
        def change():
            nonlocal factor
            factor = 3.0
        return outer(), change
    scale, change_it = make()
    step: return scale(x)
    then: change_it()

a closure that gets a value later
    enclosed: more = None; del more
    step:
        try:
            return x * more
        except NameError:
            return x
    then: nonlocal more; more = 3.0
"""
