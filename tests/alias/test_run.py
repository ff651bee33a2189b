"""Programs that import torch, each in a process of its own, with this package in torch's place."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import jax
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*args, cwd, **options):
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, *map(str, args)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
        **options,
    )


PROGRAM = '''
"""
>>> import torch
>>> torch.ones(2) + 1
tensor([2., 2.])
"""
import doctest, importlib, importlib.metadata, inspect, os, pickle, subprocess, sys
import multiprocessing
import torch
import torch.nn.functional as F
import torch.autograd.functional
from torch import nn
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader


def child(q):
    q.put(torch.__spec__.name)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(2, 1)


def said(statement):
    try:
        exec(statement, {"torch": torch})
    except (ImportError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    import torchgrad_jax

    assert sys.argv[1:] == ["--lr", "0.1"], sys.argv
    assert os.path.isabs(__file__) and sys.path[0] == os.path.dirname(__file__)
    assert torch is torchgrad_jax and torch.Tensor is torchgrad_jax.Tensor
    assert F is torch.nn.functional is sys.modules["torch.nn.functional"]
    assert lr_scheduler is torch.optim.lr_scheduler
    assert importlib.import_module("torch.linalg") is torch.linalg
    assert torch.linalg.__spec__.name == torch.linalg.__name__ == "torchgrad_jax.linalg"
    assert torch.__version__ >= (2, 0) and torch.__version__ >= "2.13" and torch.__version__ < "2.14"
    assert torch.__version__.split("+")[0] == importlib.metadata.version("torch") == "2.13.0"
    assert type(pickle.loads(pickle.dumps(Net()))) is Net
    assert pickle.loads(b"ctorch.nn.modules.linear\\nLinear\\n.") is nn.Linear
    assert inspect.getsource(nn.Linear).startswith("class Linear")
    assert doctest.testmod().failed == 0
    told = "torchgrad_jax does not implement torch."
    assert said("torch.nope").startswith(f"AttributeError: {told}nope"), said("torch.nope")
    assert said("from torch import nope").startswith(f"ImportError: {told}nope")
    assert said("from torch.nn import Nope").startswith(f"ImportError: {told}nn.Nope")
    assert said("import torch.nope").startswith(f"ModuleNotFoundError: {told}nope")
    assert "docs/coverage.md" in said("torch.nope")
    assert said("import torch._alias").startswith(f"ModuleNotFoundError: {told}_alias")
    code = "import torch; print(torch.__spec__.name)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "torchgrad_jax\\n", done
    context = multiprocessing.get_context("spawn")
    q = context.Queue()
    process = context.Process(target=child, args=(q,))
    process.start()
    assert q.get(timeout=120) == "torchgrad_jax"
    process.join()
    sys.stderr.write("done")
    sys.exit(7)
'''


def test_a_script(tmp_path):
    (tmp_path / "script.py").write_text(PROGRAM, encoding="utf-8")
    done = run("-m", "torchgrad_jax", "script.py", "--lr", "0.1", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (7, "done")


def test_a_traceback_shows_the_program_only(tmp_path):
    path = tmp_path / "script.py"
    text = "import {}\n\n\ndef f():\n    raise LookupError('x')\n\n\nf()\n"
    path.write_text(text.format("torch"))
    done = run("-m", "torchgrad_jax", "script.py", cwd=tmp_path)
    path.write_text(text.format("types"))  # the same lines where there is no torch
    plain = run("-c", f"import runpy; runpy.run_path({str(path)!r})", cwd=tmp_path).stderr
    wanted = plain[plain.index(f'  File "{path}"') :]
    assert done.returncode == 1
    assert done.stderr == "Traceback (most recent call last):\n" + wanted


def test_a_module_of_a_package(tmp_path):
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("")
    (tmp_path / "pkg" / "__main__.py").write_text(
        "import sys, torch\nprint(sys.argv[1:], __name__, __package__, torch.__spec__.name)\nraise SystemExit('bye')\n"
    )
    done = run("-m", "torchgrad_jax", "-m", "pkg", "a", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "bye\n")
    assert done.stdout == "['a'] __main__ pkg torchgrad_jax\n"


ASKS_JAX = "import torch, jax; print(jax.config.jax_enable_x64, jax.numpy.ones(1).dtype)"


@pytest.mark.parametrize(("value", "said"), [("0", "False float32"), (None, "True float64")])
def test_jax_has_64_bits_where_no_other_jax_code_runs(tmp_path, monkeypatch, value, said):
    monkeypatch.delenv("JAX_ENABLE_X64", raising=False)
    monkeypatch.delenv("TORCHGRAD_JAX_X64", raising=False)
    if value is not None:
        monkeypatch.setenv("TORCHGRAD_JAX_X64", value)
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {ASKS_JAX!r}], check=True)"
    code = f"{ASKS_JAX}; sys = __import__('sys'); sys.stdout.flush(); {child}"
    done = run("-m", "torchgrad_jax", "-c", code, cwd=tmp_path)
    assert (done.stdout.splitlines(), done.stderr) == ([said, said], "")


def test_code_and_the_guard_against_another_torch(tmp_path):
    (tmp_path / "torch.py").write_text("")
    code = "import torch, torchgrad_jax\ntry: torchgrad_jax.install_as_torch()\nexcept RuntimeError as e: print(e)\n"
    done = run("-c", code, cwd=tmp_path)
    assert "another torch is already imported, from" in done.stdout, done.stderr
    done = run(
        "-m", "torchgrad_jax", "-c", "import sys, torch; print(torch.__spec__.name, sys.argv)", "x", cwd=tmp_path
    )
    assert done.stdout == "torchgrad_jax ['-c', 'x']\n", done.stderr


def test_an_alias_for_some_packages(tmp_path):
    """The others see whatever torch there is, here one made up."""
    for name in ("inside", "outside"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(
            "from . import deep\nimport torch\n\n\ndef late():\n    import torch.nn.functional as F\n    return F\n"
        )
        (tmp_path / name / "deep.py").write_text("from torch import ones\nimport torch.nn as nn\n")
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("ones = 'made up'\n")
    (tmp_path / "torch" / "nn").mkdir()
    (tmp_path / "torch" / "nn" / "__init__.py").write_text("")
    (tmp_path / "torch" / "nn" / "functional.py").write_text("")
    code = """
import torchgrad_jax
alias = torchgrad_jax.install_as_torch("inside")
import inside, outside, torch
assert torch.ones == outside.deep.ones == "made up" and outside.torch is torch
assert inside.torch is torchgrad_jax and inside.deep.nn is torchgrad_jax.nn
assert inside.deep.ones is torchgrad_jax.ones and inside.late() is torchgrad_jax.nn.functional
assert outside.late().__name__ == "torch.nn.functional" and outside.late() is not inside.late()
try:
    torchgrad_jax.install_as_torch(["outside"])
except RuntimeError as e:
    assert "already imported" in str(e) and "outside" in str(e)
else:
    raise AssertionError
alias.remove()
print("fine")
"""
    done = run("-c", code, cwd=tmp_path)
    assert done.stdout == "fine\n", done.stderr


def test_the_plug_in_of_pytest(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import torch\n\n\ndef test_it():\n    assert torch.__spec__.name == 'torchgrad_jax'\n"
        "    assert torch.ones(2).sum().item() == 2\n"
    )
    done = run("-m", "pytest", "-q", "-p", "torchgrad_jax.pytest_alias", "-p", "no:cacheprovider", cwd=tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    "args, code, said",
    [
        ((), 2, "usage:"),
        ((), 2, "step = torch.compile(step)"),
        (("--help",), 0, "usage:"),
        (("--nothing",), 2, "unknown option"),
        (("-m",), 2, "Argument expected"),
    ],
)
def test_the_command_line(args, code, said, capsys):
    from torchgrad_jax._alias.run import main

    assert main(args) == code
    out, err = capsys.readouterr()
    assert said in out + err


def test_what_a_report_of_a_bug_needs(capsys, monkeypatch):
    from torchgrad_jax import version
    from torchgrad_jax._alias.run import main

    monkeypatch.setenv("JAX_OF_THIS_TEST", "set")
    assert main(["info"]) == 0
    said = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert said["torchgrad_jax"] == f"{version.__version__}, which follows torch {version.torch}"
    assert said["jax"] == jax.__version__
    assert all(f"({d.device_kind})" in said["devices"] for d in jax.devices())
    assert said["JAX_OF_THIS_TEST"] == "set"
    assert "HOME" not in said


GRAPH_BREAKS = """
import torch
seen = []

@torch.compile
def f(x, n):
    seen.append(n)
    if x.sum() > 0:
        return x * float(x.max().item())
    print("negative")
    return -x

print(f(torch.tensor([1.0, 2.0]), 1).tolist(), f(-torch.ones(2), 2).tolist(), seen)
try:
    torch.compile(lambda x: x if x.sum() > 0 else -x, fullgraph=True)(torch.ones(2))
except torch._dynamo.exc.Unsupported:
    print("refused")
"""


def test_what_cannot_be_compiled_runs_as_it_is_written_under_the_alias(tmp_path):
    (tmp_path / "program.py").write_text(GRAPH_BREAKS)
    done = run("-W", "error", "-m", "torchgrad_jax", "program.py", cwd=tmp_path)
    assert done.stdout.splitlines() == ["negative", "[2.0, 4.0] [1.0, 1.0] [1, 2]", "refused"], done.stderr


SHOWN = (
    "torch",
    "torch.nn",
    "torch.nn.functional",
    "torch.nn.utils",
    "torch.optim",
    "torch.optim.lr_scheduler",
    "torch.distributions",
    "torch.utils.data",
    "torch.autograd",
    "torch.fx",
    "torch.func",
    "torch.linalg",
)
NAMES = f"""
import importlib, inspect, json, sys
from types import FunctionType

found = {{}}
for module in {SHOWN}:
    holder = importlib.import_module(module)
    for name in dir(holder) if module == "torch" else getattr(holder, "__all__", dir(holder)):
        x = getattr(holder, name)
        if name.startswith("_") or not isinstance(x, type | FunctionType) or x.__qualname__ == "_LinAlgError":
            continue
        home = importlib.import_module(x.__module__)
        for part in x.__qualname__.split("."):
            home = getattr(home, part)
        assert home is x and not x.__module__.startswith("torchgrad_jax"), (module, name, x.__module__)
        found[f"{{module}}.{{name}}"] = x.__module__, x.__qualname__
print(json.dumps(found))
"""


def test_names_of_modules_are_those_of_torch(tmp_path, oracle):
    """What a program writes of `__module__` and `__qualname__`, torch imports, and it is what torch shows there."""
    (tmp_path / "program.py").write_text(NAMES)
    done = run("-m", "torchgrad_jax", "program.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    compared, different = 0, []
    for shown, (module, qualname) in json.loads(done.stdout).items():
        holder, _, name = shown.rpartition(".")
        wanted = getattr(importlib.import_module(holder), name, None)
        # What torch has in C is elsewhere in Python; some functions of torch's have another name than torch shows.
        if not isinstance(wanted, type | FunctionType) or wanted.__qualname__ != qualname:
            continue
        found = importlib.import_module(module)
        for part in qualname.split("."):
            found = getattr(found, part, None)
        exact = shown.startswith(("torch.nn.", "torch.optim.", "torch.distributions.")) and isinstance(wanted, type)
        if found is not wanted or (exact and module != wanted.__module__):
            different.append((shown, module, wanted.__module__))
        compared += 1
    # Two classes of C that have relatives in Python.
    unlike = {"torch.Future", "torch.ScriptModule"}
    assert [names for names in different if names[0] not in unlike] == []
    assert compared > 500, compared


PICKLES = """
import copy, inspect, io, pickle, sys, typing
import torchgrad_jax

old = pickle.dumps(torchgrad_jax.nn.Linear(2, 3))
assert b"torchgrad_jax.nn.modules.linear" in old
if __name__ == "__main__":
    alias = torchgrad_jax.install_as_torch()

if __name__ == "__main__":
    import multiprocessing
    import torch
    from torch import nn
    from torch.nn.utils import parametrizations
    from torch.utils.data import DataLoader, TensorDataset
    import torch.fx

    assert nn.Linear.__module__ == "torch.nn.modules.linear"
    assert repr(nn.ReLU) == "<class 'torch.nn.modules.activation.ReLU'>"
    assert inspect.getsource(nn.Linear).startswith("class Linear") and typing.get_type_hints(nn.Linear)
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    assert type(pickle.loads(old)) is nn.Linear
    new = pickle.dumps(model)
    assert b"torchgrad_jax.nn" not in new and b"torch.nn.modules.container" in new
    assert pickle.loads(pickle.dumps(nn.functional.relu)) is nn.functional.relu
    for again in (pickle.loads(new), copy.deepcopy(model)):
        assert type(again) is nn.Sequential and torch.equal(again[0].weight, model[0].weight)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    with torch.serialization.safe_globals([nn.Sequential, nn.Linear, nn.ReLU]):
        assert type(torch.load(file)[1]) is nn.ReLU
    assert type(parametrizations.weight_norm(nn.Linear(2, 2))).__module__ == "torch.nn.utils.parametrize"
    traced = torch.fx.symbolic_trace(model)
    assert [n.op for n in traced.graph.nodes] == ["placeholder", "call_module", "call_module", "output"]
    assert type(traced).__module__ == "torch.fx.graph_module"
    traced = torch.fx.symbolic_trace(lambda x: nn.functional.relu(torch.cdist(torch.linalg.norm(x, dim=-1), x)))
    print(traced.code)
    assert "torchgrad_jax.quasirandom" not in sys.modules
    import torch.quasirandom  # imported late
    assert torch.quasirandom.SobolEngine.__module__ == "torch.quasirandom"

    rnn = nn.utils.rnn
    made = torchgrad_jax.interop.export(lambda x: rnn.PackedSequence(x, torch.tensor([2, 1])), torch.ones(3))
    made.save("exported")

    # A process finds torch's names although only this one installed the alias.
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(type, (nn.Linear(1, 1),)) is nn.Linear
    data = TensorDataset(torch.arange(3.0))
    batches = DataLoader(data, batch_size=2, num_workers=1, multiprocessing_context="spawn")
    assert [b.tolist() for b, in batches] == [[0.0, 1.0], [2.0]]

    alias.remove()
    assert nn.Linear.__module__ == "torchgrad_jax.nn.modules.linear" and pickle.dumps(nn.Linear(2, 3)) != new
    assert torch.quasirandom.SobolEngine.__module__ == "torchgrad_jax.quasirandom"
    again = torchgrad_jax.interop.load_exported("exported", [rnn.PackedSequence])
    assert type(again(torchgrad_jax.ones(3))) is rnn.PackedSequence
    assert not [p for p in sys.path if p.endswith("shim")]
"""


def test_pickles_and_processes_under_the_names_of_torch(tmp_path):
    (tmp_path / "program.py").write_text(PICKLES)
    done = run("program.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "torch.functional.cdist(" in done.stdout, done.stdout


WHOSE = """
import jax.numpy as jnp, numpy as np, torchgrad_jax
def takes(make):
    try:
        make()
        return True
    except TypeError:
        return False
def seen(torch):
    dtypes = [torch.float32, torch.int64, torch.bool, torch.complex64, torch.bfloat16]
    return [takes(lambda: jnp.ones(1).astype(d)) or takes(lambda: np.ones(1).astype(d)) for d in dtypes]
def of_jax(): return [takes(lambda: jnp.ones(1).astype(d)) for d in ("float32", np.int8, jnp.bfloat16)]
before = seen(torchgrad_jax)
with torchgrad_jax.install_as_torch():
    import torch
    inside, jax_inside = seen(torch), of_jax()
print(before, inside, jax_inside, seen(torchgrad_jax))
"""


def test_a_program_may_ask_whose_a_dtype_is(tmp_path):
    """PyTorch's dtypes are none of NumPy's; a package for several libraries tries them, one after the other."""
    done = run("-c", WHOSE, cwd=tmp_path)
    takes = np.lib.NumpyVersion(np.__version__) >= "2.4.0"
    assert done.stdout.strip() == f"{[takes] * 5} {[False] * 5} {[True] * 3} {[takes] * 5}", done.stderr
