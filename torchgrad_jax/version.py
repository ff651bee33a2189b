"""The version of this package, and of the torch whose behaviour it follows."""

from __future__ import annotations

__version__ = "0.1.0"
torch = "2.13.0"
cuda = None
hip = rocm = xpu = None
debug = False
