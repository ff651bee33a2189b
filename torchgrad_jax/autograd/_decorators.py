"""Context managers that are also decorators of functions, generators and classes' methods."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from .._core.errors import warn


class DecoratorContext:
    """Base of modes: use with `with`, or on a function, which then runs inside a fresh one."""

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *exc: object) -> None:
        raise NotImplementedError

    def clone(self) -> Any:
        """The context to enter for one call of a decorated function."""
        return type(self)()

    def __call__(self, target: Any) -> Any:
        if inspect.isclass(target):
            warn.to_user(
                "Decorating classes is deprecated and will be disabled in future versions. You should only decorate "
                "functions or methods. To preserve the current behavior of class decoration, you can directly "
                "decorate the `__init__` method and nothing else.",
                FutureWarning,
            )
            return self._function(lambda *args, **kwargs: target(*args, **kwargs))
        if inspect.isgeneratorfunction(target):
            return self._generator(target)
        return self._function(target)

    def _function(self, fn: Any) -> Any:
        @functools.wraps(fn)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return fn(*args, **kwargs)

        return inside

    def _generator(self, fn: Any) -> Any:
        """The mode holds while the generator's body runs, not while its consumer does."""

        @functools.wraps(fn)
        def inside(*args: Any, **kwargs: Any) -> Any:
            gen = fn(*args, **kwargs)
            try:
                with self.clone():
                    value = gen.send(None)
                while True:
                    try:
                        request = yield value
                    except GeneratorExit:
                        with self.clone():
                            gen.close()
                        raise
                    except BaseException as error:
                        with self.clone():
                            value = gen.throw(error)
                    else:
                        with self.clone():
                            value = gen.send(request)
            except StopIteration as stop:
                return stop.value

        return inside
