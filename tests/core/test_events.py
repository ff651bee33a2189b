"""Observers: who stands around what, in which order, and that nobody is asked when nobody is there."""

from typing import Any

import pytest

import torchgrad_jax
from torchgrad_jax._core import events
from torchgrad_jax._core.state import MODES, OBSERVED

tg: Any = torchgrad_jax


class Log(events.Observer):
    """Writes down what it is told; a context."""

    def __init__(self, log, tag=""):
        self.log, self.tag = log, tag

    def _around(self, what, run):
        self.log.append(f"{self.tag}{what}")
        out = run()
        self.log.append(f"{self.tag}end {what}")
        return out

    def op(self, name, kind, args, run):
        return self._around(f"{kind} {name}", run)

    def kernel(self, call, plan, leaves, run):
        return self._around(f"kernel {call.name}", run)

    def node(self, node, run):
        return self._around(f"node {node.name()}", run)

    def function(self, node, grads, run):
        return self._around(f"function {node.name()}", run)

    def __enter__(self):
        events.attach(self)

    def __exit__(self, *exc):
        events.detach(self)


def test_an_operation_and_its_kernel():
    log, x = [], tg.ones(2)
    with Log(log):
        x.exp()
    assert log == ["op exp", "kernel exp", "end kernel exp", "end op exp"]


def test_a_view_has_no_kernel():
    log, x = [], tg.ones(2, 3)
    with Log(log):
        x.t()
    assert log == ["op t", "end op t"]


@pytest.mark.parametrize(
    "run, names",
    [
        (lambda x: x.mul_(2), ["op mul_"]),
        (lambda x: x.t_(), ["op t_"]),
        (lambda x: x.detach(), ["op detach"]),
        (lambda x: x[0, 0].item(), ["op select", "op select", "op item"]),
        (lambda x: tg.ones(2), ["composite ones"]),
        (lambda x: x.softmax(1), ["composite softmax", "op _softmax"]),
        (lambda x: tg.cat([x, x]), ["op cat"]),
    ],
    ids=["inplace", "view-inplace", "detach", "item", "factory", "composite", "list"],
)
def test_every_way_into_the_engine_is_seen(run, names):
    log, x = [], tg.ones(2, 2)
    with Log(log):
        run(x)
    assert [line for line in log if line.startswith(("op", "composite"))] == names


def test_the_last_to_come_stands_innermost():
    log, x = [], tg.ones(2)
    with Log(log, "a "), Log(log, "b "):
        x.t()
        x.exp()
    assert log[-8:] == [
        "a op exp",
        "b op exp",
        "a kernel exp",
        "b kernel exp",
        "b end kernel exp",
        "a end kernel exp",
        "b end op exp",
        "a end op exp",
    ]


def test_nodes_and_their_functions():
    log, x = [], tg.ones(2, requires_grad=True)
    y = x.exp().sum()
    y.grad_fn.register_prehook(lambda g: log.append("hook"))
    with Log(log):
        y.backward()
    expected = []
    for name in ("SumBackward0", "ExpBackward0", "torch::autograd::AccumulateGrad"):
        hook = ["hook"] if name == "SumBackward0" else []
        expected += [f"node {name}", *hook, f"function {name}", f"end function {name}", f"end node {name}"]
    assert log == expected


def test_an_observer_may_answer_itself():
    class Instead(Log):
        def kernel(self, call, plan, leaves, run):
            return (tg.full((2,), 7.0)._st.array,) if call.name == "sin" else run()

    x = tg.ones(2, requires_grad=True)
    with Instead([]):
        y = x.sin()
    assert y.tolist() == [7.0, 7.0]
    assert y.grad_fn.name() == "SinBackward0"  # recorded as always


def test_the_bit_is_there_while_it_is_needed():
    first, second = Log([]), Log([])
    assert not MODES.bits & OBSERVED
    events.attach(first)
    events.attach(second)
    events.detach(first)
    assert MODES.bits & OBSERVED
    events.detach(second)
    assert not MODES.bits & OBSERVED
    assert MODES.observers == ()


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("outer", ["observer", "anomaly"])
def test_the_bit_is_shared_with_anomaly_mode(outer):
    one, other = (Log([]), tg.autograd.detect_anomaly())[:: 1 if outer == "observer" else -1]
    with one:
        with other:
            assert MODES.bits & OBSERVED
        assert MODES.bits & OBSERVED
    assert not MODES.bits & OBSERVED


def test_an_observer_that_comes_inside_of_a_block_stays_after_it():
    inner = events.Watching()
    with events.Watching():
        events.attach(inner)
    assert MODES.observers == (inner,)
    assert MODES.bits & OBSERVED
    events.detach(inner)
    assert not MODES.bits & OBSERVED
