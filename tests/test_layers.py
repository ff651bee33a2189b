"""Imports point one way: what the order of the layers allows, read off the source with `ast`.

Every import counts, also one inside a function or under `TYPE_CHECKING`: those hide a wrong
direction rather than mend it.
"""

import ast
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = "torchgrad_jax"
ROOT = Path(__file__).resolve().parent.parent / PACKAGE

# A module imports from its own row (without cycles) or from rows before it. A name stands for the
# file or the folder of that name; "" is torchgrad_jax/__init__.py.
LAYERS: tuple[tuple[str, frozenset[str]], ...] = (
    ("L0", frozenset({"_core", "torch_version", "version"})),
    ("L1", frozenset({"_ops"})),
    ("L2", frozenset({"_engine"})),
    ("L2b", frozenset({"_functions"})),
    ("L2c", frozenset({"_bridge"})),
    (
        "L3",
        frozenset(
            {
                "_VF",
                "__config__",
                "__future__",
                "_custom_ops",
                "_library",
                "_names",
                "_settings",
                "_streams",
                "_subclasses",
                "_tensor",
                "_tensor_str",
                "accelerator",
                "amp",
                "autograd",
                "backends",
                "classes",
                "compiler",
                "cpu",
                "cuda",
                "distributed",
                "fft",
                "functional",
                "futures",
                "jit",
                "library",
                "linalg",
                "masked",
                "monitor",
                "multiprocessing",
                "ops",
                "profiler",
                "quasirandom",
                "random",
                "return_types",
                "signal",
                "special",
                "storage",
                "types",
                "utils",
            }
        ),
    ),
    ("L4", frozenset({"nn", "optim"})),
    (
        "L5",
        frozenset(
            {
                "func",
                "_utils",
                "fx",
                "interop",
                "overrides",
                "testing",
                "_C",
                "_alias",
                "distributions",
                "export",
                "_codegen",
                "_dynamo",
                "_functorch",
                "_higher_order_ops",
                "_logging",
                "_vmap_internals",
                "__main__",
                "pytest_alias",
                "pytest_compare",
                "serialization",
                "hub",
                "utils.model_zoo",
                "utils.flop_counter",
                "utils.module_tracker",
                "utils._debug_mode",
                "distributed.algorithms._checkpoint",
                "distributed.algorithms.ddp_comm_hooks",
                "distributed.algorithms.model_averaging",
                "distributed.checkpoint",
                "distributed._composable",
                "distributed._tensor",
                "distributed.fsdp",
                "distributed.optim",
                "distributed.pipelining",
                "distributed.tensor",
                "distributed.run",
                "distributed.launch",
                "",
            }
        ),
    ),
)

# Where a folder is narrower than its layer: its files see these of their siblings and no other. The
# folder's __init__.py, which assembles it, sees them all.
SHARED_SIBLINGS: Mapping[str, frozenset[str]] = {
    # A family does not import another family.
    "_ops": frozenset(
        {"registry", "helpers", "inner", "complexes", "logarithms", "matrix_helpers", "ordering", "places"}
    )
}

# The order inside of a package: a file or folder imports from its own wing (without cycles) or from wings before it.
WINGS: Mapping[str, tuple[str, ...]] = {
    "_core": (
        "python_classes",
        "python_code",
        "python_arrays",
        "python_objects",
        "python_values",
        "c_functions",
        "written_code",
        "builtin_functions",
        "homes",
        "signals",
        "state",
        "events",
        "errors",
        "jax",
        "arrays",
        "files",
        "host",
        "random",
    ),
    "_engine": ("surface", "run", "memory", "graph", "modes", "overrides", "entry", "tensor", "passes"),
    # `compile` alone stands for the files beside its four wings.
    "_bridge": (
        "compile.watch",
        "compile.arguments",
        "compile.trace",
        "compile.program",
        "compile",
        "jax_side",
        "basis",
        "vmap",
    ),
}
FILES_OF_A_WING = 20

# Where a single file is narrower still: the modules of the package that it may import.
ONLY: Mapping[str, frozenset[str]] = {
    "_core.errors.messages": frozenset(),
    "_core.signals": frozenset(),
    "_core.state": frozenset({"_core.signals"}),
    "_engine.surface": frozenset(),
    "_engine.graph.hooks": frozenset({"_core.errors.warn", "_core.signals"}),
    "_engine.graph.node": frozenset({"_core", "_engine.graph.hooks"}),
    "_engine.memory.shared_values": frozenset({"_core.state"}),
    "_engine.run.program": frozenset({"_core"}),
    "_engine.run.numbers_apart": frozenset({"_core", "_engine.run.program"}),
    "_engine.run.executors": frozenset({"_core"}),
    "_engine.run.kernel": frozenset(
        {"_core", *(f"_engine.run.{name}" for name in ("executors", "numbers_apart", "program"))}
    ),
    "_engine.run.trace_files": frozenset({"_core", "_engine.run.program"}),
    "_engine.run.templates": frozenset({"_core", "_engine.run.program", "_engine.run.trace_files"}),
    "_engine.run.trace": frozenset(
        {"_core", "_ops", *(f"_engine.run.{name}" for name in ("joining", "kernel", "program", "templates"))}
    ),
    "_engine.graph.formula": frozenset({"_core", "_engine.run"}),
    "_engine.graph.grad_plan": frozenset(
        {"_core", "_ops", "_engine.run", "_engine.graph.formula", "_engine.graph.node", "_engine.memory.shared_values"}
    ),
}

# What the installed package may import besides itself and the standard library; JAX brings scipy along.
RUNTIME_DEPENDENCIES = frozenset({"cloudpickle", "jax", "jaxlib", "numpy", "scipy"})

# What a package that is only loaded by name may import besides, as torch does there.
OPTIONAL_DEPENDENCIES = {
    "serialization.safetensors": frozenset({"safetensors"}),
    "utils.tensorboard": frozenset({"tensorboardX"}),
    "interop.weights": frozenset({"equinox"}),
    "interop._modules": frozenset({"equinox", "flax"}),
    "interop._optimizers": frozenset({"optax"}),
    "testing._shrink": frozenset({"hypothesis"}),
    "pytest_compare": frozenset({"pytest", "torch"}),
    # What watches a program uses the torch that the program has, real or not.
    "testing._observer": frozenset({"torch"}),
    "testing._boot": frozenset({"torchgrad_jax_observer"}),
}


@dataclass(frozen=True)
class Import:
    """One imported name: `target` is a module below the package, or the name of another package."""

    source: str
    target: str
    line: int
    internal: bool

    def __str__(self) -> str:
        target = _shown(self.target) if self.internal else self.target
        return f"{_shown(self.source)}:{self.line} imports {target}"


def _shown(module: str) -> str:
    return f"{PACKAGE}.{module}".rstrip(".")


def modules_under(root: Path) -> dict[str, Path]:
    """Dotted name below the package -> file; a folder's `__init__.py` goes by the folder's name."""
    names = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def read_imports(root: Path) -> list[Import]:
    modules = modules_under(root)
    found: list[Import] = []
    for source, path in modules.items():
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text, filename=str(path))
        package = source if path.name == "__init__.py" else source.rpartition(".")[0]
        by_a_call = "__import__" in text or "import_module" in text
        for node in ast.walk(tree) if by_a_call else _statements(tree):
            for name in _imported(node, package):
                inside = name == PACKAGE or name.startswith(PACKAGE + ".")
                target = _nearest(name, modules) if inside else name.partition(".")[0]
                found.append(Import(source, target, getattr(node, "lineno", 0), inside))
    return found


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements, without the expressions in them, of which there are many more."""
    waiting = deque([tree])
    while waiting:
        yield (node := waiting.popleft())
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting.extend(getattr(node, name, ()))


def _imported(node: ast.AST, package: str) -> Iterator[str]:
    """The absolute dotted names that one syntax node imports."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=module, names=names, level=level):
            base = _absolute(module or "", level, package)
            yield from (f"{base}.{alias.name}" for alias in names)
        case ast.Call(func=ast.Name(id="__import__"), args=[ast.Constant(value=str(name)), *_]):
            yield name
        case ast.Call(
            func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(name)), *_],
        ):
            level = len(name) - len(name.lstrip("."))
            yield _absolute(name.lstrip("."), level, package)


def _absolute(module: str, level: int, package: str) -> str:
    if level == 0:
        return module
    parts = [PACKAGE, *package.split(".")] if package else [PACKAGE]
    return ".".join([*parts[: len(parts) - level + 1], *([module] if module else [])])


def _nearest(name: str, modules: Mapping[str, Path]) -> str:
    """The module that `name` lives in: itself, or the closest parent that is a module."""
    inner = name[len(PACKAGE) + 1 :]
    while inner and inner not in modules:
        inner = inner.rpartition(".")[0]
    return inner


def layer_of(module: str) -> int | None:
    found = {name: i for i, (_, names) in enumerate(LAYERS) for name in names}
    while module not in found and "." in module:  # a file may stand apart from its folder
        module = module.rpartition(".")[0]
    return found.get(module)


def wing_of(module: str) -> tuple[str, int] | None:
    """The package of a module that has wings, and the number of its wing; the package's own file sees all wings."""
    package, _, inner = module.partition(".")
    wings = WINGS.get(package, ())
    while inner and inner not in wings:
        inner = inner.rpartition(".")[0]
    return (package, wings.index(inner)) if inner else None


def unplaced(modules: Iterable[str]) -> list[str]:
    modules = list(modules)
    in_no_wing = [m for m in modules if m.partition(".")[0] in WINGS and "." in m and wing_of(m) is None]
    return [
        *(f"{_shown(m)} is in no layer, see LAYERS" for m in modules if layer_of(m) is None),
        *(f"{_shown(m)} is in no wing, see WINGS" for m in in_no_wing),
    ]


def upward(imports: Iterable[Import]) -> list[str]:
    wrong = []
    for i in imports:
        below, above = layer_of(i.source), layer_of(i.target)
        if i.internal and below is not None and above is not None and above > below:
            wrong.append(f"{i}: upward, from {LAYERS[below][0]} to {LAYERS[above][0]}")
    return wrong


def upward_between_wings(imports: Iterable[Import]) -> list[str]:
    wrong = []
    for i in imports:
        source, target = wing_of(i.source), wing_of(i.target)
        if i.internal and source and target and source[0] == target[0] and target[1] > source[1]:
            names = WINGS[source[0]]
            wrong.append(f"{i}: upward, from wing {names[source[1]]} to wing {names[target[1]]}")
    return wrong


def too_wide(imports: Iterable[Import]) -> list[str]:
    """Imports that the layer allows and the narrower rule of the file or folder does not."""
    return [
        f"{i}: narrower than its layer, see ONLY and SHARED_SIBLINGS"
        for i in imports
        if i.internal and not (_allowed_by_folder(i) and _allowed_by_file(i))
    ]


def _allowed_by_folder(i: Import) -> bool:
    folder, _, name = i.source.partition(".")
    target_folder, _, sibling = i.target.partition(".")
    if folder not in SHARED_SIBLINGS or folder != target_folder or not name:
        return True
    return sibling in SHARED_SIBLINGS[folder]


def _allowed_by_file(i: Import) -> bool:
    allowed = ONLY.get(i.source)
    return allowed is None or any(i.target == a or i.target.startswith(a + ".") for a in allowed)


def cycles(imports: Iterable[Import]) -> list[str]:
    """One line for each cycle of module imports that a depth-first walk meets."""
    edges: dict[str, list[str]] = {}
    for i in imports:
        if i.internal and i.target not in edges.setdefault(i.source, []):
            edges[i.source].append(i.target)
    found: list[str] = []
    done: set[str] = set()

    def walk(module: str, trail: list[str]) -> None:
        if module in trail:
            loop = [*trail[trail.index(module) :], module]
            found.append("cycle: " + " -> ".join(map(_shown, loop)))
        elif module not in done:
            for target in edges.get(module, ()):
                walk(target, [*trail, module])
            done.add(module)

    for module in edges:
        walk(module, [])
    return found


def foreign(imports: Iterable[Import]) -> list[str]:
    known = RUNTIME_DEPENDENCIES | sys.stdlib_module_names
    return [f"{i}: not a dependency" for i in imports if not i.internal and i.target not in known | _optional(i.source)]


def _optional(source: str) -> frozenset[str]:
    found = (m for p, m in OPTIONAL_DEPENDENCIES.items() if source == p or source.startswith(p + "."))
    return next(found, frozenset())


def violations(root: Path, imports: list[Import] | None = None) -> list[str]:
    imports = read_imports(root) if imports is None else imports
    checks = (upward, upward_between_wings, too_wide, cycles, foreign)
    return [*unplaced(modules_under(root)), *(line for check in checks for line in check(imports))]


def test_imports_of_the_package_point_one_way():
    imports = read_imports(ROOT)
    assert imports, f"no import found under {ROOT}"
    found = violations(ROOT, imports)
    assert not found, "\n".join(["", *found])


def test_narrower_rules_name_existing_modules():
    modules = modules_under(ROOT)
    siblings = {f"{f}.{s}" for rules in (SHARED_SIBLINGS, WINGS) for f, names in rules.items() for s in names}
    assert not {*ONLY, *siblings} - modules.keys()


def test_a_wing_says_what_lives_there_and_stays_small():
    folders = sorted({path.parent for package in WINGS for path in (ROOT / package).rglob("*.py")})
    for folder in folders:
        assert len([*folder.glob("*.py")]) <= FILES_OF_A_WING, f"{folder} has too many files: it has two subjects"
        if folder.parent != ROOT:
            text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))) or ""
            words = ("Lives here:", "May import", "Begin with")
            assert all(word in text for word in words), f"{folder}/__init__.py says none of {words}"


# --- the check itself --------------------------------------------------------------------------

GOOD_TREE = {
    "__init__.py": "from . import autograd\nfrom ._engine.memory import tensor\n",
    "_core/__init__.py": "from . import errors\nfrom .arrays import dtypes\n",
    "_core/errors/__init__.py": "import math\n",
    "_core/arrays/__init__.py": "",
    "_core/arrays/dtypes.py": "from ..errors import DTypeError\n",
    "_ops/__init__.py": "from . import signs, reduce\nfrom .registry import TABLE\n",
    "_ops/registry.py": "from .._core import errors\n",
    "_ops/helpers.py": "import jax.numpy as jnp\n",
    "_ops/signs.py": "from . import helpers\nfrom .registry import op\n",
    "_ops/reduce.py": "from torchgrad_jax._ops.registry import op\n",
    "_engine/__init__.py": "",
    "_engine/memory/__init__.py": "",
    "_engine/memory/tensor.py": "import numpy\nfrom ..._core.arrays import dtypes\n",
    "_engine/entry/__init__.py": "",
    "_engine/entry/bind.py": "from ..memory import tensor\nfrom ..._ops import TABLE\n",
    "autograd/__init__.py": "from .._engine.memory.tensor import Tensor\nfrom .graph import Node\n",
    "autograd/graph.py": "def f():\n    from .. import _engine\n",
}

BAD_FILES = {
    "upward": ("_core/arrays/dtypes.py", "from ..._engine.memory import tensor", "upward, from L0 to L2"),
    "upward-absolute": ("_ops/helpers.py", "import torchgrad_jax.autograd.graph", "L1 to L3"),
    "upward-to-the-root": ("_engine/memory/tensor.py", "from ... import no_grad", "L2 to L5"),
    "upward-in-a-function": (
        "_engine/memory/tensor.py",
        "def f():\n    if f:\n        from ...autograd import graph",
        "_engine.memory.tensor:3 imports torchgrad_jax.autograd.graph: upward",
    ),
    "upward-for-types": (
        "_core/errors/__init__.py",
        "import typing\nif typing.TYPE_CHECKING:\n    from ..._engine.memory.tensor import Tensor",
        "upward, from L0 to L2",
    ),
    "upward-by-name": (
        "_ops/registry.py",
        "import importlib\nimportlib.import_module('.._engine.entry.bind', __package__)",
        "upward, from L1 to L2",
    ),
    "cycle-of-two": (
        "_engine/memory/tensor.py",
        "from ..entry import bind",
        "_engine.memory.tensor -> torchgrad_jax._engine.entry.bind -> torchgrad_jax._engine.memory.tensor",
    ),
    "upward-between-wings": (
        "_engine/memory/views.py",
        "from ..entry import bind",
        "_engine.memory.views:1 imports torchgrad_jax._engine.entry.bind: upward, from wing memory to wing entry",
    ),
    "no-wing": ("_engine/extras.py", "", "torchgrad_jax._engine.extras is in no wing"),
    "cycle-through-init": (
        "autograd/graph.py",
        "def f():\n    from . import backward",
        "cycle: torchgrad_jax.autograd -> torchgrad_jax.autograd.graph -> torchgrad_jax.autograd",
    ),
    "another-family": ("_ops/reduce.py", "from . import signs", "narrower than its layer"),
    "narrow-file": ("_engine/run/program.py", "from ..._ops import registry", "narrower than its layer"),
    "no-layer": ("extras.py", "", "torchgrad_jax.extras is in no layer"),
    "torch": ("_core/arrays/devices.py", "import torch.cuda", "_core.arrays.devices:1 imports torch: not a dependency"),
    "optional-elsewhere": (
        "_core/arrays/devices.py",
        "import tensorboard",
        "_core.arrays.devices:1 imports tensorboard: not a dependency",
    ),
}


def _write_tree(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = root / PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    return root / PACKAGE


def test_a_good_tree_passes(tmp_path):
    assert violations(_write_tree(tmp_path, GOOD_TREE)) == []


@pytest.mark.parametrize("name, text, message", BAD_FILES.values(), ids=BAD_FILES)
def test_one_bad_file_fails(tmp_path, name, text, message):
    found = violations(_write_tree(tmp_path, {**GOOD_TREE, name: text}))
    assert any(message in line for line in found), found


def test_a_long_cycle_is_found(tmp_path):
    ring = {f"nn/m{i}.py": f"from . import m{(i + 1) % 50}" for i in range(50)}
    found = violations(_write_tree(tmp_path, {**GOOD_TREE, "nn/__init__.py": "", **ring}))
    assert [line.count("->") for line in found] == [50]
