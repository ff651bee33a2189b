"""torch.utils: helpers around tensors and autograd."""

from . import checkpoint as checkpoint, hooks as hooks
