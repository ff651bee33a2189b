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
from .._core.errors.messages import missing as _missing
from .._core.signals import restore, uninterrupted
from .._core.state import GRAD, MODES
from .._engine.memory.tensor import Tensor
from .._ops.aten import op_name
from ..ops import aten
from .module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]

flop_registry: dict[Any, Callable[..., int]] = {}
"""How many operations an operator takes, given its arguments and, by the name `out_val`, its result."""


def _of_values(formula: Callable[..., int]) -> Callable[..., int]:
    """A formula that takes shapes as one that takes what has shapes."""

    def of_values(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        given, named, out = tree.map_leaves(_shape, (args, kwargs, out_val))
        return formula(*given, out_shape=out, **named)

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
        for target in targets if isinstance(targets, Iterable) else [targets]:
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = formula if get_raw else _of_values(formula)
        return formula

    return register


@register_flop_formula([aten.mm, aten.bmm])
def _product(a: Any, b: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Of a product of matrices: each row of the first with each column of the second."""
    return 2 * math.prod(a) * b[-1]


@register_flop_formula([aten.addmm, aten.baddbmm])
def _added_product(_: Any, a: Any, b: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Of a product of matrices, whatever it is added to."""
    return _product(a, b)


@register_flop_formula(aten.convolution)
def _convolution(x: Any, w: Any, *rest: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Of a convolution: the filter at each place."""
    _bias, _stride, _padding, _dilation, transposed = rest[:5]
    return 2 * x[0] * math.prod((x if transposed else out_shape)[2:]) * math.prod(w)


def _convolution_backward(node: Any, grad: Any) -> int:
    """Of the derivative of a convolution, for those of its inputs that need a gradient."""
    x, w, _ = (_input_shape(edge) for edge in node.next_functions)
    transposed = node._saved_transposed
    total = 0
    if x is not None:
        weight = w or node._saved_weight.shape
        total += grad[0] * math.prod((x if transposed else grad)[2:]) * math.prod(weight)
    if w is not None:
        given = x or node._saved_input.shape
        small, large = (grad, given) if transposed else (given, grad)
        total += math.prod(w[2:]) * small[1] * math.prod(large)
    return 2 * total


def _product_backward(node: Any, grad: Any) -> int:
    """Of the derivative of a product of matrices: as many as it took, for each factor that needs a gradient."""
    a, b = [_input_shape(edge) for edge in node.next_functions][-2:]
    inner = a[-1] if a is not None else b[-2] if b is not None else 0
    return 2 * math.prod(grad) * inner * ((a is not None) + (b is not None))


def _input_shape(edge: Any) -> Any:
    node, place = edge
    if node is None:
        return None
    variable = getattr(node, "variable", None)
    return variable.shape if variable is not None else node._input_metadata[place].shape


_BACKWARD: dict[str, tuple[Any, Callable[[Any, Any], int]]] = {
    "MmBackward0": (aten.mm, _product_backward),
    "AddmmBackward0": (aten.mm, _product_backward),
    "BmmBackward0": (aten.bmm, _product_backward),
    "BaddbmmBackward0": (aten.bmm, _product_backward),
    "ConvolutionBackward0": (aten.convolution_backward, _convolution_backward),
}
"""By the name of a node: under which operator its derivative is counted, and how many operations it takes."""


def _is_of_steps(call: Any, leaves: Any) -> bool:
    """Whether a call is a recurrent layer that is many operators in torch. An LSTM is one, which torch does not count,
    unless it has projections.
    """
    if call.name not in ("_rnn_layer", "_rnn_cell"):
        return False
    return call.name == "_rnn_cell" or call.statics["mode"] != "LSTM" or leaves[7] is not None


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
        own = {op: _of_values(formula) for op, formula in (custom_mapping or {}).items()}
        self.flop_registry = {**flop_registry, **own}
        self._by_name = {str(op): op for op in self.flop_registry}
        self.mod_tracker = ModuleTracker()

    def kernel(self, call: Any, plan: Any, leaves: Any, run: events.Run) -> Any:
        outs = run()
        if _is_of_steps(call, leaves):
            self._count_recurrent(leaves)
        op = self._by_name.get(f"aten.{op_name(call.name)}")
        if op is not None:
            if not MODES.run.at_once:
                raise NotImplementedError(
                    "FlopCounterMode does not count inside of what is traced, by torch.func.vmap for example: "
                    "jax.jit(torchgrad_jax.to_jax(f)).lower(...).cost_analysis() says what XLA computes"
                )
            out = tuple(_Shaped(x.shape) for x in outs)
            given = [_Shaped(x._m.shape) if isinstance(x, Tensor) else x for x in leaves]
            formula = self.flop_registry[op]
            self._count(op, formula(*given, *call.statics.values(), out_val=out[0] if len(out) == 1 else out))
        return outs

    def _count_recurrent(self, leaves: Any) -> None:
        """Count a recurrent layer: each row of its input with each number of its weights."""
        x, _, _, w_input, w_hidden = leaves[:5]
        rows = 2 * math.prod(x._m.shape[:-1])
        self._count(aten.addmm, rows * (math.prod(w_input._m.shape) + math.prod(w_hidden._m.shape)))
        if len(leaves) > 7 and leaves[7] is not None:
            self._count(aten.mm, rows * math.prod(leaves[7]._m.shape))

    def function(self, node: Any, grads: Any, run: events.Run) -> Any:
        plan = getattr(node.gp, "plan", None)
        if plan is not None and _is_of_steps(plan.call, plan.keys):
            raise NotImplementedError("FlopCounterMode does not count in the backward passes of recurrent layers")
        op, formula = _BACKWARD.get(node.name(), (None, None))
        if formula is not None and grads[0] is not None:
            if MODES.bits & GRAD:
                raise NotImplementedError("FlopCounterMode does not count in backward passes with create_graph=True")
            if flops := formula(node, grads[0].shape):
                self._count(op, flops)
        return run()

    def _count(self, op: Any, flops: int) -> None:
        for name in set(self.mod_tracker.parents):
            self.flop_counts[name][op] += flops

    def get_total_flops(self) -> int:
        """Return how many operations in all."""
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
        thousands = max(0, min(4, (len(str(total)) - 2) // 3))
        rows = [("Module", "FLOP", "% Total")]

        def add(name: str, level: int) -> None:
            counts = self.flop_counts[name]
            for label, flops in [(name, sum(counts.values())), *[(f" - {op}", n) for op, n in counts.items()]]:
                number = f"{flops / 1000**thousands:.3f}{' KMBT'[thousands].strip()}"
                rows.append((" " * level + label, number, f"{flops / total:.2%}" if total else "0%"))

        names = sorted(n for n in self.flop_counts if n != "Global" and n.count(".") + 1 <= depth)
        # One module that does everything makes the line of "Global" say nothing.
        whole = any(sum(self.flop_counts[n].values()) >= total for n in names)
        if not whole:
            add("Global", 0)
        for name in names:
            add(name, name.count(".") + (0 if whole else 1))
        widths = [max(map(len, column)) for column in zip(*rows)]
        rows.insert(1, ("-" * widths[0], "-" * widths[1], "-" * widths[2]))
        return "\n".join(f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows)

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

    @uninterrupted
    def __exit__(self, *raised: Any) -> None:
        restore(self._leave)
        if self.display:
            sys.stdout.write(self.get_table(self.depth) + "\n")


class _Shaped:
    """What has a shape, for formulas: a tensor among arguments, an array among results."""

    def __init__(self, shape: Any) -> None:
        self.shape = Size(shape)


__getattr__ = _missing(__name__)
