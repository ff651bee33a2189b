"""Fourier transforms."""

from __future__ import annotations

from ..case import COMPLEX, Case, case, e, et, i, s, t

C = t(2, 4, dtype="complex128")
ERRORS = (e(t(0)), et(t(2, 4), None, 2), e(t(4), 0), e(t(4), norm="other"))

CASES: tuple[Case, ...] = (
    case(
        "torch.fft.fft",
        s(t(2, 4)),
        s(C, 3),
        s(C, 6, 0, "ortho"),
        s(t(5), norm="forward", second=False),
        s(i(4, high=4)),
        dtypes=("float32", *COMPLEX),
        errors=ERRORS,
        jax="jax.numpy.fft.fft",
    ),
    case(
        "torch.fft.ifft",
        s(C),
        s(t(2, 4), 3),
        s(C, 6, 0, "ortho", second=False),
        dtypes=("float32",),
        errors=ERRORS,
        jax="jax.numpy.fft.ifft",
    ),
    case(
        "torch.fft.rfft",
        s(t(2, 4)),
        s(t(2, 5), 3),
        s(t(5, 2), 4, 0, "ortho", second=False),
        dtypes=("float32",),
        errors=(*ERRORS, e(C)),
        jax="jax.numpy.fft.rfft",
    ),
    case(
        "torch.fft.irfft",
        s(t(2, 3, dtype="complex128")),
        s(t(2, 3, dtype="complex128"), 5),
        s(t(3, 2, dtype="complex128"), 4, 0, "ortho", second=False),
        errors=(et(t(2, 4), None, 2),),
        jax="jax.numpy.fft.irfft",
    ),
    case(
        "torch.fft.fft2",
        s(t(2, 3, 4)),
        s(C, (3, 3)),
        s(t(2, 3, 4), None, (0, 1), "ortho", second=False),
        errors=(e(t(3)), e(C, (0, 2))),
        jax="jax.numpy.fft.fft2",
    ),
    case(
        "torch.fft.fftn",
        s(t(2, 3, 2)),
        s(C, (3, 3)),
        s(t(2, 3, 2), None, (0, 2), "ortho", second=False),
        errors=(e(C, (0, 2)), et(C, None, (5,))),
        jax="jax.numpy.fft.fftn",
    ),
    *[
        case(f"torch.fft.{name}", s(t(5)), s(t(2, 4), 1), core=f"fft.{name}", errors=(e(t(3), 1),))
        for name in ("fftshift", "ifftshift")
    ],
    *[
        case(
            f"torch.fft.{name}",
            s(t(2, 3, 4, dtype=None if real else "complex128"), second=False),
            s(t(4, 4, dtype=None if real else "complex128"), (3, 5), norm="ortho", second=False),
            core=f"fft.{name}",
            errors=(e(t(3), (2, 2), (0, 0)),),
            derivatives=1,
            jvp=False,
        )
        for name, real in (
            ("ifft2", False),
            ("ifftn", False),
            ("rfft2", True),
            ("irfft2", False),
            ("rfftn", True),
            ("irfftn", False),
            ("hfft2", False),
            ("ihfft2", True),
            ("hfftn", False),
            ("ihfftn", True),
        )
    ],
    case(
        "torch.fft.hfft",
        s(t(4, dtype="complex128"), second=False),
        s(t(2, 3, dtype="complex128"), 5, 1, "ortho", second=False),
        core="fft.hfft",
        errors=(e(t(3), 0),),
    ),
    case(
        "torch.fft.ihfft",
        s(t(4), second=False),
        s(t(2, 3), 5, 1, "forward", second=False),
        core="fft.ihfft",
        errors=(e(t(3), 0),),
    ),
)
