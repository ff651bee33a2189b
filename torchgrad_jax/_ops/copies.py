"""Views whose result is a copy: ``transpose_copy`` and its kin, each declared by naming its view."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import jax

from .._core.arrays import devices, dtypes
from .._core.arrays.meta import meta
from .._core.jax.sizes import NotGeneral, Size, decided
from .registry import TABLE, Grad, Out


def _copied(of: str, function: bool = True) -> None:
    """``<of>_copy``: the same elements in storage of their own, row-major."""
    row = TABLE[of]
    first, *rest = [p.name for p in row.params]
    geometry: Any = row.geometry

    @functools.wraps(row.impl)
    def impl(**given: Any) -> Any:
        x = given[first]

        def check(shape: Any, more: Any) -> None:  # it raises where the view raises
            geometry(meta(shape, dtypes.from_np(x.dtype), devices.default_device()), **dict(zip(rest, more)))

        _checked(check, x.shape, [given[n] for n in rest])
        return row.impl(**given)

    TABLE.add(
        replace(
            row,
            name=f"{of}_copy",
            impl=impl,
            node=f"{row.node}_copy",
            geometry=None,
            inplace=None,
            aliases=(),
            out=Out.PARTS if of in ("split_with_sizes", "unbind") else True,
            function=function,
            method=False,
        )
    )


def _checked(check: Any, *args: Any) -> None:
    """``check(*args)``; in a trace with symbols, which holds for the sizes that pass it."""
    leaves, tree = jax.tree.flatten(args)
    sizes = [v for v in leaves if v.__class__ is Size]

    def passes(*numbers: int) -> bool:
        given = iter(numbers)
        try:
            check(*jax.tree.unflatten(tree, [next(given) if v.__class__ is Size else v for v in leaves]))
        except Exception:  # the trace by shape raises it again
            return False
        return True

    if not sizes:
        check(*args)
    elif not decided(passes, *sizes):
        raise NotGeneral("the view raises")


for _view in ("alias", "permute", "split_with_sizes", "t", "transpose", "unbind", "unfold", "unsqueeze"):
    _copied(_view)
for _view in ("expand", "split_size", "squeeze_all", "squeeze_dim", "squeeze_dims"):
    _copied(_view, function=False)


def _unchecked(of: str, name: str, node: str, grad: Grad = Grad.YES) -> None:
    """The same for a view whose arguments the public function checks."""
    TABLE.add(
        replace(TABLE[of], name=name, node=node, geometry=None, out=False, function=False, method=False, grad=grad)
    )


_unchecked("view", "view_copy_row", "ViewBackward0_copy")
_unchecked("select", "select_copy_row", "SelectBackward0_copy")
_unchecked("slice", "slice_copy_row", "SliceBackward0_copy")
_unchecked("slice", "narrow_copy_row", "NarrowCopyBackward0")


# For autograd torch's "unsafe" splits are copies, so that their parts may be written to.
_unchecked("split_with_sizes", "unsafe_split_with_sizes_row", "UnsafeSplitWithSizesBackward0")
_unchecked("alias", "detach_copy", "NotImplemented", Grad.MISSING)
