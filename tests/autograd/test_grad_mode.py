"""no_grad, enable_grad, set_grad_enabled and inference_mode, compared with torch."""

import threading

import pytest

import torchgrad_jax as tg
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


def modes(m):
    return m.is_grad_enabled(), m.is_inference_mode_enabled()


@program
def blocks_nest(m):
    seen = [modes(m)]
    with m.no_grad():
        seen.append(modes(m))
        with m.enable_grad():
            seen.append(modes(m))
            with m.set_grad_enabled(False):
                seen.append(modes(m))
            seen.append(modes(m))
        seen.append(modes(m))
    return [*seen, modes(m)]


@program
def inference_wins_over_enable_grad(m):
    x = m.ones(2, requires_grad=True)
    with m.inference_mode():
        outer = modes(m)
        with m.enable_grad():
            inner, y = modes(m), x * 2
        with m.inference_mode(False):
            off, z = modes(m), x * 2
        after = modes(m)
    return outer, inner, y.requires_grad, y.is_inference(), off, z, after, modes(m)


@program
def inference_false_turns_grad_on(m):
    with m.no_grad(), m.inference_mode(False):
        inside = modes(m)
    return inside, modes(m)


@program
def exceptions_restore_the_mode(m):
    seen = []
    for context in (m.no_grad(), m.inference_mode(), m.set_grad_enabled(False), m.enable_grad()):
        try:
            with context:
                seen.append(modes(m))
                raise KeyError("inside")
        except KeyError:
            seen.append(modes(m))
    return seen


@program
def one_object_serves_again(m):
    seen = []
    for context in (m.no_grad(), m.inference_mode(), m.set_grad_enabled(False)):
        for _ in range(2):
            with context:
                seen.append(modes(m))
            seen.append(modes(m))
    return seen


@program
def functions_are_decorated(m):
    def probe():
        return modes(m)

    decorated = [
        m.no_grad()(probe), m.no_grad(probe), m.enable_grad()(probe), m.enable_grad(probe), m.inference_mode()(probe),
        m.inference_mode(probe), m.inference_mode(False)(probe), m.inference_mode(mode=True)(probe),
    ]  # fmt: skip
    with m.no_grad():
        inside = [f() for f in decorated]
    return inside, [f() for f in decorated], modes(m), [f.__name__ for f in decorated]


@program
def set_grad_enabled_acts_at_once(m):
    seen = []
    m.set_grad_enabled(False)
    seen.append(modes(m))
    m.set_grad_enabled(mode=True)
    return [*seen, modes(m), repr(m.set_grad_enabled(True))]


@program
def set_grad_enabled_as_a_decorator_leaves_the_mode_alone(m):
    @m.set_grad_enabled(False)
    def probe():
        return modes(m)

    before = modes(m)
    with m.no_grad():
        inside = probe(), modes(m)
    return before, probe(), inside, modes(m)


@program
def methods_are_decorated(m):
    class Model:
        @m.no_grad()
        def evaluate(self, x, *, scale=1):
            """Evaluate."""
            return (x * scale).requires_grad, modes(m)

    return Model().evaluate(m.ones(1, requires_grad=True), scale=3), Model.evaluate.__doc__


@program
def generators_keep_their_own_mode(m):
    @m.no_grad()
    def numbers():
        try:
            for i in range(3):
                got = yield i, modes(m)
                if got is not None:
                    yield "got", got, modes(m)
        except ValueError:
            yield "caught", modes(m)
        return "done"

    seen = [(item, modes(m)) for item in numbers()]
    gen = numbers()
    seen += [next(gen), gen.send("sent"), gen.throw(ValueError), modes(m)]
    try:
        next(gen)
    except StopIteration as stop:
        seen.append(stop.value)
    return seen


@program
def closing_a_generator_runs_its_cleanup_in_its_mode(m):
    seen = []

    @m.no_grad()
    def numbers():
        try:
            yield 1
        finally:
            seen.append(modes(m))

    gen = numbers()
    next(gen)
    gen.close()
    return seen, modes(m)


@program
def recursion_restores_the_mode(m):
    @m.no_grad()
    def down(n):
        return [modes(m)] + (down(n - 1) if n else [])

    return down(3), modes(m)


@program
def nothing_is_recorded_in_no_grad(m):
    x = m.ones(2, requires_grad=True)
    with m.no_grad():
        y = x * 2
        z = m.zeros(2, requires_grad=True)
    return y, z, (x * y)


@program
def views_made_in_no_grad_cannot_be_written_to_outside(m):
    x = m.ones(2, requires_grad=True) * 1
    with m.no_grad():
        y = x.view(1, 2)
        y.mul_(2)
    values = x.tolist()
    try:
        y.mul_(2)
    except RuntimeError as error:
        return values, y.requires_grad, str(error)[:60]


@program
def inference_tensors_are_kept_out_of_graphs(m):
    x = m.ones(2, requires_grad=True)
    with m.inference_mode():
        y = x * 2
        y.add_(1)
        view = x.view(2)
    total, errors = y + x, []
    for attempt in (
        lambda: y * x,
        lambda: y.add_(1),
        lambda: y._version,
        lambda: y.requires_grad_(),
    ):
        try:
            attempt()
        except RuntimeError as error:
            errors.append(str(error)[:70])
    return total, view.is_inference(), view.requires_grad, errors


@program
def writes_to_normal_tensors_in_inference_mode_are_counted(m):
    x = m.ones(2)
    with m.inference_mode():
        x.add_(2)
        y = x.view(2)
        y.add_(1)
    return x, y, x.is_inference(), y.is_inference()


@program
def wrong_arguments(m):
    errors = []
    for attempt in (lambda: m.set_grad_enabled(1), lambda: m.set_grad_enabled("a")):
        try:
            attempt()
        except TypeError as error:
            errors.append(str(error))
    return errors, modes(m)


@program
def backward_may_run_in_no_grad(m):
    x = m.ones(2, requires_grad=True)
    y = (x * 3).sum()
    with m.no_grad():
        y.backward()
    return x.grad, modes(m)


@program
def a_hook_sees_grad_mode_off(m):
    x, seen = m.ones(2, requires_grad=True), []
    y = x * 3
    y.register_hook(lambda g: seen.append((m.is_grad_enabled(), (g * 2).requires_grad)))
    y.sum().backward()
    y = x * 3
    y.register_hook(lambda g: seen.append((m.is_grad_enabled(), (g * x).requires_grad)))
    m.autograd.grad(y.sum(), x, create_graph=True)
    return seen, modes(m)


def test_modes_belong_to_a_thread():
    seen = {}
    inside, leave = threading.Event(), threading.Event()

    def worker():
        with tg.no_grad(), tg.inference_mode():
            seen["worker"] = modes(tg)
            inside.set()
            leave.wait(10)
        seen["after"] = modes(tg)

    thread = threading.Thread(target=worker)
    thread.start()
    inside.wait(10)
    seen["main"] = modes(tg)
    leave.set()
    thread.join()
    assert seen == {"worker": (False, True), "main": (True, False), "after": (True, False)}


def test_one_inference_mode_may_be_entered_within_itself():
    """torch keeps one state per object and stays in inference mode for good."""
    mode, seen = tg.inference_mode(), []
    with mode:
        with tg.inference_mode(False), mode:
            seen.append(modes(tg))
        seen.append(modes(tg))
    assert [*seen, modes(tg)] == [(False, True), (False, True), (True, False)]


def test_a_thread_starts_with_grad_mode_on():
    seen = []
    with tg.no_grad():
        thread = threading.Thread(target=lambda: seen.append(modes(tg)))
        thread.start()
        thread.join()
    assert seen == [(True, False)]


@pytest.mark.parametrize("context", ["no_grad", "enable_grad", "inference_mode"])
def test_decorating_a_class_warns(context):
    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):

        @getattr(tg, context)()
        class Model:
            pass

    Model()


def test_autograd_has_the_same_names():
    for name in ("no_grad", "enable_grad", "set_grad_enabled", "inference_mode"):
        assert (
            getattr(tg.autograd, name) is getattr(tg, name) is getattr(tg.autograd.grad_mode, name)
        )
