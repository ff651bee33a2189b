"""`torch.compile(dynamic=True)`: sizes that are new run eagerly, and those that come often are compiled."""

import gc
import warnings

import pytest

import torchgrad_jax as torch
from tests.expressions import exact
from torchgrad_jax._bridge.compile import new_sizes

F = torch.nn.functional


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Sizes are compiled after three calls."""
    monkeypatch.setattr(new_sizes, "CALLS", 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_the_first_size_is_compiled_and_others_after_some_calls():
    f = torch.compile(lambda x: x * x.shape[0], dynamic=True)
    for n, sizes in enumerate(((2,), (3,), (4,), (3,), (2,), (3,))):
        assert f(torch.ones(sizes)).tolist() == [float(sizes[0])] * sizes[0], n
    assert f.counts == {"traced": 1, "run": 2, "eager": 4}
    f(torch.ones(3))
    assert f.counts == {"traced": 2, "run": 3, "eager": 4}
    f(torch.ones(4))
    assert f.counts["eager"] == 5
    assert any("sizes that are new" in why for why in f.reasons)


@pytest.mark.parametrize("dynamic, automatic, compiled", [(None, True, 8), (False, True, 11), (None, False, 11)])
def test_without_it_the_first_sizes_are_compiled(dynamic, automatic, compiled):
    f = torch.compile(lambda x: x * 2, dynamic=dynamic)
    with torch._dynamo.config.patch(automatic_dynamic_shapes=automatic):
        for n in (*range(1, 12), 1, 8):
            assert f(torch.ones(n)).sum().item() == 2.0 * n
    assert f.counts == {"traced": compiled, "run": compiled + 2, "eager": 11 - compiled}


def test_arguments_that_differ_in_more_than_sizes_are_compiled_at_once():
    f = torch.compile(lambda x, y=0: x * 2 + y, dynamic=True)
    x = torch.ones(2)
    for args in ((x,), (x.double(),), (x[None],), (x.clone().requires_grad_(),), (x, x + 0)):
        f(*args)
    assert f.counts == {"traced": 5, "run": 5, "eager": 0}
    f(torch.ones(3), torch.ones(3))
    assert f.counts["eager"] == 1


def training(compiled, **how):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Dropout(0.2), torch.nn.Linear(7, 3))
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss.detach()

    run = torch.compile(step, dynamic=True, **how) if compiled else step
    losses = [run(torch.randn(n, 5), torch.arange(n) % 3) for n in (4, 6, 4, 5, 6, 6, 6, 4, 6, 9, 5)]
    if compiled:
        assert run.counts["traced"] == 2
        assert 0 < run.counts["eager"] < len(losses)
    return [*losses, *net.parameters()]


def test_a_training_goes_on_from_size_to_size():
    torch.testing.assert_close(training(True), training(False))


def test_bits_in_exact_mode_do_not_depend_on_how_often_a_size_came():
    assert [*map(exact, training(True, mode="exact"))] == [*map(exact, training(False))]


@pytest.mark.parametrize("mode, eager", [(None, 0), ("exact", 1)])
def test_where_equal_calls_have_equal_bits(mode, eager):
    f = torch.compile(lambda x: x.exp().sum(), dynamic=True, mode=mode)
    torch.use_deterministic_algorithms(True)
    try:
        f(torch.ones(3))
        f(torch.ones(4))
    finally:
        torch.use_deterministic_algorithms(False)
    assert f.counts["eager"] == eager


def test_a_whole_graph_and_a_stance_without_retraces_take_new_sizes():
    f = torch.compile(lambda x: x * 2, dynamic=True, fullgraph=True)
    f(torch.ones(2))
    with torch.compiler.set_stance("fail_on_recompile"):
        assert f(torch.ones(3)).tolist() == [2.0] * 3
        with pytest.raises(RuntimeError, match="Detected recompile"):
            f(torch.ones(2).double())


def test_a_program_that_is_asked_for_is_made():
    f = torch.compile(lambda x: x * 2, dynamic=True)
    f(torch.ones(2))
    assert "3xf32" in f.lower(torch.ones(3)).as_text()
    assert f.counts["eager"] == 0


@pytest.mark.parametrize("dynamic", [None, False])
@pytest.mark.parametrize("mark", ["mark_dynamic", "maybe_mark_dynamic"])
def test_tensors_whose_sizes_change(mark, dynamic):
    f = torch.compile(lambda x: x * 2, dynamic=dynamic)
    f(torch.ones(2))
    x = torch.ones(3)
    getattr(torch._dynamo, mark)(x, 0)
    f(x)
    f(torch.ones(4))
    assert f.counts == {"traced": 1, "run": 1, "eager": 2}
    before = len(new_sizes._MARKED)
    del x
    gc.collect()
    assert len(new_sizes._MARKED) == before - 1


def test_tensors_whose_sizes_do_not_change():
    f = torch.compile(lambda x: x * 2, dynamic=True)
    xs = [torch.ones(n) for n in (1, 2, 3, 4)]
    for x in xs[:3]:
        torch._dynamo.mark_static(x, 0)
        f(x)
    assert f.counts["traced"] == 3
    torch._dynamo.mark_static(xs[3])
    torch._dynamo.mark_dynamic(xs[3], 0)  # which counts for more
    f(xs[3])
    assert f.counts == {"traced": 3, "run": 3, "eager": 1}


def test_modules_and_keywords():
    net = torch.nn.Linear(2, 3)
    compiled = torch.compile(net, dynamic=True)
    xs = [torch.ones(n, 2) for n in (1, 2, 3)]
    for x in xs:
        torch.testing.assert_close(compiled(input=x), net(x))
    with torch.compiler.set_stance("fail_on_recompile"):
        assert compiled(input=torch.ones(4, 2)).shape == (4, 3)
    net.compile(dynamic=True)
    assert [tuple(net(x).shape) for x in xs] == [(1, 3), (2, 3), (3, 3)]


def test_only_so_many_combinations_are_counted(monkeypatch):
    monkeypatch.setattr(new_sizes, "_MOST", 2)
    f = torch.compile(lambda x: x * 2, dynamic=True)
    for n in range(1, 9):
        f(torch.ones(n))
    assert len(f.new_sizes._calls) == 2
    assert f.counts["traced"] == 1
