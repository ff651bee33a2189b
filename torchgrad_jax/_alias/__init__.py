"""Programs written for torch run on torchgrad_jax: imports, a runner, a report of what is missing."""

from .finder import Alias as Alias, install_as_torch as install_as_torch
