"""Sizes that are symbols: they compute as numbers do, write down what they answered, and never turn into a number."""

import ast
import itertools
import operator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax
from torchgrad_jax._core.jax.sizes import NotGeneral, Size, Sizes, decided, of_sizes, pinned, value_of

OPS = Path(torchgrad_jax.__file__).parent / "_ops"


@pytest.fixture
def sizes():
    found = Sizes((5, 12))
    with found.trace():
        yield found


def test_a_size_is_equal_to_no_number_once_its_trace_is_over():
    """JAX would find what it traced with symbols where it looks for the same of numbers."""
    sizes = Sizes((5, 12))
    n = sizes.symbols[0]
    with sizes.trace():
        assert n == 5
    assert n != 5
    assert (n,) != (5,)
    assert n == n + 1 - 1


ARITHMETIC = {
    "sums": lambda n, k: n + k - 3,
    "products": lambda n, k: (n + 1) * (k - n),
    "quotients": lambda n, k: (n * k - 1) // 4 + (-k) // 3,
    "remainders": lambda n, k: (k + 7) % n - 100 % n,
    "exact quotients": lambda n, k: (n * k * 6) // (k * 2),
    "powers": lambda n, k: n**3 + (-n) ** 2,
    "from the right": lambda n, k: 100 - n + 3 * k + 1000 // k,
}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_the_text_of_a_size_gives_what_the_numbers_give(sizes, name):
    fn = ARITHMETIC[name]
    made = fn(*sizes.symbols)
    assert made.hint == fn(5, 12)
    text = compile(sizes.text(made), "text", "eval")
    for n, k in itertools.product((2, 3, 7, 30), (2, 5, 64)):
        assert eval(text, {"s": (n, k)}) == fn(n, k), (n, k)


COMPARED = {
    "equal": (lambda n, k: n == 5, [(5, 2), (5, 9)], [(4, 2)]),
    "less": (lambda n, k: n + 6 < k, [(2, 9), (5, 12)], [(6, 12)]),
    "at least": (lambda n, k: k - n >= 7, [(5, 12), (2, 20)], [(5, 11)]),
    "no remainder": (lambda n, k: k % 4 == 0, [(5, 12), (3, 8)], [(5, 10)]),
    "a shape": (lambda n, k: (n, k, 1) == (5, 12, 1), [(5, 12)], [(5, 13), (6, 12)]),
    "as a condition": (lambda n, k: bool(n - 5), [(5, 2)], [(6, 12)]),
    "the smaller one": (lambda n, k: min(n, k), [(2, 3)], [(4, 3)]),
    "a number of rounds": (lambda n, k: pinned(k // n), [(5, 12), (5, 13)], [(5, 16)]),
    "a table": (lambda n, k: decided(lambda m: m > 10, k), [(5, 11)], [(5, 9)]),
}


@pytest.mark.parametrize("name", COMPARED)
def test_an_answer_is_a_guard(sizes, name):
    asks, same, others = COMPARED[name]
    asks(*sizes.symbols)
    holds = sizes.check()
    assert holds((5, 12))
    assert all(map(holds, same))
    assert not any(map(holds, others))


def test_what_holds_of_all_sizes_is_no_guard(sizes):
    n, k = sizes.symbols
    assert all((n > 1, n != 0, n * k >= 4, n + 1 != 2, n >= 2, bool(n), n - n == 0))
    assert sizes.guards == {}


@pytest.mark.parametrize("convert", [operator.index, int, float, range, round, lambda n: [0] * n, np.arange])
def test_a_size_is_never_a_number(sizes, convert):
    with pytest.raises((TypeError, NotImplementedError)):
        convert(sizes.symbols[0])


def test_sizes_of_two_traces_do_not_meet(sizes):
    other = Sizes((5,)).symbols[0]
    assert sizes.symbols[0] != other
    assert not sizes.guards
    with pytest.raises(NotGeneral):
        sizes.symbols[0] + other


def test_equal_sizes_can_be_one_symbol():
    sizes = Sizes((4, 4, 9, 4))
    a, b, _, d = sizes.symbols
    assert (a, b) == (b, d)
    assert sizes.equal() == {1: 0, 3: 0}
    again = Sizes((4, 4, 9, 4), sizes.equal())
    assert again.symbols[1] is again.symbols[0]
    assert again.check()((7, 7, 2, 7))
    assert not again.check()((7, 8, 2, 7))


def test_jax_computes_with_arrays_of_any_size(sizes):
    n, k = sizes.symbols
    x = jax.ShapeDtypeStruct((n, k), np.dtype(np.float32))
    outs = jax.eval_shape(lambda x: (x.sum(0), x.T @ x, jnp.concatenate([x, x], 1), x * value_of(k)), x)
    assert [o.shape for o in outs] == [(k,), (k, k), (n, 2 * k), (n, k)]
    assert sizes.guards == {}


def test_what_is_computed_of_sizes_is_a_value_in_a_trace(sizes):
    n, _ = sizes.symbols
    traced = jax.make_jaxpr(lambda: of_sizes(np.arange, n, shape=(n,), dtype=np.int64) + of_sizes(abs, n))()
    assert traced.out_avals[0].shape == (n,)
    assert of_sizes(np.arange, 3).tolist() == [0, 1, 2]


def test_jax_never_takes_a_size_for_an_equal_number(monkeypatch):
    """Its table of descriptions compares shapes whose hashes differ, about once in a thousand times."""
    met = []
    equal = Size.__eq__

    def watched(self, other):
        if isinstance(other, int):
            met.append(other)
        return equal(self, other)

    monkeypatch.setattr(Size, "__eq__", watched)
    kept = []
    for _ in range(5000):
        sizes = Sizes((5, 4))
        shape = tuple(sizes.symbols)
        with sizes.trace():
            kept.append(jax.core.ShapedArray(shape, np.dtype(np.float32)))
            assert jax.core.ShapedArray((5, 4), np.dtype(np.float32)).shape == (5, 4)
            assert jax.core.ShapedArray(shape, np.dtype(np.float32)) is kept[-1]
    assert not met


def test_a_shape_that_does_not_fit_other_sizes_is_a_guard():
    sizes = Sizes((2, 4))
    n, k = sizes.symbols
    sizes.require((n, k), (n, 2, k // 2))
    assert sizes.check()((7, 6))
    assert not sizes.check()((7, 5))
    with pytest.raises(NotGeneral):
        sizes.require((n, k), (n, 3))


def test_answers_for_one_purpose_are_kept_apart():
    sizes = Sizes((5, 3))
    n, k = sizes.symbols
    with sizes.trace():
        assert n != k
    with sizes.deciding() as holds:
        assert n > 4
        small = holds()
    assert (small((3, 4)), small((6, 6))) == (False, True)
    assert (sizes.check()((3, 4)), sizes.check()((6, 6))) == (True, False)


def _looked_up(tree):
    """Where a size is looked for in a set or a dict, which finds it by its hash: no guard would be written down."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(isinstance(o, ast.In | ast.NotIn) for o in node.ops):
            of_size = any(isinstance(n, ast.Attribute) and n.attr in ("shape", "size") for n in ast.walk(node.left))
            if of_size and any(isinstance(c, ast.Set | ast.Dict) for c in node.comparators):
                yield node.lineno
        of_dict = isinstance(node, ast.Subscript) and isinstance(node.value, ast.Dict)
        if of_dict and any(isinstance(n, ast.Attribute) and n.attr in ("shape", "size") for n in ast.walk(node.slice)):
            yield node.lineno


def test_no_kernel_looks_for_a_size_in_a_set():
    assert [*_looked_up(ast.parse("y = x.shape[0] in {1, 2}\nz = {3: 1}[x.size]"))] == [1, 2]
    assert [(f.name, line) for f in sorted(OPS.rglob("*.py")) for line in _looked_up(ast.parse(f.read_text()))] == []
