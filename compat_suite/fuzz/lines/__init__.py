"""What one line of a random program can be, by what it is about.

A rule looks at the live tensors (torch's, while the program is made) and returns a line of source, or None where it
does not apply. Shapes and dtypes are few, so that kernels are compiled once.
"""

from . import (
    dtypes as dtypes,
    hooks as hooks,
    modes as modes,
    numbers as numbers,
    passes as passes,
    transforms as transforms,
    views as views,
    writes as writes,
)
