"""When anomaly mode warns and raises, and in which words, compared with torch."""

import re
import threading
import warnings

from tests.autograd.functions import function
from tests.autograd.programs import attempt, leaf
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


def quiet(f):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f()


def norm(ws):
    out = []
    for w in ws:
        t = str(w.message)
        t = re.sub(r'File "[^"]*", line \d+', "File", t)
        t = re.sub(r"~|\^", "", t)
        t = re.sub(r"\n\s*\n", "\n", t)
        lines = t.split("\n")
        keep = [line for line in lines if not line.startswith("  ")]
        out.append((w.category.__name__, keep))
    return out


def run(m, f):
    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter("always")
        try:
            r = ("ok", f())
        except Exception as e:
            r = (type(e).__name__, str(e))
    return r, norm(w)


@program
def nan_second(m):
    def f():
        x = leaf(m, 1.0, 0.0)
        y = leaf(m, 0.0, 0.0)
        with m.autograd.detect_anomaly():
            z = (x / y).sum()
            z.backward()

    return run(m, f)


@program
def fn_nan(m):
    F = function(m, lambda ctx, a, b: a * 2 + b, lambda ctx, g: (g, g * float("nan")))

    def f():
        x = leaf(m, 0.0, 1.0)
        y = leaf(m, 1.0, 2.0)
        with m.autograd.detect_anomaly():
            F.apply(x, y).sum().backward()

    return run(m, f)


@program
def parent(m):
    def f():
        x = leaf(m, 0.0, 1.0)
        with m.autograd.detect_anomaly():
            y = x**1.5
            (g,) = m.autograd.grad(y.sum(), x, create_graph=True)
            g.sum().backward()

    return run(m, f)[0]


@program
def nested(m):
    out = []

    def s():
        out.append((m.is_anomaly_enabled(), m.is_anomaly_check_nan_enabled()))

    def f():
        s()
        with m.autograd.detect_anomaly():
            s()
            with m.autograd.set_detect_anomaly(False):
                s()
            with m.autograd.set_detect_anomaly(True, check_nan=False):
                s()
                with m.autograd.detect_anomaly():
                    s()
                s()
            s()
        s()
        a = m.autograd.set_detect_anomaly(True)
        s()
        m.autograd.set_detect_anomaly(False)
        s()
        a.__exit__()
        s()
        m.autograd.set_detect_anomaly(mode=True, check_nan=False)
        s()
        m.autograd.set_detect_anomaly(False)
        d = m.autograd.detect_anomaly()
        s()
        d.__enter__()
        s()
        d.__exit__()
        s()
        return (
            out,
            attempt(m.autograd.set_detect_anomaly),
            attempt(m.autograd.set_detect_anomaly, 1),
            attempt(m.autograd.set_detect_anomaly, "a"),
            attempt(m.autograd.detect_anomaly, 1),
            (d.prev, d.check_nan, d.prev_check_nan),
        )

    return run(m, f), attempt(m.autograd.set_detect_anomaly, False)


@program
def thread(m):
    out = []

    def t():
        x = leaf(m, 0.0)

        def f():
            (x.sqrt() * 0).sum().backward()

        out.append(attempt(f)[0])

    with m.autograd.set_detect_anomaly(True):
        th = threading.Thread(target=t)
        th.start()
        th.join()
    return [o[:2] for o in out]


@program
def multi_out(m):
    def f():
        x = leaf(m, 0.0, 1.0, 2.0)
        with m.autograd.set_detect_anomaly(True):
            a, _b = x.sqrt().split([1, 2])
            (a * 0).sum().backward()

    return run(m, f)[0]


@program
def nan_acc(m):
    def f():
        x = leaf(m, 0.0, 1.0)
        with m.autograd.set_detect_anomaly(True):
            x.backward(m.tensor([float("nan"), 1.0]))
        return x.grad

    return run(m, f)


@program
def inf_ok(m):
    def f():
        x = leaf(m, 0.0, 1.0)
        with m.autograd.set_detect_anomaly(True):
            x.sqrt().sum().backward()
        return x.grad

    return run(m, f)


@program
def complex_nan(m):
    def f():
        x = m.tensor([0j, 1.0], requires_grad=True)
        with m.autograd.set_detect_anomaly(True):
            (x.sqrt() * 0).sum().abs().backward()

    return run(m, f)[0]
