"""Functions look for overrides only once a program has some, and stay the objects that they were."""

import subprocess
import sys
import textwrap

import pytest

PROGRAMS = {
    "not-for-parameters": """
        p = tg.nn.Parameter(tg.ones(2))
        (p * p).sum().backward()
        class Quiet(tg.Tensor):
            __torch_function__ = tg._C._disabled_torch_function_impl
        Quiet([1.0]) + p
        tg.nn.Buffer(p)
        assert not looking.ACTIVE
    """,
    "for-a-class": """
        before = [tg.sin, tg.Tensor.sin, tg.Tensor.size, tg.Tensor.shape, tg.Tensor.__add__, tg.zeros]
        assert not looking.ACTIVE
        class Mine(tg.Tensor):
            pass
        assert not looking.ACTIVE
        x = Mine([1.0])
        assert looking.ACTIVE
        assert before == [tg.sin, tg.Tensor.sin, tg.Tensor.size, tg.Tensor.shape, tg.Tensor.__add__, tg.zeros]
        assert type(x.sin()) is type(tg.sin(x)) is Mine and type(tg.ones(1).sin()) is tg.Tensor
    """,
    "with-frames-that-a-debugger-can-show": """
        class Refusing:
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                raise RuntimeError("refused")
        looking.activate()
        closing = [f for f in vars(tg.nn.functional).values() if getattr(f, "__closure__", None)]
        assert len(closing) > 5
        for fn in [tg.sin, tg.Tensor.sin, *closing]:
            try:
                fn(Refusing())
            except Exception as error:
                seen, frame = [], error.__traceback__
                while frame is not None:
                    seen += frame.tb_frame.f_locals  # those that a function closes over, too
                    frame = frame.tb_next
                assert seen
    """,
    "for-a-mode": """
        class Count(tg.overrides.BaseTorchFunctionMode):
            seen = []
            def __torch_function__(self, func, types, args=(), kwargs=None):
                self.seen.append(func)
                return super().__torch_function__(func, types, args, kwargs)
        x = tg.ones(1)
        with Count():
            assert looking.ACTIVE
            x.shape, x.sin(), tg.sin(x)
        assert Count.seen == [tg.Tensor.shape.__get__, tg.Tensor.sin, tg.sin]
    """,
    "first-duck": """
        class Duck:
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return func, len(args), kwargs
        assert tg.sum(Duck(), 0) == (tg.sum, 2, {})
        assert looking.ACTIVE
        assert tg.sum(Duck(), 0) == (tg.sum, 2, {})
    """,
    "first-duck-in-a-list": """
        class Duck:
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return func.__name__
        assert tg.cat([tg.ones(1), Duck()]) == "cat"
    """,
    "first-duck-in-an-operator": """
        class Duck:
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return func.__name__
        assert tg.ones(1) + Duck() == "add"
    """,
    "first-duck-in-a-composition": """
        class Duck:
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return func is tg.nn.functional.relu
        assert tg.nn.functional.relu(Duck()) is True
    """,
    "first-duck-as-an-index": """
        class Duck:
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return func is tg.Tensor.__getitem__
        assert tg.ones(2)[Duck()] is True
    """,
    "first-duck-in-a-tuple-of-indices": """
        class Duck:
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return func is tg.Tensor.__getitem__
        assert tg.ones(2, 2)[0, Duck()] is True
    """,
    "first-duck-that-is-assigned": """
        seen = []
        class Duck:
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                seen.append((func, len(args)))
        tg.ones(2)[0] = Duck()
        assert seen == [(tg.Tensor.__setitem__, 3)]
    """,
    "first-duck-in-a-factory": """
        class Duck:
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return func.__name__, sorted(kwargs)
        assert tg.full((2,), fill_value=Duck()) == ("full", ["fill_value"])
    """,
    "refused-after-it-was-asked": """
        class Duck:
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return tg.overrides.redispatch_function(func, types, args, kwargs)
        for call in (lambda: tg.add(Duck(), 1), lambda: tg.ones(2)[Duck()], lambda: tg.nn.functional.relu(Duck())):
            try:
                call()
            except (TypeError, IndexError) as error:
                assert not isinstance(error, RecursionError)
            else:
                raise AssertionError("it was taken")
    """,
    "signatures": """
        import inspect
        functions = [tg.Tensor.size, tg.nn.functional.softmax, tg.cat]
        before = [list(inspect.signature(f).parameters) for f in functions[:2]]
        looking.activate()
        assert before == [list(inspect.signature(f).parameters) for f in functions[:2]]
        assert looking.activate() is None
    """,
    "never-called-before": """
        looking.activate()
        x = tg.ones(2, 2)
        assert tg.cos(x).tolist() == x.cos().tolist()
        assert (x @ x).tolist() == tg.matmul(x, other=x).tolist() == [[2.0, 2.0], [2.0, 2.0]]
        y = x.clone()
        y += 1
        assert y.add_(1) is y and y.sum(dim=0).tolist() == [6.0, 6.0]
        assert tg.add(x, 1, out=y) is y and tg.amax(x, axis=0).tolist() == [1.0, 1.0]
    """,
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_fresh_process(program):
    head = "import torchgrad_jax as tg\nfrom torchgrad_jax._engine.overrides import looking\n"
    run = subprocess.run([sys.executable, "-c", head + textwrap.dedent(program)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
