"""Parameters with some of their elements fixed at zero."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from ...autograd.grad_mode import no_grad
from .._top import torch
from .convert_parameters import parameters_to_vector

# --- amounts --------------------------------------------------------------------------------------


def _check_amount(amount: Any) -> None:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (not isinstance(amount, numbers.Integral) and float(amount) > 1.0):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _count(amount: Any, size: int) -> int:
    """Return how many of `size` things an amount is."""
    n = int(amount) if isinstance(amount, numbers.Integral) else round(amount * size)
    if n > size:
        raise ValueError(f"amount={n} should be smaller than the number of parameters to prune={size}")
    return n


def _check_channels(t: Any, dim: int) -> None:
    if len(t.shape) <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
            f"{t.shape} with {len(t.shape)} dims"
        )
    if dim >= t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


def _channels(t: Any, dim: int, kept: Any) -> Any:
    """A mask of the shape of a tensor that keeps some of its channels."""
    shape = [1] * t.dim()
    shape[dim] = -1
    return torch.zeros_like(t) + kept.to(dtype=t.dtype).reshape(shape)


# --- methods --------------------------------------------------------------------------------------


class BasePruningMethod(ABC):
    """A hook that multiplies a parameter with a mask before every forward.

    Subclasses define `compute_mask`, and `PRUNING_TYPE` as "unstructured", "structured" (with an attribute
    `dim`) or "global".
    """

    PRUNING_TYPE: str
    _tensor_name: str | None = None

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))  # type: ignore[arg-type]

    @abstractmethod
    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask, given how important elements are and what is masked already."""

    def apply_mask(self, module: Any) -> Any:
        """The parameter of a module, masked."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        mask = getattr(module, self._tensor_name + "_mask")
        original = getattr(module, self._tensor_name + "_orig")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(cls, module: Any, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any) -> Any:
        """Prune a parameter of a module.

        Args:
            module: the module.
            name: the name of the parameter.
            args: arguments of the method.
            importance_scores: how important its elements are; by default what they are.
            kwargs: more arguments of the method.
        """
        method = _joined(module, name, cls(*args, **kwargs))
        original = getattr(module, name)
        scores = original if importance_scores is None else importance_scores
        if scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, got {scores.shape} vs "
                f"{original.shape}"
            )
        again = isinstance(method, PruningContainer)
        if again:
            default = getattr(module, name + "_mask").detach().clone()
        else:
            module.register_parameter(name + "_orig", original)
            del module._parameters[name]
            default = torch.ones_like(original)
        try:
            with no_grad():
                mask = method.compute_mask(scores, default_mask=default)
            module.register_buffer(name + "_mask", mask)
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:  # raised again, with the module as it was
            if not again:
                module.register_parameter(name, getattr(module, name + "_orig"))
                del module._parameters[name + "_orig"]
            raise
        return method

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Any:
        """A tensor with elements zeroed.

        Args:
            t: the tensor.
            default_mask: what is masked already.
            importance_scores: how important its elements are; by default what they are.
        """
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as tensor t, got {scores.shape} vs {t.shape}"
            )
        default = torch.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=default)

    def remove(self, module: Any) -> None:
        """Make the masked parameter an ordinary one."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters[name + "_orig"]
        original.data = weight.data
        del module._parameters[name + "_orig"]
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


def _joined(module: Any, name: str, method: Any) -> Any:
    """A new method, together with the one that prunes the same parameter already."""
    hooks = module._forward_pre_hooks
    found = {k: hook for k, hook in hooks.items() if isinstance(hook, BasePruningMethod) and hook._tensor_name == name}
    if len(found) > 1:
        raise AssertionError(
            f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. Use a PruningContainer."
        )
    method._tensor_name = name
    for key, old in found.items():
        del hooks[key]
        container = old if isinstance(old, PruningContainer) else PruningContainer(old)
        container.add_pruning_method(method)
        return container
    return method


class PruningContainer(BasePruningMethod):
    """Several methods that prune the same parameter one after the other.

    Args:
        args: the methods, or one iterable of them.
    """

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[Any, ...] = ()
        if not isinstance(args, Iterable) or not args:
            return
        if len(args) == 1 and not isinstance(args[0], Iterable):
            self._tensor_name = args[0]._tensor_name
        methods = args[0] if len(args) == 1 and isinstance(args[0], Iterable) else args
        for method in methods:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a method at the end.

        Args:
            method: the method.
        """
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to PruningContainer "
                f"{self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Return what the last method masks of what the others left."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(dtype=t.dtype)
        where = self._left(method, t, mask)
        out = mask.clone()
        out[where] = method.compute_mask(t[where], default_mask=mask[where]).to(dtype=out.dtype)
        return out

    def _left(self, method: Any, t: Any, mask: Any) -> Any:
        """The part of a tensor that a method is to look at."""
        if method.PRUNING_TYPE == "unstructured":
            return mask == 1
        if method.PRUNING_TYPE == "global":
            return (slice(None),) * t.dim()
        if method.PRUNING_TYPE != "structured":
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        if not hasattr(method, "dim"):
            raise AttributeError(
                'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.'
            )
        n = t.dim()
        dim = method.dim + n if method.dim < 0 else method.dim
        if not 0 <= dim < n:
            raise IndexError(f"Index is out of bounds for tensor with dimensions {n}")
        where: list[Any] = [slice(None)] * n
        where[dim] = mask.sum(dim=[d for d in range(n) if d != dim]) != 0
        return tuple(where)


class Identity(BasePruningMethod):
    """Masks nothing."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Return what is masked already."""
        return default_mask


class RandomUnstructured(BasePruningMethod):
    """Masks elements at random.

    Args:
        amount: how many, or which part.
    """

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: Any) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask."""
        return _without_extreme(t, default_mask, self.amount, lambda: torch.rand_like(t), largest=True)


class L1Unstructured(BasePruningMethod):
    """Masks the elements that are nearest to zero.

    Args:
        amount: how many, or which part.
    """

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: Any) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask."""
        return _without_extreme(t, default_mask, self.amount, lambda: torch.abs(t), largest=False)


def _without_extreme(t: Any, mask: Any, amount: Any, scores: Any, largest: bool) -> Any:
    """A mask without the elements whose scores are largest, or smallest."""
    n = _count(amount, t.nelement())
    out = mask.clone()
    if n:
        out.view(-1)[torch.topk(scores().view(-1), k=n, largest=largest)[1]] = 0
    return out


class RandomStructured(BasePruningMethod):
    """Masks channels at random.

    Args:
        amount: how many, or which part.
        dim: the dimension of the channels.
    """

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount, self.dim = amount, dim

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask."""
        _check_channels(t, self.dim)
        size = t.shape[self.dim]
        n = _count(self.amount, size)
        if not n:
            return default_mask
        drawn = torch.rand(size)
        mask = _channels(t, self.dim, drawn > torch.kthvalue(drawn, k=n)[0])
        return mask * default_mask.to(dtype=mask.dtype)


class LnStructured(BasePruningMethod):
    """Masks the channels of smallest norm.

    Args:
        amount: how many, or which part.
        n: which norm.
        dim: the dimension of the channels.
    """

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount, self.n, self.dim = amount, n, dim

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask."""
        _check_channels(t, self.dim)
        size = t.shape[self.dim]
        n = _count(self.amount, size)
        others = [d for d in range(t.dim()) if d != self.dim % t.dim()]
        norms = torch.norm(t, p=self.n, dim=others)
        best = torch.topk(norms, k=size - n, largest=True)[1]
        if not n:
            return default_mask
        kept = torch.zeros(size)
        kept[best] = 1
        mask = _channels(t, self.dim, kept)
        return mask * default_mask.to(dtype=mask.dtype)


class CustomFromMask(BasePruningMethod):
    """Masks what a given mask does.

    Args:
        mask: the mask.
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)


# --- functions ------------------------------------------------------------------------------------


def identity(module: Any, name: str) -> Any:
    """Mask nothing of a parameter yet.

    Args:
        module: the module.
        name: the name of the parameter.
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: Any) -> Any:
    """Mask elements of a parameter at random.

    Args:
        module: the module.
        name: the name of the parameter.
        amount: how many, or which part.
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Any, name: str, amount: Any, importance_scores: Any = None) -> Any:
    """Mask the elements of a parameter that are nearest to zero.

    Args:
        module: the module.
        name: the name of the parameter.
        amount: how many, or which part.
        importance_scores: what is looked at instead of the elements.
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: Any, dim: int) -> Any:
    """Mask channels of a parameter at random.

    Args:
        module: the module.
        name: the name of the parameter.
        amount: how many, or which part.
        dim: the dimension of the channels.
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: Any, name: str, amount: Any, n: Any, dim: int, importance_scores: Any = None) -> Any:
    """Mask the channels of a parameter of smallest norm.

    Args:
        module: the module.
        name: the name of the parameter.
        amount: how many, or which part.
        n: which norm.
        dim: the dimension of the channels.
        importance_scores: what is looked at instead of the elements.
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Any, name: str, mask: Any) -> Any:
    """Mask a parameter by a given mask.

    Args:
        module: the module.
        name: the name of the parameter.
        mask: the mask.
    """
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(parameters: Any, pruning_method: Any, importance_scores: Any = None, **kwargs: Any) -> None:
    """Mask elements of several parameters as if they were one.

    Args:
        parameters: pairs of a module and the name of a parameter.
        pruning_method: the class of the method.
        importance_scores: by such pairs, what is looked at instead of the elements.
        kwargs: arguments of the method.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    pairs: list[Any] = list(parameters)
    values = parameters_to_vector([scores.get((m, n), getattr(m, n)) for m, n in pairs])
    masks = parameters_to_vector([getattr(m, n + "_mask", torch.ones_like(getattr(m, n))) for m, n in pairs])
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method {pruning_method} of '
            f"type {method.PRUNING_TYPE}"
        )
    container = PruningContainer()
    container._tensor_name = method._tensor_name = "temp"
    container.add_pruning_method(method)
    with no_grad():
        mask = container.compute_mask(values, masks)
    start = 0
    for module, name in pairs:
        param = getattr(module, name)
        stop = start + param.numel()
        custom_from_mask(module, name, mask=mask[start:stop].view_as(param))
        start = stop


def remove(module: Any, name: str) -> Any:
    """Make a masked parameter an ordinary one.

    Args:
        module: the module.
        name: the name of the parameter.
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Any) -> bool:
    """Return whether any parameter of a module or of one below it is masked.

    Args:
        module: the module.
    """
    return any(isinstance(hook, BasePruningMethod) for m in module.modules() for hook in m._forward_pre_hooks.values())
