"""The stubs say what the package is: current, complete, true to the functions, and useful."""

import ast
import importlib
import importlib.util
import inspect
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import torchgrad_jax
from torchgrad_jax import return_types
from torchgrad_jax._codegen import files, homes
from torchgrad_jax._codegen.__main__ import main
from torchgrad_jax._codegen.overloads import METHOD_OVERLOADS, OVERLOADS
from torchgrad_jax._core.builtin_functions import function_of
from torchgrad_jax._engine.entry import bind
from torchgrad_jax.return_types import RETURN_TYPES

PACKAGE = Path(torchgrad_jax.__file__).parent
SAMPLE, PROJECT = (Path(__file__).parent / "typing" / name for name in ("sample.py", "project.py"))
NAMESPACES = ["linalg", "fft", "special", "nn.functional"]


def declared(body):
    """Names that statements of a stub declare for others to see, each with its nodes."""
    out = {}
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            out.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id != "_Number":
            out.setdefault(node.target.id, []).append(node)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            out.setdefault(node.targets[0].id, []).append(node)
        elif isinstance(node, ast.ImportFrom):
            out.update({a.asname: [node] for a in node.names if a.asname and a.asname == a.name})
    return out


def stub(path):
    return ast.parse((PACKAGE / path).read_text(encoding="utf-8"))


def tensor_class():
    (found,) = (n for n in stub("_engine/memory/tensor.pyi").body if isinstance(n, ast.ClassDef) and n.name == "Tensor")
    return declared(found.body)


def test_current():
    assert files.stale(PACKAGE) == [], "run `python -m torchgrad_jax._codegen`"


def test_check_reports_and_write_repairs(tmp_path, capsys):
    for name in files.build():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PACKAGE / name, tmp_path / name)
    assert main(["--check", "--root", str(tmp_path)]) == 0
    (tmp_path / "linalg.pyi").write_text("# old\n")
    (tmp_path / "fft.pyi").unlink()
    assert main(["--check", "--root", str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert "linalg.pyi" in told
    assert "fft.pyi" in told
    assert "special.pyi" not in told
    assert (tmp_path / "linalg.pyi").read_text() == "# old\n"
    assert main(["--root", str(tmp_path)]) == 0
    assert main(["--check", "--root", str(tmp_path)]) == 0


def test_top_level_is_complete():
    assert set(torchgrad_jax.__all__) <= set(declared(stub("__init__.pyi").body))


@pytest.mark.parametrize("name", NAMESPACES)
def test_namespace_is_complete(name):
    module = importlib.import_module(f"torchgrad_jax.{name}")
    assert set(module.__all__) == set(declared(stub(name.replace(".", "/") + ".pyi").body))


def test_tensor_is_complete():
    tensor = torchgrad_jax.Tensor
    # Fake tensors have attributes that no other tensor has, and that the class says it does not have.
    named = {n for n in vars(tensor) if not n.startswith("__") and hasattr(tensor, n)}
    assert named | set(bind.OPERATORS) <= set(tensor_class())


def test_result_classes_have_the_fields_of_the_real_ones():
    found = declared(stub("return_types.pyi").body)
    assert set(found) == set(return_types.__all__)
    for name in return_types.__all__:
        assert [n.target.id for n in found[name][0].body] == list(RETURN_TYPES[name]._fields)


def parameters(node):
    args = node.args
    every = [*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg]
    return [a.arg for a in every if a is not None]


@pytest.mark.parametrize("name", sorted(OVERLOADS))
def test_overloads_take_what_the_function_takes(name):
    """Overloads are written by hand; their parameters must exist."""
    namespace, _, label = name.rpartition(".")
    real = inspect.signature(function_of(bind.NAMESPACES[namespace][label]))
    if any(p.kind is p.VAR_POSITIONAL for p in real.parameters.values()):
        real = None  # the function itself tells its overloads apart
    for text in OVERLOADS[name]:
        (node,) = ast.parse(f"def {label}{text}: ...").body
        if real is not None:
            form = getattr(function_of(bind.NAMESPACES[namespace][label]), "form", None)
            extra = {"out"} if form and form.out else set()
            assert set(parameters(node)) - set(real.parameters) - extra == set()


@pytest.mark.parametrize("name", sorted(METHOD_OVERLOADS))
def test_method_overloads_are_of_methods(name):
    assert callable(getattr(torchgrad_jax.Tensor, name))


def test_rows_keep_their_signature():
    """Names, order, keyword-only-ness and defaults of every function made from a row."""
    body = declared(stub("__init__.pyi").body)
    seen = 0
    for name, fn in ((name, function_of(fn)) for name, fn in bind.NAMESPACES[""].items()):
        if not hasattr(fn, "binding") or name.startswith("_") or name.endswith("_") or len(body[name]) > 1:
            continue
        row = fn.binding.row
        node = body[name][0]
        positional = [p.name for p in row.params if not p.kwonly]
        keyword = [p.name for p in row.params if p.kwonly]
        assert [a.arg for a in node.args.args] == positional, name
        assert [a.arg for a in node.args.kwonlyargs if a.arg != "out"] == keyword, name
        required = [p.name for p in row.params if not p.kwonly and p.default is inspect.Parameter.empty]
        assert len(node.args.args) - len(node.args.defaults) == len(required), name
        assert ("out" in [a.arg for a in node.args.kwonlyargs]) == (row.out and not row.view), name
        seen += 1
    assert seen > 200


def test_stubs_are_not_mostly_any():
    """Functions without a result type are few and known."""
    untyped = {
        name
        for path in ("__init__.pyi", "linalg.pyi", "fft.pyi", "special.pyi", "nn/functional.pyi")
        for name, nodes in declared(stub(path).body).items()
        for n in nodes
        if isinstance(n, ast.FunctionDef) and ast.unparse(n.returns or ast.Constant("")) == "Any"
    }
    assert len(untyped) < 40, sorted(untyped)


def test_sample_runs():
    spec = importlib.util.spec_from_file_location("typing_sample", SAMPLE)
    assert spec is not None
    assert spec.loader is not None
    sample = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sample)
    sample.main()


def test_sample_and_project_type_check():
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("pyright is not installed")
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(SAMPLE), str(PROJECT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=PACKAGE.parent)
    assert done.returncode == 0, done.stdout + done.stderr


def test_attributes_of_some_tensors_are_none_of_the_class():
    """What was imported before makes no difference to the stubs, and plain tensors lack what only others have."""
    dtensor = importlib.import_module("torchgrad_jax.distributed.tensor").DTensor
    importlib.import_module("torchgrad_jax._subclasses").FakeTensorMode()
    assert torchgrad_jax.Tensor.__repr__ in torchgrad_jax.overrides.get_overridable_functions()[torchgrad_jax.Tensor]
    tensor = torchgrad_jax.ones(2)
    over_a_mesh = ("placements", "device_mesh", "to_local", "redistribute", "full_tensor")
    for name in (*over_a_mesh, "fake_mode", "fake_device"):
        assert not hasattr(torchgrad_jax.Tensor, name)
        assert not hasattr(tensor, name)
    assert all(hasattr(dtensor, name) for name in over_a_mesh)
    assert files.stale(PACKAGE) == []


def test_editors_find_where_a_function_is_declared():
    """An editor follows the modules of `_names/`, which have the row or function that declares each public function."""
    nameless = []
    for namespace, file in homes.NAMESPACES.items():
        names, functions = importlib.import_module(f"torchgrad_jax._names.{file}"), bind.NAMESPACES[namespace]
        nameless += [n for n, fn in functions.items() if not hasattr(names, n) and inspect.isroutine(fn)]
        for name in functions.keys() & vars(names).keys():
            module, declared = homes.home(functions[name]) or ("", "")
            assert getattr(names, name) is getattr(importlib.import_module(f"torchgrad_jax.{module}"), declared)
    assert nameless == []


@pytest.mark.parametrize(
    "name, module",
    [
        ("softmax", "_functions.activation"),
        ("mul", "_ops.arith"),
        ("sin", "_ops.trigonometry"),
        ("relu", "_ops.activation"),
    ],
)
def test_a_function_and_its_method_lead_to_one_declaration(name, module):
    assert homes.home(getattr(torchgrad_jax, name)) == (module, name)
    assert homes.home(homes.methods()[name]) == (module, name)


def test_an_operator_leads_to_its_row():
    assert homes.home(homes.methods()["__mul__"]) == homes.home(torchgrad_jax.mul)
