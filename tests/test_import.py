"""The namespace: what an import brings, what it leaves alone, and what missing names say."""

import functools
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import torchgrad_jax as tg
from torchgrad_jax._core.errors import absent
from torchgrad_jax._engine.entry import bind


def fresh(code: str) -> str:
    """The output of a program in a process of its own."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_an_import_stays_small():
    """Its cost is in modules imported and code written, which do not depend on the machine."""
    heavy = ("jax.scipy.linalg", "jax.scipy.stats", "jax.experimental", "jax.extend", "jax.nn", "scipy", "torch")
    code = f"""
import sys, jax
before = set(sys.modules)
import torchgrad_jax as tg
new = set(sys.modules) - before
print([m for m in new if m.startswith({heavy!r}) and not m.startswith("torchgrad_jax")])
functions = [f.__self__ for f in vars(tg).values() if hasattr(getattr(f, "__self__", None), "binding")]
print(len(functions) > 300 and all("_first_call" in f.__code__.co_names for f in functions))
"""
    assert fresh(code).splitlines() == ["[]", "True"]


def test_functions_get_their_code_when_first_called_and_stay_the_same_object():
    code = """
import inspect, torchgrad_jax as tg
sin, method = tg.sin, tg.Tensor.sin
written = sin.__self__
before = written.__code__
assert sin(tg.zeros(2)).tolist() == [0.0, 0.0]
assert tg.sin is sin and tg.Tensor.sin is method and written.__code__ is not before
assert method(tg.zeros(2)).tolist() == [0.0, 0.0] and tg.Tensor.sin is method
assert sin.__self__ is written and method.__code__ is written.__code__  # two things to override, one code
assert list(inspect.signature(sin).parameters)[0] == "input"
try:
    tg.cos()
except TypeError as error:
    print(error)
"""
    assert fresh(code).startswith("cos() missing 1 required positional argument")


@pytest.mark.parametrize(("value", "is_on"), [("", "False"), ("0", "False"), ("1", "True")])
def test_the_environment_can_switch_64_bit_types_on(value, is_on):
    setting = f"import os; os.environ.pop('JAX_ENABLE_X64', 0); os.environ['TORCHGRAD_JAX_X64'] = '{value}'"
    assert fresh(f"{setting}; import torchgrad_jax, jax; print(jax.config.jax_enable_x64)") == is_on


def test_a_compiled_function_may_be_the_first_to_use_a_module():
    code = """
import torchgrad_jax as tg
relu = tg.compile(lambda x: tg.nn.functional.relu(x))
print(relu(tg.tensor([-1.0, 2.0])).tolist(), relu.counts["eager"], tg.nn.Module.__name__)
"""
    assert fresh(code) == "[0.0, 2.0] 0 Module"


def test_dir_holds_public_names_only():
    names = dir(tg)
    assert not [n for n in names if n.startswith("_") and not (n.startswith("__") and n.endswith("__"))]
    assert not {"os", "jax", "np", "annotations", "importlib"} & set(names)
    assert {"Tensor", "tensor", "float32", "nn", "autograd", "pi", "strided", "FloatTensor", "no_grad"} <= set(names)
    assert all(hasattr(tg, n) for n in names)
    assert set(tg.__all__) <= set(names)


def test_dir_has_nothing_that_torch_lacks(oracle):
    ours = {"UnsupportedLayoutError", "from_jax", "install_as_torch", "interop", "scan_layers", "to_jax"}
    ours |= {"cache_info", "clear_caches", "set_cache_limits"}
    extra = {n for n in dir(tg) if not hasattr(oracle, n)} - ours
    assert not extra


@pytest.mark.parametrize("where", ["", "linalg.", "fft.", "special.", "nn.", "nn.functional.", "cuda."])
def test_missing_names_say_so(where):
    module = functools.reduce(getattr, where.split(".")[:-1], tg)
    with pytest.raises(AttributeError, match=f"torchgrad_jax does not implement torch.{where}surely_not_there"):
        module.surely_not_there
    assert not hasattr(module, "surely_not_there")


def test_private_names_of_the_module_are_not_reported_as_missing_features():
    with pytest.raises(AttributeError):
        tg._surely_not_there
    assert not hasattr(tg, "__wrapped__")


def test_every_bound_function_is_reachable():
    for namespace, functions in bind.NAMESPACES.items():
        home = tg
        for part in filter(None, namespace.split(".")):
            home = getattr(home, part)
        for name, fn in functions.items():
            found = getattr(home, name)
            # `torch.ops` has packets.
            assert getattr(found, "_op", found) is fn, f"{namespace}.{name}"
    attributes = {"real", "imag"}  # torch has these as functions, and as attributes of tensors
    for name, fn in {**bind.METHODS, **bind.OPERATORS}.items():
        if name not in attributes:
            found = inspect.getattr_static(tg.Tensor, name)
            # Where torch.add and Tensor.add are two things to override, one is the other's twin.
            twins = found.__globals__ is fn.__globals__ and found.__closure__ == fn.__closure__
            for mark in ("binding", "__wrapped__"):
                twins = twins or (hasattr(fn, mark) and getattr(found, mark) is getattr(fn, mark))
            assert found is fn or twins, name


def test_submodules_are_there_without_a_further_import():
    code = "import torchgrad_jax as tg; print(tg.linalg.inv, tg.fft.fft, tg.nn.functional.relu, tg.random.manual_seed)"
    assert fresh(code).count("<") == 4


def test_return_types_are_named():
    found = tg.return_types.max
    assert tg.max(tg.ones(2, 2), 0).__class__ is found
    assert found.__module__ == "torch.return_types"


def test_modules_of_torch_are_attributes():
    """`torch.nn.utils.rnn` and `torch._C._distributed_rpc.PyRRef` work after `import torch`; `torch.numa` does not."""
    code = f"""
import torchgrad_jax
for path in {[p for p in (*absent.MODULES, *_modules_here()) if not p.startswith("numa")]!r}:
    found = torchgrad_jax
    for name in path.split("."):
        found = getattr(found, name, None)
    if found is None:
        print(path)
print(isinstance(3, torchgrad_jax._C._distributed_rpc.PyRRef))
"""
    assert fresh(code) == "False"


OURS = (
    "_alias", "_bridge", "_codegen", "_core", "_engine", "_functions", "_library", "_names", "_ops", "_streams",
    "__main__", "pytest_",
)  # fmt: skip
"""What torch has no module for."""


def _modules_here():
    """The modules of the package that torch has too, by their names in torch."""
    root = Path(tg.__file__).parent
    for file in sorted(root.rglob("*.py")):
        path = ".".join(file.relative_to(root).with_suffix("").parts).removesuffix("__init__").removesuffix(".")
        private = any(p[0] == "_" and p[1] != "_" for p in path.split(".")[1:]) if path else True
        if not private and not path.startswith(OURS):
            yield path
