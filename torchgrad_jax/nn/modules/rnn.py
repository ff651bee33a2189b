"""Recurrent networks and their cells."""

from __future__ import annotations

import math
import numbers
from typing import Any

from ..._core.errors import warn
from ..._engine.memory.tensor import Tensor
from ...amp.autocast_mode import STATE as AUTOCAST
from .. import init
from .._top import torch
from ..parameter import Parameter
from ..utils.rnn import PackedSequence
from .module import Module

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
_FUNCTIONS = {"LSTM": "lstm", "GRU": "gru", "RNN_TANH": "rnn_tanh", "RNN_RELU": "rnn_relu"}


def _apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    return tensor.index_select(dim, permutation)


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """A former way to write `index_select`.

    Args:
        tensor: what to select from.
        permutation: the places.
        dim: the dimension.
    """
    warn.to_user(
        "`apply_permutation` is deprecated, please use `tensor.index_select(dim, permutation)` instead", FutureWarning
    )
    return _apply_permutation(tensor, permutation, dim)


class _FlatWeights(list[Any]):
    """The parameters of a network in order. What is put into the list is set as the network's `_flat_weights`."""

    def __init__(self, weights: list[Any], network: RNNBase) -> None:
        super().__init__(weights)
        self._network = network

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(index, value)
        self._network._flat_weights = list(self)


def _check_arguments(
    mode: str,
    input_size: Any,
    hidden_size: Any,
    num_layers: int,
    bias: Any,
    batch_first: Any,
    dropout: Any,
    proj_size: int,
) -> None:
    known = issubclass(type(dropout), numbers.Number) and type(dropout) is not bool
    if not known or not 0 <= dropout <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
        )
    if dropout > 0 and num_layers == 1:
        warn.to_user(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
            f"greater than 1, but got dropout={dropout} and num_layers={num_layers}"
        )
    for name, value, kind in (
        ("bias", bias, bool),
        ("batch_first", batch_first, bool),
        ("input_size", input_size, int),
        ("hidden_size", hidden_size, int),
    ):
        if not isinstance(value, kind):
            raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")
        if kind is int and value <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if num_layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")
    if mode not in _GATES:
        raise ValueError("Unrecognized RNN mode: " + mode)


class RNNBase(Module):
    """What `RNN`, `LSTM` and `GRU` share.

    Args:
        mode: "RNN_TANH", "RNN_RELU", "LSTM" or "GRU".
        input_size: size of each input vector.
        hidden_size: size of the state.
        num_layers: number of layers, each of which reads the states of the one before.
        bias: whether there are biases.
        batch_first: whether input and output are (batch, time, features).
        dropout: probability of dropping elements between layers.
        bidirectional: whether each layer also runs from the end to the beginning.
        proj_size: size that the states of an LSTM are projected to, if not 0.
        device: where the parameters live.
        dtype: their dtype.
    """

    __constants__ = [
        "mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional",
        "proj_size",
    ]  # fmt: skip
    __jit_unused_properties__ = ["all_weights"]
    mode: str
    input_size: int
    hidden_size: int
    num_layers: int
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    proj_size: int

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_arguments(mode, input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size)
        self.mode, self.input_size, self.hidden_size = mode, input_size, hidden_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.dropout, self.bidirectional, self.proj_size = float(dropout), bidirectional, proj_size
        self._flat_weights_names: list[str] = []
        self._all_weights: list[list[str]] = []
        gates, state = _GATES[mode] * hidden_size, proj_size or hidden_size
        directions = 2 if bidirectional else 1
        for layer in range(num_layers):
            read = input_size if layer == 0 else state * directions
            for direction in range(directions):
                suffix = f"_l{layer}" + ("_reverse" if direction else "")
                shapes: dict[str, Any] = {f"weight_ih{suffix}": (gates, read), f"weight_hh{suffix}": (gates, state)}
                if bias:
                    shapes |= {f"bias_ih{suffix}": (gates,), f"bias_hh{suffix}": (gates,)}
                if proj_size:
                    shapes[f"weight_hr{suffix}"] = (proj_size, hidden_size)
                for name, shape in shapes.items():
                    setattr(self, name, Parameter(torch.empty(shape, device=device, dtype=dtype)))
                self._flat_weights_names += shapes
                self._all_weights.append(list(shapes))
        self.reset_parameters()

    @property
    def _flat_weights(self) -> list[Any]:
        """All parameters in order, looked up each time; or what was set in their place, until one of them changes."""
        named = [getattr(self, name, None) for name in self._flat_weights_names]
        given = self.__dict__.get("_given_weights")
        if given is not None:
            weights, before = given
            if len(before) == len(named) and all(a is b for a, b in zip(before, named)):
                return weights
            del self.__dict__["_given_weights"]
        return _FlatWeights(named, self)

    @_flat_weights.setter
    def _flat_weights(self, weights: Any) -> None:
        named = [getattr(self, name, None) for name in self._flat_weights_names]
        self.__dict__["_given_weights"] = (weights, named)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        self.__dict__.pop("_given_weights", None)
        return super()._apply(fn, recurse)

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Nothing: where parameters are in memory is up to XLA."""

    def reset_parameters(self) -> None:
        """Draw new initial values, uniform within one over the root of the size of the state."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def __setstate__(self, d: dict[str, Any]) -> None:
        d = {k: v for k, v in d.items() if k not in ("_flat_weights", "_flat_weight_refs", "_given_weights")}
        super().__setstate__(d)
        self.__dict__.setdefault("proj_size", 0)

    def extra_repr(self) -> str:
        """Sizes, and what differs from the default."""
        text = f"{self.input_size}, {self.hidden_size}"
        for name, default in (
            ("proj_size", 0),
            ("num_layers", 1),
            ("bias", True),
            ("batch_first", False),
            ("dropout", 0),
            ("bidirectional", False),
        ):
            value = getattr(self, name)
            if value != default:
                text += f", {name}={value}"
        return text

    # --- checks -----------------------------------------------------------------------------------

    def check_input(self, input: Any, batch_sizes: Any) -> None:
        """Complain about an input that does not fit."""
        wanted = self._flat_weights[0].dtype
        if input.dtype != wanted and not any(AUTOCAST.enabled.values()):
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({wanted}). Convert input: "
                f"input.to({wanted}), or convert model: model.to({input.dtype})"
            )
        ndim = 2 if batch_sizes is not None else 3
        if input.dim() != ndim:
            raise RuntimeError(f"input must have {ndim} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}"
            )

    def _batch(self, input: Any, batch_sizes: Any) -> int:
        if batch_sizes is not None:
            return int(batch_sizes[0])
        return input.size(0) if self.batch_first else input.size(1)

    def get_expected_hidden_size(self, input: Any, batch_sizes: Any) -> tuple[int, int, int]:
        """Shape of the states for an input."""
        n = self.num_layers * (2 if self.bidirectional else 1)
        return n, self._batch(input, batch_sizes), self.proj_size or self.hidden_size

    def check_hidden_size(
        self, hx: Any, expected_hidden_size: Any, msg: str = "Expected hidden size {}, got {}"
    ) -> None:
        """Complain about states of another shape."""
        if hx.size() != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input: Any, hidden: Any, batch_sizes: Any) -> None:
        """Complain about an input and states that do not fit."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Any) -> Any:
        """States with the sequences of the batch in another order."""
        return hx if permutation is None else _apply_permutation(hx, permutation)

    # --- running ----------------------------------------------------------------------------------

    def _zeros(self, input: Any, batch_sizes: Any) -> Any:
        """States to begin with."""
        shape = self.get_expected_hidden_size(input, batch_sizes)
        return torch.zeros(shape, dtype=input.dtype, device=input.device)

    def _unsqueezed(self, hx: Any, batched: bool) -> Any:
        """States given by the caller, with a batch dimension."""
        ndim, kind = (3, "batched 3-D") if batched else (2, "unbatched 2-D")
        if hx.dim() != ndim:
            raise RuntimeError(f"For {kind} input, hx should also be {ndim}-D but got {hx.dim()}-D tensor")
        return hx if batched else hx.unsqueeze(1)

    def _squeezed(self, hidden: Any) -> Any:
        return hidden.squeeze(1)

    _ndim_suffix = ""
    """What follows the number of dimensions in a message that the classes word differently."""

    def _forward(self, input: Any, hx: Any) -> Any:
        run = getattr(torch, _FUNCTIONS[self.mode])
        options = (self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        if isinstance(input, PackedSequence):
            data, sizes, order, back = input
            hx = self._zeros(data, sizes) if hx is None else self.permute_hidden(hx, order)
            self.check_forward_args(data, hx, sizes)
            output, *hidden = run(data, sizes, hx, self._flat_weights, *options)
            output = PackedSequence(output, sizes, order, back)
            return output, self.permute_hidden(self._states(hidden), back)
        if input.dim() not in (2, 3):
            raise ValueError(
                f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.dim()}D{self._ndim_suffix} instead"
            )
        batched, dim = input.dim() == 3, 0 if self.batch_first else 1
        x = input if batched else input.unsqueeze(dim)
        hx = self._zeros(x, None) if hx is None else self._unsqueezed(hx, batched)
        self.check_forward_args(x, hx, None)
        output, *hidden = run(x, hx, self._flat_weights, *options, self.batch_first)
        states = self._states(hidden)
        if batched:
            return output, states
        return output.squeeze(dim), self._squeezed(states)

    def _states(self, hidden: list[Any]) -> Any:
        return hidden[0]


class RNN(RNNBase):
    """A recurrent network, ``h' = tanh(W_ih @ x + b_ih + W_hh @ h + b_hh)``.

    Args:
        input_size: size of each input vector.
        hidden_size: size of the state.
        num_layers: number of layers.
        nonlinearity: "tanh" or "relu".
        bias: whether there are biases.
        batch_first: whether input and output are (batch, time, features).
        dropout: probability of dropping elements between layers.
        bidirectional: whether each layer also runs from the end to the beginning.
        device: where the parameters live.
        dtype: their dtype.
    """

    _ndim_suffix = " tensor"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            kind = args[3]
            args = args[:3] + args[4:]
        else:
            kind = kwargs.pop("nonlinearity", "tanh")
        if kind not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{kind}'. Select from 'tanh' or 'relu'.")
        self.nonlinearity = kind
        super().__init__("RNN_TANH" if kind == "tanh" else "RNN_RELU", *args, **kwargs)

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The states of the last layer at all times, and the last states of all layers."""
        return self._forward(input, hx)


class LSTM(RNNBase):
    """A long short-term memory.

    Args:
        input_size: size of each input vector.
        hidden_size: size of the state.
        num_layers: number of layers.
        bias: whether there are biases.
        batch_first: whether input and output are (batch, time, features).
        dropout: probability of dropping elements between layers.
        bidirectional: whether each layer also runs from the end to the beginning.
        proj_size: size that states are projected to, if not 0.
        device: where the parameters live.
        dtype: their dtype.

    Example:
        >>> import torchgrad_jax as torch
        >>> out, (h, c) = torch.nn.LSTM(3, 4)(torch.ones(5, 2, 3))
        >>> out.shape, h.shape, c.shape
        (torch.Size([5, 2, 4]), torch.Size([1, 2, 4]), torch.Size([1, 2, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: Any, batch_sizes: Any) -> tuple[int, int, int]:
        """Shape of the cells for an input."""
        n, batch, _ = self.get_expected_hidden_size(input, batch_sizes)
        return n, batch, self.hidden_size

    def check_forward_args(self, input: Any, hidden: Any, batch_sizes: Any) -> None:
        """Complain about an input, states and cells that do not fit."""
        self.check_input(input, batch_sizes)
        for i, size in enumerate(
            (self.get_expected_hidden_size(input, batch_sizes), self.get_expected_cell_size(input, batch_sizes))
        ):
            self.check_hidden_size(hidden[i], size, f"Expected hidden[{i}] size {{}}, got {{}}")

    def permute_hidden(self, hx: Any, permutation: Any) -> Any:
        """States and cells with the sequences of the batch in another order."""
        if permutation is None:
            return hx
        return tuple(_apply_permutation(t, permutation) for t in hx)

    def _zeros(self, input: Any, batch_sizes: Any) -> Any:
        size = self.get_expected_cell_size(input, batch_sizes)
        cells = torch.zeros(size, dtype=input.dtype, device=input.device)
        return super()._zeros(input, batch_sizes), cells

    def _unsqueezed(self, hx: Any, batched: bool) -> Any:
        ndim, kind = (3, "batched 3-D") if batched else (2, "unbatched 2-D")
        if hx[0].dim() != ndim or hx[1].dim() != ndim:
            raise RuntimeError(
                f"For {kind} input, hx and cx should also be {ndim}-D but got ({hx[0].dim()}-D, "
                f"{hx[1].dim()}-D) tensors"
            )
        return tuple(hx) if batched else (hx[0].unsqueeze(1), hx[1].unsqueeze(1))

    def _squeezed(self, hidden: Any) -> Any:
        return hidden[0].squeeze(1), hidden[1].squeeze(1)

    def _states(self, hidden: list[Any]) -> Any:
        return tuple(hidden)

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The states of the last layer at all times, and the last states and cells of all layers."""
        return self._forward(input, hx)


class GRU(RNNBase):
    """A network of gated recurrent units.

    Args:
        input_size: size of each input vector.
        hidden_size: size of the state.
        num_layers: number of layers.
        bias: whether there are biases.
        batch_first: whether input and output are (batch, time, features).
        dropout: probability of dropping elements between layers.
        bidirectional: whether each layer also runs from the end to the beginning.
        device: where the parameters live.
        dtype: their dtype.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The states of the last layer at all times, and the last states of all layers."""
        return self._forward(input, hx)


# --- cells ----------------------------------------------------------------------------------------


class RNNCellBase(Module):
    """What the cells share.

    Args:
        input_size: size of each input vector.
        hidden_size: size of the state.
        bias: whether there are biases.
        num_chunks: number of gates.
        device: where the parameters live.
        dtype: their dtype.
    """

    __constants__ = ["input_size", "hidden_size", "bias"]
    input_size: int
    hidden_size: int
    bias: bool
    weight_ih: Any
    weight_hh: Any
    bias_ih: Any
    bias_hh: Any

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        gates = num_chunks * hidden_size
        kind = {"device": device, "dtype": dtype}
        self.weight_ih = Parameter(torch.empty((gates, input_size), **kind))
        self.weight_hh = Parameter(torch.empty((gates, hidden_size), **kind))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(torch.empty(gates, **kind)) if bias else None)
        self.reset_parameters()

    def extra_repr(self) -> str:
        """Sizes, and what differs from the default."""
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        kind = self.__dict__.get("nonlinearity", "tanh")
        return text + ("" if kind == "tanh" else f", nonlinearity={kind}")

    def reset_parameters(self) -> None:
        """Draw new initial values, uniform within one over the root of the size of the state."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _weights(self) -> tuple[Any, ...]:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def _check(self, what: str, value: Any) -> None:
        if value.dim() not in (1, 2):
            raise ValueError(f"{type(self).__name__}: Expected {what} to be 1D or 2D, got {value.dim()}D instead")

    def _zeros(self, input: Any) -> Any:
        shape = (input.size(0), self.hidden_size)
        return torch.zeros(shape, dtype=input.dtype, device=input.device)

    def _step(self, run: Any, input: Any, hx: Any) -> Any:
        """One step of a cell whose state is one tensor."""
        self._check("input", input)
        if hx is not None:
            self._check("hidden", hx)
        batched = input.dim() == 2
        x = input if batched else input.unsqueeze(0)
        if hx is None:
            h = self._zeros(x)
        else:
            h = hx if batched else hx.unsqueeze(0)
        out = run(x, h, *self._weights())
        return out if batched else out.squeeze(0)


class RNNCell(RNNCellBase):
    """One step of an `RNN`.

    Args:
        input_size: size of each input vector.
        hidden_size: size of the state.
        bias: whether there are biases.
        nonlinearity: "tanh" or "relu".
        device: where the parameters live.
        dtype: their dtype.
    """

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]
    nonlinearity: str

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=1, device=device, dtype=dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The new state."""
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(getattr(torch, f"rnn_{self.nonlinearity}_cell"), input, hx)


class LSTMCell(RNNCellBase):
    """One step of an `LSTM`.

    Args:
        input_size: size of each input vector.
        hidden_size: size of the state.
        bias: whether there are biases.
        device: where the parameters live.
        dtype: their dtype.
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=4, device=device, dtype=dtype)

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The new state and the new cell."""
        self._check("input", input)
        for i, value in enumerate(() if hx is None else hx):
            self._check(f"hx[{i}]", value)
        batched = input.dim() == 2
        x = input if batched else input.unsqueeze(0)
        if hx is None:
            hx = (self._zeros(x),) * 2
        elif not batched:
            hx = tuple(t.unsqueeze(0) for t in hx)
        out = torch.lstm_cell(x, hx, *self._weights())
        return out if batched else (out[0].squeeze(0), out[1].squeeze(0))


class GRUCell(RNNCellBase):
    """One step of a `GRU`.

    Args:
        input_size: size of each input vector.
        hidden_size: size of the state.
        bias: whether there are biases.
        device: where the parameters live.
        dtype: their dtype.
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=3, device=device, dtype=dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The new state."""
        return self._step(torch.gru_cell, input, hx)
