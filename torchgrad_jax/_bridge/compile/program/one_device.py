"""Compiled programs that take tensors of the CPU and of an accelerator: all inputs are sent where the program computes.

A step whose parameters are on a GPU may take a batch from the CPU (``x.to("cuda")`` is in the step), and Adam counts
its steps in a tensor of the CPU. A program runs on one device, and where one input is on the CPU, JAX would move all
others there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from ...._core.arrays import devices, transfer
from ...._core.arrays.meta import Meta
from ..trace.traced_program import Source, TracedProgram
from .inputs import Inputs
from .returned import Returned
from .writes import Writes


class OneDevice:
    """Puts the inputs of a program on the device where it computes, and results back on the CPU.

    Args:
        there: the device where it computes.
        sources: what the program reads.
        inputs: the order in which it takes that.
        on_cpu: its results that belong on the CPU.
    """

    def __init__(self, there: devices.device, sources: Sequence[Source], inputs: Inputs, on_cpu: Iterable[int]) -> None:
        self.there, self.target = there, devices.to_jax(there)
        self.cpu = devices.to_jax(devices.CPU)
        self.inputs = [
            k for k, i in enumerate(inputs.positions()) if i is not None and self._may_be_elsewhere(sources[i])
        ]
        first = inputs.n_given_away
        self.only_read = range(first, first + len(inputs.storages))
        """Inputs from outside that are not overwritten: while they stay the same, they are sent once."""
        self.sent: dict[int, tuple[Any, Any]] = {}
        """For the position of such an input: its array, and what was sent."""
        self.to_return = sorted(set(on_cpu))

    def _may_be_elsewhere(self, source: Any) -> bool:
        return source.kind == "draw" or (
            source.meta is not None and (source.meta.device is devices.CPU or self.there is devices.CPU)
        )

    def put(self, inputs: Sequence[Any]) -> list[Any]:
        """The inputs of the program in its order, all on the device."""
        out = list(inputs)
        for i in self.inputs:
            x = out[i]
            if self._is_there(x):
                continue
            before, sent = self.sent.get(i, (None, None))
            may_differ = not isinstance(x, jax.Array)  # somebody may have written to NumPy's memory
            if before is not x or may_differ:
                sent = self._sent(x)
                if i in self.only_read:
                    self.sent[i] = x, sent
            out[i] = sent
        return out

    def put_all(self, values: Sequence[Any]) -> list[Any]:
        """These values, all on the device."""
        return [x if self._is_there(x) else self._sent(x) for x in values]

    def _is_there(self, x: Any) -> bool:
        if isinstance(x, jax.Array):
            if isinstance(x, jax.core.Tracer):
                return True
            return (x.device is self.cpu) is (self.there is devices.CPU)
        return self.there is devices.first() or not isinstance(x, np.ndarray)

    def _sent(self, x: Any) -> Any:
        if self.there is devices.CPU:
            return jax.device_put(x, self.target)
        return transfer.put(np.asarray(x), self.there)

    def bring_back(self, arrays: list[Any]) -> None:
        """Move the results to the CPU that belong there."""
        for k in self.to_return:
            if arrays[k] is not None:  # many steps stack some of their results elsewhere
                arrays[k] = jax.device_put(arrays[k], self.cpu)

    def returned(self, array: Any, m: Meta) -> Any:
        """A result that becomes a tensor like `m`."""
        return jax.device_put(array, self.cpu) if m.device is devices.CPU else array


def one_device(
    inputs: Inputs, writes: Writes, returned: Returned, traced: TracedProgram, args: Sequence[Any]
) -> OneDevice | None:
    """What a program needs to run on one device; None where JAX sees the CPU alone, or all tensors are on one GPU."""
    if devices.no_accelerator():
        return None
    metas: list[Meta] = [s.meta for s in traced.sources if s.meta is not None]
    metas += [o.meta for o in returned.tensors()]
    found = {m.device for m in metas}
    accelerators = found - {devices.CPU}
    if len(accelerators) > 1 or devices.CPU not in found or any(d.type == "meta" for d in found):
        return None
    if not accelerators:
        return OneDevice(devices.CPU, traced.sources, inputs, ())
    return OneDevice(accelerators.pop(), traced.sources, inputs, _results_of_the_cpu(writes, returned, args))


def _results_of_the_cpu(writes: Writes, returned: Returned, args: Sequence[Any]) -> Iterator[int]:
    """The results that belong on the CPU; a number that is only kept stays where it is.

    Each step would wait for Adam's counts otherwise.
    """
    yield from [o.index for o in returned.tensors() if o.meta.device is devices.CPU]
    yield from [k for _, k, m, _ in writes.gradients if m is not None and m.device is devices.CPU]
    written: list[tuple[Any, int]] = [(st.meta, k) for st, k, _ in writes.storages]
    written += [(args[~s]._m if isinstance(s, int) else s.meta, k) for s, k, _ in writes.elsewhere]
    written += [(st.meta, k) for st, k in writes.new_state]
    yield from [k for m, k in written if m.device is devices.CPU and m.ndim]
