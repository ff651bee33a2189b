"""JAX's private names: one file takes them, and says in one error what a version of JAX lacks."""

import re
from pathlib import Path

import jax
import pytest

import torchgrad_jax
from torchgrad_jax._core.jax import private

PACKAGE = Path(torchgrad_jax.__file__).parent
IMPORTS = re.compile(r"^\s*(?:from jax\.?_src|import jax\._src|from jax import _src)|jax\._src\.", re.MULTILINE)


def test_one_file_takes_private_names():
    files = [path for path in PACKAGE.rglob("*.py") if path != Path(private.__file__)]
    assert files
    assert [str(path) for path in files if IMPORTS.search(path.read_text("utf-8"))] == []


@pytest.mark.parametrize(
    "module, name, parts, missing",
    [
        ("_src.nowhere", "thing", (), "jax._src.nowhere.thing"),
        ("_src.core", "no_such_thing", (), "jax._src.core.no_such_thing"),
        ("_src.core", "trace_ctx", ("trace", "no_such_part"), "jax._src.core.trace_ctx.no_such_part"),
    ],
    ids=["a module that is gone", "a name that is gone", "a part that is gone"],
)
def test_what_is_missing_is_named_with_the_versions_that_are_known(module, name, parts, missing):
    with pytest.raises(ImportError, match=re.escape(f"JAX {jax.__version__}: {missing} is not there")) as caught:
        private._take(module, name, *parts)
    assert private.KNOWN in str(caught.value)


def test_the_project_allows_the_versions_that_are_known():
    first, last = private.KNOWN.split(" to ")
    bounds = f">={first},<0.{int(last.split('.')[1]) + 1}"
    text = (PACKAGE.parent / "pyproject.toml").read_text("utf-8")
    assert f'"jax{bounds}", "jaxlib{bounds}"' in text


def test_a_function_of_jax_is_wrapped_and_keeps_its_name():
    class Owner:
        @staticmethod
        def double(x):
            return 2 * x

    private.Function(Owner, "double").wrap(lambda double: lambda x: double(x) + 1)
    assert (Owner.double(3), Owner.double.__name__) == (7, "double")
