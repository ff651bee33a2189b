"""Random numbers that are torch's, number for number.

Lives here: `generator.py`, torch's stream of random words and its state; `rng.py`, what `randn`, `dropout` and the
others draw of it; `normals.py`, `exchanges.py`, `rounding.py` and `rejection.py`, the arithmetic of the draws;
`keys.py`, draws from a key of JAX's inside of code that is traced.

May import: `arrays/`, `host/`, `jax/` and `errors/`.

Begin with `generator.py`, then the function of `rng.py` for the draw in question.
"""
