"""A name that packages ask about tensors without data: see `fake_tensor`."""

from . import fake_tensor as fake_tensor
from .fake_tensor import FakeTensor as FakeTensor, FakeTensorMode as FakeTensorMode
