"""How tensor code runs: at once, or as steps that are written down for a transform.

Lives here: `runs.py`, the questions that are asked of a run, and the answers of the ordinary one; `lift.py`, a run
whose tensors hold JAX's tracers (`vmap`, `compile`, `to_jax`); `traced_run.py`, what such a run came to;
`batch_layout.py` and `same_for_all.py`, what is special inside of `vmap`.

May import: `graph/`, `memory/` and `run/`.

Begin with `runs.py`: code that reads, writes or computes asks `MODES.run` and does not ask which kind it is.
"""
