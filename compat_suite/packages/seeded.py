"""A plugin of pytest for suites of others: random numbers of Python and NumPy are the same in each run.

Some suites draw their parameters while pytest collects them. Their tests have the same names under both libraries then.
"""

import random

import numpy as np

random.seed(0)
np.random.seed(0)  # noqa: NPY002 - of the generator that everybody shares
