"""Creation and filling."""

from __future__ import annotations

from ..case import BOOL, COMPLEX, FLOATS, INTS, Attr, Case, D, case, e, et, i, s, t

ANY = (*FLOATS, *INTS, *BOOL, *COMPLEX)
NONE = {"derivatives": 0, "jvp": False}

CASES: tuple[Case, ...] = (
    *(
        case(
            f"torch.{name}",
            s(t(2, 3)),
            s(t(3, 2, layout="transposed")),
            s(t(2, 3), dtype=D("int64")),
            s(t(2, 3, layout="transposed"), memory_format=Attr("contiguous_format")),
            s(t(0, 3)),
            dtypes=ANY,
            **NONE,
        )
        for name in ("zeros_like", "ones_like")
    ),
    case(
        "torch.full_like",
        s(t(2, 3), 2),
        s(t(2, 3), 1.5, dtype=D("float32")),
        s(i(3, high=3), 4),
        dtypes=FLOATS,
        errors=(e(t(2), "x"),),
        **NONE,
    ),
    case(
        "torch.empty_like",
        s(t(2, 3)),
        s(t(3, 2, layout="transposed")),
        s(t(2, 3), dtype=D("int64")),
        values=False,
        **NONE,
    ),
    *(
        case(
            f"torch.{name}",
            s(2, 3),
            s((2, 3)),
            s(()),
            s(0, 2),
            s(2, dtype=D("int64")),
            s(2, dtype=D("complex64")),
            s(2, requires_grad=True),
            errors=(e(-1), e(2.5)),
            **NONE,
        )
        for name in ("zeros", "ones")
    ),
    case("torch.empty", s(2, 3), s((2, 3), dtype=D("int64")), s(0), values=False, errors=(e(-1),), **NONE),
    case(
        "torch.full",
        s((2, 3), 1.5),
        s((2,), 3),
        s((), True),
        s((2,), 3, dtype=D("float32")),
        s((2,), 1j),
        errors=(e((-1,), 2.0),),
        **NONE,
    ),
    case("torch.eye", s(3), s(2, 3), s(2, dtype=D("int64")), s(0), errors=(e(-1),), **NONE),
    case(
        "torch.arange",
        s(5),
        s(1, 5),
        s(1, 7, 2),
        s(0.0, 1.0, 0.25),
        s(5, 0, -2),
        s(3, dtype=D("float32")),
        s(0),
        s(1, 2.5),
        errors=(e(1, 5, -1), e(1, 5, 0)),
        **NONE,
    ),
    case(
        "torch.linspace",
        s(0, 1, 5),
        s(-1.0, 1.0, 4),
        s(0, 10, 3, dtype=D("int64")),
        s(2, 3, 1),
        s(2, 3, 0),
        errors=(e(0, 1, -1),),
        **NONE,
    ),
    *(
        case(
            f"Tensor.new_{name}",
            s(t(2), (2, 3)),
            s(t(2, dtype="float32"), (2,)),
            s(t(2), 2, 3),
            s(t(2), (2,), dtype=D("int64")),
            **NONE,
        )
        for name in ("zeros", "ones")
    ),
    case("Tensor.new_full", s(t(2), (2, 3), 1.5), s(t(2, dtype="float32"), (2,), 2), s(i(2, high=3), (2,), 3), **NONE),
    case("Tensor.zero_", s(t(2, 3)), s(t(2, 3, layout="transposed")), s(i(3, high=3)), jvp=False, derivatives=1),
    case(
        "torch.fill",
        s(t(2, 3), 1.5),
        s(t(2, 3), t()),
        s(i(3, high=3), 2),
        s(i(3, high=3), 2.7),
        dtypes=FLOATS,
        errors=(et(t(2), t(2)),),
        inplace=True,
    ),
    *[
        case(f"torch.{name}_window", s(5), s(6, periodic=False), s(1), s(0), s(4, dtype=D("float32")), errors=(et(-1),))
        for name in ("bartlett", "blackman", "hamming", "hann", "kaiser")
    ],
    case(
        "torch.logspace",
        s(0, 2, 5),
        s(1, -1, 3, base=2),
        s(0, 1, 1),
        s(0, 3, 4, dtype=D("int64")),
        errors=(et(0, 1, -1),),
    ),
    case("torch.tril_indices", s(3, 4), s(3, 2, -1), s(2, 3, 1), errors=(e(-1, 2),)),
    case("torch.triu_indices", s(3, 4), s(3, 2, -1), s(2, 3, 1), errors=(e(-1, 2),)),
    case(
        "torch.vander",
        s(t(3), grads=False),
        s(t(3), 2, grads=False),
        s(t(3), increasing=True, grads=False),
        s(i(2, high=4)),
        errors=(e(t(2, 2)), e(t(2), -1)),
    ),
    case("torch.fft.fftfreq", s(5), s(4, d=0.5), core="fft.fftfreq"),
    case("torch.fft.rfftfreq", s(5), s(4, d=0.5), core="fft.rfftfreq"),
    case("torch.scalar_tensor", s(1.5), s(2, dtype=D("int64"))),
)
