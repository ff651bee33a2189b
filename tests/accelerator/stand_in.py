"""Devices of JAX's CPU backend that stand in for GPUs: ``pytest -p tests.accelerator.stand_in tests/accelerator``.

What the package does with devices runs as it does with a GPU: their names, transfers, `torch.cuda`, kernels that are
not NumPy's. Nothing of XLA's GPU backend is tried. With ``STAND_IN=tpu`` in the environment they stand in for TPUs, and
``STAND_IN_DEVICES=4`` makes four of them.
"""

import os

os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={int(os.environ.get('STAND_IN_DEVICES', '1')) + 1}"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax

KIND = os.environ.get("STAND_IN", "gpu")
NAMES = {"gpu": ("gpu", "cuda"), "tpu": ("tpu",)}[KIND]
_local_devices = jax.local_devices


def local_devices(process_index=None, backend=None, **kwargs):
    """All devices but the last as accelerators, which come first where no backend is named; the last as the CPU."""
    *accelerators, cpu = _local_devices(process_index, "cpu", **kwargs)
    if backend is None or backend in NAMES:
        return accelerators
    return [cpu] if backend == "cpu" else _local_devices(process_index, backend, **kwargs)


def pose() -> None:
    """Let the package see accelerators. It takes JAX's functions as they are when it is imported."""
    jax.local_devices = local_devices
    jax.devices = lambda backend=None: local_devices(backend=backend)
    jax.default_backend = lambda: KIND
    from torchgrad_jax._core.arrays import devices

    *accelerators, _ = _local_devices()

    def of_jax(jdevice):
        if jdevice in accelerators:
            return devices.device(NAMES[-1], accelerators.index(jdevice))
        return devices.CPU

    devices.of_jax = of_jax


pose()
