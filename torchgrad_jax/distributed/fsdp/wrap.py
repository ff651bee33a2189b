"""torch.distributed.fsdp.wrap: which submodules FullyShardedDataParallel wraps by itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..._core.signals import contextmanager
from ...nn.modules.activation import MultiheadAttention
from ...nn.modules.container import ModuleDict, ModuleList
from ...nn.modules.module import Module

__all__ = [
    "CustomPolicy",
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "enable_wrap",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
    "wrap",
]


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Wrap every submodule."""
    return True


class _Policy(ABC):
    """Says for a whole module which submodules are wrapped, and with which options."""

    @abstractmethod
    def _run_policy(
        self, root_module: Module, ignored_modules: set[Module], root_kwargs: dict[str, Any]
    ) -> dict[Module, dict[str, Any]]:
        """The options for each submodule to wrap."""


class ModuleWrapPolicy(_Policy):
    """Wrap the submodules of some classes.

    Args:
        module_classes: the classes.
    """

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._module_classes = set(module_classes)

    def _run_policy(
        self, root_module: Module, ignored_modules: set[Module], root_kwargs: dict[str, Any]
    ) -> dict[Module, dict[str, Any]]:
        kinds = tuple(self._module_classes)
        return {
            m: dict(root_kwargs) for m in root_module.modules() if m not in ignored_modules and isinstance(m, kinds)
        }

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return recurse or isinstance(module, tuple(self._module_classes))

    def __repr__(self) -> str:
        return f"{super().__repr__()}({self._module_classes})"


class CustomPolicy(_Policy):
    """Wrap what a function says.

    Args:
        lambda_fn: gives for a submodule whether to wrap it, or the options that differ from the whole module's.
    """

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._lambda_fn = lambda_fn

    def _run_policy(
        self, root_module: Module, ignored_modules: set[Module], root_kwargs: dict[str, Any]
    ) -> dict[Module, dict[str, Any]]:
        found: dict[Module, dict[str, Any]] = {}
        for m in root_module.modules():
            if m in ignored_modules:
                continue
            answer = self._lambda_fn(m)
            if not isinstance(answer, dict | bool):
                raise ValueError(
                    "The lambda_fn passed to CustomPolicy should return "
                    f"False/True or a kwarg dict, but it returned {answer}"
                )
            if answer:
                found[m] = {**root_kwargs, **(answer if isinstance(answer, dict) else {})}
        return found


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:
    """Wrap the submodules that a function wants."""
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: set[type[Module]]
) -> bool:
    """Wrap the submodules of some classes."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = int(1e8),
    force_leaf_modules: set[type[Module]] | None = None,
    exclude_wrap_modules: set[type[Module]] | None = None,
) -> bool:
    """Wrap what has many elements that are not wrapped yet."""
    policy: Any = size_based_auto_wrap_policy
    leaves = policy.FORCE_LEAF_MODULES if force_leaf_modules is None else force_leaf_modules
    left_out = policy.EXCLUDE_WRAP_MODULES if exclude_wrap_modules is None else exclude_wrap_modules
    return nonwrapped_numel >= min_num_params and not isinstance(module, tuple(leaves if recurse else left_out))


size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES = {ModuleList, ModuleDict}
size_based_auto_wrap_policy.FORCE_LEAF_MODULES = {MultiheadAttention}


def wrap_children(
    root: Module,
    policy: Any,
    wrapper: Callable[..., Module],
    ignored: set[Module],
    options: dict[str, Any],
    apart: tuple[type[Module], ...] = (),
) -> None:
    """Wrap the submodules that a policy wants, and those of some classes in any case, those below first."""
    if isinstance(policy, _Policy):
        others = ModuleWrapPolicy(apart)._run_policy(root, ignored, options)
        wanted = {**others, **policy._run_policy(root, ignored, options)}
        wanted.pop(root, None)
        _replace(root, wanted, wrapper, {root})
        return

    def either(module: Module, recurse: bool, nonwrapped_numel: int) -> bool:
        wanted = policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel)
        return wanted or (bool(apart) and recurse) or isinstance(module, apart)

    _wrap_rest(root, either, wrapper, ignored, options, whole=True)


def _replace(parent: Module, wanted: dict[Module, Any], wrapper: Any, seen: set[Module]) -> None:
    for name, child in parent.named_children():
        if child not in seen:
            seen.add(child)
            _replace(child, wanted, wrapper, seen)
            if child in wanted:
                setattr(parent, name, wrapper(child, **wanted[child]))


def _wrap_rest(
    module: Module, policy: Any, wrapper: Any, ignored: set[Module], options: Any, whole: bool = False
) -> tuple[Module, int]:
    """The module, wrapped where the policy wants that, and how many of its elements are in wrapped modules."""
    n = sum(p.numel() for p in module.parameters())
    if not policy(module=module, recurse=True, nonwrapped_numel=n):
        return module, 0
    wrapped = 0
    for name, child in module.named_children():
        if child not in ignored:
            new, below = _wrap_rest(child, policy, wrapper, ignored, options)
            setattr(module, name, new)
            wrapped += below
    if not whole and policy(module=module, recurse=False, nonwrapped_numel=n - wrapped):
        return wrapper(module, **options), n
    return module, wrapped


_ENABLED: list[tuple[Any, dict[str, Any]]] = []


@contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """Let `wrap` wrap modules in this block.

    Args:
        wrapper_cls: what wraps them.
        wrapper_kwargs: its options.
    """
    around = len(_ENABLED)
    try:
        _ENABLED.append((wrapper_cls, wrapper_kwargs))
        yield
    finally:
        del _ENABLED[around:]


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """A module, wrapped inside of `enable_wrap`.

    Args:
        module: the module.
        wrap_overrides: options that differ from those of `enable_wrap`.
    """
    if not _ENABLED:
        return module
    wrapper, options = _ENABLED[-1]
    return wrapper(module, **{**options, **wrap_overrides})
