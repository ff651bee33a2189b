"""Test-suites that others wrote for packages built on torch, run under both libraries.

A suite comes from the source archive of its package. Each of its files is run with live torch and with
`pytest -p torchgrad_jax.pytest_alias`, in processes of their own; what counts are the tests that pass with torch.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from .suite_table import SUITES, Suite

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "suites.md"
ALIAS = ("-p", "torchgrad_jax.pytest_alias")
DOCTESTS = ("--doctest-modules", "-o", "doctest_optionflags=NORMALIZE_WHITESPACE ELLIPSIS")
SHOWN = 100
"""Characters of a reason that the page shows."""


@dataclass(frozen=True)
class Verdict:
    """How a suite went: how many tests pass with torch, and why some of these do not pass here."""

    name: str
    passing: int
    differing: dict[str, tuple[int, str]]
    """By reason: how many tests, and one of them."""
    seconds: float
    torch_seconds: float

    @property
    def out_of_scope(self) -> int:
        """How many tests differ because of a layout of memory that `docs/non_goals.md` excludes."""
        return sum(n for reason, (n, _) in self.differing.items() if "UnsupportedLayoutError" in reason)

    @property
    def good(self) -> int:
        """How many tests pass under both."""
        return self.passing - sum(n for n, _ in self.differing.values())


def fetch(suite: Suite, site: Path) -> Path:
    """Install a package without its dependencies, and unpack its source archive; where that is."""
    folder = site / suite.name
    done = folder / "done"
    want = " ".join((suite.pinned, suite.also))
    if not done.exists() or done.read_text(encoding="utf-8") != want:
        pip = [sys.executable, "-m", "pip", "--quiet"]
        _fetch_source(suite, folder, pip)
        installed = [*([suite.pinned] if suite.install else []), *suite.also.split()]
        if installed:
            target = ["install", "--no-deps", "--upgrade", "--target", str(folder / "site"), *installed]
            subprocess.run([*pip, *target], check=True)
        with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
            archive.extractall(folder / "source", filter="data")
        done.write_text(want, encoding="utf-8")
    return next((folder / "source").iterdir())


def _fetch_source(suite: Suite, folder: Path, pip: Sequence[str]) -> None:
    """Put the source archive of a suite into a folder, unless a copy of its repository lies there."""
    if not suite.repository:
        source = ["download", "--no-deps", "--no-binary", suite.package, "-d", str(folder), suite.pinned]
        subprocess.run([*pip, *source], check=True)
    elif not any(folder.glob("*.tar.gz")):
        clone = folder / "clone"
        subprocess.run(["git", "clone", "--quiet", f"https://github.com/{suite.repository}", str(clone)], check=True)
        archive = [
            "archive",
            "--format=tar.gz",
            f"--prefix={suite.name}-{suite.version}/",
            "-o",
            str(folder / f"{suite.name}.tar.gz"),
        ]
        subprocess.run(["git", "-C", str(clone), *archive, suite.version], check=True)


def files(suite: Suite, source: Path) -> Iterator[Path]:
    """The files of a suite that hold tests."""
    for place in suite.tests:
        path = source / place
        found = (
            [path] if path.is_file() or suite.doctests else sorted({*path.rglob("test_*.py"), *path.rglob("*_test.py")})
        )
        yield from (f for f in found if not any(part in str(f.relative_to(source)) for part in suite.ignore))


def outcomes(path: Path, source: Path, suite: Suite, site: Path, *args: str) -> dict[str, str]:
    """By test: '' if it passed, 'skipped', or the first line of what went wrong."""
    with tempfile.TemporaryDirectory() as place:
        report = Path(place, "report.xml")
        installed, sources = site / suite.name / "site", [source / p for p in suite.path]
        where = [installed, *sources] if suite.install else [*sources, installed]
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, [ROOT, *where])),
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "MPLBACKEND": "agg",
            **suite.env,
        }
        command = [
            sys.executable, "-m", "pytest", "-q", "-W", "ignore", "-p", "no:cacheprovider", "-p", "no:xdist",
            f"--junitxml={report}", "-o", "addopts=", *_own_settings(source),
            *args, "-p", "compat_suite.packages.seeded", *(DOCTESTS if suite.doctests else ()), *suite.args,
            str(path.relative_to(source)),
        ]  # fmt: skip
        try:
            done = subprocess.run(
                command, cwd=source, env=env, capture_output=True, text=True, check=False, timeout=suite.limit
            )
        except subprocess.TimeoutExpired:
            return {"(file)": f"not done in {suite.limit} s"}
        if not report.exists():
            return {"(file)": (done.stderr.strip() or done.stdout.strip() or "?").split("\n")[-1]}
        return dict(cases(ElementTree.parse(report)))


def _own_settings(source: Path) -> tuple[str, ...]:
    """What has pytest read the settings of a suite and no others, though it lies in a folder of this project."""
    named = [source / name for name in ("pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")]
    found = next((f for f in named if f.is_file() and "pytest" in f.read_text(encoding="utf-8")), None)
    return ("-c", str(found or os.devnull), f"--rootdir={source}", f"--confcutdir={source}")


def cases(tree: Any) -> Iterator[tuple[str, str]]:
    """The outcomes in a report."""
    for case in tree.iter("testcase"):
        result = ""
        for child in case:
            if child.tag == "skipped":
                result = "skipped"
            elif child.tag in ("failure", "error"):
                result = (child.get("message") or child.text or "?").strip().split("\n")[0]
        yield f"{case.get('classname')}::{case.get('name')}", result


def judge(suite: Suite, site: Path, only: str | None = None, *, show: bool = False) -> Verdict:
    """Run a suite under both libraries."""
    source = fetch(suite, site)
    passing, differing, spent = 0, {}, [0.0, 0.0]
    for path in files(suite, source):
        name = str(path.relative_to(source))
        if only and only not in name:
            continue
        began = time.time()
        want = known(suite, site, name, lambda path=path: outcomes(path, source, suite, site))
        spent[1] += time.time() - began
        good = [t for t, result in want.items() if not result]
        passing += len(good)
        if not good:
            continue
        began = time.time()
        got = outcomes(path, source, suite, site, *ALIAS)
        spent[0] += time.time() - began
        whole = got.get("(file)") or next((r for t, r in got.items() if t.endswith("::") or t.startswith("::")), None)
        found = {t: got.get(t, whole or "not collected") for t in good if got.get(t, "?")}
        differing.update({f"{name} {t}": r for t, r in found.items()})
        if show:
            print(f"  {name}: {len(good) - len(found)} of {len(good)}", flush=True)
            for test, reason in found.items():
                print(f"    {test}: {reason[:200]}", flush=True)
    return Verdict(suite.name, passing, by_reason(differing), spent[0], spent[1])


def known(suite: Suite, site: Path, name: str, run: Any) -> dict[str, str]:
    """What torch answered, kept with the suite."""
    state = site / suite.name / "torch.json"
    answers = json.loads(state.read_text(encoding="utf-8")) if state.exists() else {}
    if name not in answers:
        answers[name] = run()
        state.write_text(json.dumps(answers, indent=1), encoding="utf-8")
    return answers[name]


def page(verdicts: Sequence[Verdict]) -> str:
    """docs/suites.md."""
    rows = [_row(SUITES[v.name].shown, v.passing, v.good, v.out_of_scope) for v in verdicts]
    rows.append(_row("all", *(sum(n) for n in zip(*[(v.passing, v.good, v.out_of_scope) for v in verdicts]))))
    details = []
    for verdict in verdicts:
        if verdict.differing:
            details.append(f"\n### {verdict.name}\n")
            if SUITES[verdict.name].note:
                details.append(f"{SUITES[verdict.name].note}\n")
            details += reasons(verdict)
    return TEXT.format(rows="\n".join(rows), details="\n".join(details))


def _row(name: str, passing: int, good: int, out_of_scope: int) -> str:
    """A row of the table; the percentage is that of the tests in scope."""
    share = 100 * good / max(passing - out_of_scope, 1)
    return f"| {name} | {passing} | {good} | {out_of_scope or ''} | {share:.1f} % |"


def by_reason(differing: Mapping[str, str]) -> dict[str, tuple[int, str]]:
    """Tests and their reasons, as `Verdict.differing` has them: the most frequent reason first."""
    tests: dict[str, list[str]] = {}
    for test, reason in differing.items():
        tests.setdefault(cut(reason), []).append(f"{test.split(' ')[0]}::{test.split('::')[-1]}")
    return {r: (len(t), t[0]) for r, t in sorted(tests.items(), key=lambda item: -len(item[1]))}


def reasons(verdict: Verdict) -> list[str]:
    """Why tests differ, each with one of its tests."""
    return [f"* {n}: {reason}, as in `{test}`" for reason, (n, test) in verdict.differing.items()]


def cut(reason: str) -> str:
    """A reason that fits into a line."""
    plain = reason.replace("`", "'").replace("|", "/")
    return f"`{plain if len(plain) <= SHOWN else plain[: SHOWN - 1] + '…'}`"


TEXT = """\
# Test-suites of others

These test-suites of packages built on PyTorch run unmodified, from the source archives of their authors, or from their
repositories at a commit where the archives have no tests. Each file runs with torch and with
`pytest -p torchgrad_jax.pytest_alias`. The table counts the tests that pass with torch on this kind of machine, and how
many of them pass here, too. Tests of sparse and nested tensors, which are [out of scope](non_goals.md), are counted
apart, and the percentage is that of the others. The page is written by

```sh
python -m compat_suite suites
```

which fetches the archives into `build/suites` first. It needs a package index, and torch to compare with, so it is
not part of `make test`. The table shows the suites that were run whole. `--name` runs one of the others that
`compat_suite/packages/suite_table.py` has.

| suite | pass with torch | pass here too | out of scope | |
| --- | --- | --- | --- | --- |
{rows}

## What differs
{details}
"""


def main(args: argparse.Namespace) -> int:
    """Run suites, print how they went, and write the page of all that were run, now or before."""
    site, state = Path(args.site).resolve(), Path(args.state)
    before = json.loads(state.read_text(encoding="utf-8")) if state.exists() else {}
    wrong = 0
    for name in args.name or sorted(SUITES):
        verdict = judge(SUITES[name], site, args.file, show=args.verbose)
        wrong += verdict.passing - verdict.good
        print(
            f"{name}: {verdict.good} of {verdict.passing} pass here too "
            f"({verdict.seconds:.0f} s; torch {verdict.torch_seconds:.0f} s)",
            flush=True,
        )
        if not args.file:
            before[name] = asdict(verdict)
            state.parent.mkdir(parents=True, exist_ok=True)
            state.write_text(json.dumps(before, indent=1) + "\n", encoding="utf-8")
    if not args.file:
        PAGE.write_text(page([Verdict(**before[n]) for n in sorted(SUITES) if n in before]), encoding="utf-8")
    return 1 if wrong else 0
