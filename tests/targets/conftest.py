"""The compilers for TPUs and GPUs, which `make targets` installs into a folder of their own.

With libtpu among the packages of an environment JAX would look for a TPU in every process.
"""

import sys
from pathlib import Path

import jax
import pytest

from torchgrad_jax import interop

COMPILERS = Path(sys.prefix) / "compilers"


def _with_compilers(name):
    jax.devices()  # JAX opens its devices without the compilers
    if COMPILERS.is_dir() and str(COMPILERS) not in sys.path:
        sys.path.append(str(COMPILERS))
    try:
        return interop.target(name)
    except RuntimeError as error:
        if "torchgrad-jax[plan]" not in str(error):
            raise
    pytest.skip("the compilers are not installed: make targets")


@pytest.fixture(scope="session")
def tpu():
    """Four TPUs that are not here."""
    return _with_compilers("v5e:2x2")


@pytest.fixture(scope="session")
def gpu():
    """A GPU that is not here."""
    return _with_compilers("h100")
