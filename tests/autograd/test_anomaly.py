"""Anomaly detection: what it says and when, compared with torch."""

import re
import threading
import warnings
from typing import Any

import pytest

import torchgrad_jax
from tests.autograd.programs import leaf
from tests.programs import Programs

tg: Any = torchgrad_jax

program = Programs()
test_same_as_torch = program.test()


def told(run):
    """What a run raised and warned of, with the lines of this file in the tracebacks."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = run()
        except Exception as error:
            result = error
    return [result, [_shown(str(w.message)) for w in caught]]


def _shown(text):
    """The head of a warning, and of its traceback the last line of code in this file."""
    text = re.sub(r" \(Triggered internally at .*\)", "", text)
    head = re.split(r'  File "', text)[0]
    frames = re.findall(r'File "[^"]*test_anomaly\.py", line \d+, in (\w+)\n +(.*)\n', text)
    return head, frames[-1] if frames else None


@program
def nan_in_backward(m):
    def run():
        x = leaf(m, 0.0, 1.0)
        with m.autograd.detect_anomaly():
            y = x.sqrt()
            (y * 0).sum().backward()

    return told(run)


@program
def nan_without_forward_information(m):
    def run():
        x = leaf(m, 0.0, 1.0)
        y = x.sqrt()
        with m.autograd.detect_anomaly():
            (y * 0).sum().backward()

    return told(run)


@program
def nan_not_checked(m):
    def run():
        x = leaf(m, 0.0, 1.0)
        with m.autograd.detect_anomaly(check_nan=False):
            y = x.sqrt()
            (y * 0).sum().backward()
        return x.grad.tolist()

    return told(run)


@program
def nan_in_second_output(m):
    def run():
        x, w = leaf(m, 0.0), leaf(m, 1.0)
        with m.autograd.detect_anomaly():
            y = w.atan2(x) if False else x * w
            g = m.tensor([float("nan")])
            y.backward(g)

    return told(run)


@program
def only_needed_gradients_are_checked(m):
    def run():
        w, y = leaf(m, float("nan")), leaf(m, 1.0)
        with m.autograd.detect_anomaly():
            return m.autograd.grad(y * w, w)

    return told(run)


@program
def error_in_function(m):
    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            raise ValueError("broken")

    def run():
        x = leaf(m, 1.0)
        with m.autograd.detect_anomaly():
            F.apply(x).backward()

    result, said = told(run)
    return result, said


@program
def modified_in_place(m):
    def run():
        x = leaf(m, 1.0)
        with m.autograd.detect_anomaly():
            y = x.exp()
            y.add_(1)
            y.backward()

    return told(run)


@program
def error_in_hook(m):
    def bad(g):
        raise KeyError("in hook")

    def run():
        x = leaf(m, 1.0)
        with m.autograd.detect_anomaly():
            y = x.exp()
            y.register_hook(bad)
            y.backward()

    return told(run)


@program
def nan_from_node_hook(m):
    def run():
        x = leaf(m, 1.0)
        with m.autograd.detect_anomaly():
            y = x.exp()
            y.grad_fn.register_hook(lambda gi, go: (gi[0] * float("nan"),))
            y.backward()

    return told(run)


@program
def nan_from_leaf_hook(m):
    def run():
        x = leaf(m, 1.0)
        x.register_hook(lambda g: g * float("nan"))
        with m.autograd.detect_anomaly():
            x.exp().backward()
        return x.grad.isnan().tolist()

    return told(run)


@program
def error_in_leaf_hook(m):
    def bad(g):
        raise KeyError("in hook")

    def run():
        x = leaf(m, 1.0)
        x.register_hook(bad)
        with m.autograd.detect_anomaly():
            x.exp().backward()

    return told(run)


@program
def double_backward(m):
    class Inner(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            raise ValueError("second pass")

    class Outer(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return Inner.apply(g)

    def run():
        x, v = leaf(m, 1.0), leaf(m, 2.0)
        with m.autograd.detect_anomaly():
            y = Outer.apply(x)
            (g,) = m.autograd.grad(y, x, v, create_graph=True)
            g.backward()

    return told(run)


@program
def metadata(m):
    with m.autograd.set_detect_anomaly(True):
        x = leaf(m, 1.0)
        y = x.exp()
        (g,) = m.autograd.grad(y, x, create_graph=True)
    return (list(y.grad_fn.metadata), sorted(g.grad_fn.metadata), g.grad_fn.metadata["parent_"] is y.grad_fn)


@program
def metadata_is_a_traceback(m):
    with m.autograd.set_detect_anomaly(True):
        y = leaf(m, 1.0).exp()
    stack = y.grad_fn.metadata["traceback_"]
    return (type(stack).__name__, "metadata_is_a_traceback" in stack[-1], stack[-1].splitlines()[-1].strip())


@program
def off_means_off(m):
    y = leaf(m, 1.0).exp()
    return y.grad_fn.metadata


@program
def modes(m):
    seen = []

    def look():
        y = leaf(m, 1.0).exp()
        seen.append("traceback_" in y.grad_fn.metadata)

    look()
    state = m.autograd.set_detect_anomaly(True)
    look()
    with state:
        look()
    look()
    with m.autograd.set_detect_anomaly(True):
        look()
        with m.autograd.set_detect_anomaly(False):
            look()
        look()
    look()
    return seen


@program
def detect_warns(m):
    return told(lambda: m.autograd.detect_anomaly() and None)


@program
def exit_after_error(m):
    try:
        with m.autograd.set_detect_anomaly(True):
            raise ValueError
    except ValueError:
        return leaf(m, 1.0).exp().grad_fn.metadata


@program
def write_to_a_view(m):
    with m.autograd.set_detect_anomaly(True):
        y = leaf(m, 1.0, 2.0) * 1
        y[:1].mul_(2)
    return list(y.grad_fn.metadata)


# --- the check of the forward, which torch does not have ------------------------------------------


def watching():
    return tg.autograd.set_detect_anomaly(True, check_forward=True)


def test_forward_check_names_op_place_and_line():
    x = tg.tensor([[1.0, 0.0], [2.0, 0.0]])
    with watching(), pytest.raises(RuntimeError) as caught:
        x.log()
    text = str(caught.value)
    assert text.startswith("'log' made NaN or infinity out of finite inputs: output 0 of shape [2, 2] has 2 such")
    assert "(0, 1), (1, 1): [-inf, -inf]" in text
    assert "test_anomaly.py" in text
    assert "x.log()" in text


def test_forward_check_blames_the_first_op():
    x = tg.tensor([1.0, 0.0], requires_grad=True)
    with watching(), pytest.raises(RuntimeError, match=r"^'log' made"):
        (x.log() * 2).exp().sum()


def test_forward_check_leaves_old_nan_alone():
    x = tg.tensor([float("nan"), float("inf")])
    with watching():
        assert (x * 2).isnan().tolist() == [True, False]


def test_forward_check_of_in_place_writes():
    x = tg.tensor([1.0, 0.0])
    with watching(), pytest.raises(RuntimeError, match=r"^'log' made"):
        x.log_()


def test_forward_check_is_off_by_default():
    with tg.autograd.set_detect_anomaly(True):
        assert tg.tensor([0.0]).log().tolist() == [float("-inf")]


def test_costs_nothing_when_off():
    y = leaf(tg, 1.0).exp()
    assert y.grad_fn.extras is None


@program
def threads_that_start_inside_are_watched(m):
    seen = []
    with m.autograd.set_detect_anomaly(True):
        thread = threading.Thread(target=lambda: seen.append(sorted(leaf(m, 1.0).exp().grad_fn.metadata)))
        thread.start()
        thread.join()
    return seen


@program
def turned_on_and_off_without_a_context(m):
    out = []
    for args in ((True, False), (False,), (True,), (False, True)):
        m.set_anomaly_enabled(*args)
        out.append((m.is_anomaly_enabled(), m.is_anomaly_check_nan_enabled()))
    for args in (("a",), (True, "b")):
        try:
            m.set_anomaly_enabled(*args)
        except TypeError as error:
            out.append(str(error))
    return out
