"""Which dtypes an ``out=`` tensor may have, operator by operator, and what torch says about others.

By default a result is cast if torch would cast it by itself. Many operators accept only the dtype of their result;
this module lists those with torch's message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import dtypes
from .dtypes import FLOATING, dtype, scalar_type_name
from .kernels import cpp_name
from .meta import Meta

EXPECTED = "Expected out tensor to have dtype {want_c}, but got {got_c} instead"
_FOUND = "Found dtype {got} but expected {want}"
_SCALAR = "expected scalar_type {want} but found {got}"
_CAT = "torch.cat(): input types can't be cast to the desired output type {got}"

_EXACT: dict[str, str] = {
    EXPECTED: """
        addmm addmv baddbmm bmm cross expand_copy diagonal_copy alias_copy max min aminmax as_strided_copy topk mm
        view_copy permute_copy split_with_sizes_copy slice_scatter gather index_copy index_add index_reduce sort scatter
        scatter_add unbind_copy unfold_copy msort squeeze_copy take_along_dim unsqueeze_copy transpose_copy tril triu
        t_copy scatter_reduce isin argmax argmin lu_unpack lu_solve softmax qr triangular_solve svd renorm log_softmax
        norm narrow_copy select_copy slice_copy split_copy detach_copy view_as_real_copy view_as_complex_copy diag
        cumsum.dtype cumprod.dtype sum.dtype prod.dtype mean.dtype matmul.mm
        nn.functional.avg_pool2d nn.functional.avg_pool3d nn.functional.linear linalg.cross linalg.det linalg.cholesky
        linalg.cholesky_ex linalg.eigh linalg.eigvalsh linalg.ldl_factor linalg.ldl_factor_ex linalg.ldl_solve linalg.qr
        linalg.slogdet linalg.vector_norm linalg.lu_factor linalg.lu_factor_ex linalg.lu linalg.lu_solve linalg.inv
        linalg.inv_ex linalg.solve linalg.solve_ex linalg.svd linalg.svdvals
    """,
    _FOUND: """
        abs absolute ceil conj_physical floor neg negative round sign sgn trunc fix frac bitwise_not
        nn.functional.softshrink nn.functional.hardshrink nn.functional.gelu nn.functional.softplus
        clamp.number clamp_min.number clamp_max.number
    """,
    _SCALAR: "cummax cummin diff logcumsumexp",
    "expected scalar type {want} but found {got}": """
        native_batch_norm _native_batch_norm_legit nn.functional.logsigmoid linalg.solve_triangular
    """,
    "result dtype {got} does not match input dtype {want}": "dot vdot matmul",
    "addmv input tensors must have the same dtype, but got {got}, {want}, and {want}": "mv matmul.mv",
    "self and mat2 must have the same dtype, but got {got} and {want}": "addbmm",
    "Expected object of scalar type {want} but got scalar type {got} for argument 'out'": "complex polar",
    "quantile() out tensor must be same dtype as the input tensor": "quantile nanquantile",
    "torch.histogram: input tensor and hist tensor should have the same dtype, but got input {want_c} and hist "
    "{got_c}": "histogram histc",
    "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) depending on "
    "whether out_int32 flag is True, but we got output tensor's dtype {got} and out_int32 flag is "
    "{flag}": "bucketize searchsorted",
    "Expected the dtype for input and out to match, but got {want} for input's dtype and {got} for out's "
    "dtype.": "amax amin",
    "torch.frexp() expects mantissa to have dtype {want_c} but got {got_c}": "frexp",
    "torch.frexp() expects exponent to have int dtype but got {got_c}": "frexp.1",
    "output values must be of same type as input": "kthvalue",
    "output indices must be of scalar type Long": "kthvalue.1",
    "nansum: provided dtype must match dtype of result. Got {got} and {want}.": "nansum.dtype",
    "torch.{full}: Expected eigenvalues to be safely castable from {want} dtype, but got eigenvalues with "
    "dtype {got}": "linalg.eig linalg.eigvals",
    "torch.{full}: Expected eigenvectors to be safely castable from {want} dtype, but got eigenvectors with dtype "
    "{got}": "linalg.eig.1",
    "expected scalar type '{want}' but got '{got}' for values output": "mode",
    "{name}(): self and result must have the same scalar type": "masked_select index_select",
    "take(): self and out expected to have the same dtype, but got self.dtype = {want} and out.dtype = {got}": "take",
    "heaviside is not yet implemented for tensors with different dtypes.": "heaviside",
    "torch.ormqr: Expected input and result to have the same dtype, but input has dtype{want} and result has dtype "
    "{got}": "ormqr",
    "the output given to float_power has dtype {got} but the operation's result requires dtype {want}": "float_power",
    "{name} does not support non-boolean outputs.": "signbit isposinf isneginf",
    "nan_to_num: dtype of out: {got} should be same as input: {want}": "nan_to_num",
    "tensordot: Expected the output tensor to have dtype {want}, but got an output tensor with dtype "
    "{got}": "inner tensordot",
    "Expected out type to be {want} but got {got}": "where",
    "nonzero: Expected out tensor to have scalar type Long but got scalar type{got}": "nonzero",
    "{name} only supports bool tensor for result, got: {got}": "all any",
    "Expected result to be of dtype uint64, but got {got}": "hash_tensor",
    "linalg.vecdot: Expected out of dtype{want} but found {got}": "linalg.vecdot",
    "multi_dot(): expected out tensor to have dtype {want_c} but got {got_c}": "linalg.multi_dot",
    "linalg.{name} expected out tensor dtype {want} but got: {got}": "linalg.norm linalg.matrix_norm",
}
_TEXTS = {name: text for text, names in _EXACT.items() for name in names.split()}

_ANY = frozenset({"cumsum", "cumprod", "sum", "prod", "lu", "bernoulli"})
"""torch computes in the dtype of ``out=``, whatever it is."""
COMPUTED_AS = frozenset({"cumsum", "cumprod", "sum", "prod"})
"""Those of them that take a dtype, which is then that of ``out=``."""
_CAT_LIKE = frozenset(
    {"cat", "concat", "concatenate", "stack", "hstack", "vstack", "row_stack", "dstack", "column_stack", "_chunk_cat"}
)

APART = (
    frozenset({"kthvalue", "masked_select", "take", "gather", "index_select", "take_along_dim", "nonzero"}) | _CAT_LIKE
)
"""Operators whose ``out=`` may share no memory at all with what they read."""


SIZED_FIRST = _CAT_LIKE | {"gather"}
"""Those of them that give ``out=`` its size before they look at its memory."""

COPIED_FIRST = frozenset(
    {"addr", "index_add", "index_copy", "index_reduce", "scatter", "scatter_add", "scatter_reduce"}
)
"""Operators that copy the first argument into ``out=``, and then write what they read elsewhere."""

INTO_FIRST = frozenset({"addmm", "addmv", "addbmm", "baddbmm"})
"""Operators that copy the first argument into ``out=``, and do not look at where the others are."""

NEVER_SAME = frozenset({"outer", "ger", "linalg.cross"})
"""Operators whose ``out=`` may not even be the very tensor that they read."""

STEPPED = frozenset(
    {
        "aminmax",
        "cumprod",
        "cumsum",
        "div",
        "divide",
        "float_power",
        "logcumsumexp",
        "mode",
        "nan_to_num",
        "polygamma",
        "pow",
        "renorm",
        "special.polygamma",
        "topk",
        "where",
    }
)
"""Operators that step through what they read and ``out=`` together, besides the elementwise ones of the table."""

PLANNED = frozenset({"outer", "ger", "where", "scatter", "addr"})
"""Operators that look at the memory of ``out=`` first, as all elementwise ones do."""


UNTRACKED = frozenset(
    {
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "not_equal",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
        "nonzero",
        "isin",
        "histc",
        "any",
        "all",
        "argmax",
        "argmin",
        "isposinf",
        "isneginf",
        "signbit",
        "logical_and",
        "logical_or",
        "logical_xor",
        "logical_not",
        "searchsorted",
        "bucketize",
        "linalg.matrix_rank",
    }
)
"""Operators without a gradient, to whose ``out=`` it does not matter who requires one."""

SILENT = frozenset({"split_copy", "split_with_sizes_copy", "unbind_copy"})
"""Operators that return nothing where they write into a list of tensors."""

UNLESS_EMPTY = frozenset({"stack", "index_add"})
"""Those of them that compare memory alone, of which an empty tensor has none."""

ROW_MAJOR = frozenset(
    {
        "cholesky",
        "cholesky_solve",
        "linalg.tensorinv",
        "quantile",
        "nanquantile",
        *(
            f"fft.{n}{end}"
            for n in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
            for end in ("", "2", "n")
            if n + end not in ("ifft", "ihfft")
        ),
    }
)
"""Operators that resize an ``out=`` tensor to a row-major one, however their results lie elsewhere."""


_WIDER = frozenset({"linalg.eig", "linalg.eigvals", "linalg.eig.1"})
"""Operators whose complaint is about results that do not fit, not about any other dtype."""
_TRANSFORMS = {"fft2": "fftn", "ifft2": "fftn", "ifftn": "fftn", "rfft2": "rfftn", "irfft2": "irfftn"}


def variant(name: str, args: Sequence[Any], dtype_given: bool) -> str:
    """The name of an operator in this table, given the metas of its tensors and its other arguments."""
    if dtype_given and f"{name}.dtype" in _TEXTS:
        return f"{name}.dtype"
    if name in ("clamp", "clip", "clamp_min", "clamp_max"):
        tensors = any(isinstance(a, Meta) for a in args[1:])
        return name if tensors else f"{name.replace('clip', 'clamp')}.number"
    if name in ("abs", "absolute") and isinstance(args[0], Meta) and args[0].dtype.is_complex:
        return "abs.complex"
    metas = [a for a in args if isinstance(a, Meta)]
    if name == "matmul" and any(m.ndim > 1 for m in metas):
        return "matmul.mv" if [m.ndim for m in metas] == [2, 1] else "matmul.mm"
    return name


def _of_transform(name: str, want: dtype, got: dtype) -> Exception | None:
    kind = name.removeprefix("fft.")
    kind = _TRANSFORMS.get(kind, kind)
    if want.is_complex != got.is_complex:
        wanted = "complex" if want.is_complex else "floating point"
        return RuntimeError(f"{kind} expects a {wanted} output tensor, but got {scalar_type_name(got)}")
    return None


def refuses_first(name: str) -> bool:
    """Whether an operator looks at the dtype of ``out=`` itself, before anything looks at its memory."""
    return _TEXTS.get(name, _FOUND) is not _FOUND


def refusal(name: str, results: int, want: dtype, got: dtype, which: int = 0) -> Exception | None:
    """What torch raises when a result of dtype `want` is to go into a tensor of dtype `got`, or None."""
    if name == "abs.complex":  # it is computed as a complex number if `out` is one
        want = dtypes.to_complex(want) if got.is_complex else want
    if want is got or name in _ANY:
        return None
    if name.startswith("fft.") and (found := _of_transform(name, want, got)) is not None:
        return found
    if name == "nansum" and want.category == FLOATING != got.category:
        return NotImplementedError(f"\"nansum_cpu\" not implemented for '{scalar_type_name(got)}'")
    if which and f"{name}.{which}" in _TEXTS:
        name = f"{name}.{which}"
    text = _TEXTS.get(name)
    if text is None and name == "abs.complex" and got.is_complex:
        text = _FOUND
    if name in _WIDER and dtypes.can_cast(want, got):
        return None
    # Those of two tensors, or of all elements, are cast.
    single = name in ("max", "min") and results == 1
    if text is not None and not single and not (name in ("all", "any") and got is dtypes.uint8):
        words = {
            "full": name.removesuffix(f".{which}"),
            "name": name.rpartition(".")[2],
            "want": scalar_type_name(want),
            "got": scalar_type_name(got),
            "want_c": _cpp(want),
            "got_c": _cpp(got),
            "flag": str(want is dtypes.int32),
        }
        return RuntimeError(text.format(**words))
    if dtypes.can_cast(want, got):
        return None
    if name in _CAT_LIKE:
        return TypeError(_CAT.format(got=scalar_type_name(got)))
    return not_castable(name, want, got)


def not_castable(name: str, want: dtype, got: dtype) -> RuntimeError:
    """What torch raises when a result of a wider category is to go into a tensor."""
    what = "ldexp" if name == "ldexp" else f"result type {scalar_type_name(want)}"
    return RuntimeError(f"{what} can't be cast to the desired output type {scalar_type_name(got)}")


def _cpp(dt: dtype) -> str:
    return cpp_name(np.zeros(0, dt.np))
