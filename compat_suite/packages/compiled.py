"""Published models under `torch.compile`: are their numbers right, and do their steps run as programs?

Each way of each model of compiled_models/ is measured in a process of its own, so that one that fails costs only its
own row.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .compiled_models import table
from .compiled_models.one import MARK, WAYS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "compiled_models.md"
SETTLED = 2
"""After so many calls nothing new may happen: no trace, no call that runs eagerly."""
SHOWN = 110
"""Characters of a reason that a line shows."""
AND = "; and: "
"""Between two reasons of one row."""


@dataclass(frozen=True)
class Verdict:
    """How a model went compiled in one of two ways: the model, or the whole step."""

    name: str
    way: str
    right: str
    """`yes`, `no`, `died`, or `yes, but` where an eager training afterwards went wrong."""
    runs: str
    """`program`, `traced again`, `as written`, or empty where it died."""
    reason: str
    """Why it died, is wrong, or does not run as a program."""
    traced: int
    first_seconds: float
    later_us: float
    eager_us: float

    @property
    def good(self) -> bool:
        """Nothing is to be said against it."""
        return self.right == "yes" and self.runs == "program"

    def line(self, verbose: bool = False) -> str:
        """For the terminal."""
        reason = self.reason if verbose else shortened(self.reason)
        times = f"{self.first_seconds:6.1f} s {self.later_us:8.0f} us {self.eager_us:8.0f} us"
        return f"{self.name:45} {self.way:6} {self.right:8} {self.runs:12} {self.traced:2} {times}  {reason}".rstrip()


HEAD = f"{'model':45} {'what':6} {'right':8} {'runs as':12} {'traces':>4} first call  later    eager"


def shortened(reason: str) -> str:
    """The first line of a reason, as far as a table shows it."""
    lines = [r.partition("\n")[0] for r in reason.split(AND)]
    return AND.join(line if len(line) <= SHOWN else line[: SHOWN - 3] + "..." for line in lines)


def judge(name: str, way: str, found: dict[str, Any], eager_us: float) -> Verdict:
    """Make a verdict of what the process of a way told, and of how it ended, if not well."""
    if "counts" not in found:
        return Verdict(name, way, "died", "", found.get("died") or found["end"] or "no answer", 0, 0, 0, eager_us)
    runs, reason = how_it_runs(found["counts"], found["reasons"])
    right = "yes"
    if "spoils" not in found:
        right, reason = "died", found["end"] or "no answer"
    elif found["wrong"]:
        right, reason = "no", found["wrong"]
    elif found["spoils"]:
        left_behind = f"an eager training afterwards: {found['spoils']}"
        right, reason = "yes, but", AND.join(filter(None, (left_behind, reason)))
    traced = found["counts"][-1].get("traced", 0)
    return Verdict(name, way, right, runs, reason, traced, found["seconds"][0], later_us(found), eager_us)


def how_it_runs(counts: Sequence[dict[str, int]], reasons: Sequence[str]) -> tuple[str, str]:
    """What the calls did after the first two, and why if they did not run a program that was there."""
    early, last = counts[SETTLED - 1], counts[-1]
    if not last:
        return "eager", "nothing was compiled"
    more = {what: last[what] - early[what] for what in last}
    why = reasons[-1] if reasons else "no reason was given"
    if more["eager"]:
        return ("eager", why)
    if more["traced"]:
        return "traced again", why
    return ("program", "") if more["run"] >= len(counts) - SETTLED else ("eager", "it was not called")


def later_us(found: dict[str, Any]) -> float:
    """The microseconds of the fastest of the later calls."""
    return 1e6 * min(found.get("seconds", ())[SETTLED:], default=0)


def run_one(name: str, site: Path, limit: float) -> tuple[list[Verdict], dict[str, Any]]:
    """Measure a model in processes of its own, one for each way: the verdicts, and all that was told."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "eager"
        told = {way: run_way(name, way, file, site, limit) for way in ("eager", *WAYS)}
    eager = told["eager"]
    if "counts" not in eager:
        for way in WAYS:
            told[way] = {"died": f"eager: {eager.get('died') or eager['end']}"}
    return [judge(name, way, told[way], later_us(eager)) for way in WAYS], told


def run_way(name: str, way: str, file: Path, site: Path, limit: float) -> dict[str, Any]:
    """What the process of a way told, how it ended, and what it said at last."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    sites = [str(site.resolve()), str((site / "apart").resolve())]
    command = [sys.executable, "-W", "ignore", "-m", "torchgrad_jax", "-m", f"{__package__}.compiled_models.one"]
    end = ""
    try:
        done = subprocess.run(
            [*command, name, way, str(file), *sites],
            capture_output=True,
            text=True,
            env=env,
            check=False,
            timeout=limit,
        )
        out, said = done.stdout, done.stderr
        if done.returncode:
            end = f"the process ended with {done.returncode}: {(said.strip().splitlines() or [''])[-1]}"
    except subprocess.TimeoutExpired as late:
        out, said = (
            s.decode(errors="replace") if isinstance(s, bytes) else s or "" for s in (late.stdout, late.stderr)
        )
        end = f"not done after {limit:g} s"
    parts = [json.loads(line[len(MARK) :]) for line in out.splitlines() if line.startswith(MARK)]
    return {"end": end, "said": said[-4000:]} | {k: v for part in parts for k, v in part.items()}


def run_all(names: Sequence[str], site: Path, limit: float, jobs: int) -> Iterator[tuple[list[Verdict], Any]]:
    """Measure models, so many at a time, and give each as it is done."""
    with ThreadPoolExecutor(jobs) as pool:
        for done in as_completed([pool.submit(run_one, name, site, limit) for name in names]):
            yield done.result()


def summary(verdicts: Sequence[Verdict]) -> str:
    """How many are right, how many run as programs, and the reasons of the others."""
    lines = []
    for way in WAYS:
        here = [v for v in verdicts if v.way == way]
        right, runs = Counter(v.right for v in here), Counter(v.runs for v in here if v.runs)
        wanted = f"{sum(v.good for v in here)} of {len(here)} right and as a program"
        lines.append(f"compiled {way}: {wanted}; right: {dict(right)}; runs: {dict(runs)}")
    reasons = Counter(shortened(part) for v in verdicts if v.reason for part in v.reason.split(AND))
    return "\n".join([*lines, *(f"{n:4} {reason}" for reason, n in reasons.most_common())])


def page(verdicts: Sequence[Verdict]) -> str:
    """docs/compiled_models.md."""
    rows = [
        f"| {v.name} | {v.way} | {v.right} | {v.runs or '-'}{': ' * bool(v.reason)}{_cell(v.reason)} | {v.traced} "
        f"| {v.first_seconds:.1f} s | {v.later_us:.0f} us | {v.eager_us:.0f} us |"
        for v in sorted(verdicts, key=lambda v: (v.name, v.way))
    ]
    good = {way: sum(v.good for v in verdicts if v.way == way) for way in WAYS}
    return TEXT.format(rows="\n".join(rows), count=len(verdicts) // 2, **good)


def _cell(reason: str) -> str:
    return shortened(reason).replace("|", "\\|").replace("<", "&lt;")


TEXT = """\
# Published models under torch.compile

Models of packages built on PyTorch, small and with random weights, trained for five calls with batches of equal shapes
and new values. Each is trained three times from the same seed: eager, with the model compiled
(`model = torch.compile(model)`), and with the whole step compiled (forward, `backward()`, `optimizer.step()`,
`zero_grad()`). With the model compiled {model} of {count} are right and run as programs, with the step compiled {step}.

* "Right" says that all losses, parameters and buffers are those of the eager training, to 1e-4 of the largest number.
  "Yes, but" says that compiling left something behind: an eager training after it in the same process goes wrong.
* "Program" says that the calls from the third on each ran a program that was there; "eager" that such a call ran
  the Python code itself, with the reason that `explain()` gives; "traced again" that one was retraced.
* "Traces" is how often the function was traced. The first call traces and compiles; the later call is the fastest
  of the third to the fifth, beside the same call of the eager training. Models are so small that such times say what
  a call costs, and little about speed.
* Where words are generated, "model" compiles `model.forward` and calls `generate`, and "step" compiles a function that
  goes one word on. The call that reads the beginning of a text fills a new cache, and runs eagerly.

The table is written by

```sh
python -m compat_suite packages --name transformers   # and so on: installs into build/packages, once
python -m compat_suite compiled --write
```

| model | compiled | right | runs as | traces | first call | later call | eager call |
| --- | --- | --- | --- | --- | --- | --- | --- |
{rows}
"""


def main(args: argparse.Namespace) -> int:
    """Measure the models, print how each went as it is done, and keep what was asked for."""
    names = [n for n in table() if not args.name or any(part in n for part in args.name)]
    if not names:
        raise SystemExit(f"no model has {' or '.join(args.name)} in its name")
    if args.write and args.name:
        raise SystemExit("--write is for all models: leave out --name")
    verdicts: list[Verdict] = []
    told = {}
    print(HEAD, flush=True)
    for i, (found, all_told) in enumerate(run_all(names, Path(args.site), args.seconds, args.jobs)):
        verdicts += found
        told[found[0].name] = all_told
        for verdict in found:
            print(f"{verdict.line(args.verbose)}", flush=True)
        if args.verbose and any(v.right == "died" for v in found):
            print(*(told_way.get("said", "") for told_way in all_told.values()), sep="\n", flush=True)
        if args.json:
            kept = {"verdicts": [asdict(v) for v in verdicts], "told": told}
            Path(args.json).write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        if sys.stderr.isatty():
            print(f"{i + 1} of {len(names)} models", file=sys.stderr)
    print(f"\n{summary(verdicts)}", flush=True)
    if args.write:
        PAGE.write_text(page(verdicts), encoding="utf-8")
    return 0 if all(v.good for v in verdicts) else 1
