"""Matrix products."""

from __future__ import annotations

from ..case import BOOL, COMPLEX, FLOATS, INTS, Case, case, e, et, i, s, t

ALL = (*FLOATS, *INTS, *COMPLEX)
CAUSE = "products of bfloat16 are summed in different orders"

CASES: tuple[Case, ...] = (
    case("torch.matmul", s(t(2, 3), t(3, 2)), s(t(3), t(3)), s(t(2, 3), t(3)), s(t(3), t(3, 2)), s(t(2, 2, 3), t(3, 2)), s(t(2, 2, 3), t(2, 3, 2), second=False),
         s(t(2, 1, 2, 3), t(3, 3, 2), second=False), s(t(3), t(2, 3, 2), second=False), s(t(2, 2, 3), t(3), second=False),
         s(t(2, 3, layout="transposed"), t(3, 2, layout="transposed"), second=False), s(t(0, 3), t(3, 2), second=False), s(t(2, 0), t(0, 2), second=False),
         dtypes=ALL, errors=(et(t(2, 3), t(2, 3)), et(t(), t(3)), e(t(2, 3), t(3, 2, dtype="float32")), et(t(2), t(3))), jax="jax.numpy.matmul"),
    case("torch.mm", s(t(2, 3), t(3, 2)), s(t(3, 2, layout="transposed"), t(2, 3, layout="transposed"), second=False), s(t(2, 0), t(0, 3), second=False),
         dtypes=ALL, errors=(et(t(2, 3), t(2, 3)), e(t(3), t(3, 2)), e(t(2, 3), t(3, 2, dtype="float32")))),
    case("torch.bmm", s(t(2, 2, 3), t(2, 3, 2)), s(t(2, 3, 2, layout="transposed"), t(2, 2, 3), second=False), s(t(0, 2, 3), t(0, 3, 2), second=False),
         dtypes=ALL, errors=(e(t(2, 2, 3), t(2, 2, 3)), e(t(2, 3), t(2, 3, 2)), e(t(2, 2, 3), t(3, 3, 2)))),
    case("torch.mv", s(t(2, 3), t(3)), s(t(3, 2, layout="transposed"), t(2), second=False), s(t(2, 0), t(0), second=False), dtypes=ALL,
         errors=(et(t(2, 3), t(2)), e(t(3), t(3)))),
    case("torch.dot", s(t(3), t(3)), s(t(0), t(0), second=False), s(t(4, layout="sliced"), t(4), second=False), dtypes=ALL,
         errors=(et(t(3), t(2)), et(t(2, 2), t(2, 2)), e(t(3), t(3, dtype="float32")))),
    case("torch.addmm", s(t(2, 2), t(2, 3), t(3, 2)), s(t(2), t(2, 3), t(3, 2), beta=0.5, alpha=2), s(t(), t(2, 3), t(3, 2), beta=0, second=False), s(i(2, 2, high=3), i(2, 3, high=3), i(3, 2, high=3)),
         dtypes=(*FLOATS, *COMPLEX), errors=(et(t(2, 2), t(2, 3), t(2, 3)), e(t(3), t(2, 3), t(3, 2))), inplace=True),
    case("torch.addbmm", s(t(2, 2), t(3, 2, 3), t(3, 3, 2)), s(t(2), t(3, 2, 3), t(3, 3, 2), beta=0.5, alpha=2), dtypes=FLOATS,
         errors=(e(t(2, 2), t(3, 2, 3), t(3, 2, 3)), e(t(2, 2), t(2, 3), t(3, 3, 2))), inplace=True),
    case("torch.addmv", s(t(2), t(2, 3), t(3)), s(t(), t(2, 3), t(3), beta=0.5, alpha=2), dtypes=(*FLOATS, *COMPLEX), errors=(e(t(2), t(2, 3), t(2)), e(t(3), t(2, 3), t(3))), inplace=True),
    case("torch.addr", s(t(2, 3), t(2), t(3)), s(t(3), t(2), t(3), beta=0.5, alpha=2), dtypes=(*FLOATS, *INTS), errors=(e(t(2, 2), t(2), t(3)), e(t(2, 3), t(2, 2), t(3))), inplace=True),
    case("torch.baddbmm", s(t(2, 2, 2), t(2, 2, 3), t(2, 3, 2)), s(t(2), t(2, 2, 3), t(2, 3, 2), beta=0.5, alpha=2), dtypes=FLOATS,
         errors=(e(t(2, 2, 2), t(2, 2, 3), t(2, 2, 3)), e(t(3), t(2, 2, 3), t(2, 3, 2))), inplace=True),
    case("torch.outer", s(t(2), t(3)), s(t(4, layout="sliced"), t(2), second=False), s(t(0), t(3), second=False), dtypes=(*ALL, *BOOL), errors=(e(t(2, 2), t(3)),), jax="jax.numpy.outer"),
    case("torch.inner", s(t(3), t(3)), s(t(2, 3), t(3)), s(t(2, 3), t(2, 3), second=False), s(t(), t(3), second=False), dtypes=ALL, errors=(e(t(3), t(2)),), jax="jax.numpy.inner"),
    case("torch.tensordot", s(t(2, 3), t(3, 2), 1), s(t(2, 3, 2), t(3, 2, 2), ((1, 2), (0, 1))), s(t(2), t(3), 0, second=False), dtypes=FLOATS,
         errors=(e(t(2, 3), t(2, 3), 1), e(t(2, 3), t(3, 2), -1))),
    case("torch.einsum", s("ij,jk->ik", t(2, 3), t(3, 2)), s("ii->i", t(3, 3)), s("ii", t(3, 3), second=False), s("bij,bjk->bik", t(2, 2, 3), t(2, 3, 2), second=False), s("i,j->ij", t(2), t(3)),
         s("...ij->...ji", t(2, 2, 3), second=False), s("ij,ij,j->i", t(2, 3), t(2, 3), t(3), second=False), s("ij->", t(2, 3)), dtypes=FLOATS,
         errors=(e("ij,jk->ik", t(2, 3), t(2, 3)), e("ij->ijk", t(2, 3)), e("i", t(2, 3)))),
    case("torch.kron", s(t(2, 2), t(2, 3)), s(t(2), t(2, 2)), s(t(), t(3), second=False), dtypes=ALL, jax="jax.numpy.kron"),
    case("torch.linalg.multi_dot", s([t(2, 3), t(3, 2)]), s([t(2, 3), t(3, 4), t(4, 2)]), s([t(3), t(3, 2), t(2)], second=False), dtypes=FLOATS, errors=(e([t(2, 3)]), e([t(2, 3), t(2, 3)]))),
    case("torch.cdist", s(t(2, 3), t(4, 3)), s(t(2, 3), t(2, 3), 1.0), s(t(2, 2, 3), t(2, 4, 3), 3.0, second=False), s(t(2, 3), t(2, 3), float("inf"), second=False), s(t(2, 2, special=(1.0,) * 4), t(2, 2, special=(1.0,) * 4)),
         s(t(0, 3), t(2, 3), second=False), s(t(2, 3), t(4, 3), compute_mode="donot_use_mm_for_euclid_dist", second=False), dtypes=("float32",), errors=(e(t(2, 3), t(2, 2)), e(t(3), t(2, 3)), e(t(2, 3), t(2, 3), -1.0))),
    case("Tensor.__rmatmul__", s(t(3, 2), t(2, 3)), s(t(3), t(2, 3))),
)  # fmt: skip
