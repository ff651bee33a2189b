"""torch's documentation page `torch.autograd` as a table: each name, option and example, beside its result in torch.

What the page has is known from torch itself: `compat_suite/recorded/api.json` holds its public names, with their
parameters, their members, and whether a docstring shows an example. The tests at the end say what has no row.
"""

import inspect
import re

import pytest

from compat_suite import api
from compat_suite.ledger import current
from tests.autograd.page import checks, functions, graphs, passes, profiles
from tests.autograd.page.rows import Rows
from tests.engine.helpers import table

PAGE = {
    "torch.autograd": passes.AUTOGRAD | checks.CHECKS | passes.MODES,
    "torch.autograd.anomaly_mode": passes.AUTOGRAD,
    "torch.autograd.forward_ad": passes.FORWARD,
    "torch.autograd.function": functions.FUNCTIONS,
    "torch.autograd.functional": checks.FUNCTIONAL,
    "torch.autograd.grad_mode": passes.MODES,
    "torch.autograd.gradcheck": checks.CHECKS,
    "torch.autograd.graph": graphs.GRAPH,
    "torch.autograd.profiler": profiles.PROFILER | profiles.UTIL,
    "torch.autograd.profiler_util": profiles.UTIL,
    "torch.autograd.variable": passes.AUTOGRAD | functions.FUNCTIONS,
}
ALL: Rows = Rows({k: fn for rows in (*PAGE.values(), passes.TENSORS) for k, fn in rows.items()})
TENSOR = (
    "grad requires_grad is_leaf backward detach detach_ register_hook register_post_accumulate_grad_hook retain_grad"
)
"""What the page lists of tensors."""


@pytest.mark.parametrize("fn", table(ALL), ids=lambda fn: fn.__name__)
def test_as_in_torch(fn, same):
    same(fn)


def shown(rows):
    """The names, ``name(option)`` and ``name: example`` that the keys of rows say."""
    found = set()
    for key in rows:
        for name, options, example in re.findall(r"([\w.]+)(?:\(([^)]*)\))?(: example)?", key):
            found |= {name, *(f"{name}({o.strip()})" for o in options.split(",") if o.strip())}
            found |= {f"{name}: example"} if example else set()
    return found


def promised(name, fact):
    """What a name of the page has to have rows for: itself, its options, its example."""
    options = [p for p, kind, _ in fact.get("signature") or () if p not in ("self", "cls", "ctx") and "VAR" not in kind]
    example = [f"{name}: example"] if fact.get("example") else []
    return {name, *(f"{name}({option})" for option in options), *example}


UNDOCUMENTED = {"profile.config", "profile.config(create_trace_id)"}
"""What is not on the page, and not here either: the ledger says why."""


def without_row(module):
    """What the page has in a module, and no row. Of a member that classes share, the row of one class is enough."""
    rows = shown(PAGE[module] | functions.FUNCTIONS | passes.AUTOGRAD | passes.MODES)
    members = {entry.partition(".")[2] for entry in rows if "." in entry}
    missing = set()
    for name, fact in api.recorded()[module].items():
        if current().expected_failure(f"api {module}.{name}", "torch") and fact["kind"] != "class":
            continue
        missing |= promised(name, fact) - rows if not has_members_alone(fact, name, rows) else set()
        for member, inner in fact.get("members", {}).items():
            missing |= {f"{name}.{part}" for part in promised(member, inner) - members}
    return missing - UNDOCUMENTED


def has_members_alone(fact, name, rows):
    """Whether a class takes nothing, so that rows of its members show it."""
    return bool(fact.get("members")) and promised(name, fact) == {name} and any(r.startswith(f"{name}.") for r in rows)


@pytest.mark.parametrize("module", PAGE)
def test_nothing_of_the_page_is_missing(module):
    assert not without_row(module)


def test_every_part_of_the_page_is_there():
    assert set(PAGE) == {path for path in api.recorded() if path.startswith("torch.autograd")}
    assert {f"Tensor.{name}" for name in TENSOR.split()} <= shown(passes.TENSORS)


@pytest.mark.parametrize("key", ALL)
def test_rows_use_what_they_show(key):
    words = _words(ALL[key], key)
    for name, options in re.findall(r"([\w.]+)(?:\(([^)]*)\))?", key):
        wanted = {option.strip() for option in options.split(",") if option.strip()}
        assert wanted <= words, f"{name}: {wanted - words}"


def _words(fn, key):
    """The words of a row, without its key, and of the helpers and lists of its file that it uses."""
    words = set(re.findall(r"\w+", inspect.getsource(fn).replace(key, "")))
    words |= set(re.findall(r"\w+", " ".join(str(c.cell_contents) for c in fn.__closure__ or ())))
    for name in words & set(fn.__globals__):
        used = fn.__globals__[name]
        if inspect.isfunction(used):
            words |= set(re.findall(r"\w+", inspect.getsource(used)))
        elif isinstance(used, list | dict) and not isinstance(used, Rows):
            words |= set(used)
    return words
