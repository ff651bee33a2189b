"""torch.utils._debug_mode: every operator that runs within a block, as text, with numbers that stand for its values."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .._core import events
from .._core.arrays import tree
from .._core.signals import contextmanager, restore, uninterrupted
from .._core.state import MODES
from .._engine.graph.node import AccumulateGrad
from .._engine.memory.tensor import Tensor
from .._ops.aten import usual_overload
from ..nn.modules._hooks import remove_module_hooks
from ..nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from ..overrides import TorchFunctionMode, resolve_name
from . import _debug_calls as _calls
from ._debug_calls import (
    TensorIdTracker as TensorIdTracker,
    _AnnotateCall as _AnnotateCall,
    _DebugCall as _DebugCall,
    _OpCall as _OpCall,
    hash_tensor_fn as hash_tensor_fn,
    norm_hash_fn as norm_hash_fn,
)
from .module_tracker import ModuleTracker

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

Hook = Callable[..., dict[str, Any] | None]


class _Hooks:
    """What is called with each operator, in all modes: before it, for the log, and for `record`."""

    before: tuple[Hook, ...] = ()
    log: tuple[Hook, ...] = ()
    record: tuple[Hook, ...] = ()


class _Functions(TorchFunctionMode):
    """Tells a mode of calls of public functions."""

    def __init__(self, mode: DebugMode) -> None:
        super().__init__()
        self.mode = mode

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if self.mode._busy:
            return func(*args, **named)
        name = resolve_name(func) or getattr(func, "__name__", str(func))
        call = self.mode._add_call(name, args, named, 0)
        with self.mode._deeper():
            out = func(*args, **named)
        self.mode._finish_call(call, out)
        return out


class DebugMode(events.Watching):
    """Within it, each operator is written down with the dtypes and shapes of its arguments and results.

    A backward pass is written down node by node, under the names of the nodes, since nodes are no operators here.
    Compiled functions run op by op within it.

    Args:
        record_torchfunction: also write down calls of public functions, around the operators that they run.
        record_faketensor: also write down operators that run on fake tensors.
        record_realtensor: write down operators that run on others.
        record_tensor_attributes: names of attributes of tensors that are added.
        record_nn_module: write down which module is entered.
        store_original_args: keep the arguments in `args` and `kwargs` of each call.
        record_stack_trace: keep in each call where the program made it.
        record_output: write down results.
        record_ids: number tensors, as in `t$0`.
        record_profiler_context: write down the names of `record_function`.
        record_localtensor, run_compile_with_interpreter: accepted; there are neither local tensors nor interpreters.

    Example:
        >>> import torchgrad_jax as torch
        >>> x, y = torch.ones(2, 3), torch.ones(3, 4)
        >>> with DebugMode() as mode:
        ...     _ = (x @ y).relu()
        >>> print(mode.debug_string())
            aten::mm(t: f32[2, 3], t: f32[3, 4])  ->  t: f32[2, 4]
            aten::relu(t: f32[2, 4])  ->  t: f32[2, 4]
    """

    def __init__(
        self,
        *,
        record_torchfunction: bool = False,
        record_faketensor: bool = False,
        record_realtensor: bool = True,
        record_tensor_attributes: Sequence[str] | None = None,
        record_nn_module: bool = False,
        store_original_args: bool = False,
        record_stack_trace: bool = False,
        record_output: bool = True,
        record_ids: bool = False,
        record_profiler_context: bool = True,
        record_localtensor: bool = True,
        run_compile_with_interpreter: bool = False,
    ) -> None:
        self.record_torchfunction, self.record_nn_module = record_torchfunction, record_nn_module
        self.record_faketensor, self.record_realtensor = record_faketensor, record_realtensor
        self.record_tensor_attributes = list(record_tensor_attributes or [])
        self.store_original_args, self.record_stack_trace = store_original_args, record_stack_trace
        self.record_output, self.record_ids = record_output, record_ids
        self.record_profiler_context = record_profiler_context
        self._functions = _Functions(self)
        self._modules = ModuleTracker()
        self._busy = False
        self.reset()

    def reset(self) -> None:
        """Forget what was written down."""
        self.operators: list[_DebugCall] = []
        self.call_depth = 0
        self._style = _calls.Style(self.record_tensor_attributes, TensorIdTracker() if self.record_ids else None)
        self._waiting: list[tuple[str, _OpCall]] = []

    @property
    def logs(self) -> list[_DebugCall]:
        """What was written down, as a list of its own."""
        return list(self.operators)

    def debug_string(self, show_stack_trace: bool | None = None) -> str:
        """All of it as text.

        Args:
            show_stack_trace: whether lines say where the program made the calls below; by default if it was recorded.
        """
        shown = self.record_stack_trace if show_stack_trace is None else show_stack_trace
        lines: list[str] = []
        last = None
        for call in self.operators:
            where = _summary(call.stack_trace) if shown else None
            if where is not None and where != last:
                lines += [*([""] if lines else []), f"{'  ' * (call.call_depth + 1)}# {where}"]
                last = where
            lines.append("  " * (call.call_depth + 1) + call.render(self.record_tensor_attributes))
        return "\n".join(lines)

    # -- entering
    def __enter__(self) -> DebugMode:
        try:
            if self.record_nn_module:
                register_module_forward_pre_hook(self._enter_module)
                register_module_forward_hook(self._leave_module, always_call=True)
            if self.record_torchfunction:
                self._functions.__enter__()
            super().__enter__()
        except BaseException:
            self._leave()
            raise
        return self

    def _leave(self) -> None:
        remove_module_hooks(self._enter_module, self._leave_module)
        if self._functions in MODES.function_modes:
            self._functions.__exit__(None, None, None)

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        restore(self._leave)

    def _enter_module(self, module: Any, args: Any) -> None:
        self._add(_AnnotateCall(self.call_depth + 1, self._modules._name_of(module), "nn.Mod"))
        self.call_depth += 1

    def _leave_module(self, module: Any, args: Any, out: Any) -> None:
        self.call_depth -= 1

    # -- what the engine tells
    def op(self, name: str, kind: str, args: Sequence[Any], run: events.Run) -> Any:
        fake = MODES.fake is not None
        if self._busy or kind == "composite" or not (self.record_faketensor if fake else self.record_realtensor):
            return run()
        called = f"aten::{usual_overload(name)}" if kind == "op" else name
        given = [a for a in args if a is not None]
        call = self._add_call(called, tuple(given), {}, 1)
        self._call_hooks(call, _Hooks.before, call.op, given)
        self._waiting.append((name, call))
        try:
            out = run()
        finally:
            self._waiting.pop()
        found = tuple(out) if isinstance(out, tuple) else out  # operators have no names for their results
        self._finish_call(call, found)
        self._call_hooks(call, _Hooks.log, call.op, given, found)
        self._call_hooks(call, _Hooks.record, call.op, given, found, into="record")
        return out

    def kernel(self, call: Any, plan: Any, leaves: Sequence[Any], run: events.Run) -> Any:
        # The options of an operator are no tensors, and are known where its kernel runs.
        if self._waiting and self._waiting[-1][0] == call.name and not self._busy:
            shown = {k: v for k, v in call.statics.items() if v is not None}
            entry = self._waiting[-1][1]
            entry.kwargs_str = ", ".join(f"{k}={self._style.text(v)}" for k, v in shown.items())
            if self.store_original_args:
                entry.kwargs = shown
        return run()

    def function(self, node: Any, grads: Sequence[Any], run: events.Run) -> Any:
        if self._busy or not self.record_realtensor:
            return run()
        call = self._add_call(node.name(), tuple(grads), {}, 1)
        out = run()
        if not isinstance(node, AccumulateGrad):
            found = tuple(out) if len(out) != 1 else out[0]
            self._finish_call(call, found)
            self._call_hooks(call, _Hooks.log, call.op, grads, found)
        return out

    def open_stretch(self, name: str) -> Any:
        if not self.record_profiler_context or self._busy:
            return None
        self._add(_AnnotateCall(self.call_depth, name, "record function"))
        self.call_depth += 1
        return self

    def close_stretch(self, opened: Any) -> None:
        if opened is not None:
            self.call_depth -= 1

    # -- writing it down
    def _add(self, call: _DebugCall) -> None:
        if self.record_stack_trace:
            frames = [f for f in traceback.extract_stack(sys._getframe(1)) if not f.filename.startswith(_PACKAGE)]
            call.stack_trace = "".join(traceback.format_list(frames))
        self.operators.append(call)

    def _add_call(self, name: str, args: Any, kwargs: dict[str, Any], deeper: int) -> _OpCall:
        with self._quiet():
            texts = ", ".join(self._style.text(a) for a in args)
            named = ", ".join(f"{k}={self._style.text(v)}" for k, v in kwargs.items())
        call = _OpCall(self.call_depth + deeper, name, texts, named)
        if self.store_original_args:
            call.args, call.kwargs = args, kwargs
        self._add(call)
        return call

    def _finish_call(self, call: _OpCall, out: Any) -> None:
        if self.record_output and any(x is not None for x in tree.flatten(out)[0]):
            with self._quiet():
                call.output_str = f"  ->  {self._style.text(out)}"

    def _call_hooks(
        self, call: _OpCall, hooks: tuple[Hook, ...], name: str, args: Sequence[Any], *out: Any, into: str = "log"
    ) -> None:
        """Call hooks with an operator, its arguments and, after it, its result. What they run is not written down."""
        for hook in hooks:
            with self._quiet():
                found = hook(name, (), tuple(args), {}, *(out or (call,)))
            if found is not None:
                setattr(call, into, {**(getattr(call, into) or {}), **found})

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        before, self._busy = self._busy, True
        try:
            yield
        finally:
            self._busy = before

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self.call_depth += 1
        try:
            yield
        finally:
            self.call_depth -= 1

    @staticmethod
    def _annotate(tag: Any) -> None:
        """Write a line of one's own into the log of the innermost mode, if there is one."""
        mode = get_active_debug_mode()
        if mode is not None:
            mode._add(_AnnotateCall(mode.call_depth, tag))

    # -- hooks
    @staticmethod
    @contextmanager
    def dispatch_hooks(
        record_hook: Hook | None = None, log_hook: Hook | None = None, pre_log_hook: Hook | None = None
    ) -> Iterator[None]:
        """Within it, functions are called with each operator that a mode writes down; they return dicts or None.

        Args:
            record_hook: of (name, types, args, kwargs, result); what it returns goes to `call.record`.
            log_hook: the same; what it returns goes to `call.log`, and into the text.
            pre_log_hook: of (name, types, args, kwargs, call), before the operator runs; as `log_hook`.
        """
        before = _Hooks.record, _Hooks.log, _Hooks.before
        given = ((h,) if h is not None else () for h in (record_hook, log_hook, pre_log_hook))
        try:
            _Hooks.record, _Hooks.log, _Hooks.before = (old + new for old, new in zip(before, given))
            yield
        finally:
            _Hooks.record, _Hooks.log, _Hooks.before = before

    @staticmethod
    @contextmanager
    def record_outputs() -> Iterator[None]:
        """Within it, copies of the results are kept in `call.record["output"]`."""

        def keep(name: str, types: Any, args: Any, kwargs: Any, out: Any) -> dict[str, Any]:
            return {"output": tree.map_leaves(lambda x: x.detach().clone() if isinstance(x, Tensor) else x, out)}

        with DebugMode.dispatch_hooks(record_hook=keep):
            yield

    @staticmethod
    @contextmanager
    def log_tensor_hashes(hash_fn: Any = "norm", hash_inputs: bool = False) -> Iterator[None]:
        """Within it, each call's `log` has numbers that stand for the values of its results.

        Args:
            hash_fn: "norm", the sum of the absolute values in float64; "hash_tensor", their bits; a list of these; or a
                function of a tensor.
            hash_inputs: whether the arguments get numbers as well, before the operator runs.
        """
        number = _calls.hash_function(hash_fn)

        def numbers(x: Any) -> Any:
            return tree.map_leaves(lambda v: number(v) if isinstance(v, Tensor) else None, x)

        def of_result(name: str, types: Any, args: Any, kwargs: Any, out: Any) -> dict[str, Any] | None:
            return None if "empty" in name or not _has_tensor(out) else {"hash": numbers(out)}

        def of_inputs(name: str, types: Any, args: Any, kwargs: Any, call: Any) -> dict[str, Any] | None:
            return None if "empty" in name or not _has_tensor(args) else {"input_hash": (numbers(args), {})}

        with DebugMode.dispatch_hooks(log_hook=of_result, pre_log_hook=of_inputs if hash_inputs else None):
            yield

    # -- logs of several runs
    @staticmethod
    def check_hash_mismatches(logs1: list[Any], logs2: list[Any], compare_inputs: bool = False) -> list[dict[str, Any]]:
        """The results that differ between two runs of the same operators, each as a dict.

        Args:
            logs1, logs2: `mode.logs` of two runs within `log_tensor_hashes`.
            compare_inputs: whether arguments are compared as well.

        Raises:
            ValueError: the runs were not of the same operators.
        """
        return _calls.check_hash_mismatches(logs1, logs2, compare_inputs)

    @staticmethod
    def save_logs(logs: list[Any], destination: Any) -> None:
        """Write logs as JSON to a path or an open text file, for `load_logs` in another process."""
        _calls.save_logs(logs, destination)

    @staticmethod
    def load_logs(source: Any) -> list[Any]:
        """The logs that `save_logs` wrote to a path or an open text file."""
        return list(_calls.load_logs(source))


def _has_tensor(x: Any) -> bool:
    return any(isinstance(v, Tensor) for v in tree.flatten(x)[0])


def _summary(stack: str | None) -> str | None:
    """The innermost frame of a stack as one line."""
    if not stack:
        return None
    where, _, code = stack.rstrip().rpartition("  File ")[2].partition("\n")
    file, line, name = (part.strip() for part in where.split(","))
    code = code.strip().partition("\n")[0]
    return f"File: {file.strip(chr(34))}:{line.removeprefix('line ')} in {name.removeprefix('in ')}, code: {code}"


def get_active_debug_mode() -> DebugMode | None:
    """The innermost mode that is entered; None where there is none."""
    found = [o for o in MODES.observers if isinstance(o, DebugMode)]
    return found[-1] if found else None


__all__ = ["DebugMode", "get_active_debug_mode"]
