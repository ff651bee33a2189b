"""Traces in files: what one process has traced another one reads, and it gives the same bits."""

import os
import pickle
import subprocess
import sys
import types
import zlib
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as torch
from torchgrad_jax._core.host import code as host_code, space
from torchgrad_jax._core.jax import own_kernels
from torchgrad_jax._core.jax.sizes import Sizes
from torchgrad_jax._engine.run import trace_files
from torchgrad_jax._engine.run.trace_files import text_of

F = torch.nn.functional


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """Where traces are kept: an empty folder."""
    monkeypatch.setattr(trace_files, "folder_of_kernels", lambda: str(tmp_path))
    torch.clear_caches()
    yield tmp_path
    torch.clear_caches()


@pytest.fixture
def traced(monkeypatch):
    """The names of the functions that were traced."""
    times = []
    make = own_kernels.jax.make_jaxpr

    def counted(fn, **kwargs):
        times.append(fn.__name__)
        return make(fn, **kwargs)

    monkeypatch.setattr(own_kernels.jax, "make_jaxpr", counted)
    return times


@pytest.fixture
def written(monkeypatch):
    """The programs that NumPy code was written for."""
    programs = []
    general = host_code.general

    def counted(source, *args):
        programs.append(source)
        return general(source, *args)

    monkeypatch.setattr(host_code, "general", counted)
    return programs


def inputs(*shapes, dtype=torch.float64):
    made = []
    for n, shape in enumerate(shapes):
        size = int(np.prod(shape))
        made.append(torch.linspace(-0.9, 1.1 + n, size, dtype=dtype).reshape(shape).requires_grad_())
    return made


def first_order(fn, *args):
    out = fn(*args)
    if not isinstance(out, torch.Tensor):
        out = torch.stack([o.sum() for o in out if o.is_floating_point()]).sum()
    grads = torch.autograd.grad(out, [a for a in args if a.requires_grad], torch.ones_like(out), allow_unused=True)
    return [out.detach(), *[g for g in grads if g is not None]]


def recorded(fn, *args):
    grads = torch.autograd.grad(fn(*args).sum(), args, create_graph=True)
    return [*grads, *torch.autograd.grad(torch.stack([g.square().sum() for g in grads if g.requires_grad]).sum(), args)]


def tangents(fn, *args):
    args = [a.detach() for a in args]
    return [*torch.func.jvp(fn, tuple(args), tuple(a + 1 for a in args))]


def labels(n):
    return torch.arange(n) % 3


CALLS = {
    "arithmetic": (lambda x, y: (x * y - x / y + 2 * x) ** 2, (4, 6), (6,)),
    "curves": (lambda x: x.sin() + x.exp() + torch.lgamma(x + 3) + torch.erf(x), (4, 6)),
    "division by a number": (lambda x: x / 3 + 1 / (x + 4), (5,)),
    "mean": (lambda x: x.mean() + x.mean(1).std(), (4, 6)),
    "extremes": (lambda x: x.max(1)[0] + x.amin(1) + x.clamp(-0.5, 0.5).sum(1), (4, 6)),
    "softmax": (lambda x: x.softmax(-1) + x.log_softmax(0), (4, 6)),
    "product": (lambda x, y: x @ y + torch.einsum("ij,jk->ik", x, y), (4, 6), (6, 3)),
    "layer_norm": (lambda x, w: F.layer_norm(x, (6,), w), (4, 6), (6,)),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), (4, 6)),
    "attention": (lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True), (2, 4, 8), (2, 4, 8)),
    "views": (lambda x: x.view(-1)[3:].reshape(3, -1).transpose(0, 1)[:, None].expand(-1, 2, -1) * 2, (4, 6)),
    "slices": (lambda x: torch.cat([x[1:, ::2], x.narrow(1, 0, 3)[:3]]) + F.pad(x, (0, 1))[:1, 4:7], (4, 6)),
    "split": (lambda x: sum(p.sum(0) for p in x.split(2)) + torch.stack(x.unbind(0)).sum(0), (4, 6)),
    "embedding": (lambda w: F.embedding(labels(5), w), (4, 6)),
    "indices": (lambda x: x[labels(5)] + x.index_select(0, labels(5)) + x.gather(0, labels(6)[None])[0], (4, 6)),
    "scatter": (lambda x: torch.zeros(4, 6, dtype=x.dtype).scatter_add(0, labels(4)[:, None].expand(4, 6), x), (4, 6)),
    "index_put": (lambda x: x.clone().index_put((labels(4),), x[0], accumulate=True), (4, 6)),
    "loss": (lambda x: F.cross_entropy(x, labels(4)) + F.mse_loss(x, x.detach() + 1), (4, 6)),
    "sort": (lambda x: x.sort(1)[0] + x.topk(6, 1)[0] + x.cumsum(1) + x.cumprod(1), (4, 6)),
    "convolution": (lambda x, w: F.conv2d(x, w, stride=2, padding=1), (2, 3, 8, 8), (4, 3, 3, 3)),
    "pooling": (lambda x: F.max_pool2d(x, 2) + F.avg_pool2d(x, 2), (2, 3, 8, 8)),
    "interpolation": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (1, 2, 4, 4)),
    "choice": (lambda x: torch.where(x > 0, x, x * 0.1) + F.gelu(x) + F.silu(x), (4, 6)),
    "in place": (lambda x: x.clone().mul_(3).add_(x, alpha=2), (4, 6)),
    "linear algebra": (lambda x: torch.linalg.solve(x @ x.t() + torch.eye(4, dtype=x.dtype), x), (4, 6)),
    "complex": (lambda x: torch.fft.fft(x).abs(), (4, 6)),
    "eigenvalues": (lambda x: torch.linalg.eigh(x + x.t())[0] + torch.linalg.svd(x)[1], (4, 4)),
    "halves": (lambda x: (x.bfloat16() @ x.bfloat16().t()).sum(0).float() + x.half().sum(1), (4, 6)),
    "ctc": (lambda x: F.ctc_loss(x.log_softmax(-1), labels(6).reshape(2, 3) + 1, (9, 9), (3, 3)), (9, 2, 5)),
    "loops": (lambda x: torch.logcumsumexp(x, 0) + x.cummax(0)[0], (4, 6)),
    "triangles": (lambda x: x.tril() + x.triu(1) + x.diagonal().sum(), (5, 5)),
}
WAYS = {
    first_order: CALLS,
    recorded: ("arithmetic", "curves", "softmax", "product", "layer_norm", "loss", "choice", "convolution"),
    tangents: ("arithmetic", "curves", "softmax", "product", "layer_norm", "slices", "sort", "embedding"),
}


def bits(tensors):
    return [(t.dtype, tuple(t.shape), t.detach().numpy().tobytes()) for t in tensors]


@pytest.mark.parametrize("way, name", [(way, name) for way, names in WAYS.items() for name in names])
def test_a_second_process_gives_the_same_bits(way, name, folder, traced, written, monkeypatch):
    fn, *shapes = CALLS[name]
    found = []
    for _ in range(2):
        torch.clear_caches()
        traced.clear()
        written.clear()
        found.append(bits(way(fn, *inputs(*shapes))))
    again = len(traced)
    assert len(written) <= again  # what is traced again is written again
    monkeypatch.setattr(trace_files, "folder_of_kernels", lambda: None)
    torch.clear_caches()
    traced.clear()
    found.append(bits(way(fn, *inputs(*shapes))))
    assert found[0] == found[1] == found[2]
    assert again < len(traced)
    assert [*folder.iterdir()]


@pytest.mark.parametrize("name", ["arithmetic", "mean", "product", "slices", "embedding", "convolution"])
def test_what_was_traced_for_one_size_is_read_for_another(name, folder, traced):
    fn, *shapes = CALLS[name]
    first_order(fn, *inputs(*shapes))
    torch.clear_caches()
    larger = [tuple(n * 2 if d == 0 and k == 0 else n for d, n in enumerate(shape)) for k, shape in enumerate(shapes)]
    traced.clear()
    read = bits(first_order(fn, *inputs(*larger)))
    torch.clear_caches()
    for path in folder.iterdir():
        path.unlink()
    assert read == bits(first_order(fn, *inputs(*larger)))


def test_nothing_is_traced_again(folder, traced, written):
    def step():
        x, w = inputs((5, 3), (3, 4), dtype=torch.float32)
        F.layer_norm(torch.relu(x @ w).sin(), (4,)).square().mean().backward()
        return bits([x.grad, w.grad])

    first = step()
    assert traced
    assert written
    torch.clear_caches()
    traced.clear()
    written.clear()
    assert step() == first
    assert traced == []
    assert written == []


DAMAGE = {
    "empty": lambda data: b"",
    "cut off": lambda data: data[:-7],
    "a head alone": lambda data: data[:5],
    "another bit": lambda data: data[:-20] + bytes([data[-20] ^ 4]) + data[-19:],
    "something else": lambda data: b"no trace at all, but a text",
    "twice": lambda data: data + data,
    "a record of something else": lambda data: record_of(b"no pickle"),
}


def record_of(payload):
    whole = pickle.dumps(((((4, 6), ()), None), payload), protocol=5)
    return trace_files._HEAD.pack(trace_files._MARK, len(whole), zlib.crc32(whole)) + whole


@pytest.mark.parametrize("how", DAMAGE)
def test_files_that_do_not_fit_are_as_if_they_were_not_there(how, folder):
    x = torch.ones(4, 6) * 0.5
    first = bits([x.sin() * x])
    for path in folder.iterdir():
        path.write_bytes(DAMAGE[how](path.read_bytes()))
    for _ in range(2):
        torch.clear_caches()
        assert bits([x.sin() * x]) == first
    sizes = [path.stat().st_size for path in sorted(folder.iterdir())]
    torch.clear_caches()
    assert bits([x.sin() * x]) == first
    assert [path.stat().st_size for path in sorted(folder.iterdir())] == sizes


@pytest.mark.parametrize("damaged", [False, True])
def test_a_folder_that_cannot_be_written_to(damaged, folder, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    x = torch.ones(4, 6)
    if damaged:
        x.sin() * x
        for path in folder.iterdir():
            path.write_bytes(b"no trace")
        torch.clear_caches()
    monkeypatch.setattr(os, "write", full)
    monkeypatch.setattr(Path, "unlink", full)
    assert (x.sin() * x).sum().item() == pytest.approx(24 * np.sin(1))


def test_settings_and_source_are_part_of_the_name(folder, traced, monkeypatch):
    torch.ones(3, 2).sin()
    names = {p.name for p in folder.iterdir()}
    for change in (
        lambda: torch.set_default_dtype(torch.float64),
        lambda: torch.use_deterministic_algorithms(True),
        lambda: monkeypatch.setattr(trace_files, "_versions", lambda: "another"),
    ):
        try:
            change()
            torch.clear_caches()
            traced.clear()
            torch.ones(3, 2, dtype=torch.float32).sin()
            assert "sin" in traced
        finally:
            torch.set_default_dtype(torch.float32)
            torch.use_deterministic_algorithms(False)
    assert len({p.name for p in folder.iterdir()}) > len(names)


def test_static_arguments_are_told_apart():
    values = [0, 0.0, -0.0, False, None, "0", (0,), [0], (0, ()), float("nan"), 1, True, 1.0, 1j, torch.float32]
    assert len({text_of(v) for v in values}) == len(values)
    assert text_of(object()) is None
    assert text_of((1, object())) is None
    assert text_of(np.ones(1)) is None


def test_functions_of_users_are_not_kept(folder):
    x = torch.ones(3, requires_grad=True)
    x.sin().sum().backward()
    kept = sorted(folder.iterdir())
    assert kept
    twice_the_sine = torch.from_jax(lambda v: jnp.sin(v) * 2)
    twice_the_sine(x).sum().backward()
    assert sorted(folder.iterdir()) == kept


def test_code_is_of_the_package_that_reads_it(monkeypatch):
    """Two environments may share a folder of kernels, and code is known as the package's by its file."""
    code = space.compiled("def kernel(x):\n    return [v + 1 for v in x]")
    record = trace_files.dumped(code, Sizes(()))
    assert trace_files.loaded(record, Sizes(())) == code
    monkeypatch.setattr(trace_files, "_PACKAGE", Path("/another/place"))
    again = trace_files.loaded(record, Sizes(()))
    files = {c.co_filename for c in (again, *again.co_consts) if isinstance(c, types.CodeType)}
    assert files == {"/another/place/_core/host/space.py:kernel"}


PROGRAM = """
import sys
import torchgrad_jax as torch

from torchgrad_jax._core.jax import own_kernels

made = []
make = own_kernels.jax.make_jaxpr
own_kernels.jax.make_jaxpr = lambda fn, **more: made.append(fn.__name__) or make(fn, **more)
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.GELU(), torch.nn.Linear(16, 3))
optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
x, y = torch.randn(12, 8), torch.arange(12) % 3
for _ in range(3):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
print(loss.item().hex(), len(made))
"""


def test_two_processes(tmp_path):
    env = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")} | {"TORCHGRAD_JAX_CACHE": str(tmp_path)}
    found = [
        subprocess.run([sys.executable, "-c", PROGRAM], env=env, check=True, capture_output=True, text=True).stdout
        for _ in range(2)
    ]
    (first, traced), (second, again) = (line.split() for line in found)
    assert first == second
    assert int(again) < int(traced) / 3
