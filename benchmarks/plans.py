"""``python -m benchmarks.plans``: plan the scripts of examples/ for hardware that is not here, for the gallery.

What `python -m torchgrad_jax plan` finds goes to docs/gallery/NAME.json, with what it took, and a picture of it to
docs/gallery/NAME.svg. The figures are the compilers'; a test compares those of the smallest script with what the
compilers say today. ``python -m benchmarks.plans plan_gpt`` plans one of the scripts. `make targets` installs the
compilers.
"""

import datetime
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "gallery"
COMPILERS = Path(sys.prefix) / "compilers"
PACKAGES = ROOT / "build" / "packages"
"""Where `python -m compat_suite packages --name transformers` installs what plan_llama.py wants."""
SCRIPTS = {
    "plan_gpt": "--on v5e:1x1 --on v6e:1x1 --by-layers",
    "plan_resnet": "--on h100",
    "plan_llama": "--on v5e:4x4 --on h100:8 --by-layers",
}


def environment() -> dict[str, str]:
    """The environment in which a process finds the compilers, and looks for no device but the CPU."""
    found = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")]), str(COMPILERS), str(PACKAGES)]
    return {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(found)}


def planned(name: str, arguments: str) -> list[dict[str, Any]]:
    """The plans of a script, one for each target, from the command line."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plans.json"
        own, dashes, of_script = arguments.partition("-- ")
        command = [sys.executable, "-m", "torchgrad_jax", "plan", f"examples/{name}.py", *own.split()]
        command += ["--json", str(file), *filter(None, [dashes.strip()]), *of_script.split()]
        subprocess.run(command, check=True, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL)
        text = file.read_text(encoding="utf-8")
    for path in (PACKAGES, ROOT):  # of this machine
        text = text.replace(f"{path}/", "")
    return json.loads(text)


def recorded(name: str) -> dict[str, Any]:
    """What was found last for a script: `plans`, `arguments`, and what they took."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def record(name: str) -> None:
    """Plan a script, and write what was found."""
    from torchgrad_jax._bridge.compile.plans.page import picture
    from torchgrad_jax._bridge.compile.plans.plan import Plan

    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    plans = planned(name, SCRIPTS[name])
    used, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - began
    busy = ", while other work ran" if os.getloadavg()[0] > os.cpu_count() else ""  # type: ignore[operator]
    found = {
        "arguments": SCRIPTS[name],
        "on": f"{datetime.date.today()}, {os.cpu_count()} CPU cores, jax {metadata.version('jax')}{busy}",
        "seconds": round(seconds),
        "processor_seconds": round(used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime),
        "peak_gib": round(used.ru_maxrss / 2**20, 1),
        "plans": plans,
    }
    (FOLDER / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    drawn = picture([Plan.from_json(json.dumps(plan)) for plan in plans])
    (FOLDER / f"{name}.svg").write_text(f"{drawn}\n", encoding="utf-8")
    print(f"{name:<14} {seconds:5.0f} s, {found['processor_seconds']:5} of a processor, {found['peak_gib']} GiB")


def main() -> int:
    for name in sys.argv[1:] or SCRIPTS:
        record(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
