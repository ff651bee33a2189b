"""A device of JAX's CPU backend that stands in for a GPU: ``pytest -p tests.accelerator.stand_in tests/accelerator``.

What the package does with devices runs as it does with a GPU: their names, transfers, `torch.cuda`, kernels that are
not NumPy's. Nothing of XLA's GPU backend is tried. With ``STAND_IN=tpu`` in the environment it stands in for a TPU.
"""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax

_local_devices = jax.local_devices
KIND = os.environ.get("STAND_IN", "gpu")
NAMES = {"gpu": ("gpu", "cuda"), "tpu": ("tpu",)}[KIND]


def local_devices(process_index=None, backend=None, **kwargs):
    """The first device as the GPU, which comes first where no backend is named; the second as the CPU."""
    gpu, cpu = _local_devices(process_index, "cpu", **kwargs)
    if backend is None or backend in NAMES:
        return [gpu]
    return [cpu] if backend == "cpu" else _local_devices(process_index, backend, **kwargs)


def pose() -> None:
    """Let the package see a GPU."""
    from torchgrad_jax._core import devices

    jax.local_devices = local_devices
    jax.default_backend = lambda: KIND
    gpu, _ = _local_devices()

    def of_jax(jdevice):
        return devices.device(NAMES[-1], 0) if jdevice == gpu else devices.CPU

    devices.of_jax = of_jax


pose()
