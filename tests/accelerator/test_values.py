"""Operators and their gradients on the accelerator, against the same on the host in float64."""

import numpy as np
import pytest

import torchgrad_jax as torch
from torchgrad_jax import nn

F = nn.functional
L = torch.linalg
RS = np.random.RandomState(1)
A = RS.randn(6, 5)
SQUARE = RS.randn(4, 4) + 4 * np.eye(4)
IMAGES = RS.randn(2, 3, 8, 8)
SPD = SQUARE @ SQUARE.T
INDEX = np.array([[0, 2, 1], [4, 0, 3]])

CASES = {
    "elementwise": (lambda x: (x.sin() * x.exp() + x.abs().sqrt() - x.atan()).tanh() / (1 + x**2), A),
    "special": (lambda x: torch.lgamma(x.abs() + 1) + torch.erf(x) + torch.digamma(x.abs() + 1), A),
    "where": (lambda x: torch.where(x > 0, x, -x.square()).clamp(-1, 1), A),
    "reductions": (lambda x: torch.stack([x.sum(), x.var(), x.norm(), x.logsumexp(0).max()]), A),
    "prod-cum": (lambda x: x.prod(1).sum() + x.cumsum(0) * x.cumprod(1), A),
    "softmax": (lambda x: F.log_softmax(x, 1) * F.softmax(x, 0), A),
    "sort": (lambda x: x.sort(0).values * x.topk(5, dim=1).values, A),
    "median": (lambda x: x.median(0).values + x.kthvalue(2, 0).values + x.amax(0), A),
    "gather": (lambda x: x.gather(1, torch.tensor(INDEX, device=x.device)), A),
    "scatter": (lambda x: torch.zeros_like(x).scatter_add(1, torch.tensor(INDEX, device=x.device), x[:2, :3]), A),
    "index-put": (
        lambda x: (x * 1).index_put_((torch.tensor([1, 1, 0], device=x.device),), x[2:5] * 2, accumulate=True),
        A,
    ),
    "views": (lambda x: x.t()[::2].flip(0).unfold(1, 2, 2).reshape(-1, 2) * 3, A),
    "writes": (lambda x: _written(x), A),
    "masked": (lambda x: x.masked_fill(x > 1, 0.5)[x < 0.3], A),
    "einsum": (lambda x: torch.einsum("ij,kj->ik", x, x).tril(), A),
    "cdist": (lambda x: torch.cdist(x, x.flip(0)), A),
    "conv1d": (lambda x: F.conv1d(x[:, 0], x[0, :, :, :3], padding=1), IMAGES),
    "conv-depthwise": (lambda x: F.conv2d(x, x[0, :, None, :3, :3], groups=3, dilation=2), IMAGES),
    "conv3d": (lambda x: F.conv3d(x[None], x[:1, None, :, :3, :3][:, :, :2].repeat(1, 2, 1, 1, 1)), IMAGES),
    "pooling": (lambda x: F.max_pool2d(x, 2) + F.avg_pool2d(x, 3, 2, 1), IMAGES),
    "adaptive": (lambda x: F.adaptive_avg_pool2d(x, 3) + F.adaptive_max_pool2d(x, 3), IMAGES),
    "interpolate": (lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear"), IMAGES),
    "grid-sample": (lambda x: F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1).tanh(), align_corners=False), IMAGES),
    "batch-norm": (lambda x: F.batch_norm(x, None, None, training=True), IMAGES),
    "layer-norm": (lambda x: F.layer_norm(x, x.shape[2:]) + F.group_norm(x, 3), IMAGES),
    "embedding": (lambda x: F.embedding(torch.tensor(INDEX, device=x.device), x), A),
    "cross-entropy": (lambda x: F.cross_entropy(x, torch.tensor([0, 1, 4, 2, 2, 3], device=x.device)), A),
    "ctc": (
        lambda x: F.ctc_loss(
            F.log_softmax(x, 1)[:, None], torch.tensor([[1, 2]], device=x.device), torch.tensor([6]), torch.tensor([2])
        ),
        A,
    ),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x.flip(2), x, is_causal=True), IMAGES),
    "cholesky": (lambda x: L.cholesky(x @ x.t() + 4 * torch.eye(4, dtype=x.dtype, device=x.device)), SQUARE),
    "solve": (lambda x: L.solve(x, x.t()[:, :2]) + L.inv(x)[:, :2], SQUARE),
    "triangular": (lambda x: L.solve_triangular(x.tril(), x.t()[:, :2], upper=False), SQUARE),
    "det": (lambda x: L.det(x) + L.slogdet(x).logabsdet, SQUARE),
    "qr": (lambda x: L.qr(x)[0] @ L.qr(x)[1].abs(), A),
    "svd": (lambda x: L.svdvals(x), A),
    "eigh": (lambda x: L.eigh(x + x.t())[0], SPD),
    "lstsq": (lambda x: L.lstsq(x, x[:, :2] * 2 + 1).solution, A),
    "matrix-exp": (lambda x: torch.matrix_exp(x / 8), SQUARE),
    "fft": (lambda x: torch.view_as_real(torch.fft.rfft2(x)), A),
    "complex": (lambda x: (torch.complex(x, x.flip(0)) ** 2).angle(), A),
}


def _written(x):
    y = x * 2
    y[1:3].mul_(x[1:3])
    y[:, 0] = x.sum(1)
    y[::2].t().add_(1)
    return y


def run(f, x):
    x = x.clone().requires_grad_()
    out = f(x)
    weights = torch.linspace(0.5, 1.5, out.numel(), dtype=x.dtype, device=x.device)
    (g,) = torch.autograd.grad((out * weights.reshape(out.shape)).sum(), x)
    return out.detach(), g


@pytest.mark.parametrize("name", CASES)
def test_as_on_the_host(dev, name):
    f, values = CASES[name]
    found = run(f, torch.tensor(values, dtype=torch.float32, device=dev))
    wanted = run(f, torch.tensor(values, dtype=torch.float64, device="cpu"))
    for got, want in zip(found, wanted):
        assert got.device == dev
        scale = want.abs().max().item()
        torch.testing.assert_close(got.cpu().double(), want, rtol=2e-4, atol=2e-5 * scale)


def recurrent(kind, dev):
    torch.manual_seed(0)
    with torch.device("cpu"):
        net = getattr(nn, kind)(3, 4, num_layers=2, bidirectional=True)
        x = torch.tensor(IMAGES[0, :, :, :3])
    net, x = net.double().to(dev), x.to(dev)
    out = net(x)[0]
    out.square().sum().backward()
    return [out.detach().cpu(), *[p.grad.cpu() for p in net.parameters()]]


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_recurrent_networks(dev, kind):
    for got, want in zip(recurrent(kind, dev), recurrent(kind, "cpu"), strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: torch.func.vmap(torch.func.grad(lambda r: r.sin().sum()))(x),
        lambda x: torch.func.hessian(lambda r: (r**3).sum())(x[0]),
        lambda x: torch.func.jvp(lambda r: r.exp(), (x,), (x.cos(),))[1],
        lambda x: torch.func.jacrev(lambda r: r.cumsum(0))(x[0]),
    ],
    ids=["per-example", "hessian", "jvp", "jacrev"],
)
def test_function_transforms(dev, f):
    x = torch.tensor(A, dtype=torch.float32, device=dev)
    torch.testing.assert_close(f(x).cpu(), f(x.cpu()), rtol=1e-4, atol=1e-5)


def test_checks_of_values(dev):
    table = torch.zeros(3, 2, device=dev)
    with pytest.raises(IndexError, match=r"out of bounds|out of range"):
        table[torch.tensor([0, 3], device=dev)]
    with pytest.raises(IndexError, match="out of range"):
        F.embedding(torch.tensor([5], device=dev), table)
    with pytest.raises(L.LinAlgError):
        L.cholesky(-torch.eye(2, device=dev))
    with pytest.raises(IndexError, match="out of bounds"):
        torch.compile(lambda i: table[i])(torch.tensor([4], device=dev))
