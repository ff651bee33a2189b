"""JAX's 64-bit types during calls of this package, in a process that has them off."""

import json
import os
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from torchgrad_jax._core.jax import x64

PLANTED = """
import json, sys
import numpy as np, jax, jax.numpy as jnp
import torchgrad_jax
from tests import narrowing
narrowing.watch()

def planted(source):
    "What a function of the package's does, that calls JAX's own modules."
    file = torchgrad_jax.__file__.replace("__init__", "planted")
    space = {"jnp": jnp, "jax": jax, "np": np, "lax": jax.lax}
    exec(compile("def planted(): return " + source, file, "exec"), space)
    try:
        return str(space["planted"]().dtype)
    except narrowing.NarrowedTypes as error:
        return "planted.py" in str(error)

print(json.dumps({source: planted(source) for source in json.loads(sys.argv[1])}))
"""
FORGOTTEN = (
    "jnp.ones(3)",
    "jnp.arange(3)",
    "jnp.asarray(np.ones(3))",
    "jnp.zeros(3, np.int64)",
    "lax.add(np.ones(3), np.ones(3))",
    "jax.jit(lambda x: x * 0.1)(jnp.ones(2, np.float32)).astype(np.float64)",
    "jax.eval_shape(lambda x: x, np.ones(3))",
    "jnp.float64(3)",
)
HARMLESS = ("jnp.ones(3, np.float32)", "jnp.asarray(np.arange(3, dtype=np.int32))", "lax.sin(np.float32(1))")


def test_tests_notice_where_the_package_forgets_64_bit_types():
    asked = json.dumps([*FORGOTTEN, *HARMLESS])
    env = {k: v for k, v in os.environ.items() if k not in ("TORCHGRAD_JAX_X64", "JAX_ENABLE_X64")}
    run = subprocess.run([sys.executable, "-c", PLANTED, asked], capture_output=True, text=True, check=False, env=env)
    assert run.returncode == 0, run.stderr
    said = json.loads(run.stdout)
    assert {source: said[source] for source in FORGOTTEN} == dict.fromkeys(FORGOTTEN, True)
    assert [said[source] for source in HARMLESS] == ["float32", "int32", "float32"]


def _setting() -> bool:
    return x64.X64.value


def test_the_switch_is_on_during_a_call_and_then_as_it_was():
    before = _setting()
    with jax.enable_x64(False):
        assert x64._with_x64(_setting)()
        assert not _setting()
        assert x64._with_x64(x64._with_x64(_setting))()
        assert not _setting()
    assert _setting() is before


def test_an_error_leaves_the_switch_as_it_was():
    def fail() -> Any:
        raise KeyError

    with jax.enable_x64(False):
        for call in (x64._with_x64(fail), x64.Kernel(jax.jit(fail)), x64._giving_pairs(fail), x64._giving(fail)):
            with pytest.raises(KeyError):
                call()
            assert not _setting()


def test_a_kernel_starts_as_it_was_compiled():
    kernel = x64.Kernel(jax.jit(lambda x: x * 0.1))
    wide = np.full(3, 0.1)
    with jax.enable_x64(False):
        assert kernel(wide).dtype == np.float64
        assert kernel.lower(wide).out_info.dtype == np.float64
        assert kernel.eval_shape(wide).dtype == np.float64
        assert jax.jit(lambda x: x * 0.1)(wide).dtype == np.float32
    assert kernel(wide).dtype == np.float64


def test_copies_of_jax_have_its_types_and_run_with_64_bits():
    copies = x64._copies()
    copy, real = copies[id(jnp)], jnp
    assert copies[id(jax)].numpy is copy
    assert copies[id(jax)].Array is jax.Array
    with jax.enable_x64(False):
        assert copy.ones(3).dtype == np.float64
        assert real.ones(3).dtype == np.float32
        assert copy.add(np.ones(3), 1.0).dtype == np.float64
        assert copy.add.reduce(np.ones(3)).dtype == np.float64
        out, back = copies[id(jax)].vjp(lambda x: copy.sin(x), np.float64(0.1))
        assert (out.dtype, back(np.float64(1))[0].dtype) == (np.float64, np.float64)
        assert copies[id(jax)].vmap(lambda x: x * 2.0)(np.ones(3)).dtype == np.float64
        assert not _setting()
