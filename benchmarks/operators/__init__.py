"""``python -m benchmarks operators``: 240 operators beside torch, on three sizes, forward and with backward.

`rows.py` is the table of operators and `inputs.py` what they are given. `measure.py` times one row of the table beside
torch, and `report.py` sums up what was measured. `main.py` is the command.
"""

from .main import main as main
