# pyright: reportUnnecessaryTypeIgnoreComment=true, reportAttributeAccessIssue=error
"""What type checkers must know of the package: this program runs, and pyright accepts all of it.

In `mistakes`, which nobody calls, every ignored line must be an error: an unneeded one is reported.
"""

from typing import Any, assert_type

import torchgrad_jax as torch
import torchgrad_jax.nn.functional as F
from torchgrad_jax import Tensor, return_types


def tensors() -> None:
    """Creation, metadata and conversion."""
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    assert_type(x, Tensor)
    assert_type(torch.zeros(2, 3), Tensor)
    assert_type(torch.zeros((2, 3), dtype=torch.float64, device="cpu"), Tensor)
    assert_type(torch.arange(3), Tensor)
    assert_type(torch.arange(0, 6, 2), Tensor)
    assert_type(x.shape, torch.Size)
    assert_type(x.size(), torch.Size)
    assert_type(x.size(0), int)
    assert_type(x.stride(), tuple[int, ...])
    assert_type(x.dtype, torch.dtype)
    assert_type(x.device, torch.device)
    assert_type(x.requires_grad, bool)
    assert_type(x.grad, Tensor | None)
    assert_type(x.is_contiguous(), bool)
    assert_type(x._version, int)
    assert_type(len(x), int)
    assert_type(float(x.detach()[0, 0]), float)
    assert_type(x.type(), str)
    assert_type(torch.float32, torch.dtype)
    assert_type(torch.pi, float)


def operations() -> None:
    """Functions, methods, operators, views, in-place and out= forms."""
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert_type(2 * x + x / 3 - x**2, Tensor)
    assert_type(x @ x.T, Tensor)
    assert_type(-x, Tensor)
    assert_type(x == 1, Tensor)
    assert_type(x > x, Tensor)
    assert_type(x[0, ..., None], Tensor)
    x[0] = 3.0
    x += 1
    assert_type(x.add_(1).mul_(2).clamp_(min=0), Tensor)
    assert_type(torch.add(x, 1, alpha=2, out=torch.empty(2, 2)), Tensor)
    assert_type(x.permute(1, 0), Tensor)
    assert_type(x.permute((1, 0)), Tensor)
    assert_type(x.view(4), Tensor)
    assert_type(x.view(2, -1), Tensor)
    assert_type(x.reshape([4]), Tensor)
    assert_type(x.sum(), Tensor)
    assert_type(torch.sum(x, dim=(0, 1), keepdim=True, dtype=torch.float64), Tensor)
    assert_type(x.to(torch.float64), Tensor)
    assert_type(x.to("cpu"), Tensor)
    assert_type(torch.cat([x, x], dim=1), Tensor)
    assert_type(x.unbind(), tuple[Tensor, ...])
    assert_type(x.split(1), tuple[Tensor, ...])
    for row in x:
        assert_type(row, Tensor)


def results() -> None:
    """Named tuples, and results that depend on the arguments."""
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert_type(x.max(), Tensor)
    assert_type(x.max(0), return_types.max)
    assert_type(torch.max(x, x), Tensor)
    assert_type(x.topk(1).indices, Tensor)
    assert_type(torch.sort(x, descending=True).values, Tensor)
    values, indices = x.cummax(dim=0)
    assert_type(values, Tensor)
    assert_type(indices, Tensor)
    assert_type(torch.std_mean(x), tuple[Tensor, Tensor])
    assert_type(torch.where(x > 0, x, 0.0), Tensor)
    assert_type(torch.nonzero(x, as_tuple=True), tuple[Tensor, ...])
    assert_type(torch.linalg.eigh(x @ x.T).eigenvalues, Tensor)
    assert_type(torch.linalg.qr(x).Q, Tensor)
    assert_type(torch.linalg.norm(x), Tensor)
    assert_type(torch.fft.rfft(x), Tensor)
    assert_type(torch.special.expit(x), Tensor)
    assert_type(F.softmax(x, dim=1), Tensor)
    assert_type(F.cross_entropy(x, torch.tensor([0, 1]), reduction="sum"), Tensor)
    assert_type(F.max_pool1d(x[None], 2), Tensor)
    assert_type(F.max_pool1d(x[None], 2, return_indices=True), tuple[Tensor, Tensor])


def autograd() -> None:
    """The graph."""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum()
    assert_type(y.grad_fn, Any)
    assert_type(y.backward(), None)
    with torch.no_grad():
        assert_type(x.detach().requires_grad_(), Tensor)
    handle = x.register_hook(lambda g: g)
    handle.remove()
    assert_type(torch.is_grad_enabled(), bool)


def mistakes() -> None:
    """Calls that fail when run, each of which must be reported."""
    x = torch.tensor([1.0])
    x.no_such_method()  # pyright: ignore[reportAttributeAccessIssue]
    torch.no_such_function(x)  # pyright: ignore[reportAttributeAccessIssue]
    torch.add(x)  # pyright: ignore[reportCallIssue]
    torch.add(x, "1")  # pyright: ignore[reportArgumentType]
    torch.add(x, 1, 2)  # pyright: ignore[reportCallIssue]
    x.sum(keepdim=1, dtype="float")  # pyright: ignore[reportArgumentType]
    x.sort(True, stable="yes")  # pyright: ignore[reportArgumentType]
    torch.zeros(2, dtype="float32")  # pyright: ignore[reportCallIssue, reportArgumentType]
    torch.zeros(2, dtpye=torch.float32)  # pyright: ignore[reportCallIssue]
    x.permute("0")  # pyright: ignore[reportCallIssue, reportArgumentType]
    x.exp(out=x).values.no_such  # pyright: ignore[reportAttributeAccessIssue]
    x.max(0).no_such_field  # pyright: ignore[reportAttributeAccessIssue]
    x.exp_(out=x)  # pyright: ignore[reportCallIssue]
    x.shape = (1,)  # pyright: ignore[reportAttributeAccessIssue]
    F.softmax(x, dims=0)  # pyright: ignore[reportCallIssue]
    torch.fft.no_such_transform(x)  # pyright: ignore[reportAttributeAccessIssue]


def main() -> None:
    """Everything but the mistakes."""
    tensors()
    operations()
    results()
    autograd()


if __name__ == "__main__":
    main()
