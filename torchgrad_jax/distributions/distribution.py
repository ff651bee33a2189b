"""What all distributions have."""

from __future__ import annotations

from typing import Any

from .. import Size, Tensor, as_tensor, broadcast_tensors, finfo, get_default_dtype, no_grad
from ..compiler import is_compiling
from . import constraints


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Tensors and numbers as tensors of one shape."""
    tensors = [v for v in values if isinstance(v, Tensor)]
    if not all(isinstance(v, Tensor | int | float) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
        )
    like: Any = tensors[0] if tensors else None
    dtype = like.dtype if like is not None else get_default_dtype()
    device = like.device if like is not None else None
    return broadcast_tensors(  # type: ignore[return-value]
        *[v if isinstance(v, Tensor) else as_tensor(v, dtype=dtype, device=device) for v in values]
    )


def clamp_probs(probs: Any) -> Any:
    """Probabilities a little away from 0 and 1."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


class lazy_property:
    """Computed when first asked for, and then kept."""

    def __init__(self, wrapped: Any) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        value = self.wrapped(instance)
        instance.__dict__[self.wrapped.__name__] = value
        return value


class Distribution:
    """A probability distribution: batches of it, and events that it gives.

    Args:
        batch_shape: the shape of a batch of distributions with parameters of their own.
        event_shape: the shape of one sample of one of them.
        validate_args: whether parameters and values are checked; the default is to.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    arg_constraints: Any = {}
    support: Any = None
    _batch_shape: Any
    _event_shape: Any

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Choose whether distributions check by default."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Any = (),
        event_shape: Any = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args and not is_compiling():
            self._check_parameters()

    def _check_parameters(self) -> None:
        for name, constraint in self.arg_constraints.items():
            if constraints.is_dependent(constraint) or (
                name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property)
            ):
                continue
            value = getattr(self, name)
            if not constraint.check(value).all():
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution for a larger batch."""
        raise NotImplementedError(f"{type(self).__name__}.expand is not implemented")

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one sample."""
        return self._event_shape

    @property
    def mean(self) -> Any:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Any:
        """The most likely value."""
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self) -> Any:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Any:
        """Samples without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Samples that the parameters get gradients through."""
        raise NotImplementedError

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, or probability, of a value."""
        raise NotImplementedError

    def cdf(self, value: Any) -> Any:
        """The probability of nothing larger than a value."""
        raise NotImplementedError

    def icdf(self, value: Any) -> Any:
        """Inverse of `cdf`."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Any:
        """All values that samples can have."""
        raise NotImplementedError

    def entropy(self) -> Any:
        """The entropy."""
        raise NotImplementedError

    def perplexity(self) -> Any:
        """The exponential of the entropy."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return Size(tuple(sample_shape) + tuple(self._batch_shape) + tuple(self._event_shape))

    def _validate_sample(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        shape: Any = value.shape  # type: ignore[attr-defined]
        n = len(self._event_shape)
        if tuple(shape[len(shape) - n :]) != tuple(self._event_shape):
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{shape} vs {self._event_shape}."
            )
        expected = tuple(self._batch_shape) + tuple(self._event_shape)
        for i, j in zip(reversed(shape), reversed(expected)):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {shape} vs {Size(expected)}."
                )
        if is_compiling():
            return
        support = self.support
        if support is not None and not support.check(value).all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(shape)}) to be within the support "
                f"({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _checked(self, value: Any) -> None:
        if self._validate_args:
            self._validate_sample(value)

    def _expanded(
        self, batch_shape: Any, instance: Any, names: tuple[str, ...], event: tuple[str, ...] = ()
    ) -> Any:
        """A copy whose parameters are expanded; those of `event` have the event's dimensions too."""
        new: Any = instance if instance is not None else type(self).__new__(type(self))
        batch = Size(batch_shape)
        for name in names:
            if name in self.__dict__:
                setattr(new, name, self.__dict__[name].expand(batch))
        for name in event:
            if name in self.__dict__:
                old = self.__dict__[name]
                new.__dict__[name] = old.expand(
                    tuple(batch) + tuple(old.shape[len(self._batch_shape) :])
                )
        Distribution.__init__(new, batch, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def __repr__(self) -> str:
        shown = [k for k in self.arg_constraints if k in self.__dict__]
        parts = [
            f"{k}: {self.__dict__[k] if self.__dict__[k].numel() == 1 else self.__dict__[k].size()}"
            for k in shown
        ]
        return f"{self.__class__.__name__}({', '.join(parts)})"
