"""Random tensors: generators, their state, and factories that draw from them.

The numbers come from the host, from streams that are torch's CPU streams to the bit, whatever device
the tensor then lives on. Each device has a default generator of its own, as in torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .._core.arrays import devices, dtypes, shapes
from .._core.arrays.devices import CPU
from .._core.arrays.formats import preserve_format
from .._core.arrays.meta import Meta, meta
from .._core.arrays.numbers import check_fits
from .._core.arrays.transfer import place
from .._core.errors import messages as errors
from .._core.random import rng
from .._core.random.generator import OWN, Generator as HostGenerator
from .._core.random.keys import KeyStream
from .._core.random.rounding import cast, fma64
from .._core.signals import contextmanager, restore
from .._core.state import INFERENCE, MODES
from .._engine.entry.arguments import as_int
from .._engine.entry.bind import composite
from .._engine.graph.record import no_grad
from .._engine.memory.concrete import concrete
from .._engine.memory.derivative_stops import under_jax
from .._engine.memory.strided import read
from .._engine.memory.tensor import Tensor, make, mark_inference
from .arguments import check_shape, device_of, factory, integer, options, shape_from, shape_of, unmatched, wrong
from .fresh import beside, fresh, from_host, into, like, spread_like

# --- generators -----------------------------------------------------------------------------------


class Generator(HostGenerator):
    """A source of random numbers: ``Generator(device="cpu")``.

    Example:
        >>> Generator().manual_seed(3).initial_seed()
        3
    """

    __slots__ = ()

    def __init__(self, device: Any = "cpu") -> None:
        dev = device_of("Generator", device)
        if dev.type == "meta":
            raise RuntimeError("META device type not an accelerator.")
        devices.to_jax(dev)
        super().__init__(dev)

    def get_state(self) -> Tensor:
        """The state as a tensor of bytes."""
        return from_host(super().get_state(), devices.CPU)

    def set_state(self, new_state: Any) -> Generator:
        """Continue from a state that `get_state` returned."""
        if isinstance(new_state, Tensor):
            new_state = concrete(new_state)
        elif not isinstance(new_state, np.ndarray):
            raise TypeError(f"expected a torch.ByteTensor, but got {type(new_state).__name__}")
        super().set_state(new_state)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """What torch writes of a generator: its device, its seed, an offset that only GPUs have, and its state."""
        return type(self), (self.device,), (self.initial_seed(), None, self.get_state())

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.set_state(state[-1])


default_generator: Any = rng.default_generator
# Draws below this layer use the same object, so its class is changed instead of the object.
default_generator.__class__ = Generator
default_generator.device = devices.CPU
_BY_DEVICE: dict[devices.device, Any] = {devices.CPU: default_generator}
_last_seed: list[int] = []


def default_for(dev: devices.device) -> Any:
    """The default generator of a device, made on first use."""
    if OWN.generator is not None:
        return OWN.generator
    found = _BY_DEVICE.get(dev)
    if found is None:
        found = Generator(dev)
        if _last_seed:
            found.manual_seed(_last_seed[0])
        else:
            found.seed()
        _BY_DEVICE[dev] = found
    return found


def inside_trace() -> bool:
    """Whether draws belong to a program, or take their numbers from a key of JAX: then parameters may be traced."""
    return not MODES.run.at_once or MODES.keys is not None


def _from_key() -> bool:
    """Return whether the innermost run takes its numbers from a key, and ignores `randomness`."""
    if MODES.keys is None:
        return False
    run = MODES.run
    if run.may_write_outside and not run.ours(MODES.keys.key):
        raise RuntimeError(
            "torch.compile: numbers of a compiled function do not come from a key; call the function without compile "
            "where rngs is given (jax.jit compiles it there)"
        )
    return run.batch is None


def check_allowed(generator: Any = None) -> None:
    """Refuse to draw where the numbers would be the same for all examples, or each time a trace is run."""
    if generator is None and MODES.keys is not None and _from_key():
        return
    if MODES.run.randomness == "error":
        batched = MODES.run.batch is not None
        raise RuntimeError(errors.BATCHED_RANDOM if batched else errors.FROZEN_RANDOM)
    if MODES.traced and under_jax(frozen=True):
        raise RuntimeError(errors.FROZEN_RANDOM)


def chosen(fn: str, generator: Any, dev: devices.device) -> Any:
    """The generator that a call draws from."""
    check_allowed(generator)
    if dev.type == "meta":  # the meta device draws no numbers
        return default_generator
    if generator is None:
        return default_for(dev) if MODES.keys is None else MODES.keys
    if generator.__class__ is KeyStream:
        return generator
    if not isinstance(generator, Generator):
        raise wrong(fn, "generator", "torch.Generator", generator)
    if generator.device is not dev:
        raise RuntimeError(f"Expected a '{dev.type}' device type for generator but found '{generator.device.type}'")
    return generator


def _seed_all(seed: int) -> None:
    for gen in _BY_DEVICE.values():
        gen.manual_seed(seed)
    _last_seed[:] = [seed]


@factory
def manual_seed(seed: Any) -> Any:
    """Restart the default generators of all devices at a seed; returns that of the CPU.

    Args:
        seed: from -2**63 to 2**64 - 1.
    """
    seed = int(seed)
    gen: Any = rng.current()
    gen.manual_seed(seed)
    if gen is default_generator:
        _seed_all(seed)
    return gen


@factory
def seed() -> int:
    """Restart the default generators at an unpredictable seed and return it."""
    gen = rng.current()
    value = gen.seed()
    if gen is default_generator:
        _seed_all(value)
    return value


@factory
def initial_seed() -> int:
    """The seed that the CPU's default generator started at."""
    return rng.current().initial_seed()


@factory
def get_rng_state() -> Tensor:
    """The state of the CPU's default generator."""
    return rng.current().get_state()  # type: ignore[return-value]


@factory
def set_rng_state(new_state: Any) -> None:
    """Restore a state of the CPU's default generator."""
    rng.current().set_state(new_state)


@contextmanager
def fork_rng(
    devices: Any = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "cuda",
) -> Iterator[None]:
    """Put the states of the default generators back at the end of a block.

    Args:
        devices: accelerators whose generators are restored too; all that were used where None.
        enabled: whether to do anything at all.
        device_type: the type of those accelerators.
    """
    if not enabled:
        yield
        return
    chosen_devices = None if devices is None else {device_of("fork_rng", d) for d in devices}
    used = _BY_DEVICE if OWN.generator is None else {CPU: OWN.generator}
    forked = [gen for dev, gen in used.items() if dev.type == "cpu" or chosen_devices is None or dev in chosen_devices]
    states: list[Any] = []

    def keep() -> None:
        states[:] = [gen.snapshot() for gen in forked]

    def put_back() -> None:
        for gen, state in zip(forked, states):
            gen.resume(state)

    rng.among_draws(keep)
    try:
        yield
    finally:
        restore(rng.among_draws, put_back)


# --- what is drawn, laid out as torch lays it out -------------------------------------------------

_FLOATS = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
_INEXACT = (*_FLOATS, dtypes.complex64, dtypes.complex128)
Draw = Callable[[tuple[int, ...], np.dtype, Any], np.ndarray]


def memory_order(m: Meta) -> tuple[int, ...]:
    """The dimensions from the outermost to the innermost in memory."""
    big = sorted((d for d in range(m.ndim) if m.shape[d] != 1), key=lambda d: -m.strides[d])
    return (*[d for d in range(m.ndim) if m.shape[d] == 1], *big)


def laid(m: Meta, flat: np.ndarray) -> np.ndarray:
    """Numbers in the order in which they were drawn as an array of the shape of `m`.

    torch fills a tensor in the order of its memory, not of its indices.
    """
    if m.contiguous:
        return flat.reshape(m.shape)
    order = memory_order(m)
    inverse = tuple(int(i) for i in np.argsort(order))
    if not isinstance(flat, np.ndarray):  # drawn from a key
        return flat.reshape([m.shape[d] for d in order]).transpose(inverse)
    return np.ascontiguousarray(flat.reshape([m.shape[d] for d in order]).transpose(inverse)).reshape(m.shape)


def refuse(kernel: str, dt: dtypes.dtype, ok: tuple[dtypes.dtype, ...]) -> None:
    """torch's complaint about a dtype that a kernel does not have."""
    if dt not in ok:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{dtypes.scalar_type_name(dt)}'")


def uniforms(m: Meta, gen: Any, low: float = 0.0, high: float = 1.0) -> np.ndarray:
    """Uniform numbers for a tensor of this meta."""
    refuse("check_uniform_bounds", m.dtype, _INEXACT)
    return laid(m, rng.uniform((m.numel,), m.dtype.np, low, high, generator=gen))


def normals(m: Meta, gen: Any, mean: float = 0.0, std: float = 1.0) -> np.ndarray:
    """Normal numbers for a tensor of this meta.

    torch makes sixteen numbers at a time only where the memory is row-major and has no gaps.
    """
    refuse("normal_kernel_cpu", m.dtype, _INEXACT)
    if gen.__class__ is KeyStream:
        return laid(m, rng.normal((m.numel,), m.dtype.np, mean, std, generator=gen))
    if m.contiguous:
        return rng.normal(m.shape, m.dtype.np, mean, std, generator=gen)
    if not std >= 0.0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    n, dt = m.numel, m.dtype.np
    if m.dtype.is_complex:
        n, std, dt = 2 * n, std / math.sqrt(2.0), m.dtype.to_real().np
    drawn = gen.serial_normals(n)
    if (mean, std) != (0.0, 1.0):
        drawn = fma64(drawn, std, mean)
    return laid(m, cast(drawn, dt).view(m.dtype.np))


def draw(
    m: Meta, values: Callable[[Meta], np.ndarray], requires_grad: bool = False, batch: Meta | None = None
) -> Tensor:
    """A new leaf with numbers drawn for its meta; inside of `vmap` as its `randomness` says.

    Where examples are to differ, the numbers for all of them are drawn outside, as in torch, and enter as one tensor.
    torch fills memory in the order of its addresses; `batch` says how the examples lie in it, if not one after another.
    """
    check_allowed()
    if MODES.run.at_once or _from_key():
        return fresh(place(values, m), _dense(m), requires_grad)
    run = MODES.run
    if run.may_write_outside:  # each run of the compiled function draws new numbers, in this order
        t = make(run.uses.draw(m, lambda: place(values, m)), m)
    elif run.randomness == "same":
        with run.outside():
            t = draw(m, values)
    else:
        if batch is None:
            strides = (m.numel, *m.strides) if m.dense else None
            batch = meta((run.batch.size, *m.shape), m.dtype, m.device, strides)
        with run.outside():
            rows = draw(batch, values)
        t = make(run.capture(rows, m, mapped=True), m)
        if MODES.bits & INFERENCE:
            mark_inference(t)
    if requires_grad:
        t.requires_grad_(True)
    return t


def batch_like(input: Tensor, m: Meta, memory_format: Any = None) -> Meta | None:
    """The `batch` of `draw` for a tensor made like `input`: how the batch of such tensors lies in memory."""
    run = MODES.run
    if run.at_once or run.batch is None or not run.inside(input):
        return None
    if memory_format not in (None, preserve_format):
        return None
    whole = run.batch.memory_meta(input)
    strides = shapes.preserve_strides(whole.shape, whole.strides)
    return meta(whole.shape, m.dtype, m.device, tuple(strides))


def draw_elsewhere(tensors: tuple[Tensor, ...], again: Callable[..., Tensor]) -> Tensor | None:
    """A draw whose parameters are tensors from outside of the surrounding `vmap`; None where some are from inside."""
    if _from_key():
        return None
    run = MODES.run
    if run.may_write_outside:  # the next run has other values
        return None
    check_allowed()
    return None if run.touches(tensors) else _drawn_outside(tensors, again)


def numbers_elsewhere(tensors: tuple[Tensor, ...], again: Callable[..., Tensor], whole: bool = False) -> Tensor | None:
    """The numbers of a draw whose parameters are computed inside of `vmap`; None where it depends on unknown values.

    They are known where they are the same for all examples. Those of a whole batch are computed now
    if they are wanted, for a distribution that draws as many words as they say.
    """
    if _from_key():
        return None
    run = MODES.run
    if run.may_write_outside:
        return None
    apart = [without_derivatives(t) for t in tensors]
    given = [run.for_all(t) if run.inside(t) else t for t in apart]
    with no_grad():
        if all(t is not None for t in given):
            return _drawn_outside(given, again)
        if run.randomness == "same":
            raise RuntimeError(errors.BATCHED_SAME)
        if not whole or any(run.tape is None for run in MODES.runs):
            return None
        if not all(run.tape.holds(t._st.array) for t in apart if run.inside(t)):
            return None
        rows = iter(run.whole([t for t in apart if run.inside(t)]))
        with run.outside():
            batches = [next(rows) if run.inside(t) else _repeated(t, run) for t in apart]
            return _entered(again(*batches), run)


def draw_inside(
    tensors: tuple[Tensor, ...],
    again: Callable[..., Tensor],
    unknown: Callable[[], Tensor],
    result: Callable[[Tensor], Tensor],
) -> Tensor:
    """A draw inside of `vmap` that takes as many words as its parameters say.

    `unknown` draws them where the parameters are not known yet. `result` gives the numbers their derivatives here, as a
    transform inside of the `vmap` may take them by parameters from outside of it.
    """
    numbers = draw_elsewhere(tuple(without_derivatives(t) for t in tensors), again)
    if numbers is None:
        numbers = numbers_elsewhere(tensors, again, whole=True)
    return result(unknown() if numbers is None else numbers)


def without_derivatives(t: Tensor) -> Tensor:
    """A tensor with the same values outside of every graph, and without a tangent."""
    return make(read(t), _dense(t._m))


def _dense(m: Meta) -> Meta:
    """The same tensor without gaps in its memory."""
    return m if m.dense else meta(m.shape, m.dtype, m.device)


def _drawn_outside(tensors: Sequence[Any], again: Callable[..., Tensor]) -> Tensor:
    run = MODES.run
    with run.outside():
        if run.randomness == "same":
            return again(*tensors)
        return _entered(again(*[_repeated(t, run) for t in tensors]), run)


def _repeated(t: Tensor, run: Any) -> Tensor:
    return t.expand(run.batch.size, *t._m.shape)


def _entered(rows: Tensor, run: Any) -> Tensor:
    """The value for one example of what was drawn for all examples."""
    m = rows._m
    one = meta(m.shape[1:], m.dtype, m.device)
    return make(run.capture(rows, one, mapped=True), one)


# --- factories ------------------------------------------------------------------------------------


def _drawn(fn: str, values: Callable[[Meta, Any], np.ndarray]) -> Any:
    """``fn(*size)`` and ``fn_like(input)`` for one distribution."""

    def sized(
        *size: Any,
        generator: Any = None,
        out: Any = None,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: Any = False,
        requires_grad: Any = False,
        **named: Any,
    ) -> Tensor:
        shape = shape_from(fn, size, named)
        dt, dev = options(fn, dtype, layout, device, pin_memory, requires_grad)
        if out is not None:
            return _into(fn, out, shape, dt, device, requires_grad, generator, values)
        m = meta(shape, dt or dtypes.get_default_dtype(), dev)
        check_shape(shape, m.dtype.itemsize)
        gen = chosen(fn, generator, dev)
        return draw(m, lambda m: values(m, gen), requires_grad)

    def alike(
        input: Any,
        *,
        generator: Any = None,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: Any = False,
        requires_grad: Any = False,
        memory_format: Any = None,
    ) -> Tensor:
        m = like(fn + "_like", input, dtype, layout, device, pin_memory, requires_grad, memory_format)
        gen = chosen(fn + "_like", generator, m.device)
        batch = batch_like(input, m, memory_format)
        out = draw(m, lambda m: values(m, gen), requires_grad, batch)
        return spread_like(input, device, beside(input, out))

    sized.__name__, alike.__name__ = fn, fn + "_like"
    alike.__qualname__ = alike.__name__
    kind = {"rand": "uniform numbers in [0, 1)", "randn": "standard normal numbers"}[fn]
    sized.__doc__ = f"A tensor of {kind}."
    alike.__doc__ = f"As many {kind} as another tensor has elements, laid out like it."
    return factory(sized), composite(alike, method=False)


def _into(
    fn: str, out: Any, shape: Any, dt: Any, device: Any, requires_grad: bool, generator: Any, values: Any
) -> Tensor:
    """Draw into an ``out=`` tensor, which keeps its order in memory if it has the right shape."""
    if not isinstance(out, Tensor):
        raise wrong(fn, "out", "Tensor", out)
    m = out._m if out._m.shape == shape else meta(shape, out._m.dtype, out._m.device)
    gen = chosen(fn, generator, m.device)
    if not MODES.run.at_once:
        raise RuntimeError(errors.BATCHED_OUT)
    return into(fn, out, shape, dt, device, requires_grad, lambda d, v: place(lambda m: values(m, gen), m))


rand, rand_like = _drawn("rand", uniforms)
randn, randn_like = _drawn("randn", normals)


def check_integers(dt: dtypes.dtype) -> None:
    """Refuse dtypes that hold no range of integers."""
    if dt.is_complex:
        raise RuntimeError("check_random_bounds handles only integral, floating-point and boolean types")
    if dt in dtypes.FLOAT8:
        refuse("random_update_from_to", dt, ())


def integers(m: Meta, gen: Any, low: int, high: int | None) -> np.ndarray:
    """Integers in [low, high) for a tensor of this meta."""
    check_integers(m.dtype)
    return laid(m, rng.randint(low, high, (m.numel,), m.dtype.np, generator=gen))


@factory
def randint(
    *args: Any,
    generator: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = False,
    requires_grad: Any = False,
    **named: Any,
) -> Tensor:
    """Integers in [low, high): ``randint(high, size)`` or ``randint(low, high, size)``."""
    low, high, size = _randint_arguments(args, named, generator)
    shape = shape_of("randint", size, len(args))
    dt, dev = options("randint", dtype, layout, device, pin_memory, requires_grad)

    def values(m: Meta, gen: Any) -> np.ndarray:
        return integers(m, gen, low, high)

    if out is not None:
        return _into("randint", out, shape, dt, device, requires_grad, generator, values)
    m = meta(shape, dt or dtypes.int64, dev)
    check_shape(shape, m.dtype.itemsize)
    gen = chosen("randint", generator, dev)
    return draw(m, lambda m: values(m, gen), requires_grad)


def _randint_arguments(args: tuple[Any, ...], named: dict[str, Any], generator: Any) -> tuple[int, int, Any]:
    if not named and generator is None and [a.__class__ for a in args[:-1]] in ([int], [int, int]):
        low, high = (0, args[0]) if len(args) == 2 else args[:2]
        if isinstance(args[-1], list | tuple):
            return low, high, args[-1]
    names = ("high", "size") if len(args) + len(named) == 2 else ("low", "high", "size")
    free = [n for n in names if n not in named]
    found = {**dict(zip(free, args)), **named}
    if len(args) + len(named) != len(names) or set(found) != set(names):
        raise unmatched("randint")
    ends = [as_int(found.get("low", 0)), as_int(found["high"])]
    if None in ends or not (generator is None or isinstance(generator, Generator)):
        raise unmatched("randint")
    if len(names) == 3 and not isinstance(found["size"], list | tuple):
        raise unmatched("randint")
    return ends[0], ends[1], found["size"]  # type: ignore[return-value]


@composite(method=False)
def randint_like(
    input: Any,
    *args: Any,
    generator: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = False,
    requires_grad: Any = False,
    memory_format: Any = None,
    **named: Any,
) -> Tensor:
    """Integers in [low, high), as many as another tensor has elements and laid out like it."""
    names = ("high",) if len(args) + len(named) == 1 else ("low", "high")
    found = {**dict(zip([n for n in names if n not in named], args)), **named}
    ends = [as_int(found.get("low", 0)), as_int(found.get("high"))] if set(found) == set(names) else [None]
    if None in ends or len(args) + len(named) != len(names):
        raise unmatched("randint_like")
    m = like("randint_like", input, dtype, layout, device, pin_memory, requires_grad, memory_format)
    gen = chosen("randint_like", generator, m.device)
    batch = batch_like(input, m, memory_format)
    out = draw(m, lambda m: integers(m, gen, *ends), requires_grad, batch)  # type: ignore[arg-type]
    return spread_like(input, device, out)


@factory
def randperm(
    n: Any,
    *,
    generator: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = False,
    requires_grad: Any = False,
) -> Tensor:
    """The integers from 0 to n - 1 in random order."""
    count = integer("randperm", "n", n, 1)
    dt, dev = options("randperm", dtype, layout, device, pin_memory, requires_grad)
    check_shape((count,))

    def values(m: Meta, gen: Any) -> np.ndarray:
        _check_permutation(count, m.dtype)
        if not m.numel:
            return np.zeros(m.shape, m.dtype.np)
        rows = [rng.randperm(count, m.dtype.np, generator=gen) for _ in range(math.prod(m.shape[:-1]))]
        drawn = rng.joined(rows or [np.zeros(0, m.dtype.np)])
        batch = m.shape[:-1]
        # torch draws one by one: for each example of the innermost `vmap`, those of the outer ones.
        if len(batch) > 1:
            drawn = drawn.reshape(*batch[::-1], count)
            drawn = drawn.transpose(*range(len(batch))[::-1], len(batch)).reshape(-1)
        return laid(m, drawn)

    if out is not None:
        return _into("randperm", out, (count,), dt, device, requires_grad, generator, values)
    m = meta((count,), dt or dtypes.int64, dev)
    gen = chosen("randperm", generator, dev)
    return draw(m, lambda m: values(m, gen), requires_grad)


def _check_permutation(n: int, dt: dtypes.dtype) -> None:
    if dt.category in (dtypes.BOOL, dtypes.COMPLEX) or dt in dtypes.FLOAT8:
        refuse("randperm", dt, ())
    if dt is dtypes.float16 and n > 2049:
        raise RuntimeError("n cannot be greater than 2049 for Half type.")
    if dt.category == dtypes.INTEGRAL and n:
        check_fits(n - 1, dt)
