"""Runs the tests in windows: `pytest -p tests.in_windows tests/engine`.

Nearly all tests have small tensors, whose kernels are NumPy's and would run when they are called. Here they become
steps of windows as well, so that everything that a test does is put off until a value is read, and nothing is compiled
for that. `TORCHGRAD_JAX_EAGER=windows TORCHGRAD_JAX_EXECUTOR=xla` does the same with kernels of XLA's.
"""

from torchgrad_jax._engine.run import windows
from torchgrad_jax.interop import _eager


def pytest_configure() -> None:
    """Put off whatever can be put off, in all threads."""
    windows.PUT_OFF |= {"numpy", "look", "put", "others"}
    _eager.start("windows")
