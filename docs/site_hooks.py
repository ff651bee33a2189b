"""What the site needs besides its pages: files of the repository that pages link to come along as they are."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
_LINK = re.compile(r"\]\(\.\./([^)#\s]+)")


def on_files(files: Any, config: Any) -> Any:
    """Add the files outside of docs/ that pages link to, as text that a browser shows."""
    texts = [Path(page.abs_src_path).read_text(encoding="utf-8") for page in files.documentation_pages()]
    programs = [str(p.relative_to(ROOT)) for p in (ROOT / "examples").rglob("*.py")]  # which the gallery shows
    for path in sorted({*programs, *(_file(link) for text in texts for link in _LINK.findall(text))}):
        files.append(File.generated(config, f"source/{path}.txt", abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links out of docs/ lead to them."""
    if page.file.src_uri.startswith(("gallery/", "notebooks/", "reference/")):  # generated, in a folder of its own
        return markdown
    return _LINK.sub(lambda m: f"](source/{_file(m[1])}.txt", markdown)


def _file(path: str) -> str:
    """A file of the repository; of a folder the one that says most of it."""
    if (ROOT / path).is_dir():
        names = ("README.md", "__main__.py", "__init__.py")
        path = next((f"{path}/{n}" for n in names if (ROOT / path / n).exists()), path)
    if not (ROOT / path).is_file():
        raise FileNotFoundError(f"a page links to {path}, which is no file")
    return path
