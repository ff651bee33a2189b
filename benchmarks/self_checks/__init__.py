"""``python -m benchmarks self_checks``: whether compiled steps that check themselves raise a false alarm.

Trainings run, in which nothing changes but what trainings change: new batches, weights, rates, counters. So each
warning is a false alarm. `trainings.py` has the optimizers, the pairs and the scripts of examples/, and the published
models of `python -m compat_suite compiled`; `one.py` runs some of them in a process of its own and counts; `main.py` is
the command, which prints the tables of docs/compile_rules.md.
"""

from .main import main as main
