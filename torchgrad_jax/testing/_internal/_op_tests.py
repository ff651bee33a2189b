"""`@ops`, `@modules`-like decorators of tests that run over tables, and marks on their rows."""

from __future__ import annotations

import enum
import functools
import unittest
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..._core.arrays import dtypes as _d
from ._parametrize import Variant, _TestParametrizer
from ._test_case import set_rng_seed


class OpDTypes(enum.Enum):
    """Which dtypes a test over operators runs with."""

    supported = 0
    unsupported = 1
    supported_backward = 2
    unsupported_backward = 3
    any_one = 4
    none = 5
    any_common_cpu_cuda_one = 6


ANY_DTYPE_ORDER = (
    _d.float32,
    _d.float64,
    _d.complex64,
    _d.complex128,
    _d.float16,
    _d.bfloat16,
    _d.int64,
    _d.int32,
    _d.int16,
    _d.int8,
    _d.uint8,
    _d.bool_,
    _d.float8_e4m3fn,
    _d.float8_e5m2,
)
_KNOWN = ANY_DTYPE_ORDER[:12]


def _one(allowed: Any) -> set[Any]:
    found = [d for d in ANY_DTYPE_ORDER if d in allowed]
    return set(found[:1])


class ops(_TestParametrizer):
    """Run a test once for each operator of a table, and each dtype that it is asked to run with.

    Args:
        op_list: rows such as those of `op_db`.
        dtypes: the dtypes: an `OpDTypes`, or a list.
        allowed_dtypes: no others than these.
        skip_if_dynamo: accepted; tests are never compiled here.

    The test gets `op` and, unless `OpDTypes.none` asks for none, `dtype`.
    """

    def __init__(
        self,
        op_list: Iterable[Any],
        *,
        dtypes: OpDTypes | Sequence[Any] = OpDTypes.supported,
        allowed_dtypes: Sequence[Any] | None = None,
        skip_if_dynamo: bool = True,
    ) -> None:
        self.op_list = list(op_list)
        self.opinfo_dtypes = dtypes
        self.allowed_dtypes = set(allowed_dtypes) if allowed_dtypes is not None else None
        self.skip_if_dynamo = skip_if_dynamo

    def _dtypes_of(self, op: Any, device_type: str) -> set[Any] | None:
        asked = self.opinfo_dtypes
        if not isinstance(asked, OpDTypes):
            return set(asked)
        if asked is OpDTypes.none:
            return None
        if asked in (OpDTypes.unsupported, OpDTypes.unsupported_backward):
            backward = asked is OpDTypes.unsupported_backward
            has = op.supported_backward_dtypes if backward else op.supported_dtypes
            return set(_KNOWN) - has(device_type)
        if asked is OpDTypes.supported_backward:
            return op.supported_backward_dtypes(device_type)
        if asked is OpDTypes.any_common_cpu_cuda_one:
            return _one(op.supported_dtypes("cpu") & op.supported_dtypes("cuda"))
        supported = op.supported_dtypes(device_type)
        if asked is OpDTypes.any_one:
            both = op.supported_backward_dtypes(device_type) & supported
            return _one(both or supported)
        return supported

    def _parametrize_test(self, test: Any, generic_cls: Any, device_cls: Any) -> Iterator[Variant]:
        if device_cls is None:
            raise RuntimeError(
                "The @ops decorator is only intended to be used in a device-specific context; use it with "
                "instantiate_device_type_tests() instead of instantiate_parametrized_tests()"
            )
        empty = True
        for op in self.op_list:
            empty = False
            kinds = self._dtypes_of(op, device_cls.device_type)
            if kinds is not None and self.allowed_dtypes is not None:
                kinds &= self.allowed_dtypes
            yield from table_variants(op, test, generic_cls, device_cls, kinds, {"op": op})
        if empty:
            raise ValueError(
                "An empty op_list was passed to @ops. Note that this may result from reuse of a generator."
            )


def table_variants(
    row: Any,
    test: Any,
    generic_cls: Any,
    device_cls: Any,
    kinds: Iterable[Any] | None,
    arguments: dict[str, Any],
    suffix: str | None = None,
) -> Iterator[Variant]:
    """The variants of a test for one row of a table: one for each dtype, or one without."""
    name = row.formatted_name if suffix is None else suffix
    of = functools.partial(row.get_decorators, generic_cls.__name__, test.__name__, device_cls.device_type)
    if kinds is None:
        yield test, name, dict(arguments), functools.partial(_decorators, of, None)
        return
    for kind in sorted(kinds, key=str):
        given = {**arguments, "dtype": kind, "__dtypes__": (kind,)}
        yield test, name, given, functools.partial(_decorators, of, kind)


def _decorators(of: Callable[..., list[Any]], kind: Any, arguments: dict[str, Any]) -> list[Any]:
    return of(kind, arguments)


def wrapper_set_seed(op: Any, *args: Any, **kwargs: Any) -> Any:
    """The operator with freshly seeded generators."""
    set_rng_seed()
    return op(*args, **kwargs)


class SkipSpec(NamedTuple):
    """A row of a table that a test does not run for, or has to fail for."""

    op_name: str
    variant_name: str
    device_type: str | None
    dtypes: Any
    expected_failure: bool


def xfail(op_name: str, variant_name: str = "", *, device_type: str | None = None, dtypes: Any = None) -> SkipSpec:
    """The test has to fail for this operator."""
    return SkipSpec(op_name, variant_name, device_type, dtypes, True)


def skip(op_name: str, variant_name: str = "", *, device_type: str | None = None, dtypes: Any = None) -> SkipSpec:
    """The test does not run for this operator."""
    return SkipSpec(op_name, variant_name, device_type, dtypes, False)


def skipOps(to_skip: Iterable[SkipSpec]) -> Callable[[Any], Any]:
    """Mark a test over operators by `xfail`s and `skip`s."""
    marks = list(to_skip)

    def applies(mark: SkipSpec, arguments: dict[str, Any]) -> bool:
        op, kind = arguments["op"], arguments.get("dtype")
        if (op.name, op.variant_test_name) != (mark.op_name, mark.variant_name):
            return False
        return mark.dtypes is None or kind in mark.dtypes

    class _Marked(_TestParametrizer):
        def _parametrize_test(self, test: Any, generic_cls: Any, device_cls: Any) -> Iterator[Variant]:
            def of(arguments: dict[str, Any]) -> list[Any]:
                found: list[Any] = []
                for mark in marks:
                    here = mark.device_type in (None, device_cls.device_type)
                    if here and applies(mark, arguments):
                        found.append(unittest.expectedFailure if mark.expected_failure else unittest.skip("Skipped!"))
                return found

            yield test, "", {}, of

    return _Marked()
