"""no_grad, enable_grad, set_grad_enabled and inference_mode, compared with torch."""

import threading

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
        m.no_grad()(probe),
        m.no_grad(probe),
        m.enable_grad()(probe),
        m.enable_grad(probe),
        m.inference_mode()(probe),
        m.inference_mode(probe),
        m.inference_mode(False)(probe),
        m.inference_mode(mode=True)(probe),
    ]
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
def methods_are_decorated(m):
    class Model:
        @m.no_grad()
        def evaluate(self, x, *, scale=1):
            """Evaluate."""
            return (x * scale).requires_grad, modes(m)

    return Model().evaluate(m.ones(1, requires_grad=True), scale=3), Model.evaluate.__doc__


@program
def recursion_restores_the_mode(m):
    @m.no_grad()
    def down(n):
        return [modes(m)] + (down(n - 1) if n else [])

    return down(3), modes(m)


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


def test_autograd_has_the_same_names():
    for name in ("no_grad", "enable_grad", "set_grad_enabled", "inference_mode"):
        assert getattr(tg.autograd, name) is getattr(tg, name) is getattr(tg.autograd.grad_mode, name)
