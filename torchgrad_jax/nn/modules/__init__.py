"""The layers, one family per file."""

# ruff: noqa: F403 - each file lists its layers
from __future__ import annotations

from .activation import *
from .adaptive import *
from .batchnorm import *
from .channelshuffle import *
from .container import *
from .conv import *
from .distance import *
from .dropout import *
from .flatten import *
from .fold import *
from .instancenorm import *
from .linear import *
from .linear_cross_entropy_options import LinearCrossEntropyOptions as LinearCrossEntropyOptions
from .loss import *
from .module import Module as Module
from .normalization import *
from .padding import *
from .pixelshuffle import *
from .pooling import *
from .rnn import *
from .sparse import *
from .transformer import *
from .upsampling import *

# Hidden from mypy, which takes a computed list for an empty one, and every layer for Any.
globals()["__all__"] = sorted(name for name, x in globals().items() if isinstance(x, type))
