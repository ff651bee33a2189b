"""torch.nn.utils._expanded_weights."""

from .expanded_weights_impl import ExpandedWeight as ExpandedWeight
