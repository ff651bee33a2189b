"""What suites run things with: threads, processes, values that are looked up late, tracked samples."""

from __future__ import annotations

import contextlib
import enum
import functools
import inspect
import os
import signal
import subprocess
import sys
import threading
import types
import unittest
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..._core.arrays.dtypes import dtype, uint8
from ..._engine.entry.bind import NAMESPACES
from ..._engine.memory.tensor import Tensor


class LazyVal:
    """A yes or no that is asked for when it is needed, and only once."""

    def __init__(self, cb: Callable[[], Any]) -> None:
        self._ask = cb

    @functools.cached_property
    def _answer(self) -> bool:
        return bool(self._ask())

    def __bool__(self) -> bool:
        return self._answer


class ProfilingMode(enum.Enum):
    """How TorchScript would optimise; here scripted functions are the functions themselves."""

    LEGACY = 1
    SIMPLE = 2
    PROFILING = 3


GRAPH_EXECUTOR: ProfilingMode | None = None


@contextlib.contextmanager
def enable_profiling_mode() -> Generator[None, None, None]:
    """There is nothing to switch on for scripted functions that are the functions themselves."""
    yield


@contextlib.contextmanager
def enable_profiling_mode_for_profiling_tests() -> Generator[None, None, None]:
    """As `enable_profiling_mode`."""
    yield


class NoTest:
    """Stands for a test that a suite replaces by nothing."""


def copy_func(f: Any) -> Any:
    """The same function again, with its own attributes."""
    made = types.FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
    made.__kwdefaults__ = f.__kwdefaults__
    return functools.update_wrapper(made, f)


def get_function_arglist(func: Any) -> list[str]:
    """The names of a function's parameters."""
    return [p.name for p in inspect.signature(func).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]


def get_tensors_from(args: Iterable[Any], kwargs: dict[str, Any]) -> set[Tensor]:
    """The tensors among arguments."""
    return {v for v in (*args, *kwargs.values()) if isinstance(v, Tensor)}


def chunk_list(lst: Sequence[Any], nchunks: int) -> list[Any]:
    """A list dealt out to that many lists, one element to each in turn."""
    return [lst[i::nchunks] for i in range(nchunks)]


def bytes_to_scalar(byte_list: list[int], dtype: dtype, device: Any) -> Tensor:
    """The number that these bytes are in memory."""
    torch = NAMESPACES[""]
    return torch["tensor"](byte_list, dtype=uint8, device=device).view(dtype).reshape(())


def first_sample(self: unittest.TestCase, samples: Iterable[Any]) -> Any:
    """The first of the samples, or a skipped test where there is none."""
    for sample in samples:
        return sample
    raise unittest.SkipTest("Skipped! Need at least 1 sample input")


def run_concurrently(worker_func: Any, num_threads: int | None = None, args: Any = (), kwargs: Any = None) -> None:
    """Run functions in threads that start together; the first exception is raised again.

    Args:
        worker_func: a function, for all threads, or a list with one for each.
        num_threads: how many, for one function.
        args: arguments of all.
        kwargs: keyword arguments of all.
    """
    several = isinstance(worker_func, list | tuple)
    workers = list(worker_func) if several else [worker_func] * (num_threads or 1)
    start, failed = threading.Barrier(len(workers)), list[BaseException]()

    def run(worker: Any) -> None:
        start.wait()
        try:
            worker(*args, **(kwargs or {}))
        except BaseException as e:  # it belongs to whoever waits for the threads
            failed.append(e)

    threads = [threading.Thread(target=run, args=(w,)) for w in workers]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failed:
        raise failed[0]


def wait_for_process(p: subprocess.Popen[Any], timeout: float | None = None) -> int:
    """The exit status of a process; it is interrupted, and then killed, if this is."""
    try:
        return p.wait(timeout=timeout)
    except KeyboardInterrupt:
        p.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return p.wait(timeout=5)
        p.kill()
        raise
    except subprocess.TimeoutExpired:
        p.kill()
        raise
    finally:
        p.wait()


def shell(
    command: Sequence[str],
    cwd: str | None = None,
    env: Any = None,
    stdout: Any = None,
    stderr: Any = None,
    timeout: float | None = None,
) -> int:
    """Run a command, given as a list, and return its exit status."""
    sys.stdout.flush()
    sys.stderr.flush()
    if isinstance(command, str):
        raise AssertionError("Command to shell should be a list or tuple of tokens")
    done = subprocess.Popen(command, universal_newlines=True, cwd=cwd, env=env, stdout=stdout, stderr=stderr)
    return wait_for_process(done, timeout)


class CudaSyncGuard:
    """Says how synchronisations with the GPU are reported; XLA tells nobody of them."""

    def __init__(self, sync_debug_mode: str | int) -> None:
        self.mode = sync_debug_mode

    def __enter__(self) -> None:
        raise NotImplementedError("CudaSyncGuard(): XLA does not report when it waits for the device")

    def __exit__(self, *exc: object) -> None:
        return None


def scoped_load_inline(func: Any) -> Any:
    """A test with a compiler of C++ extensions: it is skipped, there are none."""

    @functools.wraps(func)
    def skipped(*args: Any, **kwargs: Any) -> Any:
        raise unittest.SkipTest("torch's C++ extensions cannot be compiled for torchgrad_jax")

    # The test asks for `load_inline`, which pytest would take for a fixture of its own.
    del skipped.__wrapped__
    skipped.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    )
    return skipped


# --- which sample a test is at --------------------------------------------------------------------


@dataclass
class TrackedInput:
    """A sample that a test has come to."""

    index: int
    val: Any
    type_desc: str


_tracked: TrackedInput | None = None


def get_tracked_input() -> TrackedInput | None:
    """The sample that the running test has come to."""
    return _tracked


def clear_tracked_input() -> None:
    """Forget the sample."""
    global _tracked
    _tracked = None


class TrackedInputIter:
    """Samples one by one, each with freshly seeded generators, remembering which one it is."""

    def __init__(
        self,
        child_iter: Iterable[Any],
        input_type_desc: str,
        item_callback: Any = None,
        track_callback: Any = None,
        set_seed: bool = True,
        restrict_to_index: int | None = None,
    ) -> None:
        self._items = enumerate(child_iter)
        self._kind = input_type_desc
        self._of = item_callback or (lambda x, i: x)
        self._noted = track_callback or (lambda x: x)
        self._seeds, self._only = set_seed, restrict_to_index

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        from ._test_case import set_rng_seed

        global _tracked
        while True:
            if self._seeds:
                set_rng_seed()
            i, item = next(self._items)
            if self._only is None or i == self._only:
                break
        _tracked = TrackedInput(i, self._noted(item), self._kind)
        return self._of(item, i)


# --- names ----------------------------------------------------------------------------------------


def remove_device_and_dtype_suffixes(test_name: str) -> str:
    """The name of a test without what instantiating it added at the end."""
    from ._parametrize import dtype_name
    from .common_device_type import get_all_device_types
    from .common_dtype import get_all_dtypes

    words = test_name.split("_")
    if words[-1] in {dtype_name(d) for d in get_all_dtypes()}:
        words.pop()
        if words[-1] in get_all_device_types():
            words.pop()
    return "_".join(words)


def split_if_not_empty(x: str) -> list[str]:
    """The words between commas, or no words."""
    return x.split(",") if x else []


PRINT_REPRO_ON_FAILURE = os.environ.get("PYTORCH_PRINT_REPRO_ON_FAILURE", "1") == "1"
OPINFO_SAMPLE_INPUT_INDEX = (
    int(os.environ["PYTORCH_OPINFO_SAMPLE_INPUT_INDEX"]) if "PYTORCH_OPINFO_SAMPLE_INPUT_INDEX" in os.environ else None
)

__all__ = [
    "GRAPH_EXECUTOR", "OPINFO_SAMPLE_INPUT_INDEX", "PRINT_REPRO_ON_FAILURE",
    "CudaSyncGuard", "LazyVal", "NoTest", "ProfilingMode", "TrackedInput", "TrackedInputIter", "bytes_to_scalar",
    "chunk_list", "clear_tracked_input", "copy_func", "enable_profiling_mode",
    "enable_profiling_mode_for_profiling_tests", "first_sample", "get_function_arglist", "get_tensors_from",
    "get_tracked_input", "remove_device_and_dtype_suffixes", "run_concurrently", "scoped_load_inline", "shell",
    "split_if_not_empty", "wait_for_process",
]  # fmt: skip
