"""Random numbers: with one seed, the draws are torch's own."""

from __future__ import annotations

from ..case import Attr, Case, D, case, e, s, t

NONE = {"derivatives": 0, "jvp": False}

CASES: tuple[Case, ...] = (
    case(
        "torch.randn",
        s(2, 3),
        s((4,)),
        s(20),
        s(3, dtype=D("float64")),
        s(2, requires_grad=True),
        errors=(e(-1), e(2, dtype=D("int64"))),
        **NONE,
    ),
    case("torch.rand_like", s(t(2, 3)), s(t(2, 3), dtype=D("float32")), errors=(e(t(2, dtype="int64")),), **NONE),
    case(
        "torch.randn_like",
        s(t(2, 3)),
        s(t(20)),
        s(t(2, 3, layout="transposed"), memory_format=Attr("contiguous_format")),
        errors=(e(t(2, dtype="int64")),),
        **NONE,
    ),
    case(
        "torch.randint",
        s(5, (2, 3)),
        s(-3, 3, (4,)),
        s(0, 10, (3,), dtype=D("float32")),
        errors=(e(3, 3, (2,)), e(5, 1, (2,))),
        **NONE,
    ),
    case(
        "torch.bernoulli",
        s(t(2, 3, make="probabilities")),
        s(t(2, 3), 0.3, grads=False),
        errors=(e(t(2, special=(2.0, 0.5))), e(t(2), 1.5)),
        derivatives=1,
        jvp=False,
    ),
    case(
        "torch.multinomial",
        s(t(4, make="probabilities"), 2),
        s(t(2, 4, make="probabilities"), 3, True),
        errors=(e(t(2, special=(-1.0, 2.0)), 1), e(t(3, make="probabilities"), 4), e(t(2, 2, 2), 1)),
        **NONE,
    ),
    case(
        "torch.normal",
        s(t(2, 3), 1.5),
        s(0.0, 1.0, (4,)),
        s(t(3), t(3, low=0.5)),
        s(1.0, t(2, low=0.5)),
        errors=(e(t(3), -1.0),),
        derivatives=1,
        jvp=False,
    ),
    case(
        "Tensor.uniform_",
        s(t(2, 3)),
        s(t(3), -1.0, 1.0),
        core="uniform",
        errors=(e(t(2), 1.0, 0.0),),
        derivatives=1,
        jvp=False,
    ),
    case(
        "Tensor.normal_",
        s(t(2, 3)),
        s(t(3), 1.0, 2.0),
        core="normal",
        errors=(e(t(2), 0.0, -1.0),),
        derivatives=1,
        jvp=False,
    ),
    case(
        "Tensor.bernoulli_",
        s(t(2, 3)),
        s(t(3), 0.3),
        core="bernoulli",
        errors=(e(t(2), 1.5),),
        derivatives=1,
        jvp=False,
    ),
    case(
        "torch.nn.functional.dropout",
        s(t(2, 3), 0.4),
        s(t(2, 3), 0.4, False),
        s(t(2, 3), 0.0),
        s(t(2, 3), 1.0),
        errors=(e(t(2), 1.5),),
    ),
)
