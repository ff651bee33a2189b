"""Found as `torch` by Python processes that an aliased program starts; never imported otherwise.

The runner puts this folder on the path of its children. A child that imports torch gets here, and
the alias that its parent has is installed.
"""

import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
_home = os.path.dirname(os.path.dirname(os.path.dirname(_here)))
sys.modules.pop("torch", None)
try:
    import torchgrad_jax as _own
except ModuleNotFoundError:  # run from a checkout that is not installed
    sys.path.append(_home)
    import torchgrad_jax as _own
_own.install_as_torch()
