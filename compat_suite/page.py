"""The verdicts of a run as one page of HTML that needs nothing else: totals, differences with filters, operators."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from .judge import Verdict

_SHOWN = {"failed": "new", "stale": "no longer differs", "xfailed": "known"}
"""What a reader is told of a status of a verdict."""

STYLE = """body{font:15px/1.4 system-ui;margin:2em auto;max-width:70em;padding:0 1em;color:#222;background:#fff}
table{border-collapse:collapse;display:block;overflow-x:auto}
td code{overflow-wrap:anywhere}
td,th{padding:.15em .7em;border-bottom:1px solid #8884;text-align:left}
td.good{color:#176f2c}td.bad{color:#b00020;font-weight:600}td.known{color:#8a5a00}
pre{overflow-x:auto;background:#8881;padding:.7em}
details pre{white-space:pre-wrap;overflow-wrap:anywhere}
form{display:flex;flex-wrap:wrap;gap:.7em;align-items:center}
input,select{font:inherit;color:inherit;background:#8882;border:1px solid #8886;
padding:.2em .4em}
option{color:#222;background:#fff}summary{cursor:pointer;overflow-wrap:anywhere}[hidden]{display:none}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}td.good{color:#7fd694}td.bad{color:#ff8a8a}td.known{color:#e0b060}}"""
SCRIPT = """const form=document.querySelector('form'),rows=document.querySelectorAll('[data-area]');
function show(){let n=0;for(const r of rows){const d=r.dataset,f=form.elements;
r.hidden=(f.area.value&&d.area!==f.area.value)||(f.check.value&&d.check&&d.check!==f.check.value)||
(f.status.value&&d.status&&d.status!==f.status.value)||(f.text.value&&!r.textContent.toLowerCase().includes(f.text.value.toLowerCase()));
n+=!r.hidden&&r.tagName==='DETAILS'}document.querySelector('output').value=n+' shown'}
form.addEventListener('input',show);form.addEventListener('submit',e=>e.preventDefault());show()"""


def page(oracle: str, totals: str, operators: str, verdicts: Sequence[Verdict], answers: Mapping[str, str]) -> str:
    """The whole page.

    Args:
        oracle: who judged.
        totals: the totals, as text.
        operators: the rows of the table of operators; `operator_row` makes them.
        verdicts: all verdicts; what differs is listed, what is known to differ as well.
        answers: what the oracle, this package and JAX answer, and the jaxpr, by the id of the job.
    """
    listed = [v for v in verdicts if v.listed]
    differences = "".join(_difference(v, answers.get(v.job.id, "")) for v in listed) or "<p>Nothing differs.</p>"
    return (
        "<!doctype html><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>compat_suite</title><style>{STYLE}</style><h1>compat_suite</h1>"
        f"<p>Judged by {html.escape(oracle)}.</p><pre>{html.escape(totals)}</pre>{_form(verdicts, listed)}"
        f"<h2>Differences</h2>{differences}<h2>Operators</h2><table>{operators}</table><script>{SCRIPT}</script>\n"
    )


def _form(verdicts: Sequence[Verdict], listed: Sequence[Verdict]) -> str:
    areas = Counter(v.job.case.family for v in listed)
    areas.update(dict.fromkeys({v.job.case.family for v in verdicts}, 0))
    choices = [
        ("area", "all areas", [(a, f"{a} ({areas[a]})") for a in sorted(areas)]),
        ("check", "all checks", [(c, c) for c in sorted({v.job.check for v in verdicts})]),
        ("status", "known and new", [(s, _SHOWN.get(s, s)) for s in sorted({v.status for v in listed})]),
    ]
    selects = "".join(
        f"<select name={name} aria-label={name}><option value=''>{every}</option>{_options(values)}</select>"
        for name, every, values in choices
    )
    text = "<input name=text type=search placeholder='in the text' aria-label=text>"
    return f"<form>{selects}{text}<output></output></form>"


def _options(values: Iterable[tuple[str, str]]) -> str:
    return "".join(f"<option value='{html.escape(v)}'>{html.escape(shown)}</option>" for v, shown in values)


def _difference(v: Verdict, answers: str) -> str:
    job = v.job
    text = f"{v.report()}\n\n{answers}\n\npython -m compat_suite explain {job.id!r}"
    return (
        f"<details data-area='{html.escape(job.case.family)}' data-check='{job.check}' data-status='{v.status}'>"
        f"<summary><code>{html.escape(job.id)}</code> {_SHOWN.get(v.status, v.status)}</summary>"
        f"<pre>{html.escape(text)}</pre></details>"
    )


def operator_row(core: str, area: str, cells: str) -> str:
    """A row of the table of operators."""
    return f"<tr data-area='{html.escape(area)}'><td><code>{html.escape(core)}</code></td>{cells}</tr>"


__all__ = ["operator_row", "page"]
