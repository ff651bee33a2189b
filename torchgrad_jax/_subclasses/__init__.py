"""Tensors without data: see `fake_tensor`."""

from . import fake_tensor as fake_tensor
from .fake_tensor import (
    DynamicOutputShapeException as DynamicOutputShapeException,
    FakeTensor as FakeTensor,
    FakeTensorMode as FakeTensorMode,
)
