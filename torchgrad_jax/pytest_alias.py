"""A pytest plug-in: `pytest -p torchgrad_jax.pytest_alias` runs a suite with torchgrad_jax as torch.

`-p` plug-ins are imported before conftest files and tests, so that all of them see the alias. The
environment variable TORCHGRAD_JAX_ALIAS names packages, separated by commas, to do it for only those.
"""

from __future__ import annotations

import os
from typing import Any

from ._alias.finder import install_as_torch

_packages = [p.strip() for p in os.environ.get("TORCHGRAD_JAX_ALIAS", "").split(",") if p.strip()]
_alias = install_as_torch(_packages or None)


def pytest_report_header(config: Any) -> str:
    return "torch: torchgrad_jax" + (f", for {', '.join(_packages)}" if _packages else "")
