"""Pages that errors and docstrings name, and those that README and its like link to, are there, with their sections."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NAMED = re.compile(r"\bdocs/([\w/]+\.md)(?:#([\w-]+))?")
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]*)(?:#([\w-]+))?\)")
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "compat_suite/README.md")
READMES = (*PAGES, *(str(p.relative_to(ROOT)) for p in sorted((ROOT / "torchgrad_jax").rglob("README.md"))))


@cache
def sections(path):
    """The anchors of a page's headings, as the site and code hosts make them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", h.lower()).strip()) for h in headings}


def complaint(page, anchor):
    """What is wrong with a link, or nothing."""
    if not page.exists():
        return f"there is no {page.relative_to(ROOT)}"
    if anchor and page.suffix == ".md" and anchor not in sections(page):
        return f"{page.relative_to(ROOT)} has no section #{anchor}"
    return None


def test_pages_that_code_names_are_there_with_their_sections():
    found = []
    for path in (ROOT / "torchgrad_jax").rglob("*.py"):
        for name, anchor in NAMED.findall(path.read_text(encoding="utf-8")):
            if wrong := complaint(ROOT / "docs" / name, anchor):
                found.append(f"{path.relative_to(ROOT)}: {wrong}")
    assert not found, "\n".join(found)


def test_files_that_pictures_name_are_there():
    named = re.findall(r"[a-z_]+/[a-z_/]+\.py", (ROOT / "docs" / "path.svg").read_text(encoding="utf-8"))
    assert len(named) > 5
    assert all((ROOT / "torchgrad_jax" / name).exists() for name in named)


def test_errors_that_send_a_user_to_a_page_do_so():
    texts = [p.read_text(encoding="utf-8") for p in (ROOT / "torchgrad_jax").rglob("*.py")]
    assert {name for text in texts for name, _ in NAMED.findall(text)} >= {"non_goals.md", "coverage.md", "profiler.md"}


@pytest.mark.parametrize("name", READMES)
def test_links_of_readmes_lead_somewhere(name):
    page = ROOT / name
    links = LINK.findall(page.read_text(encoding="utf-8"))
    found = [complaint((page.parent / to).resolve() if to else page, anchor) for to, anchor in links]
    assert not [text for text in found if text]


def test_a_page_or_section_that_is_not_there_is_found():
    assert complaint(ROOT / "docs" / "none.md", "") == "there is no docs/none.md"
    assert complaint(ROOT / "docs" / "glossary.md", "none") == "docs/glossary.md has no section #none"
    assert complaint(ROOT / "docs" / "accelerators.md", "beside-jax-by-hand") is None
