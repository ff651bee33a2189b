"""torch.utils.flop_counter: the multiplications and additions of products of matrices and of convolutions."""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from .._core import events
from .._core.arrays import tree
from .._core.arrays.shapes import Size
from .._core.errors import warn
from .._core.errors.messages import no_such_name as _no_such_name
from .._core.state import GRAD, MODES
from .._engine.memory.tensor import Tensor
from .._ops.aten import op_name
from ..ops import aten
from .module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]

flop_registry: dict[Any, Callable[..., int]] = {}
"""How many operations an operator takes, given its arguments and, by the name `out_val`, its result."""


def shape_wrapper(f: Callable[..., int]) -> Callable[..., int]:
    """A formula that takes shapes as one that takes tensors."""

    def of_values(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        given, named, out = tree.map_leaves(_shape, (args, kwargs, out_val))
        return f(*given, out_shape=out, **named)

    return of_values


def _shape(x: Any) -> Any:
    return x.shape if isinstance(x, (Tensor, _Shaped)) else x


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[..., Any]:
    """A decorator: the function says how many operations some operators take.

    Args:
        targets: operators, as `torch.ops.aten.mm`, or a list of them.
        get_raw: whether it takes tensors, and its result as `out_val`; or else shapes, and `out_shape`.
    """

    def register(formula: Callable[..., int]) -> Callable[..., int]:
        used = formula if get_raw else shape_wrapper(formula)
        for target in targets if isinstance(targets, Iterable) else [targets]:
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = used
        return formula

    return register


@register_flop_formula(aten.mm)
def mm_flop(a_shape: Any, b_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Of a product of two matrices."""
    m, k = a_shape
    return m * b_shape[1] * 2 * k


@register_flop_formula(aten.addmm)
def addmm_flop(self_shape: Any, a_shape: Any, b_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Of a product of two matrices, whatever it is added to."""
    return mm_flop(a_shape, b_shape)


@register_flop_formula(aten.bmm)
def bmm_flop(a_shape: Any, b_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Of products of matrices one by one."""
    b, m, k = a_shape
    return b * m * b_shape[2] * 2 * k


@register_flop_formula(aten.baddbmm)
def baddbmm_flop(self_shape: Any, a_shape: Any, b_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Of products of matrices one by one, whatever they are added to."""
    return bmm_flop(a_shape, b_shape)


def conv_flop_count(x_shape: Any, w_shape: Any, out_shape: Any, transposed: bool = False) -> int:
    """Of a convolution with these shapes."""
    places = (x_shape if transposed else out_shape)[2:]
    c_out, c_in, *filter_size = w_shape
    return math.prod(places) * math.prod(filter_size) * x_shape[0] * c_out * c_in * 2


@register_flop_formula(aten.convolution)
def conv_flop(
    x_shape: Any,
    w_shape: Any,
    _bias: Any,
    _stride: Any,
    _padding: Any,
    _dilation: Any,
    transposed: bool,
    *args: Any,
    out_shape: Any = None,
    **kwargs: Any,
) -> int:
    """Of a convolution."""
    return conv_flop_count(x_shape, w_shape, out_shape, transposed)


def _swapped(shape: Any) -> list[int]:
    return [shape[1], shape[0], *shape[2:]]


def _conv_backward(node: Any, grad: Any) -> int:
    """Of the derivative of a convolution, for those of its inputs that need a gradient."""
    x, w, _ = (_input_shape(edge) for edge in node.next_functions)
    transposed = node._saved_transposed
    weight = w or node._saved_weight.shape
    total = 0
    if x is not None:
        total += conv_flop_count(grad, weight, x, not transposed)
    if w is not None:
        x = x or node._saved_input.shape
        pair = (grad, x) if transposed else (x, grad)
        total += conv_flop_count(_swapped(pair[0]), _swapped(pair[1]), _swapped(w))
    return total


def _product_backward(node: Any, grad: Any) -> int | None:
    """Of the derivative of a product of matrices: as many as it took, for each factor that needs a gradient."""
    shapes = [_input_shape(edge) for edge in node.next_functions][-2:]
    needed = [s for s in shapes if s is not None]
    if not needed:
        return None
    k = shapes[0][-1] if shapes[0] is not None else shapes[1][-2]
    return len(needed) * 2 * math.prod(grad) * k


def _input_shape(edge: Any) -> Any:
    node, place = edge
    if node is None:
        return None
    variable = getattr(node, "variable", None)
    return variable.shape if variable is not None else node._input_metadata[place].shape


_BACKWARD: dict[str, tuple[Any, Callable[[Any, Any], int | None]]] = {
    "MmBackward0": (aten.mm, _product_backward),
    "AddmmBackward0": (aten.mm, _product_backward),
    "BmmBackward0": (aten.bmm, _product_backward),
    "BaddbmmBackward0": (aten.bmm, _product_backward),
    "ConvolutionBackward0": (aten.convolution_backward, _conv_backward),
}
"""By the name of a node: under which operator its derivative is counted, and how many operations it takes."""


_RECURRENT = ("_rnn_layer", "_rnn_cell")


def _is_one_step(call: Any, leaves: Any) -> bool:
    """Whether a recurrent layer is one operator in torch, too, which is not counted there."""
    return call.name == "_rnn_layer" and call.statics["mode"] == "LSTM" and leaves[7] is None


def _is_of_steps(plan: Any) -> bool:
    """Whether a plan is that of a recurrent layer which is many operators in torch."""
    if plan is None or plan.call.name not in _RECURRENT:
        return False
    return not _is_one_step(plan.call, plan.keys)


def _size(x: Any) -> int:
    return math.prod(x._m.shape)


class FlopCounterMode(events.Observer):
    """Within it, the operations of products of matrices and of convolutions are counted, by module and operator.

    Args:
        mods: no longer used, as in torch.
        depth: how deep the table shows modules.
        display: whether leaving prints a table.
        custom_mapping: formulas for other operators, or other formulas; with shapes, and `out_shape`.

    Differs from torch: an operator's arguments are those of this package, tensors first. Inside of `vmap` and other
    transforms that trace, in derivatives that are themselves recorded and in those of recurrent layers, counting is
    refused.

    Example:
        >>> import torchgrad_jax as torch
        >>> with torch.utils.flop_counter.FlopCounterMode(display=False) as counter:
        ...     _ = torch.nn.Linear(4, 3)(torch.ones(2, 4))
        >>> counter.get_total_flops()
        48
    """

    def __init__(self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: Any = None) -> None:
        if mods is not None:
            warn.to_user("mods argument is not needed anymore, you can stop passing it")
        self.depth, self.display = depth, display
        self.flop_counts: defaultdict[str, defaultdict[Any, int]] = defaultdict(lambda: defaultdict(int))
        own = {k: f if getattr(f, "_get_raw", False) else shape_wrapper(f) for k, f in (custom_mapping or {}).items()}
        self.flop_registry = {**flop_registry, **own}
        self._by_name = {str(op): op for op in self.flop_registry}
        self.mod_tracker = ModuleTracker()

    def kernel(self, call: Any, plan: Any, leaves: Any, run: events.Run) -> Any:
        outs = run()
        if call.name in _RECURRENT:
            self._count_recurrent(call, leaves)
        op = self._by_name.get(f"aten.{op_name(call.name)}")
        if op is not None:
            if not MODES.run.at_once:
                raise NotImplementedError(
                    "FlopCounterMode does not count inside of what is traced, by torch.func.vmap for example: "
                    "jax.jit(torchgrad_jax.to_jax(f)).lower(...).cost_analysis() says what XLA computes"
                )
            out = [_Shaped(x.shape) for x in outs]
            given = [_Shaped(x._m.shape) if isinstance(x, Tensor) else x for x in leaves]
            self._count(op, self._flops(op, (*given, *call.statics.values()), out))
        return outs

    def _count_recurrent(self, call: Any, leaves: Any) -> None:
        """A whole layer is one step here, and in torch many, other than an LSTM without projection."""
        if _is_one_step(call, leaves):
            return
        x, _, _, w_input, w_hidden = leaves[:5]
        rows = 2 * math.prod(x._m.shape[:-1])
        if aten.addmm in self.flop_registry:
            self._count(aten.addmm, rows * (_size(w_input) + _size(w_hidden)))
        if len(leaves) > 7 and leaves[7] is not None:
            self._count(aten.mm, rows * _size(leaves[7]))

    def _flops(self, op: Any, args: Any, out: list[Any]) -> int:
        return self.flop_registry[op](*args, out_val=out[0] if len(out) == 1 else tuple(out))

    def function(self, node: Any, grads: Any, run: events.Run) -> Any:
        if _is_of_steps(getattr(node.gp, "plan", None)):
            raise NotImplementedError("FlopCounterMode does not count in the backward passes of recurrent layers")
        known = _BACKWARD.get(node.name())
        if known is not None and grads[0] is not None:
            if MODES.bits & GRAD:
                raise NotImplementedError("FlopCounterMode does not count in backward passes with create_graph=True")
            flops = known[1](node, grads[0].shape)
            if flops is not None:
                self._count(known[0], flops)
        return run()

    def _count(self, op: Any, flops: int) -> None:
        for name in set(self.mod_tracker.parents):
            self.flop_counts[name][op] += flops

    def get_total_flops(self) -> int:
        """How many operations in all."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """How many, by module and by operator."""
        return {k: dict(v) for k, v in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The counts as a table.

        Args:
            depth: how deep it shows modules.
        """
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        suffix = get_suffix_str(total)
        rows: list[tuple[str, str, str]] = []

        def add(name: str, level: int) -> None:
            counts = self.flop_counts[name]
            mine = sum(counts.values())
            rows.append(
                (" " * level + name, convert_num_with_suffix(mine, suffix), convert_to_percent_str(mine, total))
            )
            for op, flops in counts.items():
                rows.append(
                    (
                        " " * level + f" - {op}",
                        convert_num_with_suffix(flops, suffix),
                        convert_to_percent_str(flops, total),
                    )
                )

        names = sorted(n for n in self.flop_counts if n != "Global" and n.count(".") + 1 <= depth)
        # One module that does everything makes the line of "Global" say nothing.
        whole = any(sum(self.flop_counts[n].values()) >= total for n in names)
        if "Global" in self.flop_counts and not whole:
            add("Global", 0)
        for name in names:
            add(name, name.count(".") + (0 if whole else 1))
        if not rows:
            rows = [("Global", "0", "0%")]
        return _table(("Module", "FLOP", "% Total"), rows)

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        try:
            self.mod_tracker.__enter__()
            events.attach(self)
        except BaseException:  # a signal's, say
            self._leave()
            raise
        return self

    def _leave(self) -> None:
        events.detach(self)
        self.mod_tracker.__exit__()

    def __exit__(self, *raised: Any) -> None:
        try:
            self._leave()
        except BaseException:
            self._leave()
            raise
        if self.display:
            sys.stdout.write(self.get_table(self.depth) + "\n")


class _Shaped:
    """What has a shape, for formulas: a tensor among arguments, an array among results."""

    def __init__(self, shape: Any) -> None:
        self.shape = Size(shape)


suffixes = ["", "K", "M", "B", "T"]


def get_suffix_str(number: int) -> str:
    """The unit that shows a number with few digits: "K" for thousands, and so on."""
    return suffixes[max(0, min(len(suffixes) - 1, (len(str(number)) - 2) // 3))]


def convert_num_with_suffix(number: int, suffix: str) -> str:
    """A number in a unit."""
    return f"{number / 1000 ** suffixes.index(suffix):.3f}{suffix}"


def convert_to_percent_str(num: int, denom: int) -> str:
    """A part in percent."""
    return "0%" if denom == 0 else f"{num / denom:.2%}"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table in plain text, numbers to the right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [head, tuple("-" * w for w in widths), *rows]
    return "\n".join(
        "  ".join(cell.ljust(w) if not i else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))).rstrip()
        for row in lines
    )


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.utils.flop_counter.{name}"))
