"""PyTorch-style autograd running on XLA."""

import os as _os

import jax as _jax

if _os.environ.get("TORCHGRAD_JAX_X64", "1") != "0":
    _jax.config.update("jax_enable_x64", True)

from . import autograd as autograd
from ._core import dtypes as _dtypes
from ._core.devices import device as device
from ._core.shapes import Size as Size
from ._engine import attributes as _attributes
from ._engine import bind as _bind
from ._engine.tensor import Tensor as Tensor
from . import _functions as _functions
from ._functions import indexing as _indexing
from ._functions import shape as _shape

_attributes.install()
for _name, _fn in {**_bind.METHODS, **_bind.OPERATORS}.items():
    setattr(Tensor, _name, _fn)
Tensor.__getitem__ = _indexing.getitem
Tensor.__setitem__ = _indexing.setitem
Tensor.T = property(_shape.transposed)
Tensor.mT = property(_shape.matrix_transposed)
Tensor.H = property(_shape.hermitian)
Tensor.mH = property(_shape.matrix_hermitian)
Tensor.real = property(_shape.real)
Tensor.imag = property(_shape.imag)


def _backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


Tensor.backward = _backward
globals().update(_bind.NAMESPACES.get("", {}))
for _d in _dtypes.ALL:
    globals()[_d.name] = _d
for _name, _d in _dtypes.ALIASES.items():
    globals()[_name] = _d
