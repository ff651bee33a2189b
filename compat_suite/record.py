"""Remakes `recorded/` from live torch: `python -m compat_suite record`."""

from __future__ import annotations

import json
from typing import Any

from . import api, surface
from .answers import write
from .cases import CASES, FAMILIES
from .execute import Result
from .fuzz import recorded as fuzz_recorded
from .jobs import all_jobs
from .libs import live_torch
from .oracles.torch_live import LiveTorch
from .oracles.torch_recorded import HOME, encode, recorded, value_of


def main(args: Any) -> int:
    """Run every job on torch and write the results down."""
    import torch

    torch.set_num_threads(1)
    HOME.mkdir(exist_ok=True)
    oracle = LiveTorch()
    rows: dict[str, dict[str, Any]] = {family: {} for family in FAMILIES}
    for job in filter(recorded, all_jobs(CASES)):
        result = oracle.result(job)
        if job.check != "refused":
            rows[job.case.family][job.id] = encode(result, rows[job.case.family].get(value_of(job), {}))
        elif result.error:  # whose text is not compared
            rows[job.case.family][job.id] = encode(Result(error=(result.error[0], "")))
    for family, jobs in rows.items():
        write(HOME / f"{family}.json", jobs)
    about = {"torch": live_torch().module.__version__.partition("+")[0]}
    (HOME / "about.json").write_text(json.dumps(about) + "\n", encoding="utf-8")
    write(surface.FILE, surface.names_of(live_torch()))
    api.record()
    fuzz_recorded.record()
    size = sum(f.stat().st_size for f in HOME.glob("*.json"))
    print(f"{sum(map(len, rows.values()))} results of torch {about['torch']} in {HOME.name}/, {size / 1e6:.1f} MB")
    return 0
