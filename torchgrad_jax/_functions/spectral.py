"""Short-time Fourier transforms, composed of padding, windows on the storage and transforms."""

from __future__ import annotations

import numpy as np

from .._core.arrays import dtypes
from .._core.errors import warn
from .._engine.entry.bind import NAMESPACES, composite, ops
from .._engine.memory.concrete import concrete
from .._engine.memory.tensor import Tensor
from .convert import tensor_type_name
from .create import from_host

torch = NAMESPACES[""]
_fft = NAMESPACES["fft"]


_NO_WINDOW = (
    "A window was not provided. A rectangular window will be applied{1}{0}To suppress this warning and use a "
    "rectangular window, explicitly set `window=torch.ones(n_fft, device=<device>)`."
)


def _said(x: Tensor) -> str:
    name = tensor_type_name(x._m.dtype, x._m.device)
    return "CPU" + name.removeprefix("torch.").replace("Tensor", "Type") if x._m.dtype.is_complex else name


def _flag(value: bool | None) -> str:
    return "None" if value is None else str(int(value))


def _window_said(window: Tensor | None) -> str:
    return "None" if window is None else f"{_said(window)}{{{list(window._m.shape)}}}"


def _framed(window: Tensor | None, length: int, n_fft: int, like: Tensor) -> Tensor | None:
    """The window with zeros to both sides, as long as a frame; None for one of ones."""
    if length == n_fft:
        return window
    left = (n_fft - length) // 2
    if window is None:
        host = np.zeros(n_fft, like._m.dtype.np)
        host[left : left + length] = 1
        return from_host(host, like._m.device)
    return _pad(window, (left, n_fft - length - left), "constant")


def _pad(x: Tensor, amounts: tuple[int, int], mode: str) -> Tensor:
    return NAMESPACES["nn.functional"]["pad"](x, amounts, mode)


@composite
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Fourier transforms of overlapping frames of a signal, or of each row of signals."""
    x = input
    if align_to_window is not None and center:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    if center:
        ndim = x._m.ndim
        wide = ops.view(x, (1,) * (3 - ndim) + x._m.shape)
        wide = _pad(wide, (n_fft // 2, n_fft // 2), pad_mode)
        x = ops.view(wide, wide._m.shape[3 - ndim :])
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    _check_stft(x, n_fft, hop, length, window, normalized, onesided, return_complex, align_to_window)
    is_complex = x._m.dtype.is_complex or (window is not None and window._m.dtype.is_complex)
    if onesided and is_complex:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if window is None:
        warn.once(
            _NO_WINDOW.format(
                "which is known to cause spectral leakage. Other windows such as "
                "torch.hann_window or torch.hamming_window are recommended to reduce spectral leakage.",
                ",",
            )
        )
    if return_complex is False:
        warn.once(
            "stft with return_complex=False is deprecated. In a future pytorch release, stft will return complex "
            "tensors for all inputs, and return_complex=False will raise an error.\nNote: you can still call "
            "torch.view_as_real on the complex output to recover the old return format."
        )
    single = x._m.ndim == 1
    if single:
        x = ops.unsqueeze(x, 0)
    if align_to_window and length < n_fft:
        left = (n_fft - length) // 2
        x = _pad(x, (left, n_fft - length - left), "constant")
    frame = _framed(window, length, n_fft, input)
    batch, total = x._m.shape
    count = 1 + (total - n_fft) // hop
    step, stride = x._m.strides
    frames = torch["as_strided"](x, (batch, count, n_fft), (step, hop * stride, stride))
    if frame is not None:
        frames = ops.mul(frames, frame)
    one = not is_complex if onesided is None else onesided
    transform = _fft["rfft"] if one else _fft["fft"]
    out = transform(frames, dim=-1, norm="ortho" if normalized else "backward")
    out = ops.transpose_(out, 1, 2)
    if single:
        out = ops.squeeze_dim_(out, 0)
    return out if return_complex or (return_complex is None and is_complex) else torch["view_as_real"](out)


def _check_stft(
    x: Tensor,
    n_fft: int,
    hop: int,
    length: int,
    window: Tensor | None,
    normalized: bool,
    onesided: bool | None,
    return_complex: bool | None,
    align: bool | None,
) -> None:
    call = (
        f"stft({_said(x)}{list(x._m.shape)}, n_fft={n_fft}, hop_length={hop}, win_length={length}, "
        f"window={_window_said(window)}, normalized={int(normalized)}, onesided={_flag(onesided)}, "
        f"return_complex={_flag(return_complex)}, align_to_window={_flag(align)}) "
    )
    real = not x._m.dtype.is_complex and not (window is not None and window._m.dtype.is_complex)
    if return_complex is None and real:
        raise RuntimeError(
            "stft requires the return_complex parameter be given for real inputs, and will further require that "
            "return_complex=True in a future PyTorch release."
        )
    if x._m.dtype.category < dtypes.FLOATING:
        raise RuntimeError(f"{call}: expected a tensor of floating point or complex values")
    if not 1 <= x._m.ndim <= 2:
        raise RuntimeError(f"{call}: expected a 1D or 2D tensor")
    total = x._m.shape[-1]
    if not 0 < n_fft <= total:
        raise RuntimeError(f"{call}: expected 0 < n_fft < {total}, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(f"{call}: expected hop_length > 0, but got hop_length={hop}")
    if not 0 < length <= n_fft:
        raise RuntimeError(f"{call}: expected 0 < win_length <= n_fft, but got win_length={length}")
    if window is not None and window._m.shape != (length,):
        raise RuntimeError(
            f"{call}: expected a 1D window tensor of size equal to win_length={length}, but got window with size "
            f"{list(window._m.shape)}"
        )


@composite
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal whose short-time transform this is, by overlapping and adding."""
    if window is None:
        advice = "Please provide the same window used by stft to make the inversion lossless."
        warn.once(_NO_WINDOW.format(advice, "."))
    if not input._m.dtype.is_complex:
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    hop = n_fft // 4 if hop_length is None else hop_length
    wide = n_fft if win_length is None else win_length
    call = (
        f"istft({_said(input)}{list(input._m.shape)}, n_fft={n_fft}, hop_length={hop}, win_length={wide}, "
        f"window={_window_said(window)}, center={int(center)}, normalized={int(normalized)}, "
        f"onesided={_flag(onesided)}, length={length}, return_complex={int(return_complex)}) "
    )
    one = _check_istft(call, input, n_fft, hop, wide, window, onesided, return_complex)
    frames, single = _frames(input)
    norm = "ortho" if normalized else "backward"
    if return_complex:
        y = _fft["ifft"](frames, dim=-1, norm=norm)
    else:
        if not one:
            frames = ops.slice(frames, 2, 0, n_fft // 2 + 1)
        y = _fft["irfft"](frames, n_fft, dim=-1, norm=norm)
    real = input._m.dtype.to_real()
    if window is None:
        window = from_host(np.ones(wide, real.np), input._m.device)
    elif window._m.dtype.category < dtypes.FLOATING:
        window = window.to(real)
    frame = _framed(window, wide, n_fft, window)
    assert frame is not None
    frame = ops.view(frame, (1, 1, n_fft))
    count = y._m.shape[1]
    whole = n_fft + hop * (count - 1)
    square = ops.expand(ops.mul(frame, frame), (1, count, n_fft))
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else whole - n_fft // 2 if center else whole
    stop = min(end, whole)
    signal = ops.slice(ops.overlap_add(ops.mul(y, frame), whole, hop), 1, start, max(stop - start, 0))
    weight = ops.slice(ops.overlap_add(square, whole, hop), 1, start, max(stop - start, 0))
    least = np.abs(concrete(weight)).min(initial=np.inf)
    if not least > 1e-11:
        raise RuntimeError(f"{call}window overlap add min: 1\n[ CPUBoolType{{}} ]")
    out = ops.true_divide(signal, weight)
    if single:
        out = ops.squeeze_dim(out, 0)
    if end > whole:
        warn.to_user(
            "The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail. "
            "Please check your center and hop_length settings."
        )
        out = _pad(out, (0, end - whole), "constant")
    return out


def _frames(input: Tensor) -> tuple[Tensor, bool]:
    """Frames along dimension 1 and frequencies along 2, and whether the batch was added."""
    pairs = torch["view_as_real"](input)
    single = pairs._m.ndim == 3
    if single:
        pairs = ops.unsqueeze(pairs, 0)
    return ops.view_as_complex(ops.transpose(pairs, 1, 2)), single


def _check_istft(
    call: str,
    x: Tensor,
    n_fft: int,
    hop: int,
    length: int,
    window: Tensor | None,
    onesided: bool | None,
    return_complex: bool,
) -> bool:
    shape = x._m.shape
    if not x._m.numel:
        raise RuntimeError(f"{call}: input tensor cannot be empty.")
    if not 2 <= x._m.ndim <= 3:
        if x._m.ndim < 2:
            n = x._m.ndim + 1
            raise IndexError(f"Dimension out of range (expected to be in range of [-{n}, {n - 1}], but got -3)")
        raise RuntimeError(f"{call}: expected a tensor with 3 or 4 dimensions, but got {x._m.ndim + 1}")
    one = n_fft != shape[-2] if onesided is None else onesided
    expected = n_fft // 2 + 1 if one else n_fft
    if shape[-2] != expected:
        given = "onesided=True" if one else "onesided=False"
        size = "n_fft / 2 + 1" if one else "n_fft"
        raise RuntimeError(
            f"{call}: expected the frequency dimension (3rd to the last) of the input tensor to match {size} when "
            f"{given}, but got {shape[-2]}"
        )
    if not 0 < hop <= length:
        raise RuntimeError(f"{call}: expected 0 < hop_length <= win_length")
    if not 0 < length <= n_fft:
        raise RuntimeError(f"{call}: expected 0 < win_length <= n_fft")
    if window is not None and window._m.shape != (length,):
        raise RuntimeError(f"{call}: Invalid window shape. window has to be 1D and length of `win_length`")
    if return_complex and one:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if not return_complex and window is not None and window._m.dtype.is_complex:
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    return one
