"""Speed and memory against torch eager and hand-written jax.jit, as ratios taken in one run."""
