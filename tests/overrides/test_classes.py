"""`__torch_function__` of classes: what it is given, what it may answer; compared with torch."""

import operator

from tests.programs import Programs, plain_subclass

program = Programs()
test_same_as_torch = program.test()


def show(value):
    """An argument as text that says whether it is a tensor and of which class."""
    if isinstance(value, list | tuple):
        return [type(value).__name__, *map(show, value)]
    tensor = any(c.__name__ == "Tensor" for c in type(value).__mro__)  # asks no tensor anything
    return type(value).__name__ if tensor else repr(value)


def logging_class(m, log):
    """A subclass that writes down what its `__torch_function__` is given."""

    class Logged(m.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            log.append(
                [
                    m.overrides.resolve_name(func),
                    [t.__name__ for t in types],
                    [show(a) for a in args],
                    {k: show(v) for k, v in kwargs.items()},
                ]
            )
            return super().__torch_function__(func, types, args, kwargs)

    return Logged


def answering(m, answer):
    """A class that is no tensor and answers every function."""

    class Duck:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return answer(func, types, args, kwargs or {})

    return Duck


BINARY = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "eq", "ne", "lt", "le", "gt", "ge",
    "iadd", "isub", "imul", "itruediv", "imod", "ipow",
)  # fmt: skip
BITS = ("and_", "or_", "xor", "lshift", "rshift", "iand", "ior", "ixor")


@program
def operators_on_the_left(m):
    log = []
    x = logging_class(m, log)([1.0, 2.0])
    for name in BINARY:
        getattr(operator, name)(x.clone(), 2)
    # torch has one object for two names, and finds this one first.
    names = {"torch.Tensor.__pow__": "torch.Tensor.pow", "torch.Tensor.__ipow__": "torch.Tensor.pow_"}
    return [[names.get(e[0], e[0]), *e[1:]] for e in log if e[0] != "torch.Tensor.clone"]


@program
def operators_on_the_right(m):
    log = []
    x = logging_class(m, log)([1.0, 2.0])
    return [2 + x, 2 * x, m.ones(2) - x, m.ones(2) * x, m.ones(2, 2) @ x], log


@program
def operators_on_integers(m):
    log = []
    x = m.tensor([1, 2]).as_subclass(logging_class(m, log))
    for name in BITS:
        getattr(operator, name)(x.clone(), 1)
    results = [~x, 3 & x, 3 | x, 3 ^ x]
    return results, [entry for entry in log if entry[0] != "torch.Tensor.clone"]


@program
def unary_operators(m):
    log = []
    x = logging_class(m, log)([1.0, -2.0])
    return [-x, +x, abs(x)], log


@program
def matrix_product(m):
    log = []
    x = logging_class(m, log)([[1.0, 2.0], [3.0, 4.0]])
    return x @ x, m.matmul(x, x), log


@program
def functions_and_methods_apart(m):
    log = []
    x = logging_class(m, log)([1.0, 2.0])
    results = [m.add(x, 1), x.add(1), m.sum(x, dim=0), x.sum(0, keepdim=True), m.exp(x), x.exp()]
    return results, log


@program
def arguments_as_they_were_given(m):
    log = []
    x = logging_class(m, log)([[1.0, 2.0], [3.0, 4.0]])
    m.sum(input=x, dim=(0, 1))
    m.mean(x, 0, True)
    x.view(4)
    x.view(2, 2)
    x.reshape(-1)
    m.transpose(x, 0, 1)
    m.add(x, 1, alpha=2)
    m.zeros_like(x)
    x.new_zeros(2)
    x.to(m.float64)
    return log


@program
def tensors_in_lists(m):
    log = []
    x = logging_class(m, log)([1.0, 2.0])
    return m.cat([x, m.ones(1)]), m.stack((m.ones(2), x)), m.cat(tensors=[x], dim=0), log


@program
def out_argument(m):
    log = []
    x = logging_class(m, log)([1.0, 2.0])
    return m.add(m.ones(2), m.ones(2), out=x), log


@program
def properties(m):
    log = []
    x = logging_class(m, log)([[1.0, 2.0]])
    seen = [x.shape, x.dtype, x.ndim, x.requires_grad, x.grad, x.is_leaf, x.grad_fn, x._version, x.T]
    x.requires_grad = True
    x.data = m.zeros(1)
    del x.grad
    return seen, log


@program
def metadata_methods(m):
    log = []
    x = logging_class(m, log)([[1.0, 2.0]])
    seen = [x.size(), x.size(0), x.stride(), x.dim(), x.numel(), x.is_contiguous(), x.is_floating_point()]
    return seen, log


@program
def protocols(m):
    log = []
    x = logging_class(m, log)([1.5, 2.0])
    one = x[0]
    seen = [len(x), bool(one), int(one), float(one), complex(one), one.item(), x.tolist(), 2.0 in x]
    return seen, [entry[0] for entry in log]


@program
def indexing(m):
    log = []
    x = logging_class(m, log)([1.0, 2.0, 3.0])
    x[0] = 5.0
    m.ones(3)[0] = x[1]
    return [x[0], x[1:], x[x > 2], m.arange(3)[x > 2]], log


@program
def backward_and_grad(m):
    log = []
    x = logging_class(m, log)([1.0, 2.0]).requires_grad_()
    (x * 2).sum().backward()
    grads = m.autograd.grad((x * x).sum(), x)
    return x.grad, type(x.grad).__name__, [type(g).__name__ for g in grads], [e[0] for e in log]


@program
def functional(m):
    log = []
    x = logging_class(m, log)([[1.0, -2.0]])
    f = m.nn.functional
    return [f.relu(x), f.linear(x, m.ones(3, 2)), f.softmax(x, 1)], [entry[0] for entry in log]


@program
def submodules(m):
    log = []
    x = logging_class(m, log)([[1.0, -2.0]])
    return [m.linalg.norm(x), m.special.erf(x), m.fft.fft(x)], [entry[0].rpartition(".")[2] for entry in log]


@program
def results_have_the_class(m):
    mine = plain_subclass(m)
    x = mine([[1.0, 2.0], [3.0, 4.0]])
    results = [
        x + 1, 1 + x, m.ones(2) * x, x[0], x.T, x.sum(), x.view(4), x.clone(), x.detach(), x.data, m.relu(x),
        x.max(0), x.split(1), x.unbind(), m.cat([x, x]), x.new_ones(1), m.zeros_like(x), x.float(), *x,
    ]  # fmt: skip
    return [show(r) for r in results], type(x.shape).__name__, type(x.max(0)).__name__


@program
def history_passes_through_the_conversion(m):
    x = plain_subclass(m)([1.0, 2.0]).requires_grad_()
    y = x * 2
    return type(y).__name__, y.grad_fn, y.sum().backward(), x.grad


@program
def in_place_returns_the_object(m):
    x = plain_subclass(m)([1.0, 2.0])
    y = x
    y += 1
    return y is x, x.add_(1) is x, x.zero_() is x, x, type(x).__name__


@program
def unrelated_subclasses(m):
    first, second = plain_subclass(m), plain_subclass(m)
    try:
        return first([1.0]) + second([1.0])
    except TypeError as error:
        return str(error)


@program
def the_deeper_class_decides(m):
    base = plain_subclass(m)
    log = []

    class Deeper(base):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            log.append([t.__name__ for t in types])
            return super().__torch_function__(func, types, args, kwargs)

    return show(m.add(base([1.0]), Deeper([1.0]))), show(m.add(Deeper([1.0]), base([1.0]))), log


@program
def order_of_asking(m):
    asked = []

    def maker(name, bases=()):
        def ask(cls, func, types, args=(), kwargs=None):
            asked.append(name)
            return NotImplemented

        return type(name, bases or (object,), {"__torch_function__": classmethod(ask)})

    a, b = maker("A"), maker("B")
    c = maker("C", (a,))
    for args in ([a(), b()], [b(), a()], [a(), c()], [b(), c(), a()], [a(), a()]):
        try:
            m.cat(args)
        except TypeError:
            asked.append("|")
    return asked


@program
def a_method_with_super(m):
    log = []

    class Sized(logging_class(m, log)):
        def size(self, dim=None):
            return "my own", super().size()

    return Sized([1.0, 2.0]).size(), log


@program
def unbound_methods(m):
    log = []
    x = logging_class(m, log)([1.0, 2.0])
    return m.Tensor.size(x), m.Tensor.add(x, 1), m.Tensor.shape.__get__(x), [e[0] for e in log]


@program
def dictionaries_of_functions(m):
    handled = {m.mean: "torch.mean", m.Tensor.mean: "Tensor.mean", m.Tensor.shape.__get__: "shape"}
    duck = answering(m, lambda func, types, args, kwargs: handled.get(func, "else"))
    mine = type("Mine", (m.Tensor,), {"__torch_function__": duck.__dict__["__torch_function__"]})
    x = mine([1.0])
    return m.mean(x), x.mean(), x.shape, m.sum(x), m.mean(duck()), m.sum(duck())


@program
def names_of_functions(m):
    duck = answering(m, lambda func, types, args, kwargs: func.__name__)
    mine = type("Mine", (m.Tensor,), {"__torch_function__": duck.__dict__["__torch_function__"]})
    x = mine([1.0])
    return [
        x.add(1), x + 1, x[0], x.size(), x.numel(), m.add(x, 1), x.shape, 1 - x, x // 2, x.item(), x.tolist(),
        x.detach(), x.is_contiguous(), x.sum(), m.relu(x), m.nn.functional.relu(x),
    ]  # fmt: skip


@program
def ducks(m):
    duck = answering(m, lambda func, types, args, kwargs: (len(args), sorted(kwargs), types[0].__name__))
    d, t = duck(), m.ones(2)
    return [
        m.add(d, 1),
        m.add(t, d),
        m.sum(d, dim=0),
        m.cat([t, d]),
        t.add(d),
        t + d,
        t * d,
        t[d],
        m.relu(d),
        m.where(t > 0, d, t),
        m.nn.functional.linear(d, t),
        m.matmul(d, t),
        t.view_as(d),
    ]


@program
def nobody_answers(m):
    def refuse(func, types, args, kwargs):
        return NotImplemented

    duck = answering(m, refuse)
    mine = type("Mine", (m.Tensor,), {"__torch_function__": duck.__dict__["__torch_function__"]})
    x, d, t = mine([1.0]), duck(), m.ones(1)
    attempts = {
        "function": lambda: m.add(x, 1),
        "method": lambda: x.add(1),
        "two": lambda: m.add(x, d),
        "property": lambda: x.shape,
        "index": lambda: x[0],
        "operator": lambda: x + 1,
        "duck": lambda: t + d,
        "reflected": lambda: d + t,
        "power": lambda: t**d,
    }
    found = {}
    for name, attempt in attempts.items():
        try:
            found[name] = attempt()
        except TypeError as error:
            found[name] = str(error).replace(f"{__name__}.", "")
    return found


@program
def operators_that_raise(m):
    class Raising:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise TypeError("nope")

    t, d = m.ones(1), Raising()
    found = [t.__add__(d), t.__sub__(d), t.__pow__(d), t.__and__(d), t.__iadd__(d), t == d]
    try:
        m.add(t, d)
    except TypeError as error:
        found.append(str(error))
    return found


@program
def reflected_method_of_the_other(m):
    class Other:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

        def __radd__(self, other):
            return "radd"

        def __rpow__(self, other):
            return "rpow"

    return m.ones(1) + Other(), m.ones(1) ** Other()


@program
def plain_method_is_deprecated(m):
    class Old:
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return "old", args[0] is self

    return m.nn.functional.relu(Old())


@program
def disabled_for_a_class(m):
    class Quiet(m.Tensor):
        __torch_function__ = m._C._disabled_torch_function_impl

    x = Quiet([1.0, 2.0])
    return [show(v) for v in (x, x + 1, x[0], x.clone(), x.detach(), x.add_(1), m.relu(x))]


@program
def disabled_in_a_block(m):
    x = plain_subclass(m)([1.0])
    with m._C.DisableTorchFunctionSubclass():
        inside = [show(x + 1), show(x[0]), show(m.relu(x)), m._C._is_torch_function_enabled()]
        with m._C.DisableTorchFunction():
            inside.append(m._C._is_torch_function_all_disabled())
        inside.append(m._C._is_torch_function_all_disabled())
    return inside, show(x + 1), m._C._is_torch_function_enabled()


@program
def constructors_do_not_ask(m):
    log = []
    mine = logging_class(m, log)
    x = mine([1.0, 2.0])
    made = [mine(x), x.as_subclass(m.Tensor), m.Tensor._make_subclass(mine, x), m.tensor([1.0]), m.is_tensor(x)]
    return [show(v) for v in made], log


@program
def custom_functions_see_the_class(m):
    seen = []

    class Double(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(show(x))
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen.append(show(g))
            return g * 2

    x = plain_subclass(m)([1.0, 2.0]).requires_grad_()
    out = Double.apply(x)
    out.sum().backward()
    return seen, x.grad


@program
def hooks_get_plain_gradients(m):
    seen = []
    x = plain_subclass(m)([1.0, 2.0]).requires_grad_()
    y = x * 3
    y.register_hook(lambda g: seen.append(show(g)))
    y.sum().backward()
    return seen, show(x.grad)


@program
def metadata_that_travels(m):
    class Labelled(m.Tensor):
        @staticmethod
        def __new__(cls, data, label):
            out = m.as_tensor(data).as_subclass(cls)
            out.label = label
            return out

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            out = super().__torch_function__(func, types, args, kwargs)
            labels = [a.label for a in args if isinstance(a, cls) and hasattr(a, "label")]
            if isinstance(out, cls) and not hasattr(out, "label"):
                out.label = "+".join(labels)
            return out

    a, b = Labelled([1.0], "a"), Labelled([2.0], "b")
    return (a + b).label, (a * 2 + b).label, a[0].label, m.exp(a).label
