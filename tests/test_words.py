"""Words that are hard to read or to search for: not in docs, docstrings, comments, texts of errors or names.

For example, nobody who looks for *fallback* greps for "as it is written". A row says what to write instead. Texts that
repeat PyTorch's would be exempt by a row in `TORCHS`; none needs it today.
"""

import importlib
import inspect
import re
from pathlib import Path

import pytest

from torchgrad_jax._bridge.compile.compiled import Compiled

ROOT = Path(__file__).resolve().parent.parent
WORDS = {
    r"\banew\b": "again; retrace, recompile, rebuild, start over",
    r"\bbe (it|they)\b(?! \w+ed\b)": "whether it is; even if; which may be",
    r"\bthereby\b": "so",
    r"\bwhoever('s)?\b": "the caller, a reader, code that",
    r"(?<!by.)\bhand(s|ed|ing)? on\b": "pass on",
    r"\bas (it|they) (is|are) written\b": "runs eagerly; falls back to eager",
    r"\b(run|runs|ran|called) as written\b": "runs eagerly; falls back to eager",
    r"\b(is|are|was|were|been|never) met\b": "seen; new; comes",
    r"\b(what|those that|that) (is|are|was|were) (handed|met)\b": "the argument; the objects passed on",
    r"(?:^|(?<=[.;:].))(?-i:Of) which\b": "a sentence of its own",
    r"\bas it came\b": "unchanged",
}
"""Pattern, in any case and across the ends of lines: what to write instead."""
NAMES = re.compile(r"(?:^|_)(anew|told|lies|whoever|met|carried)(?:_|$)|^_?found$")
"""Parts of names of files and functions that say nothing: `record_move` can be found, `told` can't."""
VERBS = re.compile(
    r"def \w+\([^\n]*:\n\s+\"\"\"(Returns|Gets|Gives|Makes|Puts|Reads|Says|Takes|Turns|Writes|Looks|Tells|Records|"
    r"Raises|Computes|Applies|Accepts|Pulls|Creates|Sets|Removes|Registers|Builds|Adds|Stores|Sends|Finds|Keeps)\b"
)
"""A function's docstring begins with "Return", not "Returns": it says what a call does."""
TORCHS: set[str] = set()

TEXTS = ("docs", "changes", "torchgrad_jax", "examples", "benchmarks", "compat_suite", "tests")
SKIPPED = ("tests/alias/programs/", "tests/alias/suites/", "tests/test_words.py")


def _files() -> list[Path]:
    found = [*ROOT.glob("*.md"), *(p for top in TEXTS for p in (ROOT / top).rglob("*") if p.suffix in (".md", ".py"))]
    return sorted(p for p in found if not str(p.relative_to(ROOT)).startswith(SKIPPED))


def spread(pattern: str) -> str:
    """A pattern whose spaces match the end of a line too, in comments and in strings that go on in the next one."""
    return pattern.replace(" ", r"""(?:[ ]?["']?\s*\n\s*(?:#\s?|f?["'])?|[ ])""")


ALL = re.compile("|".join(f"(?P<w{i}>{spread(p)})" for i, p in enumerate(WORDS)), re.IGNORECASE | re.MULTILINE)
MAYBE = re.compile(r"anew|\bbe (?:it|they)|thereby|whoever|hand|written|met\b|of which|came", re.IGNORECASE)
"""In every text with a hard word, and quick to look for."""
INSTEAD = list(WORDS.values())


def complaints(text: str) -> list[str]:
    """Each hard word of a text with its line, and what to write instead."""
    found: list[str] = []
    if not MAYBE.search(text):
        return found
    for m in ALL.finditer(text):
        line = text.count("\n", 0, m.start()) + 1
        words = " ".join(m[0].split())
        if words not in TORCHS:
            found.append(f"{line}: {words!r}; better: {INSTEAD[int((m.lastgroup or 'w0')[1:])]}")
    return found


def names(text: str) -> list[str]:
    """Functions whose names say nothing."""
    return [n for n in re.findall(r"^\s*(?:async )?def (\w+)", text, re.MULTILINE) if NAMES.search(n)]


def test_words_are_those_that_people_search_for():
    found = [f"{p.relative_to(ROOT)}:{text}" for p in _files() for text in complaints(p.read_text(encoding="utf-8"))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("top", ["torchgrad_jax", "benchmarks", "examples"])
def test_functions_and_files_have_names_that_say_something(top):
    files = sorted((ROOT / top).rglob("*.py"))
    found = [str(p.relative_to(ROOT)) for p in files if NAMES.search(p.stem)]
    found += [f"{p.relative_to(ROOT)}: {n}" for p in files for n in names(p.read_text(encoding="utf-8"))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("top", ["torchgrad_jax", "benchmarks", "examples"])
def test_docstrings_of_functions_do_not_begin_in_the_third_person(top):
    files = sorted((ROOT / top).rglob("*.py"))
    found = [f"{p.relative_to(ROOT)}: {m[1]}" for p in files for m in VERBS.finditer(p.read_text(encoding="utf-8"))]
    assert not found, "\n".join(found)


NO_VERB = re.compile(
    r"(The|A|An|What|Whether|How|Where|One|Its|All|Which|Nothing|Names|Values|Programs|Numbers|Gradients|Two|For|As|With)\b"
)


@pytest.mark.parametrize("name", ["interop", "interop.weights", "testing", "compiler", "profiler"])
def test_public_functions_say_what_they_do_with_a_verb_first(name):
    module = importlib.import_module(f"torchgrad_jax.{name}")
    public = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
    things = [getattr(module, n) for n in public]
    classes = [x for x in things if inspect.isclass(x) and x.__module__.startswith("torchgrad_jax")] + [Compiled]
    functions = [x for x in things if inspect.isfunction(x)]
    functions += [f for c in classes for n, f in vars(c).items() if inspect.isfunction(f) and not n.startswith("_")]
    found = [f"{f.__module__}.{f.__qualname__}" for f in functions if NO_VERB.match(f.__doc__ or "")]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text, words",
    [
        ("The step is traced anew.", "anew"),
        ("# It runs as it is\n    # written.", "as it is # written"),
        ('f"runs as "\n        f"they are written"', "as they are written"),
        ("It was\nmet.", "was met"),
        ("A renewal, a metric, maybe it runs.", None),
    ],
)
def test_a_hard_word_is_found_across_lines(text, words):
    assert bool(complaints(text)) is (words is not None), complaints(text)


def test_names_are_looked_at_in_parts():
    assert names("def _as_met(x):\n    pass\n\n\ndef method(x):\n    pass\n") == ["_as_met"]
