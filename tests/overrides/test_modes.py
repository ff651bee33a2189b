"""`TorchFunctionMode`: what a mode sees, nesting, errors, and that threads are apart; compared with torch."""

import threading

import pytest

import torchgrad_jax as tg
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


def logging_mode(m, log, tag="mode", answer=None):
    class Log(m.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            log.append([tag, m.overrides.resolve_name(func), len(args), sorted(kwargs or {})])
            return func(*args, **(kwargs or {})) if answer is None else answer

    return Log()


@program
def functions_methods_operators(m):
    log = []
    x = m.ones(2)
    with logging_mode(m, log):
        results = [x + 1, m.add(x, 1), x.add(1), x[0], x.sum(0), m.relu(x), 2 * x]
    return results, log


@program
def factories(m):
    log = []
    with logging_mode(m, log):
        results = [m.ones(2), m.zeros(1), m.tensor([1.0]), m.arange(3), m.full((2,), 1.0), m.as_tensor(1.0)]
        m.rand(1)
    return results, log


@program
def properties_and_metadata(m):
    log = []
    x = m.ones(2)
    with logging_mode(m, log):
        seen = [x.shape, x.dtype, x.grad, x.is_leaf, x.size(), x.dim(), x.numel(), x.tolist()]
        x.requires_grad = True
    return seen, log


@program
def what_a_mode_does_not_see(m):
    log = []
    x = m.ones(2)
    with logging_mode(m, log):
        m.is_tensor(x)
        m.is_grad_enabled()
        m.get_default_dtype()
        hash(x)
        m.Tensor(2)
        x.as_subclass(m.Tensor)
        m.nn.Parameter(x)
    return log


@program
def the_mode_is_off_inside_itself(m):
    log = []

    class Twice(m.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            log.append(m.overrides.resolve_name(func))
            out = func(*args, **(kwargs or {}))
            return out + 1

    with Twice():
        y = m.ones(2) * 3
    return y, log


@program
def nesting(m):
    log = []
    x = m.ones(2)
    with logging_mode(m, log, "outer"):
        with logging_mode(m, log, "inner"):
            y = x + 1
        z = x * 2
    return y, z, x - 1, log


@program
def one_mode_twice(m):
    log = []
    mode = logging_mode(m, log)
    with mode, mode:
        y = m.add(m.ones(1), 1)
    return y, log


@program
def an_answer_of_its_own(m):
    x = m.ones(1)
    with logging_mode(m, [], answer="mine"):
        return m.add(x, 1), m.ones(2), x.shape, x.sum()


@program
def refusing(m):
    found = []
    x = m.ones(1)
    with logging_mode(m, [], answer=NotImplemented):
        for attempt in (lambda: m.add(x, 1), lambda: x + 1, lambda: m.exp(x)):
            try:
                found.append(attempt())
            except TypeError as error:
                found.append(str(error).replace(f"{__name__}.", ""))
    return found


@program
def before_classes(m):
    log = []

    class Mine(m.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            log.append(["class", m.overrides.resolve_name(func)])
            return super().__torch_function__(func, types, args, kwargs)

    x = Mine([1.0])
    with logging_mode(m, log):
        y = m.add(x, 1)
    return type(y).__name__, log


@program
def disabling(m):
    log = []
    x = m.ones(1)
    with logging_mode(m, log):
        with m._C.DisableTorchFunctionSubclass():
            m.add(x, 1)
        log.append("|")
        with m._C.DisableTorchFunction():
            m.add(x, 1)
        log.append("|")
        m.add(x, 1)
    return log


@program
def left_by_an_exception(m):
    log = []
    try:
        with logging_mode(m, log):
            raise ValueError
    except ValueError:
        pass
    m.ones(1)
    return log, m._C._len_torch_function_stack()


@program
def an_exception_in_the_mode(m):
    class Bad(m.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            raise ValueError("bad")

    with Bad():
        try:
            m.ones(1)
        except ValueError:
            depth = m._C._len_torch_function_stack()
    return depth, m._C._len_torch_function_stack()


@program
def base_classes(m):
    with m.overrides.BaseTorchFunctionMode():
        y = m.ones(2) + 1
    with m.overrides.TorchFunctionMode():
        try:
            m.ones(2)
        except NotImplementedError:
            return y, "raised"


@program
def push_warns(m):
    return type(m.overrides.TorchFunctionMode.push()).__name__


@program
def backward(m):
    log = []
    x = m.ones(2, requires_grad=True)
    with logging_mode(m, log):
        (x * 2).sum().backward()
    return x.grad, [e[1] for e in log]


@program
def the_stack(m):
    o, c = m.overrides, m._C
    first, second = logging_mode(m, []), logging_mode(m, [])
    with first, second:
        seen = [
            o._get_current_function_mode() is second,
            [mode is x for mode, x in zip(o._get_current_function_mode_stack(), (first, second))],
            c._len_torch_function_stack(),
            c._get_function_stack_at(0) is first,
        ]
        with o._pop_mode_temporarily() as top:
            seen += [top is second, o._get_current_function_mode() is first]
    return seen, o._get_current_function_mode(), o._get_current_function_mode_stack()


@program
def redispatch(m):
    o = m.overrides
    log = []

    class Logged(m.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            log.append(func.__name__)
            return o.redispatch_function(func, types, args, kwargs)

    def composed(a, b):
        if o.has_torch_function((a, b)):
            return o.handle_torch_function(composed, (a, b), a, b)
        return a * b + 1

    x, y = Logged([3.0]), Logged([4.0])
    return composed(x, y), log, type(composed(x, y)).__name__


@program
def redispatch_in_a_mode(m):
    o = m.overrides
    log = []

    class Log(o.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            log.append(func.__name__)
            with self:
                return o.redispatch_function(func, types, args, kwargs)

    def composed(a, b):
        if o.has_torch_function((a, b)):
            return o.handle_torch_function(composed, (a, b), a, b)
        return a * b + 1

    with Log():
        return composed(m.ones(1), m.ones(1)), log


def test_modes_belong_to_a_thread():
    log = []
    with logging_mode(tg, log):
        thread = threading.Thread(target=lambda: tg.ones(2) + 1)
        thread.start()
        thread.join()
    assert log == []


def test_an_empty_stack_has_nothing_to_pop():
    with pytest.raises(RuntimeError, match="empty"):
        tg._C._pop_torch_function_stack()
