"""The one name of this private module that packages ask about: what torch.compile makes of a module."""

from __future__ import annotations

from ..nn._compiled import OptimizedModule as OptimizedModule
