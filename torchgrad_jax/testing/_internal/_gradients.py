"""The base class of tests that check gradients of the rows of a table."""

# ruff: noqa: PT009 - it is unittest's TestCase
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..._engine.memory.tensor import Tensor
from ._helpers import clone_input_helper, gradcheck, gradgradcheck
from ._test_case import TestCase


def _needs_grad(v: Any) -> bool:
    return isinstance(v, Tensor) and v.requires_grad


class TestGradients(TestCase):
    """Checks of an operator's derivatives on its samples."""

    exact_dtype = True

    def _get_safe_inplace(self, inplace_variant: Callable[..., Any]) -> Callable[..., Any]:
        """The in-place method of a copy, so that it may be called with a leaf."""

        @functools.wraps(inplace_variant)
        def safe(t: Any, *args: Any, **kwargs: Any) -> Any:
            return inplace_variant(clone_input_helper(t), *args, **kwargs)

        return safe

    def _skip_helper(self, op: Any, device: str, dtype: Any) -> None:
        """Skip where the row says that there is nothing to check."""
        if dtype not in op.supported_backward_dtypes(device):
            self.skipTest("Skipped! Op doesn't support autograd for this dtype.")
        if not op.supports_autograd and not op.supports_forward_ad:
            self.skipTest("Skipped! autograd not supported.")

    def _check_helper(
        self,
        device: str,
        dtype: Any,
        op: Any,
        variant: Any,
        check: str,
        *,
        check_forward_ad: bool = False,
        check_backward_ad: bool = True,
        check_batched_grad: bool | None = None,
        check_batched_forward_grad: bool = False,
    ) -> None:
        """Run `gradcheck` or `gradgradcheck`, as `check` says, on all samples of an operator.

        Args:
            device: where the samples are.
            dtype: which dtype they have.
            op: the row.
            variant: the function or method to check.
            check: "gradcheck", "bwgrad_bwgrad" or "fwgrad_bwgrad".
            check_forward_ad: whether tangents are checked.
            check_backward_ad: whether gradients are checked.
            check_batched_grad: whether batches of gradients are; by default as the row says.
            check_batched_forward_grad: whether batches of tangents are.
        """
        if variant is None:
            self.skipTest("Skipped! Variant not implemented.")
        inplace = getattr(variant, "__wrapped__", variant) in (op.get_inplace(), op.get_inplace_operator())
        for sample in op.sample_inputs(device, dtype, requires_grad=True):
            if inplace and (sample.broadcasts_input or not isinstance(sample.input, Tensor)):
                continue
            self._check_sample(
                op,
                variant,
                sample,
                check,
                check_forward_ad=check_forward_ad,
                check_backward_ad=check_backward_ad,
                check_batched_grad=check_batched_grad,
                check_batched_forward_grad=check_batched_forward_grad,
            )

    def _check_sample(self, op: Any, fn: Any, sample: Any, check: str, **options: Any) -> None:
        is_list = isinstance(sample.input, list | tuple)
        first: Sequence[Any] = sample.input if is_list else (sample.input,)
        kept = list(sample.kwargs)
        given = (*first, *sample.args, *(sample.kwargs[k] for k in kept))
        n, m = len(first), len(sample.args)

        def of(*values: Any) -> Any:
            head = list(values[:n]) if is_list else values[0]
            kwargs = dict(zip(kept, values[n + m :]))
            out = op.gradcheck_wrapper(fn, head, *values[n : n + m], **kwargs)
            out = sample.output_process_fn_grad(out)
            if isinstance(out, tuple | list):
                return tuple(o for o in out if _needs_grad(o) or options["check_forward_ad"])
            return out

        if not any(map(_needs_grad, given)):
            return
        batched = options["check_batched_grad"]
        if check == "gradcheck":
            passed = gradcheck(
                of,
                given,
                nondet_tol=op.gradcheck_nondet_tol,
                fast_mode=op.gradcheck_fast_mode,
                check_batched_grad=op.check_batched_grad if batched is None else batched,
                check_forward_ad=options["check_forward_ad"],
                check_undefined_grad=True,
                check_backward_ad=options["check_backward_ad"],
                check_batched_forward_grad=options["check_batched_forward_grad"],
            )
        elif check in ("bwgrad_bwgrad", "fwgrad_bwgrad"):
            if options["check_forward_ad"]:
                raise AssertionError(f"{check}: forward mode is checked by gradcheck")
            passed = gradgradcheck(
                of,
                given,
                gen_non_contig_grad_outputs=False,
                nondet_tol=op.gradcheck_nondet_tol,
                fast_mode=op.gradcheck_fast_mode,
                check_fwd_over_rev=check == "fwgrad_bwgrad",
                check_rev_over_rev=check == "bwgrad_bwgrad",
                check_batched_grad=check == "bwgrad_bwgrad" and op.check_batched_gradgrad,
                check_undefined_grad=check == "bwgrad_bwgrad",
            )
        else:
            raise AssertionError(f"unknown check {check!r}")
        self.assertTrue(passed)

    def _grad_test_helper(self, device: str, dtype: Any, op: Any, variant: Any, **options: Any) -> None:
        """`_check_helper` with gradcheck."""
        return self._check_helper(device, dtype, op, variant, "gradcheck", **options)

    def _gradgrad_test_helper(self, device: str, dtype: Any, op: Any, variant: Any) -> None:
        """`_check_helper` with gradgradcheck."""
        return self._check_helper(device, dtype, op, variant, "bwgrad_bwgrad")
