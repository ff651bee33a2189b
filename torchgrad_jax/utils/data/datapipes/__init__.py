"""torch.utils.data.datapipes: datasets made of datasets, by chains of methods."""

from __future__ import annotations

from . import datapipe as datapipe, iter as iter, map as map
