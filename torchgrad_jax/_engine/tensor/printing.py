"""Text of a dense tensor, identical to torch's ``repr``, from numpy data and plain metadata.

The work has three steps: pick the elements that will be shown (`summary_index`), turn them into
padded cells of text (`_cells`), and lay the cells out in nested brackets (`_lay_out`). Elements
that are not shown are never read: the cost does not depend on the size of a summarised tensor.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..._core.signals import contextmanager

# ------------------------------------------------------------------------------------------ options


@dataclasses.dataclass(frozen=True)
class _Options:
    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}

# One set of options for the whole process, as in torch (not thread-local).
_options = _Options()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Change how tensors are printed.

    An option that is left out keeps its value, apart from `sci_mode`, which every call sets: to
    leave it out returns to the automatic choice, as in torch.

    Args:
        precision: digits after the decimal point of floating point numbers.
        threshold: a tensor with more elements than this is summarised.
        edgeitems: elements shown at either end of each dimension of a summarised tensor.
        linewidth: columns after which a row of elements is broken.
        profile: ``"default"``, ``"short"`` or ``"full"``; the other arguments override what it
            sets. As in torch, any other name is ignored.
        sci_mode: always (True) or never (False) use scientific notation; None decides per tensor.

    Raises:
        ValueError: `edgeitems` is negative.

    Differs from torch: it accepts a negative `edgeitems`, and then prints elements twice or fails.

    Example:
        >>> set_printoptions(precision=2)
        >>> get_printoptions()["precision"]
        2
        >>> set_printoptions(profile="default")
    """
    global _options
    if edgeitems is not None and edgeitems < 0:
        raise ValueError(f"set_printoptions: edgeitems must be 0 or more, got {edgeitems}")
    explicit = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    changes = dict(_PROFILES.get(profile, {})) if profile is not None else {}
    changes.update((name, value) for name, value in explicit.items() if value is not None)
    _options = dataclasses.replace(_options, sci_mode=sci_mode, **changes)


def get_printoptions() -> dict[str, Any]:
    """Return the current print options, in a form that ``set_printoptions(**options)`` accepts.

    Returns:
        A new dictionary: ``precision``, ``threshold``, ``edgeitems``, ``linewidth``, ``sci_mode``.

    Example:
        >>> sorted(get_printoptions())
        ['edgeitems', 'linewidth', 'precision', 'sci_mode', 'threshold']
    """
    return dataclasses.asdict(_options)


def set_option(name: str, value: Any) -> None:
    """Change one option and leave the others as they are.

    Raises:
        AttributeError: there is no such option.
    """
    global _options
    if name not in get_printoptions():
        raise AttributeError(f"there is no print option {name!r}")
    _options = dataclasses.replace(_options, **{name: value})


@contextmanager
def printoptions(**kwargs: Any) -> Iterator[None]:
    """Change the print options inside a ``with`` block, and put the former ones back after it.

    Args:
        **kwargs: the arguments of `set_printoptions`.

    Example:
        >>> with printoptions(linewidth=40):
        ...     get_printoptions()["linewidth"]
        40
        >>> get_printoptions()["linewidth"]
        80
    """
    global _options
    before = _options
    try:
        set_printoptions(**kwargs)
        yield
    finally:
        _options = before


# -------------------------------------------------------------------------------- public formatting


def summary_index(shape: tuple[int, ...]) -> tuple[np.ndarray, ...] | None:
    """Return the index of the elements that the text of a tensor shows, or None if it shows all.

    A caller whose data live on an accelerator can index there first, and hand `format_tensor` just
    ``np.asarray(x[index])``, so that no large tensor is copied to the host to print a corner of it.

    Args:
        shape: shape of the tensor.

    Example:
        >>> [axis.ravel().tolist() for axis in summary_index((2, 1000))]
        [[0, 1], [0, 1, 2, 997, 998, 999]]
        >>> summary_index((2, 3)) is None
        True
    """
    if math.prod(shape) <= _options.threshold:
        return None
    edge = _options.edgeitems
    return np.ix_(*(np.r_[:edge, n - edge : n] if n > 2 * edge else np.arange(n) for n in shape))


def format_tensor(
    array: np.ndarray | None,
    *,
    dtype: str,
    default_dtype: str,
    shape: tuple[int, ...],
    device: str = "cpu",
    default_device: str = "cpu",
    requires_grad: bool = False,
    grad_fn: str | None = None,
    is_parameter: bool = False,
    parameter_heading: bool | None = None,
    class_name: str = "tensor",
    tangent: str | None = None,
    tensor_contents: str | None = None,
    fake: bool = False,
) -> str:
    """Return the ``repr`` of a dense tensor, as torch writes it.

    Args:
        array: the data, whole or already reduced with `summary_index`. Not read (may be None) when
            the device is "meta" or `tensor_contents` is given.
        dtype: name such as "float32"; it may differ from the dtype that holds the data (complex32).
        default_dtype: name of the default dtype, which is not shown.
        shape: shape of the tensor.
        device: text of the tensor's device.
        default_device: text of the device of the default tensor type, which is not shown. Without
            an index it stands for index 0.
        requires_grad: shown only when there is no `grad_fn`.
        grad_fn: name of the node that made the tensor.
        is_parameter: whether the tensor counts as a Parameter (``isinstance``).
        parameter_heading: whether "Parameter containing:" goes first, as it does for the type
            Parameter and those derived from it, but not for another type flagged as a parameter.
            None: only if the type is Parameter itself, that is, if `class_name` is "tensor".
        class_name: "tensor" for Tensor and Parameter, the type's name for their subclasses.
        tangent: text of the forward-mode tangent; torch uses ``f"{tangent}"``, so that a 0-dim
            tangent reads as a number.
        tensor_contents: text to show in place of the elements.
        fake: whether the tensor has no elements, whatever its device.

    Returns:
        The text.

    Raises:
        ValueError: `array` has neither the shape `shape` nor that of its summary.

    Example:
        >>> x = np.array([1.0, 2.5], np.float32)
        >>> format_tensor(x, dtype="float32", default_dtype="float64", shape=(2,))
        'tensor([1.0000, 2.5000], dtype=torch.float32)'
    """
    indent = len(class_name) + 1
    is_meta = fake or _split_device(device)[0] == "meta"
    if tensor_contents is None:
        tensor_contents = "..." if is_meta else contents(array, dtype, shape, indent)
    suffixes = [
        *_device_suffix(device, default_device),
        *_size_and_dtype_suffixes(dtype, default_dtype, shape, is_meta),
        *_grad_suffix(requires_grad, grad_fn),
        *([] if tangent is None else [f"tangent={tangent}"]),
    ]
    text = append_suffixes(f"{class_name}({tensor_contents}", suffixes, indent)
    is_plain = class_name == "tensor"
    if is_parameter and not is_plain:
        text = f"Parameter({text})"
    heading = is_parameter and is_plain if parameter_heading is None else parameter_heading
    return f"Parameter containing:\n{text}" if heading else text


def format_scalar(value: Any, spec: str) -> str:
    """Format the value of a 0-dim tensor as the Python number it holds (``Tensor.__format__``).

    Torch does so for 0-dim tensors whose type is exactly Tensor; every other tensor goes through
    ``object.__format__``, which gives the ``repr`` and refuses a format spec.

    Args:
        value: a 0-dim numpy array, a numpy or ml_dtypes scalar, or a Python number.
        spec: the format spec.

    Example:
        >>> format_scalar(np.float32(0.1), "")
        '0.10000000149011612'
        >>> format_scalar(np.array(True), "d")
        '1'
    """
    array = np.asarray(value)
    return format(_widen(array, array.dtype.name).item(), spec)


# -------------------------------------------------------------------------------------------- cells


def _is_complex(dtype: str) -> bool:
    return dtype.startswith("complex")


def _is_floating(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


def _widen(array: np.ndarray, dtype: str) -> np.ndarray:
    """Convert exactly to a dtype whose elements numpy turns into Python numbers.

    The kind is that of the tensor's dtype, not of the array's: packed float4 data come as uint8.
    """
    if _is_complex(dtype):
        wide: Any = np.complex128
    elif _is_floating(dtype):
        wide = np.float64
    else:
        # numpy's own integers are kept (uint64 has no wider type); ml_dtypes' int4 is of kind "V"
        wide = array.dtype if array.dtype.kind in "biu" else np.int64
    with np.errstate(invalid="ignore"):  # NumPy warns when it widens a signalling NaN
        return array.astype(wide)


def _cells(values: np.ndarray, dtype: str) -> tuple[list[str], int]:
    """Return the padded text of each element, and the width that torch assumes for all of them.

    Some cells can be wider than that width: zeros and non-finite numbers do not count towards it.
    """
    if _is_complex(dtype):
        return _complex_cells(values, dtype)
    texts, width = _float_texts(values, dtype) if _is_floating(dtype) else _integer_texts(values)
    return [text.rjust(width) for text in texts], width


def _complex_cells(values: np.ndarray, dtype: str) -> tuple[list[str], int]:
    """Format both parts, each with a style of its own; only the real part is padded."""
    real, real_width = _float_texts(values.real, dtype)
    imag, imag_width = _float_texts(values.imag, dtype)
    cells = [re.rjust(real_width) + ("" if im[0] == "-" else "+") + im + "j" for re, im in zip(real, imag, strict=True)]
    return cells, real_width + imag_width + 1


def _integer_texts(values: np.ndarray) -> tuple[list[str], int]:
    texts = [str(value) for value in values.tolist()]
    return texts, max(map(len, texts), default=1)


def _float_texts(values: np.ndarray, dtype: str) -> tuple[list[str], int]:
    """Format in the style that suits the regular values."""
    is_regular = _is_regular(values, dtype)
    spec, point = _style(values[is_regular])
    pairs = zip(values.tolist(), np.isfinite(values).tolist(), strict=True)
    texts = [format(value, spec) + (point if finite else "") for value, finite in pairs]
    lengths = (len(text) for text, counts in zip(texts, is_regular.tolist(), strict=True) if counts)
    return texts, max(lengths, default=1)


def _style(regular: np.ndarray) -> tuple[str, str]:
    """Return how to format numbers among which are these regular ones, and what comes after finite ones."""
    if _is_scientific(np.abs(regular)):
        return f".{_options.precision}e", ""
    if bool((regular == np.ceil(regular)).all()):
        return ".0f", "."
    return f".{_options.precision}f", ""


class Formatter:
    """The text of a number as it would stand among the elements of a tensor.

    Args:
        array: the elements.
        dtype: their dtype, by its name.
    """

    def __init__(self, array: np.ndarray, dtype: str) -> None:
        values = _widen(array.reshape(-1), dtype)
        self.floating_dtype, self.int_mode, self.sci_mode = _is_floating(dtype), True, False
        self._spec, self._point = "", ""
        if self.floating_dtype:
            regular = values[_is_regular(values, dtype)]
            self._spec, self._point = _style(regular)
            self.int_mode = bool((regular == np.ceil(regular)).all())
            self.sci_mode = self._spec.endswith("e")
            self.max_width = _float_texts(values, dtype)[1]
        else:
            self.max_width = _integer_texts(values)[1]

    def width(self) -> int:
        """The width of the elements."""
        return self.max_width

    def format(self, value: Any) -> str:
        """The text of a number, as wide as those of the elements or wider."""
        text = format(value, self._spec)
        return (text + (self._point if math.isfinite(value) else "")).rjust(self.max_width)


def _is_regular(values: np.ndarray, dtype: str) -> np.ndarray:
    """Mark the values that decide style and width: those that torch finds finite and not zero."""
    if dtype == "float8_e8m0fnu":
        # It has neither infinity nor zero: in torch nan passes for finite, the least value for 0.
        return values != 2.0**-127
    return np.isfinite(values) & (values != 0)


def _is_scientific(magnitudes: np.ndarray) -> bool:
    """Decide on scientific notation from the regular magnitudes that are shown."""
    if magnitudes.size == 0:  # torch then ignores even sci_mode=True
        return False
    if _options.sci_mode is not None:
        return bool(_options.sci_mode)
    low, high = float(magnitudes.min()), float(magnitudes.max())
    return high / low > 1e3 or high > 1e8 or low < 1e-4


# ------------------------------------------------------------------------------------------- layout


def contents(array: np.ndarray | None, dtype: str, shape: tuple[int, ...], indent: int) -> str:
    """Return the nested brackets of a tensor that starts in column `indent`."""
    if math.prod(shape) == 0:
        return "[]"
    shown = _shown(array, shape)
    cells, width = _cells(_widen(shown, dtype).ravel(), dtype)
    row_indent = indent + max(len(shape) - 1, 0)
    per_line = max(1, math.floor((_options.linewidth - row_indent) / (width + len(", "))))
    return _lay_out(cells, shown.shape, shape, indent, per_line)


def _shown(array: np.ndarray | None, shape: tuple[int, ...]) -> np.ndarray:
    index = summary_index(shape)
    shown_shape = tuple(shape) if index is None else tuple(axis.size for axis in index)
    given = None if array is None else array.shape
    if array is not None and given == shown_shape:
        return array
    if array is None or index is None or given != tuple(shape):
        raise ValueError(f"format_tensor: expected data of shape {shown_shape} or {tuple(shape)}, got {given}")
    return array[index]


def _lay_out(cells: list[str], shown: tuple[int, ...], full: tuple[int, ...], indent: int, per_line: int) -> str:
    """Put row-major cells of shape `shown` in brackets, with dots where `full` has more."""
    if not shown:
        return cells[0]
    is_cut = shown[0] < full[0]
    if len(shown) == 1:
        return _lay_out_row(cells, is_cut, indent, per_line)
    step = math.prod(shown[1:])
    blocks = [
        _lay_out(cells[i * step : (i + 1) * step], shown[1:], full[1:], indent + 1, per_line) for i in range(shown[0])
    ]
    if is_cut:
        blocks.insert(_options.edgeitems, "...")
    separator = "," + "\n" * (len(shown) - 1) + " " * (indent + 1)
    return "[" + separator.join(blocks) + "]"


def _lay_out_row(cells: list[str], is_cut: bool, indent: int, per_line: int) -> str:
    if is_cut:
        edge = _options.edgeitems
        dots = " ..." if edge else "..."  # torch writes one blank more in rows
        cells = [*cells[:edge], dots, *cells[edge:]]
    lines = [", ".join(cells[i : i + per_line]) for i in range(0, len(cells), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


# ----------------------------------------------------------------------------------------- suffixes


def _split_device(device: str) -> tuple[str, str]:
    kind, _, index = device.partition(":")
    return kind, index or "0"


def _device_suffix(device: str, default_device: str) -> list[str]:
    kind, index = _split_device(device)
    default_kind, default_index = _split_device(default_device)
    is_default = kind == default_kind and (kind == "cpu" or index == default_index)
    # torch always names Apple's GPU
    return [] if is_default and kind != "mps" else [f"device='{device}'"]


def _size_and_dtype_suffixes(dtype: str, default_dtype: str, shape: tuple[int, ...], is_meta: bool) -> list[str]:
    """Name the dtype if the elements do not imply it, the size if the brackets do not show it."""
    is_empty = math.prod(shape) == 0
    implied = {default_dtype}
    if not (is_meta or is_empty):
        implied |= {"int64", "bool", "complex128" if default_dtype == "float64" else "complex64"}
    shows_size = is_meta or (len(shape) != 1 if is_empty else _options.edgeitems == 0)
    size = [f"size={tuple(int(n) for n in shape)}"] if shows_size else []
    return size if dtype in implied else [*size, f"dtype=torch.{dtype}"]


def _grad_suffix(requires_grad: bool, grad_fn: str | None) -> list[str]:
    if grad_fn is not None:
        return [f"grad_fn=<{grad_fn}>"]
    return ["requires_grad=True"] if requires_grad else []


def append_suffixes(text: str, suffixes: list[str], indent: int, force_newline: bool = False) -> str:
    """Append the suffixes and the last bracket; a suffix too long for the line starts one, the first if asked to."""
    pieces = [text]
    # Torch counts two columns more than the last line has, so it breaks earlier than it needs to.
    column = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if force_newline or column + len(suffix) + len(", ") > _options.linewidth:
            force_newline = False
            pieces.append(",\n" + " " * indent + suffix)
            column = indent + len(suffix)
        else:
            pieces.append(", " + suffix)
            column += len(suffix) + len(", ")
    return "".join(pieces) + ")"
