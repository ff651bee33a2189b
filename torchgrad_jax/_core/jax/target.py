"""Hardware that is not here, for which XLA's compilers make programs all the same.

    with Target("v5e:2x2"):
        step.lower(x).compile()  # a TPU's program, made on a laptop

JAX names the devices of a machine by a topology, and its compilers take those of machines that are not here. Inside
of the `with` block `platform()` is the target's, JAX keeps apart what it traces there, and so do our caches.

What depends on the platform asks `platform()` while it is traced. Nothing else asks JAX which devices there are.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import itertools
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from ..signals import contextmanager, uninterrupted
from ..state import MODES
from . import caches
from .kernel_files import without_files

_platform: Any = jax.make_user_context(default_value=None)
_GPUS = Path(__file__).parent / "gpus"
_GPU = re.compile(r"([a-z]+\d+\w*)(?::(?:(\d+)x)?(\d+))?")
_numbers = itertools.count(-1, -1)
_QUIET = {
    "TPU_SKIP_MDS_QUERY": "1",  # no service here tells what TPU this is
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # no device is opened, so that several processes may compile
    "TPU_ACCELERATOR_TYPE": "v5litepod-1",  # libtpu complains where these two are missing; they decide nothing
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_STDERR_LOG_LEVEL": "3",
    "TPU_MIN_LOG_LEVEL": "3",
}
INSTALL = 'pip install "torchgrad-jax[plan]"'


def gpus() -> list[str]:
    """Return the names of the GPUs that are described here."""
    return sorted(file.stem for file in _GPUS.glob("*.txt"))


class Target:
    """Devices that are not here, for which XLA makes programs.

    Args:
        name: a topology of TPUs, as `"v5e:2x2"` or `"v4:2x2x1"`; or a GPU, as `"h100"`, `"h100:8"` for eight of them in
            one machine, and `"h100:2x8"` for two such machines.
    """

    def __init__(self, name: str) -> None:
        self.name, self.number = name, next(_numbers)
        self.mesh: Any = None
        """The mesh of all its devices, if code has made one."""
        gpu = _GPU.fullmatch(name)
        self.called: Callable[[Any, Any, Any], None] | None = None
        """Is told of each call of a compiled function: the function, its arguments."""
        self.chip = gpu[1] if gpu is not None and gpu[1] in gpus() else name.partition(":")[0]
        """What kind of device it is."""
        self.platform = "cuda" if gpu is not None and gpu[1] in gpus() else "tpu"
        self.devices: list[Any] = list(_described(self.platform, name, gpu))
        self._kept = caches.Shelf()
        self._entered: list[tuple[Any, Any]] = []

    def __repr__(self) -> str:
        return f"target({self.name!r})"

    def __enter__(self) -> Target:
        inside = contextlib.ExitStack()
        inside.enter_context(traced_for(self.platform, self.name, self._kept))
        self._entered.append((inside, MODES.target))
        MODES.target = self
        return self

    @uninterrupted
    def __exit__(self, *exc: Any) -> None:
        inside, MODES.target = self._entered.pop()
        inside.__exit__(*exc)

    def like(self, x: Any, placement: Any = None) -> Any:
        """Return what stands for an array: its shape, its dtype, and where it lies among the devices of the target."""
        if isinstance(x, jax.ShapeDtypeStruct) and x.sharding is not None:
            return x
        if not hasattr(x, "dtype"):
            return x
        if placement is None and self.mesh is not None:
            placement = NamedSharding(self.mesh, PartitionSpec())
        weak = getattr(x, "weak_type", False)
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=placement, weak_type=weak)

    def lower(self, jitted: Any, args: Any) -> jax.stages.Lowered:
        """Return the program of a jitted function for arrays like these."""
        traced = jitted.trace(*jax.tree.map(self.like, args))
        with jax.default_device(self.devices[0]):
            return traced.lower(lowering_platforms=(self.platform,))


def chips_of(name: str) -> list[int]:
    """Return how many chips a topology of TPUs has along each dimension."""
    return [int(n) for n in name.partition(":")[2].split("x") if n.isdecimal()]


def _described(platform: str, name: str, gpu: re.Match[str] | None) -> Any:
    """Return JAX's devices of a topology."""
    from jax.experimental import topologies

    more: dict[str, Any] = {}
    if platform == "cuda":
        assert gpu is not None
        hosts, each = gpu[2] or "1", gpu[3] or "1"
        more = {"target_config": (_GPUS / f"{gpu[1]}.txt").read_text(), "topology": f"1x{hosts}x{each}"}
        name = gpu[1]
    elif importlib.util.find_spec("libtpu") is None:
        raise RuntimeError(f"programs for {name} need the compiler for TPUs: {INSTALL}")
    elif (chips := chips_of(name)) and any(n % 2 for n in chips[:2]):  # hosts have 2 x 2 chips but in small topologies
        more = {"chips_per_host_bounds": (*[2 - n % 2 for n in chips[:2]], 1)}
    jax.local_devices()  # JAX opens its own now, and not in the midst of a trace
    for key, value in _QUIET.items():
        os.environ.setdefault(key, value)
    try:
        return topologies.get_topology_desc(platform=platform, topology_name=name, **more).devices
    except NotImplementedError:  # without a GPU JAX does not register its plugin
        _register_cuda(name)
        return topologies.get_topology_desc(platform=platform, topology_name=name, **more).devices
    except (RuntimeError, ValueError) as error:
        known = ", ".join(gpus())
        raise ValueError(
            f"there is no hardware of the name {name!r}: it is a topology of TPUs, such as v5e:2x2 or v4:2x2x1, or one "
            f"of {known}, such as h100:8. XLA says: {error}"
        ) from error


def _register_cuda(name: str) -> None:
    """Register JAX's plugin for NVIDIA's GPUs, which it does by itself only where there is one."""
    os.environ.setdefault("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")
    for version in ("xla_cuda13", "xla_cuda12"):
        with contextlib.suppress(ImportError):
            importlib.import_module(f"jax_plugins.{version}").initialize()
            return
    raise RuntimeError(f"programs for {name} need the compiler for NVIDIA's GPUs: {INSTALL}")


def platform() -> str:
    """Return the platform that code is traced for: `"cpu"`, `"gpu"`, `"tpu"`."""
    return MODES.platform or jax.default_backend()


@contextmanager
def traced_for(platform: str, name: str | None = None, kept: caches.Shelf | None = None) -> Iterator[None]:
    """Trace code for a platform, `"cpu"`, `"cuda"`, `"rocm"` or `"tpu"`, which may be another one than JAX has.

    Args:
        platform: the platform.
        name: what JAX is to keep its traces apart by; by default the platform.
        kept: plans and kernels for it; by default they are made again.
    """
    before = MODES.platform
    with _platform(name or platform), kept or caches.Shelf():
        MODES.platform = "gpu" if platform in ("cuda", "rocm") else platform
        try:
            yield
        finally:
            MODES.platform = before


def like(xs: Any) -> Any:
    """Return what stands for arrays on the target; without a target, the arrays."""
    return xs if MODES.target is None else jax.tree.map(MODES.target.like, xs)


def lower(jitted: Any, *args: Any) -> jax.stages.Lowered:
    """Lower a jitted function for arrays like these, and for the target."""
    return jitted.lower(*args) if MODES.target is None else MODES.target.lower(jitted, args)


def compiled(lowered: jax.stages.Lowered, target: Target | None) -> jax.stages.Compiled:
    """Compile a program. No file is kept of one for a target."""
    if target is None:
        return lowered.compile()
    with without_files():
        return lowered.compile()
