"""The base class of optimizers: parameter groups, state, hooks, saving and loading."""

from __future__ import annotations

import functools
import itertools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any, TypeAlias

from .._bridge.compile.watch.guards import AMBIENT
from .._core.arrays import dtypes
from .._core.arrays.placement import MANY
from .._core.errors import warn
from .._core.jax.x64 import with_x64
from .._core.state import MODES, UNDER_JAX, WINDOWS
from .._engine.graph.hooks import RemovableHandle
from .._engine.memory.escapes import refuse_escape
from .._engine.memory.kept_traces import watch_always
from .._engine.memory.strided import placement_of_tensor
from .._engine.memory.tensor import Tensor, born
from .._engine.run import windows
from ..autograd import grad_mode
from ..autograd.profiler import record_function
from ._helpers import (  # noqa: F401 - for those who write optimizers
    _capturable_doc,
    _default_to_fused_or_foreach,
    _differentiable_doc,
    _disable_dynamo_if_unsupported,
    _foreach_doc,
    _fused_doc,
    _get_capturable_supported_devices,
    _get_scalar_dtype,
    _get_value,
    _maximize_doc,
    _params_doc,
    _stack_if_compiling,
    _to_scalar,
    _view_as_real,
)

Args: TypeAlias = tuple[Any, ...]
Kwargs: TypeAlias = dict[str, Any]
StateDict: TypeAlias = dict[str, Any]
ParamsT: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
params_t: TypeAlias = ParamsT
_params_t: TypeAlias = ParamsT


class _RequiredParameter:
    """The default of an option that every parameter group has to give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()

_global_pre_hooks: OrderedDict[int, Any] = OrderedDict()
_global_post_hooks: OrderedDict[int, Any] = OrderedDict()
AMBIENT += [_global_pre_hooks, _global_post_hooks]

_HOOKS = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` before every step of every optimizer.

    Args:
        hook: may return new (args, kwargs) for the step.

    Returns:
        A handle that removes the hook.
    """
    return _added(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` after every step of every optimizer.

    Args:
        hook: its result is ignored.

    Returns:
        A handle that removes the hook.
    """
    return _added(_global_post_hooks, hook)


def _use_grad_for_differentiable(step: Callable[..., Any]) -> Callable[..., Any]:
    """Make a step record itself if the optimizer is differentiable, and not otherwise."""

    @functools.wraps(step)
    def recorded(self: Any, *args: Any, **kwargs: Any) -> Any:
        differentiable = self.defaults.get("differentiable")
        with grad_mode.enable_grad() if differentiable else grad_mode.no_grad():
            return step(self, *args, **kwargs)

    return recorded


@with_x64  # step counts are traced numbers of 64 bits there, and rules compute with them by operators
def _step_inside_jax(self: Optimizer, step: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """A step in code that JAX traces: refused where it would leave what is traced in parameters and state from outside.

    A refused one leaves the state as it was, also where a closure is refused in the middle of the step.
    """
    params = [p for group in self.param_groups for p in group["params"]]
    arrays = [t._st.array for p in params for t in (p, p._g) if t is not None]
    refuse_escape(map(born, params), arrays, "update")
    held = vars(self)["state"]
    before = {p: dict(state) for p, state in held.items()}
    try:
        return step(*args, **kwargs)
    except BaseException:
        held.clear()
        held.update(before)
        raise


def typename(obj: Any) -> str:
    """How messages call an object's type."""
    if isinstance(obj, Tensor):
        return obj.type()
    cls = type(obj)
    if cls.__module__ in ("builtins", "__builtin__", None):
        return cls.__qualname__
    return f"{cls.__module__}.{cls.__qualname__}"


def _added(hooks: OrderedDict[int, Any], hook: Any, prepend: bool = False) -> RemovableHandle:
    """Enter a hook, last or first."""
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


class Optimizer:
    """Base of all optimizers; a subclass says how one `step` changes the parameters.

    Args:
        params: tensors, (name, tensor) pairs, or dicts of them with options, in a fixed order.
        defaults: options of groups that do not give their own.
    """

    OptimizerPreHook: TypeAlias = Callable[..., Any]
    OptimizerPostHook: TypeAlias = Callable[..., None]

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        watch_always(self)
        for name in _HOOKS:
            setattr(self, name, OrderedDict())
        self._patch_step_function()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of "
                f"Tensors or dicts, but got {typename(params)}"
            )
        self.state = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        given: list[Any] = list(params)
        if not given:
            raise ValueError("optimizer got an empty parameter list")
        for group in given if isinstance(given[0], dict) else [{"params": given}]:
            self.add_param_group(group)
        self._warned_capturable_if_run_uncaptured = True

    @property
    def state(self) -> Any:
        """What is kept for each parameter. This package's own code reads it from `vars(self)`."""
        if MODES.run.may_write_outside:
            MODES.run.uses.look_at_state(self)
        try:
            return self.__dict__["state"]
        except KeyError:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute 'state'") from None

    @state.setter
    def state(self, value: Any) -> None:
        self.__dict__["state"] = value

    def __getstate__(self) -> dict[str, Any]:
        return {k: getattr(self, k) for k in ("defaults", "state", "param_groups")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        watch_always(self)
        for name in _HOOKS:  # which are not saved
            self.__dict__.setdefault(name, OrderedDict())
        self._patch_step_function()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for i, group in enumerate(self.param_groups):
            options = [f"    {k}: {group[k]}\n" for k in sorted(group) if k != "params"]
            text += f"\nParameter Group {i}\n" + "".join(options)
        return text + ")"

    # --- stepping

    def step(self, closure: Any = None) -> Any:
        """Change the parameters once.

        Args:
            closure: computes the loss again, gradients included, and returns it.
        """
        raise NotImplementedError

    def _optimizer_step_code(self) -> None:
        """Called within each step; tools replace it to find out."""

    def _accelerator_graph_capture_health_check(self) -> None:
        """Nothing captures the kernels of an accelerator here, so there is nothing to check."""

    _cuda_graph_capture_health_check = _accelerator_graph_capture_health_check

    @staticmethod
    def profile_hook_step(func: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a `step` in its hooks and in a named stretch of the profile."""

        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            self = args[0]
            with record_function(f"Optimizer.step#{type(self).__name__}.step"):
                before, after = self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks
                if before or _global_pre_hooks:
                    for hook in [*_global_pre_hooks.values(), *before.values()]:
                        changed = hook(self, args, kwargs)
                        if changed is None:
                            continue
                        if not (isinstance(changed, tuple) and len(changed) == 2):
                            raise RuntimeError(
                                f"{func} must return None or a tuple of (new_args, new_kwargs), but got {changed}."
                            )
                        args, kwargs = changed
                if MODES.run.may_write_outside:
                    MODES.run.uses.optimizer_steps(self)
                if MODES.bits & UNDER_JAX:
                    out = _step_inside_jax(self, func, args, kwargs)
                else:
                    out = func(*args, **kwargs)
                if MODES.bits & WINDOWS:
                    windows.cut("an optimizer's step ends")
                self._optimizer_step_code()
                for hook in [*after.values(), *_global_post_hooks.values()]:
                    hook(self, args, kwargs)
                return out

        return wrapper

    def _patch_step_function(self) -> None:
        cls: Any = type(self)
        self._zero_grad_profile_name = f"Optimizer.zero_grad#{cls.__name__}.zero_grad"
        if not getattr(cls.step, "hooked", None):
            cls.step = self.profile_hook_step(cls.step)
            cls.step.hooked = True

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or set them to zero.

        Args:
            set_to_none: whether ``.grad`` becomes None rather than zeros.
        """
        if not hasattr(self, "_zero_grad_profile_name"):
            self._patch_step_function()
        with record_function(self._zero_grad_profile_name):
            for p in itertools.chain.from_iterable(g["params"] for g in self.param_groups):
                if set_to_none:  # whatever there was: a compiled step need not look
                    p.grad = None
                    continue
                if p.grad is None:
                    continue
                if p.grad.grad_fn is None:
                    p.grad.requires_grad_(False)
                else:
                    p.grad.detach_()
                p.grad.zero_()

    # --- hooks

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before each step; it may return new (args, kwargs)."""
        return _added(self._optimizer_step_pre_hooks, hook)  # type: ignore[attr-defined]

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after each step."""
        return _added(self._optimizer_step_post_hooks, hook)  # type: ignore[attr-defined]

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` before each `state_dict`; first of all if `prepend`."""
        return _added(self._optimizer_state_dict_pre_hooks, hook, prepend)  # type: ignore[attr-defined]

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` after each `state_dict`; it may return another."""
        return _added(self._optimizer_state_dict_post_hooks, hook, prepend)  # type: ignore[attr-defined]

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before each `load_state_dict`; it may return another."""
        return _added(self._optimizer_load_state_dict_pre_hooks, hook, prepend)  # type: ignore[attr-defined]

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` after each `load_state_dict`."""
        return _added(self._optimizer_load_state_dict_post_hooks, hook, prepend)  # type: ignore[attr-defined]

    # --- saving and loading

    def state_dict(self) -> StateDict:
        """The state by parameter number and the options of each group.

        Returns:
            ``{"state": ..., "param_groups": ...}``, in which numbers stand for parameters.
        """
        for hook in self._optimizer_state_dict_pre_hooks.values():  # type: ignore[attr-defined]
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        start = 0
        for group in self.param_groups:
            for i, p in enumerate(group["params"], start):
                numbers.setdefault(id(p), i)
            saved = {k: v for k, v in group.items() if k != "params"}
            saved["params"] = [numbers[id(p)] for p in group["params"]]
            start += len(saved["params"])
            groups.append(saved)
        state = {numbers[id(k)] if isinstance(k, Tensor) else k: v for k, v in self.state.items()}
        out: StateDict = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():  # type: ignore[attr-defined]
            changed = hook(self, out)
            out = out if changed is None else changed
        return out

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Take over what a `state_dict` says; tensors go to their parameter's dtype and device.

        Args:
            state_dict: of an optimizer with groups of the same sizes.
        """
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():  # type: ignore[attr-defined]
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        mine, theirs = self.param_groups, deepcopy(state_dict["param_groups"])
        if len(mine) != len(theirs):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(mine, theirs)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            )
        params: dict[Any, tuple[Tensor, Kwargs]] = {}
        for a, b in zip(mine, theirs):
            for number, p in zip(b["params"], a["params"]):
                params[number] = (p, b)
            b["params"] = a["params"]
            if "param_names" in a:
                b.setdefault("param_names", a["param_names"])
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in params:
                p, options = params[key]
                state[p] = _fitted(value, p, options, None)
            else:
                state[key] = value
        self.__setstate__({"state": state, "param_groups": theirs})
        for hook in self._optimizer_load_state_dict_post_hooks.values():  # type: ignore[attr-defined]
            hook(self)

    # --- groups

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Optimize further parameters, with options of their own.

        Args:
            param_group: ``"params"`` and options; the defaults are filled in.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params, names = _listed(param_group["params"])
        param_group["params"] = params
        if names:
            param_group["param_names"] = names
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {typename(p)}")
            if not (self.defaults.get("differentiable") or p.is_leaf or p.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        if len(set(params)) != len(params):
            warn.to_user(
                "optimizer contains a parameter group with duplicate parameters; "
                "in future, this will cause an error; "
                "see github.com/pytorch/pytorch/issues/40967 for more information"
            )
        named = "param_names" in param_group
        for group in self.param_groups:
            if ("param_names" in group) != named:
                raise ValueError(
                    "all optimizer param groups should be with/without names. "
                    f"cannot add param group {'with' if named else 'without'} names to the optimizer"
                )
        if set(params) & {p for group in self.param_groups for p in group["params"]}:
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)


def _listed(params: Any) -> tuple[list[Any], list[str]]:
    """The parameters of a group and the names that came with them, if any."""
    if isinstance(params, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but "
            "the ordering of tensors in sets will change between runs. Please use a list instead."
        )
    items = [params] if isinstance(params, Tensor) else list(params)
    names = [item[0] for item in items if isinstance(item, tuple)]
    if names and len(names) != len(items):
        raise ValueError("all optimizer params should be with/without names. Some param names are missing")
    return [item[1] if isinstance(item, tuple) else item for item in items], names


def _fitted(value: Any, p: Any, options: Kwargs, key: Any) -> Any:
    """A loaded piece of state as this parameter wants it."""
    if isinstance(value, Tensor):
        t: Any = value
        if key == "step":
            if options.get("capturable") or options.get("fused"):
                return t.to(dtype=dtypes.float32, device=p.device)
            return t
        t = t.to(dtype=p.dtype, device=p.device) if p.is_floating_point() else t.to(device=p.device)
        there = placement_of_tensor(p) if MANY and t.shape == p.shape else None
        return t if there is None else t.to(there)
    if isinstance(value, dict):
        return {k: _fitted(v, p, options, k) for k, v in value.items()}
    if isinstance(value, Iterable):
        build: Any = type(value)
        return build(_fitted(v, p, options, None) for v in value)
    return value


__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]
