"""Compiled programs overwrite in place what nobody reads afterwards, and copy nothing for it."""

from __future__ import annotations

from typing import Any

import jax
import pytest

import torchgrad_jax as tg

WIDTH = 32
ON_CPU = jax.default_backend() == "cpu"
"""Elsewhere everything is given to XLA."""


def _step(update: Any, **kwargs: Any) -> tuple[list[Any], Any, Any]:
    """Two layers, their compiled training step, and its program."""
    ps = [tg.randn(WIDTH, WIDTH, requires_grad=True) for _ in range(2)]
    change = update(ps, **kwargs)

    def step(x: Any) -> Any:
        loss = (x @ ps[0]).relu().mm(ps[1]).square().mean()
        loss.backward()
        change()
        return loss

    run = tg.compile(step)
    x = tg.randn(4, WIDTH)
    for _ in range(3):
        run(x)
    (entry,) = (e for es in run.entries.values() for e in es if e.program.traced.grads or e.program.inputs.overwritten)
    return ps, entry, run


def _plain(ps: list[Any]) -> Any:
    def change() -> None:
        with tg.no_grad():
            for p in ps:
                p -= 1e-3 * p.grad
                p.grad = None

    return change


def _clipped(ps: list[Any]) -> Any:
    def change() -> None:
        tg.nn.utils.clip_grad_norm_(ps, 1.0)
        _plain(ps)()

    return change


def _adam(ps: list[Any]) -> Any:
    opt = tg.optim.Adam(ps)

    def change() -> None:
        opt.step()
        opt.zero_grad()

    return change


def _text(entry: Any) -> str:
    """What XLA makes of a program."""
    sources, inputs = entry.program.traced.sources, entry.program.inputs
    memory = iter([m for _, m in inputs.spare])
    metas = [next(memory) if i is None else sources[i].meta for i in inputs.positions()]
    # What has no shape of its own is a number, such as the learning rate.
    kinds = [((), "float64") if m is None else (m.shape, m.dtype.np) for m in metas]
    shapes = [jax.ShapeDtypeStruct(*kind) for kind in kinds]
    return entry.program.kernel.lower(*shapes).compile().as_text()


@pytest.mark.parametrize(("update", "both"), [(_plain, False), (_clipped, True)], ids=["plain", "clipped"])
def test_a_weight_that_is_read_beside_its_update_is_not_overwritten(update, both):
    ps, entry, _ = _step(update)
    overwritten = entry.program.inputs.overwritten_storages
    assert [any(p._st is st for st in overwritten) for p in ps] == [True, both or not ON_CPU]
    assert not ON_CPU or "copy(" not in _text(entry)


def test_moments_are_overwritten():
    _, entry, _ = _step(_adam)
    # Two for each parameter, and the first layer's weight.
    assert len(entry.program.inputs.overwritten_storages) == (5 if ON_CPU else 6)
    assert not ON_CPU or "copy(" not in _text(entry)


def test_what_is_kept_of_a_weight_stays_as_it_was():
    ps, _, run = _step(_plain)
    views = [p.detach().t() for p in ps]
    kept = [p.detach().clone() for p in ps]
    before = [k.tolist() for k in kept]
    run(tg.randn(4, WIDTH))
    for p, view, copy, numbers in zip(ps, views, kept, before):
        assert tg.equal(view.t(), p)
        assert copy.tolist() == numbers
        assert not tg.equal(copy, p)
