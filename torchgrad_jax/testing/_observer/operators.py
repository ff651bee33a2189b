"""Results of single operators, and the gradients that arrive at them, for some events of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from . import naming

_PROPERTIES = ("T", "mT", "H", "mH", "real", "imag")
_ALIASES = {
    "radd": "add",
    "iadd": "add",
    "isub": "sub",
    "subtract": "sub",
    "rmul": "mul",
    "imul": "mul",
    "multiply": "mul",
    "truediv": "div",
    "itruediv": "div",
    "rtruediv": "rdiv",
}
_IGNORED = ("detach", "empty", "empty_like", "new_empty", "empty_strided")
"""Nothing is computed there, and the numbers of an empty tensor are left to chance."""
_LARGE = 1 << 16


def canonical(name: str) -> str:
    """One name for an operator however it was called: `add_`, `__iadd__` and `add` are `add`."""
    name = name.strip("_")
    return _ALIASES.get(name, name)


class Operators:
    """Watches each public function that the program calls."""

    def __init__(self, watch: Any) -> None:
        self.watch = watch
        self.mode: Any = None
        self.muted = 0
        self.count = 0
        self.results: dict[int, tuple[Any, int]] = {}
        """For a tensor's id the tensor, which stays alive until the event ends, and the op that made it."""

    def enter(self) -> None:
        """Begin to watch, when this run is to."""
        if self.watch.window[1] > self.watch.window[0]:
            self.mode = _mode_class(self.watch.torch)(self)
            self.mode.__enter__()
            self.watch.replace(self.watch.torch.autograd.Function, "apply", self._apply)

    def exit(self) -> None:
        """Watch no more."""
        if self.mode is not None:
            self.mode.__exit__(None, None, None)
            self.mode = None

    @contextmanager
    def away(self) -> Iterator[None]:
        """Without the mode, which a compiler would find in its way."""
        mode, self.mode = self.mode, None
        if mode is None:
            yield
            return
        mode.__exit__(None, None, None)
        try:
            yield
        finally:
            mode.__enter__()
            self.mode = mode

    def begin_event(self) -> None:
        """Forget the tensors of the last event."""
        if self.results:
            self.results.clear()

    def wanted(self) -> bool:
        """Return whether operators are recorded now."""
        first, end = self.watch.window
        return not self.muted and first <= self.watch.event < end and not self.watch.idle()

    def _apply(self, plain: Any) -> Any:
        function = plain.__func__ if isinstance(plain, classmethod) else plain

        def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.wanted():
                return function(cls, *args, **kwargs)
            self.muted += 1
            try:
                out = function(cls, *args, **kwargs)
            finally:
                self.muted -= 1
            self.record(cls.__name__, args, kwargs, out)
            return out

        return classmethod(apply)

    def called(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Call a function of torch's and record its result."""
        name = self._name(function)
        moves = bool(name) and self._moves([*args, *kwargs.values()])
        given = self._given(args, kwargs) if moves else []
        out = function(*args, **kwargs)
        if moves:
            self._move(given, out)
        if name and self.wanted():
            self.record(name, args, kwargs, out)
        return out

    def _moves(self, arguments: list[Any]) -> bool:
        """Return whether this run moves what a function computes.

        Reading large tensors takes as long as recording them; where operators are not recorded, large ones stay.
        """
        if not self.watch.change.moves or self.muted or self.watch.idle():
            return False
        tensor = self.watch.torch.Tensor
        return self.wanted() or all(x.numel() <= _LARGE for x in arguments if isinstance(x, tensor))

    def _given(self, args: Any, kwargs: Any) -> list[Any]:
        with self.watch.quietly(), self.watch.torch.no_grad():
            return self.watch.change.given([*args, *kwargs.values()])

    def _move(self, given: list[Any], out: Any) -> None:
        """Let a run that moves numbers by a rounding do it here, and in the gradients that will arrive."""
        change = self.watch.change
        with self.watch.quietly(), self.watch.torch.no_grad():
            outs = self._computed(out)
            change.results(given, outs)
            for t in outs:
                if t.requires_grad:
                    t.register_hook(change.gradient)

    def _computed(self, out: Any) -> list[Any]:
        """The tensors in a result, but no leaves."""
        tensor = self.watch.torch.Tensor
        outs = [out] if isinstance(out, tensor) else out if isinstance(out, list | tuple) else []
        return [t for t in outs if isinstance(t, tensor) and not _is_weight(t)]

    def _name(self, function: Any) -> str:
        name = getattr(function, "__name__", "")
        if name in ("__get__", "__set__", "__delete__"):
            path = (self.watch.torch.overrides.resolve_name(function) or "").split(".")
            return path[-2] if name == "__get__" and len(path) > 1 and path[-2] in _PROPERTIES else ""
        name = canonical(name)
        return "" if name in _IGNORED else name

    def record(self, name: str, args: Any, kwargs: Any, out: Any) -> None:
        """Record the tensors that an operator gave, and the gradients that will arrive at them.

        A leaf was written to, as by an initializer; it is seen as a parameter.
        """
        outs = self._computed(out)
        if not outs:
            return
        number, self.count = self.count, self.count + 1
        with self.watch.quietly():
            inputs = tuple(self._sources([*args, *kwargs.values()]))
        for i, t in enumerate(outs):
            label = name if len(outs) == 1 else f"{name}[{i}]"
            self._result(t, label, number, inputs)

    def _sources(self, given: Any) -> Iterator[Any]:
        for x in given:
            if isinstance(x, list | tuple):
                yield from self._sources(x)
            elif isinstance(x, self.watch.torch.Tensor):
                if id(x) in self.results:
                    yield self.results[id(x)][1]
                elif x.requires_grad and x.is_leaf:
                    yield self.watch.names.tensors.get(id(x), "")

    def _result(self, t: Any, label: str, number: int, inputs: tuple[Any, ...]) -> None:
        watch = self.watch
        module, where = ".".join(watch.stack[-1:]), naming.place(watch.skip)
        more = {"where": where, "module": module, "number": number, "inputs": inputs}
        watch.tensor("op", label, t, **more)
        self.results[id(t)] = (t, number)
        if t.requires_grad and not t.is_leaf:
            t.register_hook(lambda g: self._gradient(g, label, number, where, module))

    def _gradient(self, g: Any, label: str, number: int, where: str, module: str) -> None:
        first, end = self.watch.window
        if first <= self.watch.event < end and hasattr(g, "detach"):
            self.watch.tensor("op gradient", label, g, where=where, module=module, number=number)


def _is_weight(t: Any) -> bool:
    """Whether a tensor is a leaf that needs a gradient, or a part of one that was written to without recording."""
    try:
        return t.requires_grad and t.is_leaf
    except RuntimeError:  # such a part has no place in a graph
        return True


def _mode_class(torch: Any) -> Any:
    class Watching(torch.overrides.TorchFunctionMode):
        """Hands each call of a public function to the watch."""

        def __init__(self, operators: Operators) -> None:
            super().__init__()
            self.operators = operators

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return self.operators.called(func, args, kwargs or {})

    return Watching
