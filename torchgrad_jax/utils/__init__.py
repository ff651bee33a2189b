"""torch.utils: helpers around tensors and autograd."""

from . import hooks as hooks
