"""Record what a program does at each backward pass and optimizer step, by standing before torch's functions."""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from . import naming
from .compiled import Compiled
from .digest import digest, numbers_of
from .leaves import leaves_of
from .operators import Operators
from .recording import Entry, Recording, kept


class Enough(BaseException):
    """The program was watched for as many steps as asked for."""


class Watch:
    """A recording being made.

    Args:
        torch: the library that the program uses.
        change: what is changed in the run, if anything (`changes.Change`).
        window: from which event and up to which one the results of single operators are recorded.
        limit: how many steps are watched; 0 for all.
        skip: beginnings of file names that are not the program's.
    """

    def __init__(self, torch: Any, change: Any, window: tuple[int, int], limit: int, skip: tuple[str, ...]) -> None:
        self.torch, self.change, self.window, self.limit = torch, change, window, limit
        self.recording = Recording()
        self.numbers: list[np.ndarray] = []
        self.size = 0
        self.names = naming.Names(torch, skip)
        self.skip = skip
        self.stack: list[str] = []
        self.steps = 0
        """How many steps have ended: of optimizers; while there is none, backward passes."""
        self.optimized = False
        """Whether the program has made an optimizer."""
        self.unseen: set[str] = set()
        """Which of "backward", "grad" and "step" ran while nothing was recorded."""
        self.quiet = 0
        """Above 0 nothing is recorded: a compiled function runs, or the watch itself."""
        self.thread = threading.get_ident()
        self.undo: list[Callable[[], None]] = []
        self.operators = Operators(self)
        self.unreadable = 0

    # --- what is recorded

    @property
    def event(self) -> int:
        """The number of the event that comes next, to which entries belong."""
        return len(self.recording.events)

    def idle(self) -> bool:
        """Return whether to look away."""
        return self.quiet > 0 or threading.get_ident() != self.thread

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """Look away meanwhile."""
        self.quiet += 1
        try:
            yield
        finally:
            self.quiet -= 1

    def tensor(self, kind: str, name: str, t: Any, **more: Any) -> Entry | None:
        """Record a tensor of floating or other numbers."""
        with self.quietly():
            values = numbers_of(t)
        dtype, shape = str(t.dtype).rpartition(".")[2], tuple(int(n) for n in t.shape)
        entry = Entry(self.event, kind, name, dtype=dtype, shape=shape, **more)
        if values is None:
            self.unreadable += 1
        else:
            self._keep(entry, values, kept(kind))
        self.recording.entries.append(entry)
        return entry

    def _keep(self, entry: Entry, values: np.ndarray, count: int) -> None:
        sample, entry.sums = digest(values, count)
        entry.begin, entry.size = self.size, sample.size
        self.numbers.append(sample)
        self.size += sample.size

    def option(self, kind: str, name: str, value: Any) -> None:
        """Record a number of Python."""
        entry = Entry(self.event, kind, name, dtype=type(value).__name__)
        self._keep(entry, np.array([float(value)]), 1)
        self.recording.entries.append(entry)

    def close(self, kind: str, where: str | None = None, **more: Any) -> None:
        """End an event; what comes later belongs to the next."""
        where = naming.place(self.skip) if where is None else where
        about = {"kind": kind, "where": where, "step": self.steps, **more}
        self.recording.events.append(about)
        self.operators.begin_event()

    def finish(self) -> Recording:
        """The recording, with the numbers put together."""
        self.close("end", "")
        self.recording.numbers = np.concatenate([np.zeros(0), *self.numbers])
        self.recording.facts["unreadable"] = self.unreadable
        return self.recording

    # --- where it stands

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Put something of our own before a function of torch's."""
        own = vars(owner).get(name)
        setattr(owner, name, make(own if own is not None else getattr(owner, name)))
        if own is None:
            self.undo.append(lambda: delattr(owner, name))
        else:
            self.undo.append(lambda: setattr(owner, name, own))

    def __enter__(self) -> Watch:
        torch = self.torch
        optimizer = importlib.import_module("torch.optim.optimizer")
        self.replace(torch.nn.Module, "__call__", self._module_call)
        self.replace(torch.autograd, "backward", self._backward)
        self.replace(torch.Tensor, "backward", self._backward)
        self.replace(torch.autograd, "grad", self._grad)
        self.replace(torch, "compile", self._compile)
        self.replace(optimizer.Optimizer, "add_param_group", self._add_param_group)
        before = optimizer.register_optimizer_step_pre_hook(self._before_step)
        after = optimizer.register_optimizer_step_post_hook(self._after_step)
        self.undo += [before.remove, after.remove]
        self.operators.enter()
        return self

    def __exit__(self, *error: Any) -> None:
        self.operators.exit()
        for undo in reversed(self.undo):
            undo()
        self.undo.clear()

    # --- modules

    def _module_call(self, plain: Any) -> Any:
        def __call__(module: Any, *args: Any, **kwargs: Any) -> Any:
            if self.idle():
                return plain(module, *args, **kwargs)
            outermost = not self.stack
            with self.quietly():
                name = self.names.module(module)
                if outermost:
                    self.names.refresh(module)
                    self._note_module(module, name)
                    args, kwargs = self.change.arguments(args, kwargs)
            self.stack.append(name)
            try:
                out = self._called(plain, module, outermost, args, kwargs)
            finally:
                self.stack.pop()
            self.outputs("output", name, out)
            return out

        return __call__

    def _called(self, plain: Any, module: Any, outermost: bool, args: Any, kwargs: Any) -> Any:
        """Call a module; one that is compiled is not looked into."""
        compiled = self.change.compiled(module, plain) if outermost else None
        own = getattr(module, "_compiled_call_impl", None) is not None
        if compiled is None and not own and type(module).__name__ != "OptimizedModule":
            return plain(module, *args, **kwargs)
        with self.quietly(), self.operators.away():
            return (compiled or functools.partial(plain, module))(*args, **kwargs)

    def _note_module(self, module: Any, name: str) -> None:
        if not self.change.note(module):
            return
        self.module_state(module, name)
        self.change.module(module)
        self.close("begin", name=name)

    def module_state(self, module: Any, name: str) -> None:
        """Record the parameters and buffers of a module."""
        for kind, named in (("parameter", module.named_parameters()), ("buffer", module.named_buffers())):
            for path, t in named:
                self.tensor(kind, f"{name}.{path}", t)

    def outputs(self, kind: str, name: str, out: Any, **more: Any) -> list[Any]:
        """Record the tensors in a result; returns them with their entries."""
        found = []
        for path, t in _tensors(out, self.torch, ""):
            label = f"{name}{path}"
            module = ".".join(self.stack[-1:])
            found.append((t, self.tensor(kind, label, t, where=naming.place(self.skip), module=module, **more)))
        return found

    # --- backward passes

    def _backward(self, plain: Any) -> Any:
        @functools.wraps(plain)
        def backward(*args: Any, **kwargs: Any) -> Any:
            if self.idle():
                self.unseen.add("backward")
                return plain(*args, **kwargs)
            roots = args[0] if args else kwargs.get("tensors")
            given = list(roots) if isinstance(roots, list | tuple) else [roots]
            with self.quietly():
                leaves = leaves_of(given)
                self._left(leaves)
                for i, root in enumerate(given):
                    self.tensor("root", "loss" if len(given) == 1 else f"root {i}", root)
            with self.quietly():
                out = plain(*args, **kwargs)
            self._gradients(leaves)
            self.close("backward")
            self._pass_ended()
            return out

        return backward

    def _left(self, leaves: list[Any]) -> None:
        """Record how many leaves hold gradients already: those of a program that forgets `zero_grad`."""
        grads = [leaf.grad for leaf in leaves if leaf.grad is not None]
        count = sum(bool(np.any(values)) for g in grads if (values := numbers_of(g)) is not None)
        self.option("left", "gradients that are there before the pass", count)

    def _gradients(self, leaves: list[Any]) -> None:
        with self.quietly():
            for i, leaf in enumerate(leaves):
                if leaf.grad is not None:
                    self.tensor("gradient", self.names.tensor(leaf, f"leaf {i}"), leaf.grad)

    def _grad(self, plain: Any) -> Any:
        @functools.wraps(plain)
        def grad(*args: Any, **kwargs: Any) -> Any:
            if self.idle():
                self.unseen.add("grad")
                return plain(*args, **kwargs)
            with self.quietly():
                out = plain(*args, **kwargs)
            for path, t in _tensors(out, self.torch, ""):
                self.tensor("gradient", f"autograd.grad{path}", t)
            self.close("grad")
            if not kwargs.get("create_graph"):  # else it is part of a larger loss
                self._pass_ended()
            return out

        return grad

    # --- optimizers

    def _add_param_group(self, plain: Any) -> Any:
        @functools.wraps(plain)
        def add_param_group(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            out = plain(optimizer, *args, **kwargs)
            if not self.idle():
                self.optimized = True
                with self.quietly():
                    for p in optimizer.param_groups[-1]["params"]:
                        self.change.parameter(p)
            return out

        return add_param_group

    def _named(self, optimizer: Any) -> Iterator[tuple[str, Any]]:
        for g, group in enumerate(optimizer.param_groups):
            for i, p in enumerate(group["params"]):
                yield self.names.tensor(p, f"{type(optimizer).__name__}.params[{g}][{i}]"), p

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self.idle():
            return
        with self.quietly():
            for name, p in self._named(optimizer):
                if p.grad is not None:
                    self.tensor("gradient", name, p.grad)
        self.operators.muted += 1

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self.idle():
            self.unseen.add("step")
            return
        self.operators.muted = 0
        with self.quietly():
            self._optimizer_state(optimizer)
            for group in optimizer.param_groups:
                for p in group["params"]:
                    self.change.stepped(p)
        self.steps += 1
        self.close("step", name=type(optimizer).__name__)
        self._stop_when_seen()

    def _optimizer_state(self, optimizer: Any) -> None:
        for g, group in enumerate(optimizer.param_groups):
            for key in sorted(k for k, v in group.items() if type(v) in (int, float) and k != "params"):
                name = f"{type(optimizer).__name__}.param_groups[{g}][{key!r}]"
                self.option("option", name, group[key])
        for name, p in self._named(optimizer):
            state = optimizer.state.get(p, {})
            for key in sorted(state, key=str):
                for path, t in _tensors(state[key], self.torch, ""):
                    self.tensor("state", f"{name} {key}{path}", t)
            self.tensor("parameter", name, p)
        for owner in self.names.roots():
            for path, t in owner.named_buffers():
                self.tensor("buffer", f"{self.names.module(owner)}.{path}", t)

    def _pass_ended(self) -> None:
        """Count a backward pass as a step of a program that has no optimizer."""
        if not self.optimized:
            self.steps += 1
            self._stop_when_seen()

    def _stop_when_seen(self) -> None:
        if self.limit and self.steps >= self.limit:
            raise Enough

    # --- compiled functions

    def _compile(self, plain: Any) -> Any:
        @functools.wraps(plain)
        def compile(model: Any = None, **kwargs: Any) -> Any:
            if model is None:
                return lambda m: compile(m, **kwargs)
            made = self.change.compile(plain, model, kwargs)
            if isinstance(made, self.torch.nn.Module):
                return made
            return Compiled(made, self)

        return compile

    def call(self, function: Any, ran: set[str], args: Any, kwargs: Any) -> Any:
        """Call a compiled function, and record what it gave and changed.

        Args:
            function: the compiled function.
            ran: which of "backward", "grad" and "step" ran in it; seen while it is traced, in its first call.
            args: its arguments.
            kwargs: its arguments by name.
        """
        if self.idle():
            return function(*args, **kwargs)
        self.unseen.clear()
        with self.quietly(), self.operators.away():
            out = function(*args, **kwargs)
        ran |= self.unseen
        name = getattr(function, "__name__", "function")
        for path, t in _tensors(out, self.torch, ""):
            self.tensor("root", f"{name}(){path}", t)
        with self.quietly():
            for owner in self.names.roots():
                self.module_state(owner, self.names.module(owner))
        if "step" in ran or (ran and not self.optimized):
            self.steps += 1
            self.close("call", name=name)
            self._stop_when_seen()
        else:  # it computes something for a step that is still to come
            self.close("call", name=name, step=self.steps + 1)
        return out


def _tensors(x: Any, torch: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The tensors in a result, with the way to each."""
    if isinstance(x, torch.Tensor):
        yield path, x
    elif isinstance(x, Mapping):
        for k, v in x.items():
            yield from _tensors(v, torch, f"{path}[{k!r}]")
    elif isinstance(x, list | tuple):
        for i, v in enumerate(x):
            yield from _tensors(v, torch, f"{path}[{i}]")
