"""Watch a training script from inside its process, without changing the script.

The same code watches a script under torch and under torchgrad_jax: it knows nothing but NumPy and the
public interface of whatever `torch` is, and imports nothing of this package, so that a process that runs
torch does not load JAX. `_boot.py` beside this folder starts it there.
"""
