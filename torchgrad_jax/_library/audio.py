"""The operators of torchaudio's libraries in C++: the loops of its filters, sample by sample, in NumPy.

torchaudio asks for its libraries when it is imported, and does not go on without them. Its other operators are
declared, and say so when they are called.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .._engine.entry.bind import NAMESPACES
from .._engine.memory.tensor import Tensor
from .whole import Kernel, made, refused

_t = NAMESPACES[""]


def lfilter_core_loop(input_signal_windows: Tensor, a_coeffs_flipped: Tensor, padded_output_waveform: Tensor) -> None:
    """Write the output of a recursive filter, each sample of which depends on those before it."""
    x, a = input_signal_windows.detach().cpu().numpy(), a_coeffs_flipped.detach().cpu().numpy()
    y = padded_output_waveform.detach().cpu().numpy().copy()
    order = a.shape[1]
    for i in range(x.shape[2]):
        y[:, :, i + order - 1] = x[:, :, i] - np.einsum("bco,co->bc", y[:, :, i : i + order], a)
    _write(padded_output_waveform, y)


def overdrive_core_loop(
    waveform: Tensor, temp: Tensor, last_in: Tensor, last_out: Tensor, output_waveform: Tensor
) -> None:
    """Write a signal whose constant part is filtered out."""
    x, t = waveform.detach().cpu().numpy(), temp.detach().cpu().numpy()
    before, out = (v.detach().cpu().numpy().copy() for v in (last_in, last_out))
    y = np.empty_like(x)
    for i in range(x.shape[-1]):
        out = t[:, i] - before + x.dtype.type(0.995) * out
        before = t[:, i]
        y[:, i] = x[:, i] * x.dtype.type(0.5) + out * x.dtype.type(0.75)
    _write(output_waveform, y)


def _write(to: Tensor, values: np.ndarray) -> None:
    to.copy_(_t["from_numpy"](values))


_WITH_CODE: dict[str, Kernel] = {
    "torchaudio::_lfilter_core_loop(Tensor input_signal_windows, Tensor a_coeffs_flipped, "
    "Tensor(a!) padded_output_waveform) -> ()": lfilter_core_loop,
    "torchaudio::_overdrive_core_loop(Tensor waveform, Tensor temp, Tensor last_in, Tensor last_out, "
    "Tensor(a!) output_waveform) -> ()": overdrive_core_loop,
    "_torchaudio::cuda_version() -> int?": lambda: None,
    "_torchaudio::is_align_available() -> bool": lambda: False,
}


def operators() -> Iterator[object]:
    """The operators of the namespaces `torchaudio` and `_torchaudio`."""
    for schema, fn in _WITH_CODE.items():
        yield made(schema, fn)
    for name in ("rnnt_loss_forward", "forced_align"):
        yield refused("torchaudio", name, "the loops of its filters")
