"""The older names of what torch.library holds."""

from .library import custom_op as custom_op, impl as impl, impl_abstract as impl_abstract
