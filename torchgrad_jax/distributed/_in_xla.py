"""Collectives as XLA carries them out: steps of one program that the processes of a group run together.

Each function is a collective as it stands in a program over a mesh with one device of each process: it is given what
this process sends, and returns what this process gets. `_exchange` has the same collectives between the memories of
the processes.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh

from .._core.jax.caches import remember
from ._compiled.over_processes import AXIS
from ._exchange import REDUCTIONS

CHOICE = "TORCHGRAD_JAX_COLLECTIVES"
"""A variable of the environment: with `xla`, XLA carries out collectives between CPUs, too."""

Arrays = list[Any]
Form = Callable[..., Arrays]


@remember(64)
def mesh_of(members: tuple[int, ...], platform: str) -> Mesh | None:
    """The devices of the processes with these global ranks; None where collectives go through their memories.

    Between CPUs they do unless the environment says otherwise: a program with one sum takes as long with both, and one
    with calls back may take other sizes in each process.
    """
    if jax.process_count() == 1 or (platform == "cpu" and os.environ.get(CHOICE) != "xla"):
        return None
    devices = {d.process_index: d for d in jax.devices(platform)}
    if len(devices) != len(jax.devices(platform)) or not devices.keys() >= set(members):
        return None  # a process has several devices, or none of this kind
    return Mesh(np.array([devices[r] for r in members]), (AXIS,))


# --- what becomes one -----------------------------------------------------------------------------


def all_reduce(x: Any, op: str) -> Arrays:
    """The sum of the arrays of all members."""
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        return [lax.complex(lax.psum(x.real, AXIS), lax.psum(x.imag, AXIS))]
    if op in _DIRECT and x.dtype != jnp.bool_:
        return [_DIRECT[op](x, AXIS)]
    return [functools.reduce(REDUCTIONS[op], all_gather(x))]


_DIRECT: dict[str, Callable[..., Any]] = {"SUM": lax.psum, "AVG": lax.psum, "MIN": lax.pmin, "MAX": lax.pmax}


def reduce_scatter(*xs: Any, op: str) -> Arrays:
    """The sum of the arrays that all members have for this one, which have one size."""
    whole = jnp.stack(xs)
    if op in ("SUM", "AVG") and jnp.issubdtype(whole.dtype, jnp.inexact) and not jnp.iscomplexobj(whole):
        return [lax.psum_scatter(whole, AXIS)]
    return [all_reduce(whole, op)[0][lax.axis_index(AXIS)]]


def reduce(x: Any, root: int, op: str) -> Arrays:
    """The sum of the arrays of all members at the root; elsewhere the array as it is."""
    return [jnp.where(lax.axis_index(AXIS) == root, all_reduce(x, op)[0], x)]


# --- what goes to all -----------------------------------------------------------------------------


def all_gather(x: Any) -> Arrays:
    """The arrays of all members."""
    return list(lax.all_gather(x, AXIS))


def all_to_all(*xs: Any) -> Arrays:
    """The arrays that all members have for this one; all have one size."""
    return list(lax.all_to_all(jnp.stack(xs), AXIS, 0, 0))


def broadcast(x: Any, root: int) -> Arrays:
    """The array of the root: the others add zeros to its bits."""
    bits = x if x.dtype != jnp.bool_ else x.astype(jnp.uint8)
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        return [lax.complex(*broadcast(x.real, root), *broadcast(x.imag, root))]
    if jnp.issubdtype(x.dtype, jnp.inexact):
        bits = lax.bitcast_convert_type(x, f"uint{8 * x.dtype.itemsize}")
    bits = jnp.where(lax.axis_index(AXIS) == root, bits, jnp.zeros_like(bits))
    found = lax.psum(bits, AXIS)
    if jnp.issubdtype(x.dtype, jnp.inexact):
        return [lax.bitcast_convert_type(found, x.dtype)]
    return [found.astype(x.dtype)]


def barrier() -> Arrays:
    """Nothing: the members have met before they began the program."""
    return []


def if_equal(form: Form, arrays: Sequence[Any]) -> Form | None:
    """The form of a collective that XLA has for parts of one size alone; None where these differ."""
    return form if len({tuple(x.shape) for x in arrays}) == 1 else None
