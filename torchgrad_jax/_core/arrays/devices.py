"""Device objects and their map to JAX devices."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from typing import Any

import jax

from ..errors.messages import immutable
from ..signals import uninterrupted
from ..state import MODES

_PLATFORMS = {"cpu": "cpu", "cuda": "gpu", "tpu": "tpu", "mps": "METAL", "xla": None, "meta": None}
_TYPES = {"cpu": "cpu", "gpu": "cuda", "cuda": "cuda", "rocm": "cuda", "tpu": "tpu", "METAL": "mps"}
_KNOWN = (
    "cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, "
    "mps, meta, hpu, mtia, privateuseone"
)


def give_threads_to_many_cpu_devices() -> None:
    """Tell XLA to have more threads than programs over many devices of a CPU can block at once.

    XLA's pool has one thread for each device or core. A program with a collective blocks up to one for each device
    while it waits for the others, and a start of a program blocks one where a device has 32 programs ahead of it. With
    one thread per device nobody may be left to run what all wait for, and XLA ends the process after 40 seconds.
    """
    devices = _cpu_devices_asked_for()
    if devices > 1:
        os.environ.setdefault(_THREADS, str(max(4 * devices, os.cpu_count() or 1)))


_THREADS = "PJRT_NPROC"


def _cpu_devices_asked_for() -> int:
    """Return how many devices the CPU is to be; JAX looks at its own setting first."""
    setting = jax.config.values["jax_num_cpu_devices"]
    if setting > 0:
        return setting
    flag = re.search(r"xla_force_host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", ""))
    variable = os.environ.get("JAX_NUM_CPU_DEVICES", "")  # JAX reads it when it is imported
    return max(int(flag[1]) if flag else 1, int(variable) if variable.isdigit() else 1)


def explain_missing_cpu_devices() -> str | None:
    """Why the CPU is fewer devices than the environment asks for; None if it is not."""
    asked, opened = _cpu_devices_asked_for(), len(jax.local_devices(backend="cpu"))
    if asked <= opened:
        return None
    return (
        f"XLA_FLAGS or JAX_NUM_CPU_DEVICES asks for {asked} devices of the CPU, and JAX has {opened}: it does not "
        "look at them any more once it is imported and has opened its devices. Set them before the program starts, or "
        "in os.environ before torchgrad_jax is imported"
    )


class device:
    """Where a tensor lives: a type such as ``"cpu"`` or ``"cuda"`` and an optional index.

    There is one object for each type and index, so that devices compare, and are keys, by identity.

    Example:
        >>> device("cpu")
        device(type='cpu')
    """

    __slots__ = ("index", "type")
    type: str
    index: int | None

    def __new__(cls, type: Any = "cpu", index: int | None = None) -> device:
        if isinstance(type, device):
            return type
        if isinstance(type, int) and not isinstance(type, bool):
            type, index = "cuda", type
        if not isinstance(type, str):
            kind = type.__class__.__name__
            raise TypeError(
                f"device() received an invalid combination of arguments - got ({kind}), but expected one of:\n"
                " * (torch.device device)\n      didn't match because some of the arguments have invalid types: "
                f"(!{kind}!)\n * (str type, int index = -1)\n"
            )
        if ":" in type:
            if index is not None:
                raise RuntimeError(
                    f"type (string) must not include an index because index was passed explicitly: {type}"
                )
            type, _, tail = type.partition(":")
            if not tail.isdigit() or (len(tail) > 1 and tail[0] == "0"):
                raise RuntimeError(f"Invalid device string: '{type}:{tail}'")
            index = int(tail)
        if not type.replace("_", "").isalpha():
            raise RuntimeError(f"Invalid device string: '{type}'")
        if type not in _PLATFORMS:
            raise RuntimeError(f"Expected one of {_KNOWN} device type at start of device string: {type}")
        return _intern(type, index)

    on_target = False

    @property
    def _seen(self) -> device:
        """The device that users see on a tensor that is here."""
        return self

    __setattr__, __delattr__ = immutable("torch.device")

    def __repr__(self) -> str:
        tail = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{tail})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (device, (self.type, self.index) if self.index is not None else (self.type,))

    def __enter__(self) -> device:
        MODES.device_stack = (*MODES.device_stack, resolve(self))
        return self

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        MODES.device_stack = MODES.device_stack[:-1]


def _intern(type: str, index: int | None) -> device:
    found = _DEVICES.get((type, index))
    if found is not None:
        return found
    self = object.__new__(device)
    object.__setattr__(self, "type", type)
    object.__setattr__(self, "index", index)
    return _DEVICES.setdefault((type, index), self)  # another thread may have been faster


_DEVICES: dict[tuple[str, int | None], device] = {}
CPU = device("cpu")


BEFORE_OPENING: list[Callable[[], None]] = []
"""What is to be called once before JAX opens its devices: it does not look at what it is told after that."""


def about_to_open() -> None:
    """Call, and forget, what is to be called before JAX opens its devices."""
    while BEFORE_OPENING:
        BEFORE_OPENING.pop()()


def first() -> device:
    """The first of JAX's devices in this process: a GPU or TPU where there is one; in a target, its first."""
    return _first_here() if MODES.target is None else device(_TYPES[MODES.target.platform], 0)


@functools.cache
def _first_here() -> device:
    about_to_open()
    return of_jax(jax.local_devices()[0])


@functools.cache
def _where_unnamed() -> device:
    """The CPU, as in torch. A JAX that was told to open no CPU (``JAX_PLATFORMS=cuda``) has its first device."""
    about_to_open()
    try:
        jax.local_devices(backend="cpu")
    except RuntimeError:
        return first()
    return CPU


def _chosen_in_jax() -> device | None:
    """What ``JAX_DEFAULT_DEVICE``, `jax.config` or ``with jax.default_device(...)`` says, if one of them does."""
    chosen = jax.config.jax_default_device
    if isinstance(chosen, str):
        chosen = jax.local_devices(backend=chosen)[0]
    return None if chosen is None else of_jax(chosen)


def of_jax(jdevice: Any) -> device:
    """The device object for a JAX device; CPU has no index, as in torch."""
    type = _TYPES.get(jdevice.platform, "xla")
    return CPU if type == "cpu" else device(type, _local_index(jdevice))


@functools.cache
def _local_index(jdevice: Any) -> int:
    """The number of a device in its own process. JAX numbers the devices of all processes together."""
    if MODES.target is not None:
        return MODES.target.devices.index(jdevice)
    mine = jax.local_devices(process_index=jdevice.process_index, backend=jdevice.client)
    return mine.index(jdevice)


class FakeDevice(device):
    """The place of tensors that say they are on `real` and have no elements: to the engine, a meta device.

    There is one for each real device and number, by which `_subclasses` knows whose tensors they are. `mixes`
    says whether they meet tensors that have elements.
    """

    __slots__ = ("mixes", "number", "real")
    real: device
    number: int
    mixes: bool

    @property
    def _seen(self) -> device:
        return self.real

    @property
    def on_target(self) -> bool:
        """Whether it is one of hardware that programs are made for, see `_core.jax.target`."""
        return self.number < 0

    def __str__(self) -> str:
        return str(self.real)

    def __repr__(self) -> str:
        return repr(self.real)

    def __reduce__(self) -> tuple[Any, ...]:
        return fake, (self.real, self.number, self.mixes)


@functools.cache
def fake(real: device, number: int, mixes: bool) -> FakeDevice:
    """The one fake device for a real one, a number and whether it mixes."""
    self = object.__new__(FakeDevice)
    facts = {"type": "meta", "index": None, "real": real, "number": number, "mixes": mixes}
    for name, value in facts.items():
        object.__setattr__(self, name, value)
    return self


def _in_mode(dev: device) -> device:
    """The fake device in the place of `dev` where new tensors are to be fake ones, or lie on a target."""
    target = MODES.target
    if target is not None and dev.type == _TYPES[target.platform]:
        return fake(dev, target.number, True)
    mode = MODES.fake
    if mode is None or isinstance(dev, FakeDevice):
        return dev
    return fake(dev, mode.number, mode.allow_non_fake_inputs)


def unreal(dev: device) -> bool:
    """Return whether what is made on a device has no elements. In a program for a target constants have theirs."""
    return dev.type == "meta" and (MODES.target is None or MODES.run.at_once)


def meant(dev: device) -> str:
    """Return the type of the device that computes: of a tensor without elements the one that it says it is on.

    In a program for a target the meta device stands for the target.
    """
    seen = dev._seen.type
    return _TYPES[MODES.target.platform] if seen == "meta" and MODES.target is not None else seen


def no_accelerator() -> bool:
    """Return whether there are CPUs only."""
    return first().type == "cpu"


def default_device() -> device:
    """Where tensors are made that nobody says a device for.

    It is the innermost `with device(...)`, or what `set_default_device` said, or what JAX was told, or the CPU.
    """
    if MODES.device_stack:
        return _in_mode(MODES.device_stack[-1])
    return _in_mode(MODES.default_device or _chosen_in_jax() or _where_unnamed())


def resolve(spec: Any) -> device:
    """A concrete device for a user's device argument; None means the default."""
    return default_device() if spec is None else _in_mode(_resolved(spec))


def _resolved(spec: Any) -> device:
    dev = device(spec)
    if BEFORE_OPENING:
        about_to_open()
    if isinstance(dev, FakeDevice):
        return dev
    if dev.type == "xla":
        return _chosen_in_jax() or first()
    if dev.type in ("cpu", "meta"):  # there is only one of each
        return device(dev.type)
    if dev.index is None:
        return device(dev.type, MODES.gpu if dev.type == "cuda" else 0)
    return dev


def to_jax(dev: device) -> Any:
    """The JAX device behind `dev`, or torch's error when the machine has none."""
    platform = _PLATFORMS[dev.type]
    if platform is None:
        raise NotImplementedError(f"tensors on the {dev.type} device are not supported")
    try:
        found = jax.local_devices(backend=platform)
    except RuntimeError:
        found = []
    index = dev.index or 0
    if index >= len(found):
        if dev.type == "cuda" and not found:
            raise RuntimeError(
                'No CUDA GPUs are available: JAX sees no GPU backend. For an NVIDIA GPU: pip install "jax[cuda13]"'
            )
        raise RuntimeError(f"JAX has no device for '{dev}'")
    return found[index]
