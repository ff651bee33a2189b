"""NumPy's code for a kernel gives what XLA's kernel gives, to the rounding of the dtype."""

import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from torchgrad_jax._core.arrays.division import divide
from torchgrad_jax._core.host import choice, code as host, lapack, products as host_products, space, steps as host_steps
from torchgrad_jax._core.jax.unsplit import unsplit
from torchgrad_jax._engine.memory.derivative_stops import without_cotangent

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 1.5, 2.5, -2.5, 3e30, -7.0, 1e-30, 0.1, 3.0, -0.3]
FLOATS = ["float32", "float64"]
REAL = [*FLOATS, "int32", "int64", "uint8", "bool"]
NUMERIC = [d for d in REAL if d != "bool"]
FAR = jnp.array([99])
PLACES = jnp.array([[2], [0], [2]])
MOST = 1e12


def numbers(dtype, seed=0, special=True):
    rng = np.random.default_rng(seed)
    values = np.concatenate([np.array(SPECIAL) if special else rng.standard_normal(16), rng.standard_normal(16) * 3])
    if np.dtype(dtype).kind in "biu":
        values = rng.integers(0, 2 if dtype == "bool" else 100, 32)
    return jnp.asarray(rng.permutation(values).reshape(8, 4).astype(dtype))


def code(fn, *args, limit=MOST):
    def xla(*flat):
        raise AssertionError("left to XLA")

    return host.program(jax.make_jaxpr(fn)(*args), xla, False, limit)


def as_xla(fn, *args):
    program = code(fn, *args)
    assert program is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = program(*args)
    theirs = jax.tree.leaves(jax.jit(fn)(*args))
    for a, b in zip(ours, theirs, strict=True):
        assert a.__class__ is np.ndarray
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if a.dtype.kind in "fc":
            eps = np.finfo(a.dtype).eps
            np.testing.assert_allclose(a, b, rtol=16 * eps, atol=16 * eps)
        else:
            np.testing.assert_array_equal(a, b)


def unary(fn, dtypes=FLOATS):
    return lambda x, y: fn(x), dtypes


def binary(fn, dtypes=NUMERIC):
    return lambda x, y: fn(x, y), dtypes


def _divisor(y):
    return y if y.dtype.kind == "f" else y + 2 if y.dtype.kind == "u" else -2 - y


def _within(x):
    if x.dtype == bool:
        return x
    return jnp.clip(jnp.nan_to_num(x), -1, 1)


CASES = {
    "broadcast_in_dim": (
        lambda x, y: (lax.broadcast_in_dim(x[0], (3, 4), (1,)), jnp.broadcast_to(x[0, 0], (2, 3))), REAL,
    ),
    "reshape": unary(lambda x: x.reshape(2, 16), REAL),
    "squeeze": unary(lambda x: lax.squeeze(x[:1], (0,)), REAL),
    "transpose": unary(lambda x: x.T, REAL),
    "rev": unary(lambda x: lax.rev(x, (0, 1)), REAL),
    "slice": unary(lambda x: x[1:7:2, 1:], REAL),
    "concatenate": binary(lambda x, y: jnp.concatenate([x, y], 1), REAL),
    "split": unary(lambda x: tuple(lax.split(x, (1, 3, 4))), REAL),
    "stack": binary(lambda x, y: jnp.stack([x, y], 1), REAL),
    "unstack": unary(lambda x: tuple(jnp.unstack(x, axis=1)), REAL),
    "tile": unary(lambda x: jnp.tile(x, (2, 3)), REAL),
    "pad": unary(lambda x: lax.pad(x, x[0, 0], [(1, 2, 1), (0, 1, 2)]), REAL),
    "bitcast_convert_type": unary(lambda x: lax.bitcast_convert_type(jnp.nan_to_num(x), f"i{x.dtype.itemsize}")),
    "stop_gradient": unary(lambda x: lax.stop_gradient(x) + x),
    "stop_cotangent": unary(lambda x: without_cotangent(x) + x),
    "copy": unary(jnp.copy, REAL),
    "unsplit": unary(lambda x: unsplit(x, 1) + x),
    "optimization_barrier": binary(lambda x, y: tuple(lax.optimization_barrier((x, y))), REAL),
    "select_n": binary(lambda x, y: jnp.where(x > y, x, y), REAL),
    "iota": (lambda x, y: x + lax.broadcasted_iota(x.dtype, (8, 4), 1), NUMERIC),
    "convert_element_type": (
        lambda x, y: (
            x.astype(bool), _within(x).astype("int32"), x.astype("float64"), _within(x).astype("complex64"),
            _within(x).astype("float32").astype("float16").astype("float32"),
        ),
        REAL,
    ),
    "dynamic_slice": binary(lambda x, y: lax.dynamic_slice(x, (jnp.argmax(y[:, 0]), 9), (2, 2)), REAL),
    "dynamic_update_slice": binary(lambda x, y: lax.dynamic_update_slice(x, y[:2, 1:3], (jnp.argmax(y[0]), -5)), REAL),
    "real": (lambda x, y: lax.complex(x, y).real, FLOATS),
    "imag": (lambda x, y: lax.complex(x, y).imag, FLOATS),
    "complex": (lambda x, y: lax.complex(_within(x), y) - lax.complex(_within(y), _within(x)), FLOATS),
    "conj": (lambda x, y: jnp.conj(lax.complex(x, y)), FLOATS),
    "add": binary(lax.add), "sub": binary(lax.sub), "mul": binary(lax.mul), "max": binary(lax.max),
    "min": binary(lax.min), "div": binary(lambda x, y: lax.div(x, _divisor(y)), NUMERIC),
    "rem": binary(lambda x, y: lax.rem(x, _divisor(y)), NUMERIC),
    "shift_left": binary(lax.shift_left, ["int32", "int64", "uint8"]),
    "shift_right_arithmetic": binary(lax.shift_right_arithmetic, ["int32", "int64"]),
    "lgamma": unary(lax.lgamma), "top_k": unary(lambda x: tuple(lax.top_k(x, 3))),
    "add_any": (lambda x, y: jax.vjp(lambda a: (a * y, a + y), x)[1]((y, x)), FLOATS),
    "nextafter": binary(lax.nextafter, FLOATS), "atan2": binary(lax.atan2, FLOATS), "pow": binary(lax.pow, FLOATS),
    "divide": binary(divide, FLOATS),
    "square": unary(lax.square, NUMERIC), "neg": unary(lax.neg, NUMERIC), "abs": unary(abs, ["float32", "int32"]),
    "sign": unary(jnp.sign, NUMERIC),
    "integer_pow": unary(lambda x: (lax.integer_pow(x, 3), lax.integer_pow(x, 8), lax.integer_pow(x, -2))),
    "clamp": unary(lambda x: lax.clamp(jnp.ones((), x.dtype), x, jnp.full((), 3, x.dtype)), NUMERIC),
    "floor": unary(lax.floor), "ceil": unary(lax.ceil), "round": unary(jnp.round), "sqrt": unary(lax.sqrt),
    "rsqrt": unary(lax.rsqrt), "is_finite": unary(lax.is_finite),
    "eq": binary(lax.eq, REAL), "ne": binary(lax.ne, REAL), "lt": binary(lax.lt), "le": binary(lax.le),
    "gt": binary(lax.gt), "ge": binary(lax.ge),
    "and": binary(lax.bitwise_and, ["int32", "uint8", "bool"]), "or": binary(lax.bitwise_or, ["int32", "bool"]),
    "xor": binary(lax.bitwise_xor, ["int32", "bool"]), "not": unary(lax.bitwise_not, ["int32", "uint8", "bool"]),
    **{n: unary(getattr(lax, n)) for n in (
        "exp", "exp2", "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
        "asinh", "acosh", "atanh", "cbrt", "logistic", "erf", "erfc",
    )},
    "reduce_sum": unary(lambda x: (jnp.sum(_within(x)), jnp.sum(x, 0)), NUMERIC),
    "reduce_max": unary(lambda x: (jnp.max(x), jnp.max(x, 1)), NUMERIC),
    "reduce_min": unary(lambda x: (jnp.min(x), jnp.min(x, 0)), NUMERIC),
    "reduce_prod": unary(lambda x: jnp.prod(_within(x), 1), NUMERIC),
    "reduce_and": unary(lambda x: jnp.all(x, 0), ["bool"]), "reduce_or": unary(lambda x: jnp.any(x, 1), ["bool"]),
    "argmax": unary(lambda x: jnp.argmax(x, 1), REAL), "argmin": unary(lambda x: jnp.argmin(x, 0), REAL),
    "cumsum": unary(lambda x: (lax.cumsum(_within(x)), lax.cumsum(_within(x), 1, reverse=True)), NUMERIC),
    "cumprod": unary(lambda x: lax.cumprod(_within(x), 1), NUMERIC),
    "cummax": unary(lambda x: lax.cummax(x, 1), NUMERIC),
    "cummin": unary(lambda x: lax.cummin(x, 0, reverse=True), NUMERIC),
    "sort": (lambda x, y: (jnp.sort(x, 0), *lax.sort((x, y), num_keys=1)), NUMERIC),
    "gather": unary(
        lambda x: (x[PLACES[:, 0]], jnp.take_along_axis(x, PLACES, 0), x.at[FAR].get(mode="fill")), NUMERIC
    ),
    "scatter": binary(lambda x, y: (x.at[PLACES[:2, 0]].set(y[:2]), x.at[FAR].set(y[:1], mode="drop")), REAL),
    "scatter-add": binary(lambda x, y: x.at[PLACES[:, 0], 1:3].add(y[:3, :2]), NUMERIC),
    "scatter-mul": binary(lambda x, y: x.at[PLACES[:, 0], 1:3].multiply(y[:3, :2]), NUMERIC),
    "scatter-max": binary(lambda x, y: x.at[PLACES[:, 0], 1:3].max(y[:3, :2]), NUMERIC),
    "scatter-min": binary(lambda x, y: x.at[PLACES[:, 0], 1:3].min(y[:3, :2]), NUMERIC),
    "log2": unary(lambda x: jnp.log2(jnp.abs(x))),
    "call_hi_primitive": unary(jnp.frexp),
    "one_minus_square": unary(lambda x: jax.jvp(jnp.tanh, (x,), (x,))[1]),
    "conv_general_dilated": (
        lambda x, y: lax.conv(_within(x)[None], _within(y).reshape(2, 8, 2), (1,), "SAME"), FLOATS,
    ),
    "dot_general": (lambda x, y: (
        _within(x) @ _within(y).T, jnp.einsum("ij,ij->i", _within(x), _within(y)),
        jnp.einsum("bij,bkj->bki", _within(x).reshape(2, 4, 4), _within(y).reshape(2, 4, 4)),
    ), FLOATS),
}  # fmt: skip
NEWER = {"log2", "one_minus_square"}
"""Primitives that JAX has since 0.11. The cases run with what stood for them before."""
GUARDED = {"sin", "cos", "tan", "pow", "rem"}
"""Of numbers like 3e30 their results say nothing."""


@pytest.mark.parametrize("name, dtype", [(n, d) for n, (_, dtypes) in CASES.items() for d in dtypes])
def test_each_primitive(name, dtype):
    special = name not in GUARDED
    as_xla(CASES[name][0], numbers(dtype, 0, special), numbers(dtype, 1, special))


def test_every_row_of_the_table_is_tried():
    used = set()
    for fn, dtypes in CASES.values():
        _names(jax.make_jaxpr(fn)(numbers(dtypes[0]), numbers(dtypes[0], 1)).jaxpr, used)
    unknown = {name for name in NEWER if not hasattr(lax, name)}
    if not hasattr(lax, "log2"):
        unknown.add("call_hi_primitive")  # by which a newer JAX takes numbers apart
    elsewhere = {*lapack.STEPS, "empty2"}  # test_lapack.py
    assert used >= set(host_steps.STEPS) - unknown - elsewhere


def _names(jaxpr, into):
    for eqn in jaxpr.eqns:
        into.add(eqn.primitive.name)
        for inner in jax.tree.leaves(eqn.params, is_leaf=lambda v: hasattr(v, "jaxpr")):
            if hasattr(inner, "jaxpr"):
                _names(inner.jaxpr, into)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (1, 1)])
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x * 2 + 1,
        lambda x: jnp.sum(x),
        lambda x: jnp.broadcast_to(x, (2, *x.shape)),
        lambda x: -x.reshape(-1),
        lambda x: jnp.where(x > 0, x, 0),
        lambda x: jnp.exp(x) @ jnp.ones(x.shape[-1:], x.dtype) if x.size and x.ndim else x,
    ],
)
def test_shapes_of_none_and_one(fn, shape):
    as_xla(fn, jnp.full(shape, 0.5, jnp.float32))


def test_values_that_are_spread_late():
    def fn(x, y):
        wide = jnp.broadcast_to(x[0, 0], x.shape)
        row = jnp.broadcast_to(y[:1], x.shape)
        return (wide, wide + row, jnp.sum(wide + 1), (wide * 2).reshape(-1), row.T, jnp.concatenate([wide, row]))

    as_xla(fn, numbers("float32", 0, False), numbers("float32", 1, False))


def test_results_are_memory_of_their_own():
    x = np.arange(12.0).reshape(3, 4).copy()
    outs = code(lambda x: (x, x.T, x[1], x.reshape(-1), jnp.broadcast_to(x[0], (2, 4))), x)(x)
    assert outs[0] is x
    for out in outs[1:]:
        assert out.base is None
        assert out.flags.c_contiguous


@pytest.mark.parametrize("fn", [lambda x: [x + x], lambda x: [x * 1], lambda x: [x / 3], lambda x: [jnp.exp(x)]])
@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16])
def test_half_types_are_computed_in_float32_and_rounded_once(dtype, fn):
    """XLA gives 0 for a bfloat16 below the normal numbers, also where nothing is computed (`x * 1`)."""
    smallest = jnp.finfo(dtype).smallest_subnormal
    x = np.array([1, 3, -2.5, 0.1, smallest, -smallest, np.inf, np.nan], dtype)
    (wide,) = code(fn, jnp.ones(8, np.float32))(x.astype(np.float32))
    (once,) = code(fn, jnp.ones(8, dtype))(x)
    assert once.dtype == dtype
    np.testing.assert_array_equal(once.astype(np.float32), wide.astype(dtype).astype(np.float32))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: lax.digamma(x),
        lambda x: lax.while_loop(lambda v: v[0] < 3, lambda v: v * 2, x),
        lambda x: lax.cond(x[0] > 0, lambda v: v, lambda v: lax.digamma(v), x),
        lambda x: jnp.fft.fft(x),
        lambda x: lax.top_k(x.astype(int), 2)[0],
    ],
)
def test_a_primitive_that_the_table_lacks_is_left_to_xla(fn):
    assert code(fn, jnp.ones(3)) is None


@pytest.mark.parametrize("y", [0, -1])
def test_integers_divided_by_zero_and_by_minus_one_are_left_to_xla(y):
    for fn in (lax.div, lax.rem):
        with pytest.raises(AssertionError, match="left to XLA"):
            code(fn, jnp.arange(3), jnp.full(3, y))(np.arange(3), np.full(3, y))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types_are_moved_and_converted(dtype):
    as_xla(lambda x: (x[::-1], x.reshape(2, 4), x.astype("float32") + 1), jnp.arange(8, dtype=dtype))


@pytest.mark.parametrize(
    "fn, steps",
    [
        (lambda x: x * 1.0, 0),
        (lambda x: x / 1.0, 0),
        (lambda x: x - 0.0, 0),
        (lambda x: x - np.float32(-0.0), 1),
        (lambda x: x + 0.0, 1),  # -0.0 becomes 0
        (lambda x: jnp.where(np.ones((3, 4), bool), x, 2.0), 0),
        (lambda x: x.reshape(12).reshape(4, 3).reshape(3, 4), 0),
        (lambda x: x.reshape(12).reshape(4, 3), 1),
        (lambda x: lax.convert_element_type(x, x.dtype), 0),
        (lambda x: jnp.exp(x) * jnp.exp(x), 2),
    ],
)
def test_steps_that_change_nothing_have_no_code(fn, steps):
    closed = jax.make_jaxpr(fn)(jnp.ones((3, 4), "float32"))
    maker = host.Maker(closed, choice.room(closed.jaxpr, MOST))
    assert len(maker._text(maker.outs)) == steps


def test_much_work_and_large_arrays_are_left_to_xla():
    few, many = jnp.ones(100), jnp.ones(choice.LARGEST + 1)
    assert code(lambda x: x * 2, few, limit=choice.LIMIT) is not None
    assert code(lambda x: x * 2 + x[::-1], many) is None
    assert code(jnp.exp, jnp.ones(choice.LARGEST // 8), limit=choice.LIMIT) is not None
    assert code(lambda x: jnp.exp(jnp.exp(x)), jnp.ones(choice.LARGEST), limit=choice.LIMIT) is None
    matrix = jnp.ones((250, 250))
    assert code(lambda x: x @ x, matrix, limit=choice.LIMIT) is None

    def long(x):
        for _ in range(200):
            x = x * 2
        return x

    assert code(long, few, limit=choice.LIMIT) is None


@pytest.mark.parametrize(
    "shapes", [((), (64, 80), (64, 80)), ((64, 80), (), ()), ((64, 80), (1, 80), (64, 1)), ((),) * 3]
)
def test_a_choice_among_many_takes_operands_that_are_spread(shapes):
    def choose(which, x, y):
        return lax.select(*[jnp.broadcast_to(v, (64, 80)) for v in (which > 0, x, y)])

    as_xla(choose, *[jnp.asarray(np.random.default_rng(k).standard_normal(s), "float32") for k, s in enumerate(shapes)])


def test_what_a_step_touches_counts_and_not_what_it_is_taken_from():
    many = jnp.ones((600, 600))
    assert code(lambda x: x[7, 3:9] * 2, many) is not None
    assert code(lambda x, i: x.at[i].get(mode="clip").sum(), many, jnp.array([3, 1])) is not None
    assert code(lambda x, i: x.at[i].set(0.0), many, jnp.array([3, 1])) is None
    assert code(lambda x: x.T, many) is None


def test_steps_that_xla_does_slowly_are_numpys_at_any_size():
    many = jnp.zeros((3, choice.LARGEST))
    assert code(lambda x: jnp.sort(x * 2, 1), many) is not None
    assert code(lambda x: jnp.argmax(x, 1), many) is not None
    assert code(lambda x: jnp.argmax(x, 0), many) is None
    assert code(lambda x: jnp.cumsum(x, 1), many.astype("int64")) is not None
    assert code(lambda x: jnp.cumsum(x, 1), many) is not None
    assert code(lambda x: jnp.cumsum(x, 0), many) is not None


@pytest.mark.parametrize(
    "fn, found",
    [
        (lambda x, y: x.reshape(-1), [0]),
        (lambda x, y: (y[None], jnp.squeeze(x[:, None], 1)), [1, 0]),
        (lambda x, y: jnp.sum(y[:, None], 1), [1]),
        (lambda x, y: jax.jit(lambda a: a.reshape(4, 2))(x), [0]),
        (lambda x, y: x.T, None),
        (lambda x, y: x.reshape(-1) + 0 * y.reshape(-1), None),
        (lambda x, y: x[:1].reshape(-1), None),
        (lambda x, y: jnp.broadcast_to(x, (3, 2, 4)), None),
    ],
)
def test_views_of_whole_arrays_are_told_from_other_kernels(fn, found):
    x = jnp.ones((2, 4))
    assert choice.looked_at(jax.make_jaxpr(fn)(x, x).jaxpr) == found


def test_a_variable_of_the_environment_chooses(monkeypatch):
    few, many = jnp.ones(100), jnp.ones(choice.LARGEST + 1)
    monkeypatch.setattr(choice, "EXECUTOR", "xla")
    assert code(lambda x: x * 2, few) is None
    monkeypatch.setattr(choice, "EXECUTOR", "numpy")
    assert code(lambda x: x * 2, many) is not None
    monkeypatch.setenv(choice.VARIABLE, "NumPy")
    with pytest.raises(ValueError, match="'numpy' or 'xla'"):
        choice.given_executor()


@pytest.mark.parametrize("reverse", [False, True])
def test_loops(reverse):
    def scanned(x, y):
        def step(state, row):
            total, k = state
            return (total * 0.5 + row[0] @ y[:4, :], k + 1), (jnp.tanh(total), k, row[1] > 0)

        start = (jnp.zeros(4, x.dtype), 0)
        return lax.scan(step, start, (x, x[:, 0]), reverse=reverse)

    x, y = numbers("float32") / 100, numbers("float32", 1) / 100
    as_xla(lambda x, y: jax.tree.leaves(scanned(x, y)), x, y)
    as_xla(lambda x, y: jax.grad(lambda x: scanned(x, y)[1][0].sum())(x), x, y)
    assert code(lambda x, y: lax.scan(lambda c, r: (c + r, c), x[0], x[:0])[1], x, y) is not None


SIZES = [
    (300, 70, 90),
    (1, 300, 200),
    (200, 300, 1),
    (1, 9000, 3),
    (64, 64, 64),
    (5, 60000, 1),
    (65, 1000, 64),
    (16, 128, 512),
    (300, 300, 300),
]


@pytest.mark.parametrize("rows, summed, columns", SIZES)
def test_products_in_parts(rows, summed, columns):
    """Each part is so small that BLAS starts no threads."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, rows, summed)), rng.standard_normal((2, summed, columns))
    product = host_products._product(rows, summed, columns)
    parts = []
    if product is np.matmul:
        assert rows * summed * columns <= 1 << 18
        return
    if product is None:
        assert summed * min(rows, columns) > 9 << 10 or rows * summed * columns > 8 << 20
        return
    matmul = np.matmul
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            host_products.np, "matmul", lambda a, b, out: parts.append((a.shape, b.shape)) or matmul(a, b, out=out)
        )
        np.testing.assert_allclose(product(x, y), x @ y, rtol=1e-9, atol=1e-9)
    assert all(a[-2] * a[-1] * b[-1] <= 1 << 18 for a, b in parts)


CONVOLUTIONS = {
    "plain": {},
    "same": {"padding": [(1, 2), (0, 1)]},
    "steps": {"window_strides": (2, 3), "padding": [(1, 0), (2, 2)]},
    "transposed": {"lhs_dilation": (2, 3), "padding": [(2, 1), (1, 3)]},
    "spread": {"rhs_dilation": (2, 1), "window_strides": (1, 2)},
    "cut": {"lhs_dilation": (2, 1), "padding": [(-1, 2), (0, -2)]},
    "groups": {"feature_group_count": 2, "padding": [(1, 1), (1, 1)]},
    "channels last": {"dimension_numbers": ("NHWC", "HWIO", "NHWC"), "padding": [(1, 1), (1, 1)]},
}


@pytest.mark.parametrize("how", CONVOLUTIONS)
def test_convolutions_and_their_gradients(how):
    """Those of a kernel have windows as large as the input, of a group as many groups of examples."""
    options = {"window_strides": (1, 1), "padding": [(0, 0), (0, 0)], **CONVOLUTIONS[how]}
    taken = 4 // options.get("feature_group_count", 1)
    x, w = numbers32((3, 4, 9, 8)), numbers32((6, taken, 3, 2))
    if "dimension_numbers" in options:
        x, w = x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0)

    def convolved(x, w):
        return lax.conv_general_dilated(x, w, **options)

    as_xla(convolved, x, w)
    # XLA reads beyond the memory of the others.
    if min(low for pair in options["padding"] for low in pair) >= 0:
        g = numbers32(convolved(x, w).shape)
        as_xla(lambda x, w: jax.vjp(convolved, x, w)[1](g), x, w)


def numbers32(shape):
    return jnp.asarray(np.random.default_rng(len(shape)).integers(-8, 8, shape) / 8, jnp.float32)


INDICES = {
    "vector": np.array([1, 0, 4, 1]),
    "matrix": np.array([[1, 0], [4, 4]]),
    "far": np.array([1, -3, 99, 4]),
    "number": np.array(2),
}


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("mode", ["fill", "clip"])
@pytest.mark.parametrize("kind", INDICES)
def test_rows_are_taken_and_added(kind, mode, axis):
    x, at = numbers32((5, 6, 7)), (*[slice(None)] * axis, jnp.asarray(INDICES[kind]))
    new = numbers32(np.zeros((5, 6, 7))[(*at[:-1], INDICES[kind] % 5)].shape)
    as_xla(lambda x: x.at[at].get(mode=mode, fill_value=2), x)
    as_xla(lambda x, new: (x.at[at].add(new, mode=mode), x.T.at[at].get(mode=mode)), x, new)


def test_a_large_product_beside_a_loop_is_compiled_alone():
    def projected(x, w):
        return lax.scan(lambda c, row: (c + row.sum(), c), jnp.zeros((), x.dtype), x @ w)

    x, w = numbers32((500, 300)), numbers32((300, 400))
    assert host_products.dot_cost(jax.make_jaxpr(jnp.matmul)(x, w).eqns[0]) > choice.ALONE
    assert code(jnp.matmul, x, w) is None
    as_xla(projected, x, w)


@pytest.mark.parametrize("dtype", [*REAL, "complex64", "complex128"])
def test_a_choice_among_many(dtype):
    rng = np.random.default_rng(0)
    x, y = jnp.asarray(rng.standard_normal((2, 100, 50)) * 9).astype(dtype)
    as_xla(
        lambda x, y: (jnp.where(x == y, x, y), jnp.where(MASK, x, y[:1]), jnp.where(MASK, jnp.ones((), y.dtype), y)),
        x,
        y,
    )


MASK = np.random.default_rng(1).standard_normal((100, 50)) > 0


class Handed:
    """What stands for XLA, and notes what it was given."""

    def __init__(self):
        self.calls = []

    def __call__(self, *args):
        self.calls.append(args)
        return "xla"


def _with(fn, *args):
    xla = Handed()
    return host.program(jax.make_jaxpr(fn)(*args), xla, True), xla


def test_traced_values_and_arrays_that_were_put_somewhere_go_to_xla():
    x = jnp.ones(3)
    program, xla = _with(lambda x: x + 1, x)
    np.testing.assert_array_equal(program(x), np.full(3, 2.0))
    assert not xla.calls
    assert program(jax.device_put(x, jax.devices()[0])) == "xla"
    seen = []
    jax.jit(lambda x: (seen.append(program(x)), x)[1])(x)
    assert seen == ["xla"]


def test_values_that_no_integer_holds_go_to_xla():
    program, _ = _with(lambda x: x.astype(jnp.int32), jnp.ones(3))
    np.testing.assert_array_equal(program(np.array([1.9, -1.9, 7])), [1, -1, 7])
    for bad in (np.nan, np.inf, 1e20):
        assert program(np.array([1, bad, 2])) == "xla"


def test_numbers_that_do_not_fit_go_to_xla():
    program, _ = _with(lambda x, n: x + n, np.ones(3, np.int64), 2)
    np.testing.assert_array_equal(program(np.ones(3, np.int64), 4), [5, 5, 5])
    assert program(np.ones(3, np.int64), 1 << 70) == "xla"


@pytest.mark.parametrize("setting", ["jax_debug_nans", "jax_debug_infs"])
def test_who_has_jax_look_for_nan_gets_xla(setting):
    program, _ = _with(lambda x: x / 0, jnp.ones(3))
    before = getattr(jax.config, setting)
    jax.config.update(setting, True)
    try:
        assert program(np.ones(3)) == "xla"
    finally:
        jax.config.update(setting, before)


def test_numpy_warns_afterwards_as_before():
    program, _ = _with(lambda x: x / 0, jnp.ones(3))
    with np.errstate(divide="raise"):
        assert np.isinf(program(np.ones(3))).all()
        with pytest.raises(FloatingPointError):
            np.ones(3) / np.zeros(3)


def test_without_the_fast_way_to_silence_numpy(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpy._core.umath", None)
    quietly, loudly = space.warnings()
    with np.errstate(divide="raise"):
        token = next(quietly)
        assert np.isinf(np.ones(1) / np.zeros(1)).all()
        loudly(token)
        with pytest.raises(FloatingPointError):
            np.ones(3) / np.zeros(3)


def test_code_grows_with_the_number_of_arguments_and_no_faster():
    """A thousand tensors that are stacked took seconds, and three thousand gigabytes."""

    def size(n):
        closed = jax.make_jaxpr(lambda *xs: sum(xs[1:], xs[0]))(*[np.ones(2, np.float32)] * n)
        made = host.program(closed, jax.jit(lambda *xs: sum(xs)), True, limit=1e9)
        arrays = [np.full(2, i, np.float32) for i in range(n)]
        np.testing.assert_array_equal(made(*arrays), sum(arrays))
        traced = jax.jit(lambda *xs: made(*xs))(*arrays)
        np.testing.assert_array_equal(traced, sum(arrays))
        return len(made.__code__.co_code)

    assert size(200) < 2.5 * size(100)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
@pytest.mark.parametrize("stack", [(), (3,)])
def test_a_product_of_a_column_and_a_row_is_one_multiplication_for_each_element(stack, dtype):
    x = np.broadcast_to(np.array([[0.0], [1.0], [np.inf]], dtype), (*stack, 3, 1))
    y = np.broadcast_to(np.array([[-1.0, 0.0]], dtype), (*stack, 1, 2))
    (got,) = code(jnp.matmul, x, y)(x, y)
    with np.errstate(invalid="ignore"):
        want = x * y
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got.real), np.signbit(want.real))


@pytest.mark.parametrize("first", [0, -3])
def test_places_that_stand_for_a_whole_row_are_spread(first):
    """Of `i[:, None]` spread over a row, one number for each row is made, counted from either end."""
    places = jnp.array([first, 1, first + 1, 2, 0, first, 1, 1])
    as_xla(lambda x, i: jnp.take_along_axis(x, jnp.broadcast_to(i[:, None], x.shape), 1), numbers("float32"), places)
    spread = jnp.broadcast_to
    as_xla(lambda i: jnp.where((j := spread(i[:, None], (8, 4))) < 0, j + 4, j).reshape(4, 8), places)
