"""The notebooks of docs/notebooks: run from the top, with what their cells show kept in the file; pages of the site.

    python docs/site_notebooks.py    # runs both and writes what they show into them

A cell shows what it prints and its last expression, as HTML where the value has such a form: the graph behind
`loss.grad_fn` is a picture. `make site` makes a page of each notebook, with a link to the file.
"""

import ast
import contextlib
import io
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "notebooks"
NOTEBOOKS = ("start", "compare")


def read(name: str) -> dict[str, Any]:
    """A notebook as data."""
    return json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))


def source(cell: dict[str, Any]) -> str:
    """The text of a cell."""
    return "".join(cell["source"])


def run(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Run all cells in order in one namespace; for each code cell what it shows, in the notebook's own form."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [source(cell) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [_run_cell(text, number, names) for number, text in enumerate(cells, 1)]


def _run_cell(text: str, number: int, names: dict[str, Any]) -> list[dict[str, Any]]:
    tree = ast.parse(text, filename := f"<cell {number}>")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, filename, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), filename, "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": _lines(printed.getvalue())})
    if value is not None:
        outputs.append(
            {"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": _shown(value)}
        )
    return outputs


def _shown(value: Any) -> dict[str, Any]:
    data = {"text/plain": _lines(repr(value))}
    if hasattr(type(value), "_repr_html_"):
        data["text/html"] = _lines(value._repr_html_())
    return data


def _lines(text: str) -> list[str]:
    """Lines as a notebook keeps them, without what differs in each run: addresses, and the name of a folder."""
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    return re.sub(rf"{re.escape(tempfile.gettempdir())}/\w+/", "", text).splitlines(keepends=True)


def write(name: str) -> None:
    """Run a notebook, and keep what its cells show in the file."""
    notebook = read(name)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, outputs) in enumerate(zip(code, run(notebook), strict=True), 1):
        cell["outputs"], cell["execution_count"] = outputs, number
    (FOLDER / f"{name}.ipynb").write_text(json.dumps(notebook, indent=1) + "\n", encoding="utf-8")


def page(name: str) -> str:
    """A notebook as a page: its words, its code, and what each cell showed."""
    parts = []
    for cell in read(name)["cells"]:
        if cell["cell_type"] == "markdown":
            parts.append(source(cell))
            continue
        parts.append(f"```python\n{source(cell)}\n```")
        parts += [_of_output(output) for output in cell["outputs"]]
    title, _, rest = "\n\n".join(parts).partition("\n")
    return f"{title}\n\n[This page as a notebook]({name}.ipynb)\n{rest}\n"


def _of_output(output: dict[str, Any]) -> str:
    html = output.get("data", {}).get("text/html")
    if html:
        return f'<div class="shown">\n{"".join(html).strip()}\n</div>'
    text = "".join(output["text"] if output["output_type"] == "stream" else output["data"]["text/plain"])
    return f"```text\n{text.rstrip()}\n```"


def on_files(files: Any, config: Any) -> Any:
    """Add a page for each notebook."""
    from mkdocs.structure.files import File  # needed only where the site is built

    for name in NOTEBOOKS:
        files.append(File.generated(config, f"notebooks/{name}.md", content=page(name)))
    return files


if __name__ == "__main__":
    for name in sys.argv[1:] or NOTEBOOKS:
        write(name)
