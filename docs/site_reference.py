"""The reference of the site: a page per public module, made of stubs and docstrings while the site is built.

For example, `torch.clamp` gets its two signatures from `torchgrad_jax/__init__.pyi`, and its sentence from the row that
declares it. Nothing of this is a file of the repository, so nothing of it can be out of date.
"""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE = Path(__file__).resolve().parent.parent / "torchgrad_jax"


@dataclass(frozen=True)
class Page:
    """A module of the reference, and the stub that has its signatures, if it has one."""

    name: str
    subject: str
    stub: str | None = None
    owner: str | None = None
    """A stub with a class of the page's name, whose methods belong there, too."""


PAGES = (
    Page(
        "torch",
        "Functions at the top: creation, arithmetic, reductions, indexing, shapes, random numbers.",
        "__init__.pyi",
    ),
    Page("torch.Tensor", "Methods and attributes of tensors.", "_names/methods.pyi", "_engine/memory/tensor.pyi"),
    Page("torch.nn", "Layers, containers and losses."),
    Page("torch.nn.functional", "Layers and losses as functions.", "nn/functional.pyi"),
    Page("torch.nn.init", "Initial values of parameters."),
    Page("torch.nn.utils", "Clipping, vectors of parameters, packed sequences."),
    Page("torch.linalg", "Linear algebra.", "linalg.pyi"),
    Page("torch.fft", "Fourier transforms.", "fft.pyi"),
    Page("torch.special", "Special functions.", "special.pyi"),
    Page("torch.autograd", "Gradients, custom functions, modes."),
    Page("torch.autograd.graph", "Nodes and hooks of the graph."),
    Page("torch.autograd.functional", "Jacobians and Hessians of functions."),
    Page("torch.func", "Function transforms."),
    Page("torch.compiler", "What steers `torch.compile`."),
    Page("torch.interop", "Between tensors and JAX; only here, not in PyTorch."),
    Page("torch.interop.weights", "Weights in the layouts of flax and equinox; only here, not in PyTorch."),
    Page("torch.optim", "Optimizers."),
    Page("torch.optim.lr_scheduler", "Schedules of learning rates."),
    Page("torch.amp", "Mixed precision."),
    Page("torch.utils.data", "Datasets, samplers and loaders."),
    Page("torch.utils.checkpoint", "Memory for time."),
    Page("torch.serialization", "Saving and loading."),
    Page("torch.distributions", "Probability distributions."),
    Page("torch.distributed", "Processes and collectives."),
    Page("torch.distributed.tensor", "Tensors over meshes of devices."),
    Page("torch.library", "Operators of your own."),
    Page("torch.profiler", "What runs, and what it takes."),
)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages, and one that lists them."""
    from mkdocs.structure.files import File  # needed only where the site is built

    files.append(File.generated(config, "reference/index.md", content=index()))
    for page in PAGES:
        files.append(File.generated(config, f"reference/{page.name}.md", content=text(page)))
    return files


def index() -> str:
    """The page that lists the others."""
    rows = "".join(f"| [`{page.name}`]({page.name}.md) | {page.subject} |\n" for page in PAGES)
    return (
        "# Reference\n\nSignatures, what differs from PyTorch, and examples that the tests run. Under a name stands "
        "what this package says of it; arguments that are not explained are PyTorch's. "
        "[Coverage](../coverage.md) says what is missing.\n\n"
        f"| module | subject |\n| --- | --- |\n{rows}"
    )


def text(page: Page) -> str:
    """A page: each name with its signatures and what its docstring says."""
    parts = [f"# {page.name}\n\n{page.subject}\n"]
    for name, signatures, doc in entries(page):
        code = "\n".join(signatures)
        tier = EXPERIMENTAL_NOTE if page.name == "torch.interop" and name in tiers()["experimental"][0] else ""
        parts.append(f"## {name} {{ #{name} }}\n\n```python\n{code}\n```\n\n{tier}{markdown(doc)}")
    return "\n".join(parts)


EXPERIMENTAL_NOTE = (
    "**[Experimental](../support.md#stable-and-experimental):** its form may change in a minor version.\n\n"
)


def tiers() -> dict[str, tuple[list[str], list[str]]]:
    """By tier the names of interop and of compiled functions, as docs/support.md lists them."""
    text = (PACKAGE.parent / "docs" / "support.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (stable|experimental) \| (.*) \| (.*) \|$", text, re.MULTILINE)
    return {tier: (re.findall(r"`(\w+)`", a), re.findall(r"`(\w+)`", b)) for tier, a, b in rows}


def entries(page: Page) -> list[tuple[str, list[str], str]]:
    """Names, signatures and docstrings of a page, in the order of the alphabet."""
    found = _declared(page) if page.stub else _members(page.name)
    return sorted(found, key=lambda entry: entry[0].lower())


def _declared(page: Page) -> Iterator[tuple[str, list[str], str]]:
    """What a stub declares: overloads of one name make one entry."""
    body = _statements(page.stub)
    if page.owner:
        label = page.name.rpartition(".")[2]
        (owner,) = (n for n in _statements(page.owner) if isinstance(n, ast.ClassDef) and n.name == label)
        body += owner.body
    by_name: dict[str, list[ast.FunctionDef]] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            by_name.setdefault(node.name, []).append(node)
    for name, nodes in by_name.items():
        docs = [ast.get_docstring(node) or "" for node in nodes]
        yield name, [_signature(node) for node in nodes], max(docs, key=len)


def _statements(stub: str | None) -> list[ast.stmt]:
    return ast.parse((PACKAGE / stub).read_text(encoding="utf-8")).body if stub else []


def _signature(node: ast.FunctionDef) -> str:
    if any(isinstance(d, ast.Name) and d.id == "property" for d in node.decorator_list):
        return f"{node.name}: {ast.unparse(node.returns) if node.returns else 'Any'}"
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{node.name}({ast.unparse(node.args)}){result}"


def _members(name: str) -> Iterator[tuple[str, list[str], str]]:
    """The public classes and functions of a module that say something of themselves."""
    module: ModuleType = importlib.import_module(name.replace("torch", "torchgrad_jax", 1))
    public = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
    for label in public:
        x = getattr(module, label)
        ours = str(getattr(x, "__module__", "")).startswith(("torchgrad_jax", "torch."))
        if ours and (inspect.isclass(x) or inspect.isroutine(x)):
            yield label, [_called(label, x)], _own_doc(x)


def _own_doc(x: Any) -> str:
    """The docstring of a thing itself: that of a base class says nothing of it."""
    return inspect.cleandoc(x.__dict__.get("__doc__") or "") if inspect.isclass(x) else inspect.getdoc(x) or ""


def _called(label: str, x: Any) -> str:
    try:
        shown = str(inspect.signature(x)).replace("'", "").removesuffix(" -> None")
    except (TypeError, ValueError):
        shown = "(...)"
    return f"{'class ' if inspect.isclass(x) else ''}{label}{re.sub(r' at 0x[0-9a-f]+', '', shown)}"


_HEADER = re.compile(r"^(Args|Returns|Raises|Yields|Example|Examples|Attributes):$", re.MULTILINE)


def markdown(doc: str) -> str:
    """A docstring as Markdown: its paragraphs, then lists of arguments and errors, then the example."""
    before, *sections = _HEADER.split(doc)
    parts = [_prose(before)]
    for title, body in zip(sections[::2], sections[1::2]):
        body = inspect.cleandoc(body)
        if title.startswith("Example"):
            parts.append(f"```pycon\n{body}\n```\n")
        elif title in ("Returns", "Yields"):
            parts.append(f"**{title}:** {_prose(body)}")
        else:
            parts.append(f"**{title}:**\n\n" + "".join(f"* {_prose(item)}" for item in re.split(r"\n(?=\S)", body)))
    return "\n".join(parts)


def _prose(doc: str) -> str:
    """Text whose characters mean themselves, outside of code."""
    pieces = re.split(r"(``?[^`]+``?)", doc.strip())
    pieces[::2] = [re.sub(r"([<>*\[\]])", r"\\\1", piece) for piece in pieces[::2]]
    out = re.sub(r"^(Differs from torch):", r"**\1:**", "".join(pieces), flags=re.MULTILINE)
    return out + "\n"
