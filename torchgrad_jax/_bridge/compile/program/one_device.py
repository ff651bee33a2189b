"""Compiled programs that take tensors of the CPU and of an accelerator: all inputs are sent where the program computes.

A step whose parameters are on a GPU may take a batch from the CPU (``x.to("cuda")`` is in the step), and Adam counts
its steps in a tensor of the CPU. A program runs on one device, and where one input is on the CPU, JAX would move all
others there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np

from ...._core.arrays import devices, transfer
from ...._core.arrays.meta import Meta


class OneDevice:
    """Puts the inputs of a program on the device where it computes, and results back on the CPU.

    Args:
        there: the device where it computes.
        entry: the program, whose inputs and results have their order.
        args: the tensors that it was traced with.
    """

    def __init__(self, there: devices.device, entry: Any, args: Sequence[Any]) -> None:
        self.there, self.target = there, devices.to_jax(there)
        self.cpu = devices.to_jax(devices.CPU)
        sources, between = entry.program.sources, len(entry.spare)
        overwritten = len(entry.donated)
        self.inputs = [
            k if k < overwritten else k + between
            for k, i in enumerate(entry.order)
            if self._may_be_elsewhere(sources[i])
        ]
        first = overwritten + between
        self.only_read = range(first, first + len(entry.kept_storages))
        """Inputs from outside that are not overwritten: while they stay the same, they are sent once."""
        self.sent: dict[int, tuple[Any, Any]] = {}
        """For the position of such an input: its array, and what was sent."""
        self.to_return = sorted(set(self._results_of_the_cpu(entry, args)))

    def _may_be_elsewhere(self, source: Any) -> bool:
        return source.kind == "draw" or (
            source.meta is not None and (source.meta.device is devices.CPU or self.there is devices.CPU)
        )

    def _results_of_the_cpu(self, entry: Any, args: Sequence[Any]) -> Iterable[int]:
        """The results that belong on the CPU; a number that is only kept stays where it is.

        Each step would wait for Adam's counts otherwise.
        """
        if self.there is devices.CPU:
            return
        yield from [o.index for o in entry.results() if o.meta.device is devices.CPU]
        yield from [k for _, k, m, _ in entry.grads if m is not None and m.device is devices.CPU]
        written = [(st.meta, k) for st, k, _ in entry.stored]
        for i, k, _ in entry.stored_elsewhere:
            written.append((args[~i]._m if i < 0 else entry.program.sources[i].meta, k))
        written += [(st.meta, k) for st, k in entry.new_state]
        yield from [k for m, k in written if m.device is devices.CPU and m.ndim]

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


def one_device(entry: Any, args: Sequence[Any]) -> OneDevice | None:
    """What a program needs to run on one device; None where JAX sees the CPU alone, or all tensors are on one GPU."""
    if devices.no_accelerator():
        return None
    metas: list[Meta] = [s.meta for s in entry.program.sources if s.meta is not None]
    metas += [o.meta for o in entry.results()]
    found = {m.device for m in metas}
    accelerators = found - {devices.CPU}
    if len(accelerators) > 1 or devices.CPU not in found or any(d.type == "meta" for d in found):
        return None
    return OneDevice(accelerators.pop() if accelerators else devices.CPU, entry, args)
