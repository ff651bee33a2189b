"""Three ways through a graph (node by node, compiled whole, in windows) give the same."""

import logging
from unittest import mock

import numpy as np
import pytest

import torchgrad_jax
from tests.engine.graphs import GRAPHS
from torchgrad_jax._core.caches import KERNELS
from torchgrad_jax._engine.passes import fused, windows

NEVER = 1 << 40


@pytest.fixture
def way(monkeypatch):
    """Force one way, and count what actually happened."""
    count = {"compiled": 0, "windows": 0, "walked": 0}

    def choose(name):
        monkeypatch.setattr(fused, "_SEEN", {})
        monkeypatch.setattr(fused, "_COMPILED", KERNELS.cache())
        monkeypatch.setattr(windows, "_COMPILED", KERNELS.cache())
        monkeypatch.setattr(fused, "NODE_COST", 0)  # never worth it for being uncompiled
        monkeypatch.setattr(fused, "MIN_SEEN", 0 if name == "fused" else NEVER)
        monkeypatch.setattr(
            fused, "MAX_NODES", 0 if name in ("windows", "mixed", "uncompiled windows") else NEVER
        )
        monkeypatch.setattr(windows, "REPEATS", {"windows": 1, "mixed": 2}.get(name, NEVER))
        monkeypatch.setattr(windows, "SIZE", 5 if name == "mixed" else 3)

    for module, attribute, key in [
        (fused, "_compile", "compiled"),
        (windows.Window, "run", "windows"),
        (windows.Window, "walk", "walked"),
    ]:
        real = getattr(module, attribute)

        def counting(*args, real=real, key=key):
            count[key] += 1
            return real(*args)

        monkeypatch.setattr(module, attribute, counting)
    choose.count = count
    return choose


def outcome(name, again=False):
    roots, grads, leaves = GRAPHS[name](torchgrad_jax)
    if again:
        torchgrad_jax.autograd.backward(roots, grads, retain_graph=True)
    torchgrad_jax.autograd.backward(roots, grads)
    return [(np.asarray(x.grad), x.grad.stride(), x.grad._version) for x in leaves]


def agree(want, got, what):
    for i, ((a, strides, version), (b, other_strides, other_version)) in enumerate(zip(want, got)):
        np.testing.assert_allclose(b, a, rtol=3e-6, atol=1e-6, err_msg=f"leaf {i} {what}")
        assert other_strides == strides, f"leaf {i} {what}"
        assert other_version == version, f"leaf {i} {what}"


@pytest.mark.parametrize("name", GRAPHS)
def test_ways_agree(name, way):
    way("node by node")
    want = outcome(name)
    assert way.count == {"compiled": 0, "windows": 0, "walked": 0}
    for kind in ("fused", "windows", "uncompiled windows"):
        way(kind)
        agree(want, outcome(name), kind)
    # A root inside another root's graph is walked; a graph of no nodes has no windows.
    if name not in ("root_inside_another", "leaf_as_root", "leaf_itself"):
        assert all(way.count.values()), way.count


@pytest.mark.parametrize(
    "name", ["dag", "recurrence", "linear", "copy_slices", "two_roots", "chunk", "t_mul_number"]
)
def test_ways_agree_when_accumulating(name, way):
    way("node by node")
    want = outcome(name, again=True)
    for kind in ("fused", "windows", "mixed", "uncompiled windows"):
        way(kind)
        agree(want, outcome(name, again=True), kind)


@pytest.mark.parametrize(
    "name",
    [
        "dag",
        "recurrence",
        "linear",
        "copy_slices",
        "two_roots",
        "slices",
        "transposed_leaf",
        "outer",
    ],
)
def test_captured_gradients_agree(name, way):
    def captured():
        roots, grads, leaves = GRAPHS[name](torchgrad_jax)
        found = torchgrad_jax.autograd.grad(roots, leaves, grads)
        return [(np.asarray(g), g.stride(), g._version) for g in found]

    way("node by node")
    want = captured()
    way("fused")
    agree(want, captured(), "fused")
    assert way.count["compiled"] == 1


def test_compiled_once_for_graphs_alike(way):
    way("fused")
    for _ in range(3):
        outcome("dag")
    assert way.count["compiled"] == 1


def test_windows_alike_share_one_compiled_function(way):
    way("mixed")
    outcome("recurrence")
    assert way.count["windows"] > 3
    assert len(windows._COMPILED) < way.count["windows"]


def test_a_graph_is_compiled_when_it_comes_again(monkeypatch):
    monkeypatch.setattr(fused, "_SEEN", {})
    monkeypatch.setattr(fused, "_COMPILED", KERNELS.cache())
    monkeypatch.setattr(fused, "NODE_COST", 0)
    for n in range(fused.MIN_SEEN + 1):
        assert len(fused._COMPILED) == 0, n
        outcome("dag")
    assert len(fused._COMPILED) == 1


WATCHED = {
    "tensor_hook": lambda x, y: y.register_hook(lambda g: None),
    "leaf_hook": lambda x, y: x.register_hook(lambda g: None),
    "node_hook": lambda x, y: y.grad_fn.register_hook(lambda gi, go: None),
    "node_prehook": lambda x, y: y.grad_fn.register_prehook(lambda go: None),
    "post_accumulate_hook": lambda x, y: x.register_post_accumulate_grad_hook(lambda p: None),
    "retained_grad": lambda x, y: y.retain_grad(),
}


@pytest.mark.parametrize("kind", ["fused", "windows"])
@pytest.mark.parametrize("name", WATCHED)
def test_a_watched_graph_is_walked(name, kind, way):
    way(kind)
    x = torchgrad_jax.ones(3, requires_grad=True)
    y = x * 2
    WATCHED[name](x, y)
    (y * y).sum().backward()
    assert way.count == {"compiled": 0, "windows": 0, "walked": 0}
    assert x.grad.tolist() == [8, 8, 8]


@pytest.mark.parametrize("kind", ["fused", "windows", "node by node"])
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


@pytest.mark.parametrize("kind", ["fused", "windows", "node by node"])
def test_every_way_keeps_or_frees_what_was_saved(kind, way):
    way(kind)
    x = torchgrad_jax.ones(3, requires_grad=True)
    y = x.exp()
    y.sum().backward(retain_graph=True)
    assert y.grad_fn._saved_result.shape == (3,)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        y.grad_fn._saved_result


@pytest.mark.parametrize("kind", ["fused", "windows", "node by node"])
def test_numbers_are_not_baked_in(kind, way):
    """A graph that differs in a Python number only is the same structure with another argument."""
    way(kind)
    for k in (2.0, 3.0, -5.5):
        x = torchgrad_jax.ones(3, requires_grad=True)
        ((x * k).sin() * k).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), np.cos(k) * k * k * np.ones(3), rtol=1e-5)


@pytest.mark.parametrize("kind", ["fused", "windows", "node by node"])
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


def _break(kind, monkeypatch, how):
    """Let compiling fail as in a library."""
    module, name = (fused, "_compile") if kind == "fused" else (windows, "_traced_vjp")
    monkeypatch.setattr(module, name, how)


@pytest.mark.parametrize("kind", ["fused", "windows"])
@pytest.mark.parametrize(
    "error", [RuntimeError("no"), NotImplementedError("no"), MemoryError("no")]
)
@pytest.mark.parametrize("name", ["recurrence", "copy_slices", "two_roots"])
def test_what_cannot_be_compiled_runs_node_by_node(name, error, kind, way, monkeypatch, caplog):
    way("node by node")
    want = outcome(name, again=True)
    way(kind)
    _break(kind, monkeypatch, mock.Mock(side_effect=error))
    with caplog.at_level(logging.DEBUG, "torchgrad_jax.backward"):
        agree(want, outcome(name, again=True), kind)
    assert f"node by node: {error!r}" in caplog.text


@pytest.mark.parametrize("kind", ["fused", "windows"])
@pytest.mark.parametrize("error", [_SignalError, KeyboardInterrupt])
def test_an_interrupt_is_no_failure_to_compile(error, kind, way, monkeypatch):
    way(kind)
    x = torchgrad_jax.ones(3, requires_grad=True)
    loss = (x.exp() * x).sum()
    how = _interrupted if error is _SignalError else mock.Mock(side_effect=error)
    with monkeypatch.context() as broken:
        _break(kind, broken, how)
        with pytest.raises(error):
            loss.backward()
    assert x.grad is None


def test_what_cannot_be_compiled_is_tried_once(way, monkeypatch):
    way("fused")
    broken = mock.Mock(side_effect=RuntimeError("no"))
    monkeypatch.setattr(fused, "_compile", broken)
    for _ in range(3):
        outcome("dag")
    assert broken.call_count == 1


def test_rows_of_gradients_that_cannot_be_compiled_together(monkeypatch):
    monkeypatch.setattr(fused, "_compile", mock.Mock(side_effect=RuntimeError("no")))
    monkeypatch.setattr(fused, "_COMPILED", KERNELS.cache())
    x = torchgrad_jax.arange(3.0, requires_grad=True)
    (rows,) = torchgrad_jax.autograd.grad(x * x, x, torchgrad_jax.eye(3), is_grads_batched=True)
    assert rows.tolist() == [[0, 0, 0], [0, 2, 0], [0, 0, 4]]
