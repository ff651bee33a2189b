"""What the server imports, so that no worker has to."""

from __future__ import annotations

from ..utils import data as data
from . import _forks as _forks, _queue as _queue
