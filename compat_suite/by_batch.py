"""Does `vmap` over an operator give what the operator gives call by call?

`torch.add(x, y)` is called three times: with other numbers for `x`, with other numbers for `y`, and with other numbers
for both. `vmap(torch.add, in_dims=(0, None))` of the three `x` has to give the three results as one tensor: with the
same dtype and shape, and numbers that are equal but for rounding. So have the derivatives of the results.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from torchgrad_jax.testing._tolerances import default, difference

from .case import T, numbers, seed_of, tensors
from .compare import inner_dtypes
from .execute import Builder, direction, flat, invoke
from .jobs import Job, tracked
from .libs import Lib, dtype_name, ours

BATCH = 3


@dataclass(frozen=True)
class Way:
    """Which tensors of a call are batches, by their places in the order of the arguments, and in which dimension."""

    places: tuple[int, ...]
    dim: int

    def __str__(self) -> str:
        return f"a batch in dimension {self.dim} of tensor {' and '.join(map(str, self.places))}"


def ways(job: Job) -> Iterator[Way]:
    """Each tensor of the call by itself as a batch, then all of them."""
    specs = list(tensors((job.sample.args, [v for _, v in job.sample.kwargs])))
    for n in range(len(specs)):
        yield Way((n,), (0, -1)[n % 2])
    if len(specs) > 1:
        yield Way(tuple(range(len(specs))), 0)


class _OneOf(Builder):
    """Makes the arguments of one of the calls: the tensors at some places have numbers of their own in each."""

    def __init__(self, lib: Lib, job: Job, places: tuple[int, ...], which: int) -> None:
        super().__init__(lib, job, track=False)
        self.places, self.which = places, which

    def array(self, spec: T) -> np.ndarray:
        """The numbers of the next tensor; those that the sample names come in another order in each call."""
        array = super().array(spec)
        if self.count - 1 not in self.places or not self.which:
            return array
        if spec.special:
            return array[::-1].copy() if array.ndim and self.which % 2 else array
        return numbers(spec, self.job.dtype, seed_of(f"{self.job.call}#{self.count} of {self.which}"))


class Given(Builder):
    """Makes a call of tensors that are there already."""

    def __init__(self, lib: Lib, job: Job, given: list[Any]) -> None:
        super().__init__(lib, job, track=False)
        self.given = iter(given)

    def tensor(self, spec: T) -> Any:
        """The next one."""
        return next(self.given)


class Collected(_OneOf):
    """Keeps the tensors of a call in the order in which it makes them."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.made: list[Any] = []

    def tensor(self, spec: T) -> Any:
        """A tensor, which is kept as well."""
        self.made.append(super().tensor(spec))
        return self.made[-1]


def call(lib: Lib, job: Job, given: list[Any]) -> list[Any]:
    """The tensors that a call gives."""
    args, kwargs = Given(lib, job, given).call()
    name = job.case.op.rpartition(".")[2]
    if job.case.op.startswith("Tensor.") and name.endswith("_") and not name.startswith("__"):
        args[0] = args[0].clone()
    out = invoke(lib, job.case, args, kwargs)
    shown = job.case.process(out) if job.case.process else out
    return [v for v in flat(shown) if isinstance(v, lib.tensor_type)]


def with_derivatives(lib: Lib, job: Job, differentiated: list[bool]) -> Callable[..., list[Any]]:
    """The call as a function of its tensors: its results, and their derivatives by those that can have some."""

    def run(*given: Any) -> list[Any]:
        held = list(given)

        def scalar(*leaves: Any) -> tuple[Any, list[Any]]:
            left = iter(leaves)
            out = call(lib, job, [next(left) if d else x for x, d in zip(held, differentiated)])
            parts = [v for v in out if dtype_name(v).startswith(("float", "bfloat", "complex"))]
            weighed = [(v * direction(lib, v, f"{job.call}#cotangent{n}")) for n, v in enumerate(parts)]
            total = sum(
                (lib.module.real(w).sum() if w.is_complex() else w.sum() for w in weighed), lib.module.zeros(())
            )
            return total, out

        leaves = [x for x, d in zip(held, differentiated) if d]
        gradients, out = lib.module.func.grad(scalar, tuple(range(len(leaves))), has_aux=True)(*leaves)
        return [*out, *gradients]

    return run


def differences(job: Job, way: Way, lib: Lib | None = None) -> list[str]:
    """What a batch gives otherwise than its calls one by one; raises what `vmap` raises."""
    lib = lib or ours()
    specs = list(tensors((job.sample.args, [v for _, v in job.sample.kwargs])))
    wanted = job.sample.grads and job.case.derivatives > 0
    differentiated = [wanted and tracked(spec, job.dtype) for spec in specs]
    run = with_derivatives(lib, job, differentiated) if any(differentiated) else _plain(lib, job)
    rows = []
    for which in range(BATCH):
        made = Collected(lib, job, way.places, which)
        made.call()
        rows.append(made.made)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        single = [run(*row) for row in rows]
        given, dims = [], []
        for n, column in enumerate(zip(*rows)):
            batched = n in way.places
            given.append(lib.module.stack(column, way.dim) if batched else column[0])
            dims.append(way.dim if batched else None)
        together = lib.module.vmap(run, in_dims=tuple(dims))(*given)
    return list(_compared(lib, job, together, single))


def _plain(lib: Lib, job: Job) -> Callable[..., list[Any]]:
    return lambda *given: call(lib, job, list(given))


def _compared(lib: Lib, job: Job, together: list[Any], single: list[list[Any]]) -> Iterator[str]:
    names = [spec.dtype or job.dtype for spec in tensors((job.sample.args, [v for _, v in job.sample.kwargs]))]
    coarsest = max(map(default, [*names, *inner_dtypes(job)]), key=lambda found: found.rtol)
    if len(together) != len(single[0]):
        yield f"{len(together)} results, {len(single[0])} from each call"
        return
    for n, (batch, parts) in enumerate(zip(together, zip(*single))):
        if dtype_name(batch) != dtype_name(parts[0]):
            yield f"result {n} is {dtype_name(batch)}, that of a call {dtype_name(parts[0])}"
            continue
        if any(p.shape != batch.shape[1:] for p in parts):
            yield f"result {n} has the shape {tuple(batch.shape)}, that of a call {tuple(parts[0].shape)}"
            continue
        if not job.case.values:
            continue
        allowed = default(dtype_name(batch))
        allowed = (
            max(allowed, coarsest, key=lambda found: found.rtol).scaled(job.case.tolerance) if allowed.rtol else allowed
        )
        for k, part in enumerate(parts):
            found = difference(lib.array(batch[k]), lib.array(part), allowed)
            if found:
                yield f"result {n} of call {k}: {found}"
                break


REFUSED = {
    "Tensor.__getitem__": "a mask says how many elements there are",
    "torch.bincount": "numbers say how many elements there are",
    "torch.index_put": "a mask says how many elements are written",
    "torch.masked_select": "a mask says how many elements there are",
    "torch.nonzero": "numbers say how many elements there are",
    "torch.repeat_interleave": "numbers say how many elements there are",
    "torch.segment_reduce": "lengths say how many elements there are",
    "torch.istft": "Python looks whether the window covers everything",
    "torch.unique": "numbers say how many elements there are",
    "torch.where": "without values it is `nonzero`",
    "Tensor.item": "Python gets a number",
    "torch.allclose": "Python gets an answer",
    "torch.equal": "Python gets an answer",
    "torch.narrow": "Python gets a number, where the part begins",
    "torch.nn.functional.one_hot": "the largest number says how many classes there are",
    "torch.nn.functional.embedding_bag": "Python looks at the first offset",
    "torch.nn.functional.batch_norm": "statistics that are no batch cannot hold those of a batch",
    "torch.ops.aten._batch_norm_with_update": "statistics that are no batch cannot hold those of a batch",
    "torch.argwhere": "numbers say how many elements there are",
    "torch.nn.functional.ctc_loss": "Python looks at the lengths",
    "torch.tensor_split": "Python looks at the places where it is split",
    "torch.unique_consecutive": "numbers say how many elements there are",
    "Tensor.addbmm_": "the result is larger than what it is written to, which no call refuses",
}
"""Operators of which some calls are refused inside of `vmap`, by PyTorch too, and why."""
RANDOM = {
    "torch.rand_like", "torch.randn_like", "torch.bernoulli", "torch.multinomial", "torch.normal", "Tensor.uniform_",
    "Tensor.normal_", "Tensor.bernoulli_", "torch.nn.functional.dropout", "torch.svd_lowrank", "torch.pca_lowrank",
}  # fmt: skip
"""Operators that draw: `vmap` wants to be told whether the calls draw the same numbers."""
TAKEN = {
    "torch.repeat_interleave", "torch.segment_reduce", "torch.istft", "torch.nn.functional.batch_norm",
    "torch.nn.functional.ctc_loss", "Tensor.addbmm_",
}  # fmt: skip
"""Operators of `REFUSED` for which PyTorch finds a result in some of these calls, since it runs them one by one or
computes statistics apart."""


def may_be_refused(job: Job, way: Way) -> bool:
    """Whether a batch of this operator may be an error: also what is written into a tensor that is no batch."""
    name = job.case.op.rpartition(".")[2]
    writes = name.endswith("_") and not name.startswith("__")
    return job.case.op in REFUSED or job.case.op in RANDOM or (writes and 0 not in way.places)
