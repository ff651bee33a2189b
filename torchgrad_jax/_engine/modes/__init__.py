"""How tensor code runs: at once, or as steps that are written down for a transform.

Lives here: `runs.py`, the run that code is in, which is `MODES.run`; `begin.py`, how a traced one begins and ends;
`written_steps.py`, what it came to; `batch.py` and `same_for_all.py`, what a run of `vmap` is over and what its
examples share; `uses.py`, who hears what a run does with tensors from outside; `belonging.py`, to which run a tensor
belongs.

May import: `graph/`, `memory/` and `run/`.

Begin with `runs.py`: code that reads, writes or computes asks `MODES.run`, and its flags say what the run permits.
"""
