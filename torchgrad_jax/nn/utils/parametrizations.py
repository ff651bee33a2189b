"""Ready-made parametrizations: orthogonal matrices, weights with a norm of their own."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from ..._core.arrays.dtypes import finfo
from ..._engine.entry.bind import ops
from ..._engine.memory.tensor import Tensor
from ..._functions.linalg import linalg_solve
from ...autograd.grad_mode import no_grad
from .. import functional as F
from .._top import torch
from ..modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..modules.module import Module
from . import parametrize

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def _tensor(module: Any, name: str) -> Any:
    found = getattr(module, name, None)
    if not isinstance(found, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return found


# --- orthogonal -----------------------------------------------------------------------------------


def _is_orthogonal(q: Any) -> bool:
    n, k = q.size(-2), q.size(-1)
    identity = torch.eye(k, dtype=q.dtype, device=q.device)
    return bool(torch.allclose(q.mH @ q, identity, atol=10.0 * n * finfo(q.dtype).eps))


def _make_orthogonal(a: Any) -> Any:
    """The orthogonal factor of a tall matrix, with the signs of the triangular one undone."""
    reflections, tau = torch.geqrf(a)
    q = ops.linalg_householder_product(reflections, tau)
    return q * reflections.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _OrthMaps(Enum):
    matrix_exp = auto()
    cayley = auto()
    householder = auto()


class _Orthogonal(Module):
    base: Any

    def __init__(self, weight: Any, orthogonal_map: _OrthMaps, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map is _OrthMaps.householder:
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Any) -> Any:
        """An orthogonal matrix from any one; rows are orthogonal if there are fewer of them."""
        wide = x.size(-2) < x.size(-1)
        x = x.mT if wide else x
        if self.orthogonal_map is _OrthMaps.householder:
            q = self._reflected(x)
        else:
            q = self._from_skew(x)
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if wide else q

    def _from_skew(self, x: Any) -> Any:
        """Through a skew-symmetric matrix, whose exponential or Cayley transform is orthogonal."""
        n, k = x.size(-2), x.size(-1)
        x = x.tril()
        if n != k:
            x = torch.cat([x, x.new_zeros(n, n - k).expand(*x.shape[:-2], -1, -1)], dim=-1)
        skew = x - x.mH
        if self.orthogonal_map is _OrthMaps.matrix_exp:
            q = torch.matrix_exp(skew)
        else:
            one = torch.eye(n, dtype=skew.dtype, device=skew.device)
            q = linalg_solve(one - 0.5 * skew, one + 0.5 * skew)
        return q[..., :k] if n != k else q

    def _reflected(self, x: Any) -> Any:
        """As a product of reflections whose vectors are below the diagonal."""
        vectors = x.tril(diagonal=-1)
        tau = 2.0 / (1.0 + (vectors * vectors).sum(dim=-2))
        q = ops.linalg_householder_product(vectors, tau)
        return q * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)

    @no_grad()
    def right_inverse(self, q: Any) -> Any:
        """Return what to start from, so that a matrix (made orthogonal) comes out."""
        if q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {q.shape}."
            )
        given = q
        wide = q.size(-2) < q.size(-1)
        q = q.mT if wide else q
        n, k = q.size(-2), q.size(-1)
        if not hasattr(self, "base"):
            if self.orthogonal_map is not _OrthMaps.householder:
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                    "use_trivialization=False."
                )
            reflections, tau = torch.geqrf(q)
            out = reflections.clone()
            diagonal = out.diagonal(dim1=-2, dim2=-1)
            signs = diagonal.sign()
            diagonal.copy_(torch.where(tau == 0.0, -signs, signs))
            return out.mT if wide else out
        if n != k:
            more = torch.randn(*q.size()[:-2], n, n - k, dtype=q.dtype, device=q.device)
            q = _make_orthogonal(torch.cat([q, more], dim=-1))
        else:
            q = q.clone() if _is_orthogonal(q) else _make_orthogonal(q)
        self.base = q
        # The maps send minus the identity to the identity.
        out = torch.zeros_like(given)
        out.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return out


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Keep a matrix orthogonal.

    Args:
        module: where the matrix is.
        name: its name.
        orthogonal_map: "matrix_exp", "cayley" or "householder".
        use_trivialization: whether the map is taken relative to the matrix as it is.
    """
    weight = _tensor(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1) or weight.is_complex()
        orthogonal_map = "matrix_exp" if square else "householder"
    kind = getattr(_OrthMaps, orthogonal_map, None)
    if kind is None:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    made = _Orthogonal(weight, kind, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, made, unsafe=True)


# --- weight norm ----------------------------------------------------------------------------------


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Any, weight_v: Any) -> Any:
        """The weight with a given norm and direction."""
        return torch._weight_norm(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Any) -> Any:
        """Norm and direction of a weight."""
        return torch.norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """Train the norm and the direction of a weight apart.

    Args:
        module: where the weight is.
        name: its name.
        dim: the dimension along which there is a norm each; None for one norm of all.
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state_dict: Any, prefix: str, *rest: Any) -> None:
        """Take states of modules with the older kind of weight norm."""
        old = [f"{prefix}{name}_{letter}" for letter in "gv"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename)
    return module


# --- spectral norm --------------------------------------------------------------------------------


class _SpectralNorm(Module):
    _u: Any
    _v: Any

    def __init__(self, weight: Any, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim, self.eps = dim % ndim, eps
        if ndim == 1:  # its norm is known
            return
        self.n_power_iterations = n_power_iterations
        matrix = self._reshape_weight_to_matrix(weight)
        drawn = [matrix.new_empty(n).normal_(0, 1) for n in matrix.size()]
        for name, vector in zip(("_u", "_v"), drawn):
            self.register_buffer(name, F.normalize(vector, dim=0, eps=eps))
        self._power_method(matrix, 15)

    def _reshape_weight_to_matrix(self, weight: Any) -> Any:
        if weight.ndim <= 1:
            raise AssertionError(f"Expected weight to have more than 1 dimension, got {weight.ndim}")
        return weight.movedim(self.dim, 0).flatten(1)

    @no_grad()
    def _power_method(self, weight_mat: Any, n_power_iterations: int) -> None:
        for _ in range(n_power_iterations):
            u = F.normalize(torch.mv(weight_mat, self._v), dim=0, eps=self.eps)
            self._u.copy_(u)
            v = F.normalize(torch.mv(weight_mat.H, self._u), dim=0, eps=self.eps)
            self._v.copy_(v)

    def forward(self, weight: Any) -> Any:
        """The weight divided by its largest singular value, or what it is known to be."""
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._reshape_weight_to_matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # Copies, so that a second forward pass does not change what the first one's backward reads.
        u, v = self._u.clone(), self._v.clone()
        return weight / torch.vdot(u, torch.mv(matrix, v))

    def right_inverse(self, value: Any) -> Any:
        """The weight itself."""
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by its largest singular value.

    Args:
        module: where the weight is.
        name: its name.
        n_power_iterations: how many steps each training call comes nearer to that value.
        eps: the smallest norm that is divided by.
        dim: the dimension of the outputs.
    """
    weight = _tensor(module, name)
    if dim is None:
        dim = 1 if isinstance(module, ConvTranspose1d | ConvTranspose2d | ConvTranspose3d) else 0
    made = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return parametrize.register_parametrization(module, name, made)
