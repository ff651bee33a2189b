"""The ways through a graph (node by node, joined whole or in short segments, fused) give the same."""

import logging
from unittest import mock

import numpy as np
import pytest

import torchgrad_jax
from tests.differential import agree
from tests.engine.graphs import GRAPHS
from torchgrad_jax._core.jax.caches import KERNELS
from torchgrad_jax._core.state import SETTINGS
from torchgrad_jax._engine.passes import compiled_segments, segments, walk

NEVER = 1 << 40
WAYS = ("whole", "short", "mixed", "fused", "together")


@pytest.fixture
def way(monkeypatch):
    """Force one way, and count what actually happened."""
    count = {"kernels": 0, "compiled": 0, "walked": 0}

    def choose(name):
        monkeypatch.setattr(segments, "_walked", {})
        monkeypatch.setattr(segments, "_IN_PARTS", {})
        monkeypatch.setattr(segments, "_COMPILED", KERNELS.cache())
        monkeypatch.setattr(segments, "NODE_COST", 0)  # never worth it for being uncompiled
        monkeypatch.setattr(segments, "WALKS", {"node by node": NEVER, "mixed": 1}.get(name, 0))
        monkeypatch.setattr(compiled_segments, "CALLS", 0 if name in ("fused", "together") else NEVER)
        monkeypatch.setattr(compiled_segments._Writer, "is_all_in_numpy", lambda writer: False)
        monkeypatch.setattr(SETTINGS, "equal_bits", name != "fused")
        monkeypatch.setattr(segments, "WHOLE", 0 if name in ("short", "mixed") else NEVER)
        monkeypatch.setattr(segments, "SIZE", 5 if name == "mixed" else 3)
        monkeypatch.setattr(segments, "SHORT", 1)
        count.update(kernels=0, compiled=0, walked=0)

    def counting(owner, attribute, key):
        real = getattr(owner, attribute)

        def call(*args):
            count[key] += 1
            return real(*args)

        monkeypatch.setattr(owner, attribute, call)

    counting(segments.Compiled, "__init__", "kernels")
    counting(segments.Compiled, "__call__", "compiled")
    counting(walk, "_visit", "walked")
    choose.count = count
    return choose


def outcome(name, again=False):
    roots, grads, leaves = GRAPHS[name](torchgrad_jax)
    if again:
        torchgrad_jax.autograd.backward(roots, grads, retain_graph=True)
    torchgrad_jax.autograd.backward(roots, grads)
    return [(np.asarray(x.grad), x.grad.stride(), x.grad._version) for x in leaves]


@pytest.mark.parametrize("name", GRAPHS)
def test_ways_agree(name, way):
    way("node by node")
    want = outcome(name)
    assert not way.count["compiled"]
    for kind in WAYS:
        way(kind)
        agree({kind: outcome(name)}, {kind: want})
        # There is nothing to compile where the root is a leaf.
        if kind != "mixed" and name not in ("leaf_as_root", "leaf_itself"):
            assert way.count["compiled"], way.count
        if kind not in ("short", "mixed"):
            assert way.count["compiled"] <= 1, way.count


@pytest.mark.parametrize("name", ["dag", "recurrence", "linear", "copy_slices", "two_roots", "chunk", "t_mul_number"])
def test_ways_agree_when_accumulating(name, way):
    way("node by node")
    want = outcome(name, again=True)
    for kind in WAYS:
        way(kind)
        agree({kind: outcome(name, again=True)}, {kind: want})


@pytest.mark.parametrize(
    "name", ["dag", "recurrence", "linear", "copy_slices", "two_roots", "slices", "transposed_leaf", "outer"]
)
def test_captured_gradients_agree(name, way):
    def captured():
        roots, grads, leaves = GRAPHS[name](torchgrad_jax)
        found = torchgrad_jax.autograd.grad(roots, leaves, grads)
        return [(np.asarray(g), g.stride(), g._version) for g in found]

    way("node by node")
    want = captured()
    for kind in WAYS:
        way(kind)
        agree({kind: captured()}, {kind: want})
    way("whole")
    captured()
    assert way.count == {"kernels": 1, "compiled": 1, "walked": 0}


def test_compiled_once_for_graphs_alike(way):
    way("whole")
    for _ in range(3):
        outcome("dag")
    assert way.count == {"kernels": 1, "compiled": 3, "walked": 0}


def test_segments_alike_share_one_compiled_function(way):
    way("short")
    outcome("recurrence")
    assert way.count["compiled"] > 3
    assert way.count["kernels"] < way.count["compiled"]


def test_a_graph_is_compiled_when_it_comes_again(monkeypatch):
    monkeypatch.setattr(segments, "_walked", {})
    monkeypatch.setattr(segments, "_IN_PARTS", {})
    monkeypatch.setattr(segments, "_COMPILED", KERNELS.cache())
    monkeypatch.setattr(segments, "NODE_COST", 0)
    for n in range(segments.WALKS + 1):
        assert len(segments._COMPILED) == 0, n
        outcome("dag")
    assert len(segments._COMPILED) == 1


WATCHED = {
    "tensor_hook": lambda x, y: y.register_hook(lambda g: None),
    "leaf_hook": lambda x, y: x.register_hook(lambda g: None),
    "node_hook": lambda x, y: y.grad_fn.register_hook(lambda gi, go: None),
    "node_prehook": lambda x, y: y.grad_fn.register_prehook(lambda go: None),
    "post_accumulate_hook": lambda x, y: x.register_post_accumulate_grad_hook(lambda p: None),
    "retained_grad": lambda x, y: y.retain_grad(),
}


@pytest.mark.parametrize("kind", ["whole", "short"])
@pytest.mark.parametrize("name", WATCHED)
def test_what_is_watched_is_walked(name, kind, way):
    way(kind)
    x = torchgrad_jax.ones(3, requires_grad=True)
    y = x * 2
    WATCHED[name](x, y)
    (y * y).sum().backward()
    # Hooks of tensors are called before the segment that begins there; a leaf by itself is nothing to compile.
    least = 0 if name in ("tensor_hook", "retained_grad") else 1
    assert least <= way.count["walked"] <= least + 1
    assert way.count["compiled"]
    assert x.grad.tolist() == [8, 8, 8]


@pytest.mark.parametrize("kind", ["whole", "short", "node by node"])
def test_every_way_sees_writes_and_freed_graphs(kind, way):
    way(kind)
    x = torchgrad_jax.ones(3, requires_grad=True)
    y = x * 2
    z = (y * y).sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
        z.backward()
    z = (x * x).sum()
    z.backward()
    assert x.grad.tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="second time"):
        z.backward()


@pytest.mark.parametrize("kind", ["whole", "short", "node by node"])
def test_every_way_keeps_or_frees_what_was_saved(kind, way):
    way(kind)
    x = torchgrad_jax.ones(3, requires_grad=True)
    y = x.exp()
    y.sum().backward(retain_graph=True)
    assert y.grad_fn._saved_result.shape == (3,)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        y.grad_fn._saved_result


@pytest.mark.parametrize("kind", ["whole", "short", "node by node"])
def test_numbers_are_not_baked_in(kind, way):
    """A graph that differs in a Python number only is the same structure with another argument."""
    way(kind)
    for k in (2.0, 3.0, -5.5):
        x = torchgrad_jax.ones(3, requires_grad=True)
        ((x * k).sin() * k).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), np.cos(k) * k * k * np.ones(3), rtol=1e-5)


@pytest.mark.parametrize("kind", ["whole", "short", "node by node"])
def test_one_array_saved_several_times(kind, way):
    """Which values coincide is part of the structure, not an accident of the first graph met."""
    way(kind)
    a, b = (torchgrad_jax.tensor([float(i), 2.0], requires_grad=True) for i in (1, 5))
    for p, q in [(a, a), (a, b), (b, b), (b, a)]:
        a.grad = b.grad = None
        (p * q).sum().backward()
        for t in {p, q}:
            other = q if t is p else p
            want = 2 * t.detach() if p is q else other.detach()
            assert t.grad.tolist() == want.tolist()


class _SignalError(Exception):
    """What a signal handler raises in the middle of compiling."""


def _interrupted(*args):
    raise _SignalError


def _break(monkeypatch, how):
    """Let joining, and fusing, fail as in a library."""
    monkeypatch.setattr(compiled_segments._Writer, "function", how)


@pytest.mark.parametrize("kind", ["whole", "short"])
@pytest.mark.parametrize("error", [RuntimeError("no"), NotImplementedError("no"), MemoryError("no")])
@pytest.mark.parametrize("name", ["recurrence", "copy_slices", "two_roots"])
def test_what_cannot_be_compiled_runs_node_by_node(name, error, kind, way, monkeypatch, caplog):
    way("node by node")
    want = outcome(name, again=True)
    way(kind)
    _break(monkeypatch, mock.Mock(side_effect=error))
    with caplog.at_level(logging.DEBUG, "torchgrad_jax.backward"):
        agree({kind: outcome(name, again=True)}, {kind: want})
    assert f"node by node: {error!r}" in caplog.text


@pytest.mark.parametrize("kind", ["whole", "short"])
@pytest.mark.parametrize("error", [_SignalError, KeyboardInterrupt])
def test_an_interrupt_is_no_failure_to_compile(error, kind, way, monkeypatch):
    way(kind)
    x = torchgrad_jax.ones(3, requires_grad=True)
    loss = (x.exp() * x).sum()
    how = _interrupted if error is _SignalError else mock.Mock(side_effect=error)
    with monkeypatch.context() as broken:
        _break(broken, how)
        with pytest.raises(error):
            loss.backward()
    assert x.grad is None


def test_what_cannot_be_compiled_is_tried_once(way, monkeypatch):
    way("whole")
    broken = mock.Mock(side_effect=RuntimeError("no"))
    _break(monkeypatch, broken)
    for _ in range(3):
        outcome("dag")
    assert broken.call_count == 1


def test_rows_of_gradients_that_cannot_be_compiled_together(monkeypatch):
    _break(monkeypatch, mock.Mock(side_effect=RuntimeError("no")))
    monkeypatch.setattr(segments, "_COMPILED", KERNELS.cache())
    x = torchgrad_jax.arange(3.0, requires_grad=True)
    (rows,) = torchgrad_jax.autograd.grad(x * x, x, torchgrad_jax.eye(3), is_grads_batched=True)
    assert rows.tolist() == [[0, 0, 0], [0, 2, 0], [0, 0, 4]]


@pytest.mark.parametrize(("n", "fuses"), [(3, False), (400, True)], ids=["NumPy", "XLA"])
def test_when_a_pass_is_joined_and_fused(monkeypatch, n, fuses):
    """To join kernels takes milliseconds, and to fuse those of XLA's a second."""
    monkeypatch.setattr(segments, "_walked", {})
    monkeypatch.setattr(segments, "_IN_PARTS", {})
    monkeypatch.setattr(segments, "_COMPILED", KERNELS.cache())
    monkeypatch.setattr(segments, "NODE_COST", 0)  # not for having kernels to compile anyway
    x = torchgrad_jax.ones(n, n, requires_grad=True)
    for k in range(segments.WALKS + compiled_segments.CALLS + 1):
        joined = [*segments._COMPILED.young.values()]
        assert len(joined) == (k > segments.WALKS)
        assert all(c._whole is None for c in joined)
        x.grad = None
        (x * 2).tanh().sum().backward()
    (joined,) = segments._COMPILED.young.values()
    assert (joined._whole.run is not joined.fn) == fuses
