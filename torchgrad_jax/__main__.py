"""`python -m torchgrad_jax script.py`: a PyTorch program on torchgrad_jax."""

import sys

from ._alias.run import main

if __name__ == "__main__":
    sys.exit(main())
