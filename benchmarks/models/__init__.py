"""``python -m benchmarks models``: eager training steps of published models beside torch.

The models are those of `python -m compat_suite compiled`: small, with random weights, trained as a user trains them.
Their packages have to be there: `python -m compat_suite packages --name transformers ...` installs them. `one.py` times
one model in a process of its own, and `main.py` is the command.
"""

from .main import main as main
