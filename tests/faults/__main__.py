"""Does the test-suite find mistakes? `make faults` plants several hundred, one at a time, and says which are found.

python -m tests.faults            # survey, then try what was not tried yet
python -m tests.faults survey     # find again which tests reach the faults' lines; all faults have to be tried again
python -m tests.faults check      # are the faults' lines still there?
python -m tests.faults draw 300   # draw new faults at random
python -m tests.faults keep       # note in the lists which faults were found
python -m tests.faults report     # how many were found, and which of those found before were not
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter

from . import draw, listed, survey, trial


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", default="all", choices=["all", "survey", "check", "draw", "keep", "report"])
    parser.add_argument("n", nargs="?", type=int, default=300, help="how many faults `draw` draws")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--tests", nargs="*", default=["tests", "compat_suite"])
    given = parser.parse_args()
    if given.what == "draw":
        listed.write(listed.LISTS[0], draw.draw(given.n))
        return 0
    faults = [fault for path in listed.LISTS for fault in listed.read(path)]
    if given.what == "check":
        found = listed.complaints(faults)
        print("\n".join([*found, f"{len(faults)} faults, {len(found)} complaints"]))
        return 1 if found else 0
    if given.what == "survey":
        trial.RESULTS.unlink(missing_ok=True)
        survey.survey(faults, given.jobs, given.tests)
    if given.what == "all":
        known = survey.tests_of()
        if new := [f for f in faults if f.name not in known]:
            survey.survey(new, given.jobs, given.tests)
        trial.trial(faults, given.jobs)
    if given.what == "keep":
        listed.mark({name for name, row in trial.results().items() if row["state"] == "found"})
    return report(faults) if given.what in ("all", "report") else 0


def report(faults: list[listed.Fault]) -> int:
    """Print what was found; 1 if a fault that was found before is not found any more."""
    known = trial.results()
    states = Counter(known.get(f.name, {"state": "not tried"})["state"] for f in faults)
    print(", ".join(f"{n} {state}" for state, n in states.most_common()))
    lost = [
        f
        for f in faults
        if f.found and known.get(f.name, {}).get("state") in ("not found", "not reached", "not run", "gone")
    ]
    for fault in lost:
        print(f"found before: {fault.path} {fault.function}\n- {fault.line}\n+ {fault.wrong}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
