"""The libraries that are compared, behind the few calls for which their public APIs do not suffice."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from torchgrad_jax.testing._described import dtype_name as dtype_name


@dataclass(frozen=True)
class Lib:
    """A library with torch's API."""

    name: str
    module: Any

    @property
    def tensor_type(self) -> type:
        """The library's tensor class."""
        return self.module.Tensor

    def has(self, path: str) -> bool:
        """Whether a dotted name such as ``nn.functional.relu`` or ``Tensor.add_`` exists."""
        try:
            self.resolve(path)
        except AttributeError:
            return False
        return True

    def resolve(self, path: str) -> Any:
        """What a dotted name stands for; a leading ``torch.`` is the library itself."""
        return functools.reduce(getattr, path.removeprefix("torch.").split("."), self.module)

    def dtype(self, name: str) -> Any:
        """The dtype object of a name such as ``float32``."""
        return getattr(self.module, name)

    def array(self, tensor: Any) -> np.ndarray:
        """A copy of a tensor's values, whatever its dtype, flags or place in a graph."""
        if hasattr(tensor, "__jax_array__"):
            import jax

            with jax.enable_x64(True):  # a process with 32 bits would get float32 of a tensor of float64
                return np.array(tensor.detach().__jax_array__())
        if self.name != "torch":
            return np.array(tensor.detach().numpy())
        plain = tensor.detach().resolve_conj().resolve_neg()
        if plain._is_zerotensor():
            plain = self.module.zeros(plain.shape, dtype=plain.dtype)
        if plain.dtype is self.module.bfloat16:
            return plain.contiguous().view(self.module.int16).numpy().view(ml_dtypes.bfloat16).copy()
        return plain.clone().numpy().copy()  # of a clone: numpy() pins a tensor's storage

    def from_array(self, array: np.ndarray) -> Any:
        """A fresh contiguous leaf with the array's values and dtype."""
        array = np.array(array, order="C")
        if self.name == "torch" and array.dtype == ml_dtypes.bfloat16:
            return self.module.from_numpy(array.view(np.int16)).view(self.module.bfloat16)
        if not array.size:  # numpy's strides would be 0
            return self.module.tensor(array).clone(memory_format=self.module.contiguous_format)
        return self.module.tensor(array)

    def storage_key(self, tensor: Any) -> int:
        """A number that two tensors share if and only if they share storage."""
        storage = tensor.untyped_storage()
        return storage._cdata if self.name == "torch" else storage.data_ptr()


_JUDGED = ["torchgrad_jax"]
"""The name of the module that is judged."""


def judge_library(name: str) -> None:
    """Judge another module that has torch's API."""
    importlib.import_module(name)
    _JUDGED[0] = name


def ours() -> Lib:
    """What is judged: this package, unless `judge_library` named another."""
    return _library(_JUDGED[0])


@functools.cache
def _library(name: str) -> Lib:
    return Lib(name, importlib.import_module(name))


@functools.cache
def live_torch() -> Lib:
    """The oracle; importing it fails where torch is not installed."""
    return Lib("torch", importlib.import_module("torch"))


def torch_installed() -> bool:
    """Whether the oracle can be imported; does not import it."""
    return importlib.util.find_spec("torch") is not None
