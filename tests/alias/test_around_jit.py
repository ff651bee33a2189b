"""Names around torch.jit and torch.fx that programs use, and names that packages import."""

import importlib
import subprocess
import sys
import warnings

import pytest

import torchgrad_jax as tg


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_trace_module_runs_the_methods_that_are_named():
    ran = []

    class Two(tg.nn.Module):
        def forward(self, x):
            ran.append(("forward", tuple(x.shape)))
            return x

        def other(self, x, y):
            ran.append(("other", x.item() + y.item()))

    m = Two()
    one = tg.ones(())
    assert tg.jit.trace_module(m, {"forward": tg.ones(2), "other": [one, one]}) is m
    assert ran == [("forward", (2,)), ("other", 2.0)]
    with pytest.raises(AttributeError, match="expected a dictionary of"):
        tg.jit.trace_module(m, 3)
    with pytest.raises(AttributeError, match=r"expected torch\.nn\.Module as the first argument"):
        tg.jit.trace_module(lambda x: x, {})
    with pytest.raises(AttributeError, match="nope"):
        tg.jit.trace_module(m, {"nope": ()})


def _double(x):
    return x * 2


USES_OF_SCRIPT = {
    "script": lambda torch: torch.jit.script(_double),
    "trace": lambda torch: torch.jit.trace(_double, torch.ones(2)),
    "trace_method": lambda torch: torch.jit.trace_module(torch.nn.Linear(2, 2), {"forward": torch.ones(2, 2)}),
    "freeze": lambda torch: torch.jit.freeze(torch.jit.script(torch.nn.Linear(2, 2).eval())),
    "optimize_for_inference": lambda torch: torch.jit.optimize_for_inference(
        torch.jit.script(torch.nn.Linear(2, 2).eval())
    ),
    "fork": lambda torch: torch.jit.fork(_double, torch.ones(2)),
    "wait": lambda torch: torch.jit.wait(torch.jit.fork(_double, torch.ones(2))),
    "script_method": lambda torch: torch.jit.script_method(_double),
}


@pytest.mark.parametrize("name", USES_OF_SCRIPT)
def test_functions_of_script_say_that_they_are_deprecated(name, same):
    def said(torch):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            USES_OF_SCRIPT[name](torch)
        return sorted({f"{w.category.__name__}: {w.message}" for w in seen if f"jit.{name}`" in str(w.message)})

    same(said, name=name)


def test_deprecations_of_script_are_hidden_as_those_of_pytorch_are():
    code = "import torchgrad_jax as t; t.jit.script(lambda x: x)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "deprecated" not in done.stderr


def test_assert_is_recorded():
    def f(x):
        tg._assert(x.shape[0] == 3, "three rows")
        return x + 1

    traced = tg.fx.symbolic_trace(f)
    names = [node.name for node in traced.graph.nodes]
    assert names == ["x", "getattr_1", "getitem", "eq", "_assert", "add", "output"]
    assert traced(tg.ones(3)).tolist() == [2.0] * 3
    with pytest.raises(AssertionError, match="three rows"):
        traced(tg.ones(2))


def test_assert_lets_tensors_of_other_classes_answer():
    seen = []

    class Mine(tg.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is tg._assert:
                seen.append((len(args), args[1], kwargs))
                return "mine"
            return super().__torch_function__(func, types, args, kwargs)

    assert tg._assert(tg.tensor(False).as_subclass(Mine), "m") == "mine"
    assert seen == [(2, "m", {})]


def test_names_that_packages_import():
    assert issubclass(tg.jit.Error, RuntimeError)
    annotations = importlib.import_module("torchgrad_jax.jit.annotations")
    assert annotations.List[int].__origin__ is list
    assert tg.distributed.device_mesh.DeviceMesh is not None
    assert tg.hub.urlparse("https://a.b/c-0123abcd.pth").netloc == "a.b"
