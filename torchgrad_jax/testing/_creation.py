"""torch.testing._creation: `make_tensor` under the name of the module that defines it in torch."""

from ._making import make_tensor as make_tensor
