"""Calling a module with other parameters and buffers than its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..._core.errors import warn
from ..._core.signals import contextmanager, restore
from ..._engine.memory.tensor import Tensor

_MISSING = object()


def functional_call(
    module: Any,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: Any = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """The old place of `torch.func.functional_call`.

    Args:
        module: the module to call.
        parameters_and_buffers: tensors by their names in the module.
        args: arguments of the call; anything but a tuple is the only one.
        kwargs: more of them, by name.
        tie_weights: whether tensors that the module holds under several names are replaced under all of them.
        strict: raise unless exactly all tensors are given.
    """
    warn.to_user(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a future "
        "version of PyTorch. Please use `torch.func.functional_call` instead which is a drop-in replacement.",
        FutureWarning,
    )
    return call_with(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


def call_with(module: Any, tensors: dict[str, Any], args: Any, kwargs: Any, *, tie_weights: bool, strict: bool) -> Any:
    """Call a module while it holds the given tensors; those that it assigns are put into `tensors`."""
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with reparametrized(module, tensors, tie_weights=tie_weights, strict=strict):
        return module(*args, **(kwargs or {}))


@contextmanager
def reparametrized(
    module: Any, tensors: dict[str, Any], tie_weights: bool = False, strict: bool = False, stack_weights: bool = False
) -> Iterator[None]:
    """The module with other tensors inside, and its own ones again afterwards; put back last first where stacked."""
    given = _tied(module, tensors) if tie_weights else dict(tensors)
    if strict:
        _check_names(module, given)
    originals: dict[str, Any] = {}

    def put_back() -> None:
        current: dict[str, Any] = {}
        for name, value in reversed(originals.items()) if stack_weights else originals.items():
            _swap(module, name, value, current)
            if name in tensors and current[name] is not value:
                tensors[name] = current[name]

    try:
        for name, value in given.items():
            _swap(module, name, value, originals)
        yield
    finally:
        restore(put_back)


def _reparametrize_module(
    module: Any,
    parameters_and_buffers: dict[str, Any],
    tie_weights: bool = False,
    strict: bool = False,
    stack_weights: bool = False,
) -> Any:
    """torch's name of this context manager, which packages use."""
    return reparametrized(module, parameters_and_buffers, tie_weights, strict, stack_weights)


def _all_tensors(module: Any) -> dict[str, Any]:
    found = dict(module.named_parameters(remove_duplicate=False))
    found.update(module.named_buffers(remove_duplicate=False))
    return found


def _tied(module: Any, tensors: dict[str, Any]) -> dict[str, Any]:
    """The given tensors under every name that their originals have."""
    names: dict[int, list[str]] = {}
    group: dict[str, list[str]] = {}
    for name, t in _all_tensors(module).items():
        group[name] = names.setdefault(id(t), [])
        group[name].append(name)
    out = dict(tensors)
    for name, value in tensors.items():
        tied = group.get(name, [])
        if any(tensors.get(n, value) is not value for n in tied):
            several = sorted(n for n in tied if n in tensors)
            raise ValueError(
                f"functional_call got multiple values for keys {several}, which are tied. Consider using "
                "tie_weights=False"
            )
        for n in tied:
            out[n] = value
    return out


def _check_names(module: Any, given: dict[str, Any]) -> None:
    known = set(_all_tensors(module))
    unexpected, missing = sorted(set(given) - known), sorted(known - set(given))
    complaints = [
        f"\n\t{what} key(s): {', '.join(map(repr, names))}."
        for what, names in (("Unexpected", unexpected), ("Missing", missing))
        if names
    ]
    if complaints:
        raise RuntimeError(f"Error(s) in reparametrizing for {type(module).__name__}:" + "".join(complaints))


def _swap(module: Any, name: str, value: Any, before: dict[str, Any]) -> None:
    """Put a tensor under a name, and before that what was there into `before`."""
    if not name:
        raise KeyError('tensor name can\'t be empty string ""')
    prefix, _, attribute = name.rpartition(".")
    owner = module
    for part in prefix.split(".") if prefix else ():
        if part not in owner._modules:
            raise AttributeError(f"{type(owner).__name__} has no attribute `{part}`")
        owner = owner._modules[part]
    if value is not _MISSING and value is not None and not isinstance(value, Tensor):
        raise TypeError(f"{value} is not an instance of torch.Tensor")
    for table in (owner._parameters, owner._buffers):
        if attribute in table:
            before[name] = table[attribute]
            table[attribute] = value
            return
    found = getattr(owner, attribute, _MISSING)
    if found is not _MISSING and not isinstance(found, Tensor):
        raise TypeError(f"attribute `{attribute}`: {found} is not an instance of torch.Tensor")
    before[name] = found
    if value is not _MISSING:
        setattr(owner, attribute, value)
    elif found is not _MISSING:
        delattr(owner, attribute)


__all__ = ["functional_call"]
