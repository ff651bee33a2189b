"""NumPy code that rows have of their own gives what the code from their jaxprs gives, or leaves the values to it."""

import inspect
from typing import Any

import jax
import numpy as np
import pytest

from torchgrad_jax._core.arrays import dtypes
from torchgrad_jax._core.arrays.devices import default_device
from torchgrad_jax._core.arrays.meta import meta
from torchgrad_jax._core.host import code as host
from torchgrad_jax._core.host.inline import Unsure
from torchgrad_jax._ops.registry import TABLE, Promote

TAKEN, LEFT, NONE = "computed by the form", "left to the code from the jaxpr", "without a form"
F, D, L, H = np.float32, np.float64, np.int64, np.float16
NAN, INF = np.nan, np.inf
SPREAD = {"training": True, "momentum": 0.1, "eps": 1e-5, "running_mean": None, "running_var": None}
EXACT = {
    "sort",
    "argsort",
    "topk",
    "kthvalue",
    "median_dim",
    "searchsorted",
    "index",
    "index_put",
    "gather",
    "bincount_sized",
    "histc",
}
"""Rows that round nothing."""


def array(values, dtype: Any = F):
    return np.array(values, dtype)


def mixed(*shape, dtype: Any = F, seed=0):
    """Numbers of either sign with ties, and without NaN, zeros and infinities."""
    rng = np.random.default_rng(seed)
    return (np.floor(rng.standard_normal(shape) * 4) + 0.25).astype(dtype)


def floats(*shape, dtype: Any = F, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def whole(high, *shape, low=0, dtype: Any = L, seed=0):
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


X, SPECIAL = mixed(3, 4), array([[0.0, -0.0, INF, -INF], [1.0, NAN, -2.0, 2.0]])
ZEROS = array([[0.0, -0.0, 1.0], [-0.0, 0.0, -1.0]])
TIES = array([[1.0, 2.0, 2.0, 1.0], [0.0, -0.0, 0.0, -0.0], [INF, -INF, INF, 3.0]])
WITH_NAN = array([[1.0, NAN, 2.0, NAN], [-INF, INF, NAN, 0.0]])
IMAGE, EMPTY = floats(2, 4, 5, 6), np.zeros((0, 4), F)
MANY = floats(3, 342)
FILLED = np.resize(array([0.0, 2.0, -0.0, INF, -1.0, -INF, 2.0, 0.0, -2.0, 1e-40, -1e-40]), (40, 13))
WITH_NANS = np.resize(array([1.0, NAN, -0.0, 2.0, -NAN, INF, 0.0]), (9, 20))
ROW, CHANNEL = floats(4, seed=1), floats(4, seed=2)


def unary(name, **statics):
    """Numbers of either sign, both dtypes, a number alone, and what has no form."""
    return [
        *[(name, TAKEN, [x], statics) for x in (X, X.astype(D), array(2.5), X.T)],
        *[(name, NONE, [x], statics) for x in (EMPTY, X.astype(H))],
    ]


def quotients(name):
    return [
        (name, NONE, [MANY, MANY], {}),
        (name, TAKEN, [X, floats(3, 4, seed=1)], {}), (name, TAKEN, [X, floats(4, seed=2)], {}),
        (name, TAKEN, [X.astype(D), floats(3, 1, dtype=D)], {}), (name, NONE, [EMPTY, EMPTY], {}),
        (name, NONE, [X.astype(L), X.astype(L)], {}),
    ]  # fmt: skip


def orders(name, first_is_left, **statics):
    """Ties, zeros of both signs and infinities along both dimensions; NaN where it comes first is left."""
    return [
        *[(name, TAKEN, [x], {"dim": d, **statics}) for x in (X, TIES, TIES.astype(D), X.T) for d in (0, -1)],
        (name, LEFT if first_is_left else TAKEN, [WITH_NAN], {"dim": 1, **statics}),
        *[(name, TAKEN, [x], {"dim": d, **statics}) for x in (MANY, FILLED) for d in (0, -1)],
        *[(name, NONE, [x], {"dim": 0, **statics}) for x in (MANY.astype(D), X.astype(L), array(1.0))],
    ]  # fmt: skip


def norm(name, x, statics, params):
    """With and without weight and bias; equal numbers come out as 0, and what is not finite makes NaN of its part."""
    w, b = params
    wild = x.copy()
    wild.ravel()[:3] = INF, NAN, -INF
    constant = np.full_like(x, 0.1)
    return [
        *[(name, TAKEN, {"input": v, "weight": p, "bias": q}, statics) for v in (x, wild, constant)
          for p, q in ((w, b), (None, b), (w, None), (None, None))],
        (name, NONE, {"input": x.astype(D), "weight": w.astype(D), "bias": b.astype(D)}, statics),
        (name, NONE, {"input": x.astype(H), "weight": w, "bias": b}, statics),
    ]  # fmt: skip


LAYER, STATED = {"eps": 1e-5}, {**SPREAD, "running_mean": CHANNEL, "running_var": abs(CHANNEL)}
GROUPS = {"N": 2, "C": 4, "HxW": 30, "group": 2, "eps": 1e-5}
POOL = {"kernel_size": (2, 2), "stride": (), "padding": (0, 0), "dilation": (1, 1), "ceil_mode": False}
SAMPLE = {"interpolation_mode": 0, "padding_mode": 0, "align_corners": False}
GRID = floats(2, 3, 4, 2, seed=3) * F(1.5)
LOSS = {"ignore_index": -100, "reduction": "mean"}
SEARCH = {"out_int32": False, "right": False, "side": None, "sorter": None}
EDGES = array([-1.0, 0.0, 0.0, 2.0, INF])
TABLED = [
    *unary("log2"), ("log2", TAKEN, [SPECIAL], {}), ("log2", TAKEN, [abs(MANY)], {}),
    ("log2", TAKEN, [array([1e-40, 8.0, 2.0**100])], {}),
    *quotients("logaddexp"), ("logaddexp", TAKEN, [SPECIAL, SPECIAL], {}),
    ("logaddexp", TAKEN, [array([INF, INF, -INF, NAN]), array([INF, -INF, -INF, 1.0])], {}),
    *quotients("floor_divide"), ("floor_divide", TAKEN, [SPECIAL, array([[1.0], [-2.0]])], {}),
    ("floor_divide", TAKEN, [SPECIAL, array([0.0, -0.0, INF, -INF])], {}), ("floor_divide", TAKEN, [X, 2.0], {}),
    ("floor_divide", TAKEN, [ZEROS, array([-3.0, 3.0, 4.0])], {}), ("floor_divide", TAKEN, [X, 3], {}),
    *quotients("remainder"), ("remainder", LEFT, [SPECIAL, array([[1.0], [-2.0]])], {}),
    ("remainder", TAKEN, [array([1.0, -1.0, INF, NAN, 3.0]), array([INF, INF, 2.0, 2.0, -0.0])], {}),
    ("remainder", TAKEN, [whole(9, 3, 4, low=-9), 4], {}), ("remainder", TAKEN, [whole(9, 3, 4, low=-9), -4], {}),
    ("remainder", TAKEN, [X, -1.5], {}), ("remainder", LEFT, [ZEROS, mixed(2, 3)], {}),
    *unary("sign"), ("sign", TAKEN, [ZEROS], {}), ("sign", LEFT, [SPECIAL], {}),
    *[("clamp", TAKEN, [x, *limits], {})
      for x in (X, SPECIAL, X.astype(D)) for limits in ((-1.0, 0.5), (2, -1), (1.0, NAN))],
    ("clamp", LEFT, [ZEROS, 0.0, 1.0], {}), ("clamp", NONE, [X, X, X], {}), ("clamp", NONE, [X.astype(L), 1, 2], {}),
    ("clamp_min", TAKEN, [SPECIAL, 0.5], {}), ("clamp_max", TAKEN, [SPECIAL, -0.5], {}),
    ("clamp_min", LEFT, [ZEROS, 0.0], {}),
    *unary("nan_to_num", nan=None, posinf=None, neginf=None),
    ("nan_to_num", LEFT, [SPECIAL], {"nan": 1.0, "posinf": None, "neginf": -3.0}),
    *unary("softplus", beta=1.0, threshold=20.0), ("softplus", NONE, [X], {"beta": 2.0, "threshold": 20.0}),
    ("softplus", LEFT, [array([21.0, 1.0])], {"beta": 1.0, "threshold": 20.0}),
    ("softplus", TAKEN, [array([20.0, NAN, -INF, -0.0])], {"beta": 1.0, "threshold": 20.0}),
    *orders("sort", False, descending=False, stable=None), *orders("sort", True, descending=True, stable=True),
    *orders("argsort", False, descending=False, stable=False), *orders("argsort", True, descending=True, stable=True),
    *orders("topk", True, k=2, largest=True, sorted=True), *orders("topk", False, k=1, largest=False, sorted=True),
    ("topk", NONE, [X], {"k": 0, "dim": 0, "largest": True, "sorted": True}),
    *orders("kthvalue", False, k=2, keepdim=False), *orders("kthvalue", False, k=1, keepdim=True),
    *[("sort", TAKEN, [WITH_NANS], {"dim": 1, "descending": k, "stable": None}) for k in (False, True)],
    *[("topk", TAKEN, [WITH_NANS], {"k": 5, "dim": 0, "largest": k, "sorted": True}) for k in (False, True)],
    ("kthvalue", TAKEN, [WITH_NANS], {"k": 18, "dim": 1, "keepdim": False}),
    *orders("median_dim", True, keepdim=False), *orders("median_dim", True, keepdim=True),
    *[("searchsorted", TAKEN, [EDGES, v], {**SEARCH, **more})
      for v in (X, TIES, WITH_NAN, array([0.0, -0.0]))
      for more in ({}, {"right": True}, {"side": "right"}, {"out_int32": True})],
    ("searchsorted", NONE, [EDGES, MANY], SEARCH),
    ("searchsorted", LEFT, [EDGES[::-1].copy(), X], SEARCH), ("searchsorted", LEFT, [WITH_NAN[0], X], SEARCH),
    ("searchsorted", LEFT, [array([NAN]), X], SEARCH), ("searchsorted", NONE, [X, X], SEARCH),
    ("searchsorted", NONE, {"sorted_sequence": EDGES, "input": X}, {**SEARCH, "sorter": whole(5, 5)}),
    ("histc", TAKEN, [X, None, None], {"bins": 5}), ("histc", TAKEN, [abs(X), None, 20], {"bins": 5}),
    ("histc", LEFT, [array([1e8, 1e8]), 1e8, 1e8 + 1], {"bins": 5}),
    ("histc", TAKEN, [X, 0, 0], {"bins": 5}), ("histc", TAKEN, [X, -20, 20.5], {"bins": 7}),
    ("histc", TAKEN, [X.astype(D), -20.0, 20.0], {"bins": 7}), ("histc", LEFT, [X, -1, 1], {"bins": 5}),
    ("histc", LEFT, [array([2.0, 2.0]), 0, 0], {"bins": 3}), ("histc", NONE, [EMPTY, 0, 1], {"bins": 3}),
    ("histc", LEFT, [array([NAN, 2.0]), 0, 3], {"bins": 3}), ("histc", TAKEN, [array([0.0, 1.0]), 0, 1], {"bins": 1}),
    ("bincount_sized", TAKEN, {"input": whole(5, 9), "weights": None}, {"size": 7}),
    ("bincount_sized", LEFT, {"input": array([1, 9], L), "weights": None}, {"size": 7}),
    ("bincount_sized", NONE, {"input": whole(5, 9), "weights": floats(9)}, {"size": 7}),
    ("bincount_sized", NONE, {"input": whole(5, 9, dtype=np.uint8), "weights": None}, {"size": 7}),
    ("bincount_sized", NONE, {"input": array([], L), "weights": None}, {"size": 7}),
    ("index", TAKEN, {"input": X, "indices": (whole(3, 5, low=-3),)}, {}),
    ("index", TAKEN, {"input": X.astype(H), "indices": (whole(3, 2, 3),)}, {}),
    ("index", TAKEN, {"input": X > 0, "indices": (whole(3, 5), whole(4, 5, low=-4))}, {}),
    ("index", TAKEN, {"input": X, "indices": (whole(3, 2, 1), whole(4, 3))}, {}),
    ("index", TAKEN, {"input": IMAGE, "indices": (None, whole(4, 3), whole(5, 3))}, {}),
    ("index", TAKEN, {"input": IMAGE, "indices": (whole(2, 3), None, whole(5, 3))}, {}),
    ("index", TAKEN, {"input": IMAGE, "indices": (None, None, whole(5, 2, 2))}, {}),
    *[("index_put", TAKEN, {"input": x, "indices": at, "values": v}, {"accumulate": False}) for x, at, v in (
        (X, (whole(3, 5, low=-3),), floats(5, 4)), (X, (whole(3, 5), whole(4, 5, low=-4)), floats(5)),
        (X, (whole(3, 2, 1), whole(4, 3)), array(2.0)), (X > 0, (whole(3, 2),), array(True, bool)),
        (IMAGE, (None, whole(4, 3), whole(5, 3)), floats(3, 6)), (SPECIAL, (array([0, 0, 1], L),), floats(3, 1)),
        (IMAGE, (whole(2, 3), None, whole(5, 3)), floats(3, 4, 6)), (X.astype(H), (whole(3, 2),), floats(4).astype(H)),
    )],
    ("index_put", NONE, {"input": X, "indices": (whole(3, 5),), "values": ROW}, {"accumulate": True}),
    ("index_put", NONE, {"input": X, "indices": (array([], L),), "values": ROW}, {"accumulate": False}),
    ("index_put", NONE, {"input": EMPTY, "indices": (None, whole(4, 3)), "values": array(1.0)}, {"accumulate": False}),
    ("index", NONE, {"input": X, "indices": (array([], L),)}, {}),
    ("index", NONE, {"input": X, "indices": (whole(3, 5, dtype=np.int32),)}, {}),
    ("index", NONE, {"input": EMPTY, "indices": (None, whole(3, 5))}, {}),
    *[("gather", TAKEN, {"input": X, "index": whole(3, 5, 4) if d == 0 else whole(4, 3, 2)},
       {"dim": d, "sparse_grad": False}) for d in (0, 1, -1)],
    ("gather", TAKEN, {"input": IMAGE, "index": whole(5, 2, 4, 70, 6)}, {"dim": 2, "sparse_grad": False}),
    ("gather", LEFT, {"input": X, "index": array([[0, -1, 1, 2]] * 3, L)}, {"dim": 1, "sparse_grad": False}),
    ("gather", NONE, {"input": X, "index": whole(3, 2, 2)}, {"dim": 0, "sparse_grad": False}),
    ("gather", NONE, {"input": X, "index": whole(3, 2, 4, dtype=np.int32)}, {"dim": 0, "sparse_grad": False}),
    *[("nll_loss", TAKEN, {"input": x, "target": whole(4, len(x)), "weight": None}, {**LOSS, "reduction": r})
      for x in (X, X.astype(D), floats(70, 4)) for r in ("mean", "sum")],
    ("nll_loss", TAKEN, {"input": SPECIAL, "target": array([2, 1], L), "weight": None}, LOSS),
    ("nll_loss", LEFT, {"input": X, "target": array([0, -100, 3], L), "weight": None}, LOSS),
    ("nll_loss", LEFT, {"input": X, "target": array([0, 1, 3], L), "weight": None}, {**LOSS, "ignore_index": 1}),
    ("nll_loss", NONE, {"input": X, "target": whole(4, 3), "weight": ROW}, LOSS),
    ("nll_loss", NONE, {"input": X, "target": whole(4, 3), "weight": None}, {**LOSS, "reduction": "none"}),
    ("nll_loss", NONE, {"input": X[0], "target": array(1, L), "weight": None}, LOSS),
    *norm("_native_layer_norm", floats(3, 4), {"normalized_shape": (4,), **LAYER}, (ROW, CHANNEL)),
    *norm("_native_layer_norm", floats(2, 5, 6), {"normalized_shape": (5, 6), **LAYER}, (floats(5, 6), floats(5, 6))),
    *norm("native_group_norm", IMAGE, GROUPS, (ROW, CHANNEL)),
    *norm("_native_batch_norm", IMAGE, SPREAD, (ROW, CHANNEL)), *norm("_native_batch_norm", X, SPREAD, (ROW, CHANNEL)),
    *norm("_native_batch_norm", IMAGE[:1], SPREAD, (ROW, CHANNEL)),
    ("_native_batch_norm", NONE, {"input": IMAGE, "weight": ROW, "bias": ROW}, STATED),
    ("_native_batch_norm", NONE, {"input": IMAGE, "weight": ROW, "bias": ROW}, {**STATED, "training": False}),
    *[("max_pool2d_with_indices", TAKEN, [x], {**POOL, **more}) for x in (IMAGE, IMAGE[0].astype(D), mixed(1, 6, 6))
      for more in ({}, {"kernel_size": (3, 2), "stride": (1, 2)}, {"dilation": (2, 1)}, {"stride": (5, 5)})],
    ("max_pool2d_with_indices", LEFT, [WITH_NAN[None]], POOL),
    ("max_pool2d_with_indices", NONE, [IMAGE], {**POOL, "padding": (1, 1)}),
    ("max_pool2d_with_indices", NONE, [IMAGE], {**POOL, "ceil_mode": True}),
    *[("grid_sampler_2d", TAKEN, [IMAGE.astype(d), GRID.astype(d)], {**SAMPLE, "align_corners": a})
      for d in (F, D) for a in (False, True)],
    ("grid_sampler_2d", TAKEN, [np.where(IMAGE > 1, INF, IMAGE).astype(F), GRID], SAMPLE),
    ("grid_sampler_2d", LEFT, [IMAGE, np.where(GRID > 1, NAN, GRID).astype(F)], SAMPLE),
    *[("grid_sampler_2d", NONE, [IMAGE, GRID], {**SAMPLE, name: 1}) for name in ("interpolation_mode", "padding_mode")],
]  # fmt: skip


def leaves_of(row, given, statics):
    """The arguments with tensors and numbers among them, by name and in the order of the parameters."""
    if isinstance(given, list):
        given = dict(zip([p.name for p in row.params if p.dynamic], given))
    given = {**given, **{k: statics[k] for k in statics if any(p.name == k and p.dynamic for p in row.params)}}
    return {p.name: given.get(p.name) for p in row.params if p.dynamic}


def prepared(name, given, statics):
    """A row's form, its present leaves, and its function of them."""
    row = TABLE[name]
    leaves = leaves_of(row, given, statics)
    rest = {k: v for k, v in statics.items() if k not in leaves}
    flat = {}
    for key, v in leaves.items():
        flat.update({f"{key}_{i}": x for i, x in enumerate(v)} if isinstance(v, tuple) else {key: v})
    keys = {k: key_of(v) for k, v in flat.items()}
    present = [k for k, v in flat.items() if v is not None]
    dtype = next(v.dtype for v in flat.values() if isinstance(v, np.ndarray))

    with_default = {p.name for p in row.params if p.default is not inspect.Parameter.empty}

    def fn(*xs):
        by_name = dict(zip(present, xs))
        for k in present:
            if row.promote is not Promote.NONE and isinstance(flat[k], int | float):
                by_name[k] = jax.lax.convert_element_type(by_name[k], dtype)
        args = {
            k: tuple(by_name.get(f"{k}_{i}") for i in range(len(v))) if isinstance(v, tuple) else by_name.get(k)
            for k, v in leaves.items()
            if v is not None or k not in with_default
        }
        return row.impl(**args, **rest)

    assert row.host is not None
    return row.host(keys, **rest), [flat[k] for k in present], fn


def key_of(value):
    if value is None or not isinstance(value, np.ndarray):
        return None if value is None else type(value)
    return meta(value.shape, dtypes.from_np(value.dtype), default_device())


def never(*args):
    raise AssertionError("left to XLA")


def kernel(fn, form, xs):
    closed, shape = jax.make_jaxpr(fn, return_shape=True)(*xs)
    return host.program(closed, never, not isinstance(shape, tuple | list), 1e12, form=form)


@pytest.mark.parametrize("name, how, given, statics", TABLED)
def test_form_gives_what_the_code_from_the_jaxpr_gives(name, how, given, statics):
    form, xs, fn = prepared(name, given, statics)
    assert (form is None) == (how == NONE)
    if form is None:
        return
    assert takes(form, xs) == (how == TAKEN)
    run = kernel(fn, form, xs)
    for a, b in zip(listed(run(*xs)), listed(run.derived(*xs)), strict=True):
        assert a.__class__ is np.ndarray
        assert a.base is None
        assert a.flags.c_contiguous
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        same_to_the_sign_of_zero(name, a, b)


def takes(form, xs):
    try:
        with np.errstate(all="ignore"):
            form(*xs)
        return True
    except (Unsure, IndexError):
        return False


def listed(outs):
    return outs if isinstance(outs, list) else [outs]


def same_to_the_sign_of_zero(name, a, b):
    if name in EXACT or a.dtype.kind != "f":
        np.testing.assert_array_equal(a, b)
    else:
        eps = np.finfo(a.dtype).eps
        np.testing.assert_allclose(a, b, rtol=16 * eps, atol=16 * eps)
    if a.dtype.kind == "f":
        zero = (a == 0) & (b == 0)
        np.testing.assert_array_equal(np.signbit(a[zero]), np.signbit(b[zero]))


def test_every_row_with_a_form_is_tried_and_there_are_few():
    rows = {name for name, row in TABLE.items() if row.host is not None}
    forms = {TABLE[name].host for name in rows}
    assert forms == {TABLE[name].host for name, *_ in TABLED}
    assert len(forms) <= 25


def test_remainder_of_integers_by_zero_is_left():
    form, xs, _ = prepared("remainder", [whole(9, 3), 0], {})
    assert not takes(form, xs)


def test_equal_numbers_have_a_norm_of_zero():
    form, xs, _ = prepared("_native_layer_norm", [np.full((3, 7), 0.1, F)], {"normalized_shape": (7,), **LAYER})
    assert not form(*xs)[0].any()
