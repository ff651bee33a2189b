"""functorch.einops."""

from ...func import rearrange as rearrange

__all__ = ["rearrange"]
