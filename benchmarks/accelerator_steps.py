"""What `benchmarks.accelerator` measures: each case for tensors, and written by hand for `jax.jit`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import torchgrad_jax as tg

Step = Callable[[], object]
RATE = 1e-3
HIGHEST = jax.lax.Precision.HIGHEST


@dataclass(frozen=True)
class Case:
    """One row: builders of a step, which ends when its result is there."""

    name: str
    build: Callable[[Any, bool], Step]
    jax: Callable[[bool], Step] | None = None
    rounds: int = 6
    inner: int = 2
    beside_torch: bool = True


def numbers(*shape: int, scale: float = 0.05) -> np.ndarray:
    """The same numbers each time."""
    return (np.random.RandomState(len(shape)).randn(*shape) * scale).astype(np.float32)


def wait(t: Any, x: Any) -> Any:
    """A tensor whose values are there."""
    if t is tg:
        x.detach().__jax_array__().block_until_ready()
    elif x.is_cuda:
        t.cuda.synchronize()
    return x


def tensors(t: Any, arrays: dict[str, np.ndarray], dtype: str) -> dict[str, Any]:
    """Arrays as tensors on the device."""
    kind = getattr(t, dtype)
    made = {k: t.tensor(a) for k, a in arrays.items()}
    return {k: x.to(kind) if x.is_floating_point() else x for k, x in made.items()}


# --- eager ----------------------------------------------------------------------------------------


def eager(n: Callable[[bool], int], backward: bool) -> Callable[[Any, bool], Step]:
    """Twenty operators, one after the other, on `n` elements."""

    def build(t: Any, big: bool) -> Step:
        x = t.ones(n(big), requires_grad=backward)

        def step() -> object:
            z = x
            for _ in range(10):
                z = (z * 1.01).tanh()
            if not backward:
                return wait(t, z)
            x.grad = None
            z.sum().backward()
            return wait(t, x.grad)

        return step

    return build


def eager_jax(n: Callable[[bool], int], backward: bool) -> Callable[[bool], Step]:
    """The same operators, each one jitted by itself; where a gradient is asked for, all in one program."""

    def build(big: bool) -> Step:
        scale, tanh = jax.jit(lambda z: z * 1.01), jax.jit(jnp.tanh)
        x = jnp.ones(n(big), jnp.float32)

        def forward(z: Any) -> Any:
            for _ in range(10):
                z = tanh(scale(z))
            return z

        whole = jax.jit(jax.grad(lambda z: forward(z).sum()))
        run = whole if backward else forward
        return lambda: run(x).block_until_ready()

    return build


# --- compiled steps -------------------------------------------------------------------------------

Loss = Callable[[Any, dict[str, Any], Any, Any], Any]


def training(arrays: Any, loss: Loss, dtype: str, compiled: bool = True) -> Callable[..., Step]:
    """A step of SGD: ours compiled, torch eager (its compiler needs another one for C++ or Triton)."""

    def build(t: Any, big: bool) -> Step:
        params, batch = arrays(big)
        p = {k: v.requires_grad_() for k, v in tensors(t, params, dtype).items()}
        x, y = tensors(t, batch, dtype).values()
        opt = t.optim.SGD(p.values(), lr=RATE)

        def step(x: Any, y: Any) -> Any:
            opt.zero_grad()
            value = loss(t, p, x, y)
            value.backward()
            opt.step()
            return value

        run = t.compile(step) if t is tg and compiled else step
        return lambda: run(x, y).item()

    return build


def training_jax(arrays: Any, loss: Any, dtype: str) -> Callable[[bool], Step]:
    """The same, written for JAX: parameters are overwritten, products of float32 are exact."""

    def build(big: bool) -> Step:
        run, p, x, y = jax_step(arrays, loss, dtype, big)
        held = [p]

        def call() -> object:
            value, held[0] = run(held[0], x, y)
            return float(value)

        return call

    return build


def jax_step(arrays: Any, loss: Any, dtype: str, big: bool) -> tuple[Any, Any, Any, Any]:
    """The jitted step and its first arguments."""
    params, batch = arrays(big)

    def given(a: np.ndarray) -> Any:
        return jnp.asarray(a).astype(dtype) if a.dtype.kind == "f" else jnp.asarray(a)

    def step(p: Any, x: Any, y: Any) -> Any:
        value, g = jax.value_and_grad(loss)(p, x, y)
        return value, jax.tree.map(lambda p, g: p - jnp.asarray(RATE, p.dtype) * g, p, g)

    p = {k: given(a) for k, a in params.items()}
    x, y = map(given, batch.values())
    return jax.jit(step, donate_argnums=0), p, x, y


def cross_entropy_jax(logits: Any, y: Any) -> Any:
    """In float32, as here."""
    logp = jax.nn.log_softmax(logits.astype(jnp.float32))
    return -jnp.take_along_axis(logp, y[:, None], 1).mean()


def mlp_arrays(big: bool) -> Any:
    """Three layers."""
    n, rows = (4096, 2048) if big else (256, 64)
    params = {"a": numbers(n, n), "b": numbers(n), "c": numbers(n, n), "d": numbers(n), "e": numbers(n, 10)}
    return params, {"x": numbers(rows, n, scale=1), "y": np.arange(rows) % 10}


def mlp(t: Any, p: Any, x: Any, y: Any) -> Any:
    h = (x @ p["a"] + p["b"]).relu()
    h = (h @ p["c"] + p["d"]).relu()
    return t.nn.functional.cross_entropy((h @ p["e"]).float(), y)


def mlp_jax(p: Any, x: Any, y: Any) -> Any:
    def dot(x: Any, y: Any) -> Any:
        return jnp.matmul(x, y, precision=HIGHEST)

    h = jax.nn.relu(dot(x, p["a"]) + p["b"][None])
    h = jax.nn.relu(dot(h, p["c"]) + p["d"][None])
    return cross_entropy_jax(dot(h, p["e"]), y)


def convolution_arrays(big: bool) -> Any:
    """Two convolutions and a layer on what is left."""
    rows, side, width = (256, 64, 64) if big else (8, 16, 16)
    params = {"a": numbers(width, 3, 3, 3), "b": numbers(width, width, 3, 3), "c": numbers(width, 10)}
    return params, {"x": numbers(rows, 3, side, side, scale=1), "y": np.arange(rows) % 10}


def convolution(t: Any, p: Any, x: Any, y: Any) -> Any:
    F = t.nn.functional
    h = F.conv2d(x, p["a"], padding=1).relu()
    h = F.conv2d(h, p["b"], stride=2, padding=1).relu()
    return F.cross_entropy((h.mean((2, 3)) @ p["c"]).float(), y)


def convolution_jax(p: Any, x: Any, y: Any) -> Any:
    def conv(x: Any, w: Any, stride: int) -> Any:
        return jax.lax.conv_general_dilated(x, w, (stride, stride), [(1, 1), (1, 1)], precision=HIGHEST)

    h = jax.nn.relu(conv(x, p["a"], 1))
    h = jax.nn.relu(conv(h, p["b"], 2))
    return cross_entropy_jax(jnp.matmul(h.mean((2, 3)), p["c"], precision=HIGHEST), y)


HEADS = 8


def transformer_arrays(big: bool) -> Any:
    """Two blocks."""
    rows, length, width, tokens = (16, 512, 512, 8192) if big else (4, 32, 64, 128)
    params: dict[str, np.ndarray] = {"embed": numbers(tokens, width), "head": numbers(width, tokens)}
    for i in range(2):
        params |= {
            f"{i}.qkv": numbers(width, 3 * width),
            f"{i}.out": numbers(width, width),
            f"{i}.up": numbers(width, 4 * width),
            f"{i}.down": numbers(4 * width, width),
            f"{i}.n1": np.ones(width, np.float32),
            f"{i}.n2": np.ones(width, np.float32),
        }
    rs = np.random.RandomState(0)
    return params, {"x": rs.randint(0, tokens, (rows, length)), "y": rs.randint(0, tokens, rows * length)}


def transformer(t: Any, p: Any, x: Any, y: Any) -> Any:
    F = t.nn.functional
    h = F.embedding(x, p["embed"])
    rows, length, width = h.shape
    for i in range(2):
        n = F.layer_norm(h, (width,), p[f"{i}.n1"])
        parts = (n @ p[f"{i}.qkv"]).view(rows, length, 3, HEADS, width // HEADS)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + a.transpose(1, 2).reshape(rows, length, width) @ p[f"{i}.out"]
        n = F.layer_norm(h, (width,), p[f"{i}.n2"])
        h = h + F.gelu(n @ p[f"{i}.up"]) @ p[f"{i}.down"]
    return F.cross_entropy((h @ p["head"]).float().flatten(0, 1), y)


def attention_jax(q: Any, k: Any, v: Any) -> Any:
    """Causal attention of (rows, heads, length, width): scores and softmax in float32."""
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k, precision=HIGHEST, preferred_element_type=jnp.float32)
    seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))[None, None]
    weights = jax.nn.softmax(jnp.where(seen, scores / np.float32(np.sqrt(q.shape[-1])), -jnp.inf))
    return jnp.matmul(weights.astype(v.dtype), v, precision=HIGHEST)


def transformer_jax(p: Any, x: Any, y: Any) -> Any:
    def dot(x: Any, y: Any) -> Any:
        return jnp.dot(x, y, precision=HIGHEST)

    def norm(h: Any, w: Any) -> Any:
        f = h.astype(jnp.float32)
        mean, var = f.mean(-1, keepdims=True), f.var(-1, keepdims=True)
        return ((f - mean) * jax.lax.rsqrt(var + 1e-5)).astype(h.dtype) * w[None, None]

    h = p["embed"][x]
    rows, length, width = h.shape
    for i in range(2):
        parts = dot(norm(h, p[f"{i}.n1"]), p[f"{i}.qkv"]).reshape(rows, length, 3, HEADS, -1)
        q, k, v = parts.transpose(2, 0, 3, 1, 4)
        a = attention_jax(q, k, v).swapaxes(1, 2).reshape(rows, length, width)
        h = h + dot(a, p[f"{i}.out"])
        up = jax.nn.gelu(dot(norm(h, p[f"{i}.n2"]), p[f"{i}.up"]), approximate=False)
        h = h + dot(up, p[f"{i}.down"])
    return cross_entropy_jax(dot(h, p["head"]).reshape(rows * length, -1), y)


# --- attention, transfers -------------------------------------------------------------------------


def _attention_shape(big: bool) -> tuple[int, ...]:
    return (4, 16, 2048, 64) if big else (1, 4, 256, 32)


def attention(dtype: str) -> Callable[[Any, bool], Step]:
    """Causal attention, forward and backward, compiled."""

    def build(t: Any, big: bool) -> Step:
        q, k, v = (t.tensor(numbers(*_attention_shape(big), scale=1)).to(getattr(t, dtype)) for _ in range(3))

        def f(q: Any, k: Any, v: Any) -> Any:
            q = q.detach().requires_grad_()
            out = t.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return t.autograd.grad(out.float().sum(), q)[0]

        run = t.compile(f) if t is tg else f
        return lambda: wait(t, run(q, k, v))

    return build


def attention_of_cudnn(q: Any, k: Any, v: Any) -> Any:
    """The same by the kernel that JAX has where it finds CUDA."""
    q, k, v = (jnp.swapaxes(a, 1, 2) for a in (q, k, v))
    out = jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation="cudnn")
    return jnp.swapaxes(out, 1, 2)


def attention_by_hand(dtype: str) -> Callable[[bool], Step]:
    """The same by hand."""

    def build(big: bool) -> Step:
        q, k, v = (jnp.asarray(numbers(*_attention_shape(big), scale=1)).astype(dtype) for _ in range(3))
        by_kernel = dtype == "bfloat16" and tg.cuda.is_available()
        f = attention_of_cudnn if by_kernel else attention_jax
        run = jax.jit(jax.grad(lambda q, k, v: f(q, k, v).astype(jnp.float32).sum()))
        return lambda: run(q, k, v).block_until_ready()

    return build


def _elements(big: bool) -> int:
    return 1 << 26 if big else 1 << 20


def send(t: Any, big: bool) -> Step:
    """From the host to the device."""
    x = t.ones(_elements(big), device="cpu")
    there = t.empty(0).device
    return lambda: wait(t, x.to(there, copy=True))


def send_jax(big: bool) -> Step:
    """The same by hand."""
    host = np.ones(_elements(big), np.float32)
    return lambda: jnp.array(host).block_until_ready()


def fetch(t: Any, big: bool) -> Step:
    """From the device to the host, as NumPy has it."""
    x = t.ones(_elements(big)) * 2
    return lambda: x.to("cpu", copy=True).numpy()


def fetch_jax(big: bool) -> Step:
    """The same by hand."""
    x = jnp.ones(_elements(big), jnp.float32)
    return lambda: np.array(x + 0)


def scalars(t: Any, big: bool) -> Step:
    """A number that the host waits for."""
    x = t.ones(16)
    return lambda: (x * 2).sum().item()


def scalars_jax(big: bool) -> Step:
    """The same by hand, in one program for each operator."""
    double, total = jax.jit(lambda x: x * 2), jax.jit(jnp.sum)
    x = jnp.ones(16, jnp.float32)
    return lambda: float(total(double(x)))


def small(big: bool) -> int:
    """Elements of a small tensor."""
    return 64


def _steps() -> Iterator[Case]:
    kinds: dict[str, tuple[Any, Any, Any]] = {
        "MLP": (mlp_arrays, mlp, mlp_jax),
        "convolution": (convolution_arrays, convolution, convolution_jax),
        "transformer": (transformer_arrays, transformer, transformer_jax),
    }
    for name, (arrays, ours, by_hand) in kinds.items():
        for dtype in ("float32", "bfloat16"):
            yield Case(
                f"compiled {name} step, {dtype}", training(arrays, ours, dtype), training_jax(arrays, by_hand, dtype)
            )
    yield Case("eager MLP step, float32", training(mlp_arrays, mlp, "float32", compiled=False))


CASES = [
    Case("20 eager operators, small", eager(small, False), eager_jax(small, False)),
    Case("20 eager operators, large", eager(_elements, False), eager_jax(_elements, False), inner=1),
    Case("20 eager operators and backward, small", eager(small, True), eager_jax(small, True)),
    Case("20 eager operators and backward, large", eager(_elements, True), eager_jax(_elements, True), inner=1),
    *_steps(),
    *[
        Case(f"attention, forward and backward, {d}", attention(d), attention_by_hand(d))
        for d in ("float32", "bfloat16")
    ],
    Case("host to device", send, send_jax),
    Case("device to host", fetch, fetch_jax),
    Case("two operators and item()", scalars, scalars_jax, inner=10),
]


def programs() -> Iterator[tuple[str, Any, Any]]:
    """Compiled steps of ours and by hand, to be looked at; small ones."""
    for name, arrays, ours, by_hand in (
        ("MLP", mlp_arrays, mlp, mlp_jax),
        ("convolution", convolution_arrays, convolution, convolution_jax),
        ("transformer", transformer_arrays, transformer, transformer_jax),
    ):
        params, batch = arrays(False)
        p = {k: v.requires_grad_() for k, v in tensors(tg, params, "float32").items()}
        x, y = tensors(tg, batch, "float32").values()
        opt = tg.optim.SGD(p.values(), lr=RATE)

        @tg.compile
        def step(x: Any, y: Any, p: Any = p, opt: Any = opt, ours: Any = ours) -> Any:
            opt.zero_grad()
            value = ours(tg, p, x, y)
            value.backward()
            opt.step()
            return value

        run, *given = jax_step(arrays, by_hand, "float32", False)
        yield name, step.lower(x, y).compile(), run.lower(*given).compile()
