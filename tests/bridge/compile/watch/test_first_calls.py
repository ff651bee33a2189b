"""What a step does only once, and locks that it takes and gives back, cost it no program: each call is a program's.

A row is the file of a step. Its four calls give what they give eagerly, and none of them runs eagerly. A row
whose label begins with "not" has an effect in each call, which runs eagerly.
"""

import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import torchgrad_jax as torch

ROWS = r"""
a module is imported
    step:
        import a_module_of_first_calls
        return x * a_module_of_first_calls.GAIN

a name is imported
    step:
        from a_module_of_first_calls import GAIN
        return x * GAIN

not a module that fails in each call, and another one instead
    step:
        try:
            import a_broken_module_of_first_calls
        except ImportError:
            import a_module_of_first_calls
        return x * a_module_of_first_calls.GAIN

a module is loaded when somebody asks for it
    import importlib
    class Lazy(types.ModuleType):
        def __getattr__(self, name):
            if name != "inner":
                raise AttributeError(name)
            setattr(self, name, importlib.import_module("a_module_of_first_calls"))
            return vars(self)[name]
    lazy = Lazy("lazy")
    step: return x * lazy.inner.GAIN

an operator loads a module, and the step goes through all of them
    step:
        load()
        return x * len([name for name in list(sys.modules) if name == "a_module_of_first_calls"])

a subclass is made
    class Base:
        pass
    step:
        class Inner(Base):
            gain = 2.0
        return x * Inner().gain

a subclass is made once
    import functools
    class Base:
        pass
    @functools.cache
    def made():
        class Inner(Base):
            gain = 2.0
        return Inner
    step: return x * made().gain

a subclass is made and kept
    class Base:
        pass
    made = {}
    step:
        if "inner" not in made:
            made["inner"] = type("Inner", (Base,), {"gain": 2.0})
        return x * made["inner"].gain

a named tuple is made
    import collections
    step: return x * collections.namedtuple("Pair", "first second")(2, 3).first

a dataclass is made
    import dataclasses
    step: return x * dataclasses.make_dataclass("Pair", ["first"])(2).first

an enum is made
    import enum
    step: return x * len(enum.Enum("Shade", "light dark"))

a cache is filled
    cache = {}
    step:
        if "gain" not in cache:
            cache["gain"] = 2.0
        return x * cache["gain"]

a cache is filled beside a number that counts
    cache, counts = {}, {"calls": 0}
    step:
        counts["calls"] += 1
        if "gain" not in cache:
            cache["gain"] = [2.0]
        return x * cache["gain"][0] + counts["calls"]

a cached property is read
    import functools
    class Config:
        @functools.cached_property
        def gain(self):
            return 2.0
    config = Config()
    step: return x * config.gain

an attribute is made where it is missing
    class Config:
        pass
    config = Config()
    step:
        if not hasattr(config, "gains"):
            config.gains = {"gain": 2.0}
        return x * config.gains["gain"]

a logger is asked whether a level is on
    import logging
    logger = logging.getLogger("a.logger.of.first.calls")
    logger.manager._clear_cache()
    step:
        logger.debug("a line that nobody sees")
        return x * 2

a lock
    import threading
    lock = threading.Lock()
    step:
        with lock:
            return x * 2

a lock that may be taken again
    import threading
    lock = threading.RLock()
    step:
        lock.acquire()
        try:
            with lock:
                return x * 2
        finally:
            lock.release()

a condition
    import threading
    lock = threading.Condition()
    step:
        with lock:
            return x * 2

a semaphore
    import threading
    lock = threading.Semaphore(2)
    step:
        with lock:
            return x * 2

a lock of an object
    import threading
    class Config:
        def __init__(self):
            self.lock, self.gain = threading.Lock(), 2.0
        def read(self):
            with self.lock:
                return self.gain
    config = Config()
    step: return x * config.read()

a lock that the step makes
    import threading
    step:
        lock = threading.Lock()
        with lock:
            return x * 2

whether a lock is taken
    import threading
    lock = threading.Lock()
    step: return x * (2.0 if lock.locked() else 3.0)

not a dict that grows in each call
    history = {}
    step:
        history[len(history)] = len(history)
        return x * len(history)

not a tensor that the first call keeps in an object
    class Held:
        def __init__(self, x):
            self.x = x
        def __del__(self):
            pass
    cache = {}
    step:
        if "held" not in cache:
            cache["held"] = Held(x * 2)
        return x * 2
"""


def parts(text: str) -> tuple[str, str]:
    """The label of a row, and its file."""
    label, _, rest = text.partition("\n")
    lines = [line[4:] for line in rest.splitlines()]
    at = next(i for i, line in enumerate(lines) if line.startswith("step:"))
    body = [lines[at].removeprefix("step:").strip(), *(line.strip("\n")[4:] for line in lines[at + 1 :])]
    return label, "\n".join([*lines[:at], "def step(x):", *("    " + line for line in body if line)])


FILES = dict(parts(text) for text in re.split(r"\n\s*\n", ROWS.strip("\n")))


def ran(label: str, wrap: Any, monkeypatch: Any, tmp_path: Any) -> tuple[list[Any], Any]:
    """What four calls give, and the step."""
    (tmp_path / "a_module_of_first_calls.py").write_text("GAIN = 2.0\n")
    (tmp_path / "a_broken_module_of_first_calls.py").write_text("raise ImportError\n")
    with monkeypatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        for name in ("a_module_of_first_calls", "a_broken_module_of_first_calls"):
            patch.delitem(sys.modules, name, raising=False)
        given: dict[str, Any] = {"sys": sys, "types": types, "torch": torch, "__name__": "a_file_of_first_calls"}
        operators = str(
            Path(torch.__file__).parent / "operators.py"
        )  # a file of this package, in which nothing is watched
        exec(compile("def load():\n    import a_module_of_first_calls", operators, "exec"), given)
        exec(compile(FILES[label], str(tmp_path / "a_file.py"), "exec"), given)
        step = wrap(given["step"])
        results = [step(torch.tensor([1.0, 2.0])).tolist() for _ in range(4)]
        sys.modules.pop("a_module_of_first_calls", None)
    return results, step


@pytest.mark.filterwarnings("ignore:torch.compile")
@pytest.mark.parametrize("label", FILES)
def test_no_call_is_lost(label, monkeypatch, tmp_path):
    expected, _ = ran(label, lambda step: step, monkeypatch, tmp_path)
    results, step = ran(label, torch.compile, monkeypatch, tmp_path)
    assert results == expected
    assert (step.counts["eager"] > 0) == label.startswith("not"), step.reasons


def test_what_came_to_nothing_is_not_done_twice():
    history, calls = {}, []

    @torch.compile
    def step(x):
        history.setdefault("first", len(history))
        calls.append(len(history))
        return x * 2

    step(torch.ones(2))
    assert (history, calls) == ({"first": 0}, [1])


def test_a_flag_of_a_part_that_is_loaded_in_the_first_call_is_noticed():
    """In a process of its own, in which nobody has loaded the part before."""
    text = """
import sys
import torchgrad_jax as torch
step = torch.compile(lambda x: x * 2 if torch.backends.cudnn.benchmark else x)
assert "torchgrad_jax.backends" not in sys.modules
results = [step(torch.ones(1)).item() for _ in range(2)]
torch.backends.cudnn.benchmark = True
assert [*results, step(torch.ones(1)).item()] == [1.0, 1.0, 2.0]
assert step.counts == {"traced": 2, "run": 3, "eager": 0}, step.reasons
"""
    subprocess.run([sys.executable, "-c", text], check=True)


def test_a_look_at_a_program_changes_nothing():
    cache = {}

    @torch.compile
    def step(x):
        if "gain" not in cache:
            cache["gain"] = 2.0
        return x * cache["gain"]

    assert "multiply" in step.lower(torch.ones(2)).as_text()
    assert cache == {}
    assert step(torch.ones(2)).tolist() == [2.0, 2.0]
    assert cache == {"gain": 2.0}


def test_a_lock_that_is_not_given_back_is_an_effect():
    import threading

    lock = threading.RLock()

    @torch.compile
    def step(x):
        lock.acquire()
        return x * 2

    for _ in range(2):
        step(torch.ones(2))
    assert step.counts["eager"] == 2
    lock.release()
    lock.release()
    with pytest.raises(RuntimeError):
        lock.release()


class _Kept:
    n = 0


COUNTED = {
    "a dict": (dict, lambda kept: kept.update(n=kept.get("n", 0) + 1) or kept["n"]),
    "a dict in a dict": (dict, lambda kept: COUNTED["a dict"][1](kept.setdefault("inner", {}))),
    "a list": (lambda: [0], lambda kept: kept.append(kept.pop() + 1) or kept[0]),
    "an object": (_Kept, lambda kept: setattr(kept, "n", kept.n + 1) or kept.n),
}


@pytest.mark.filterwarnings("ignore:torch.compile")
@pytest.mark.parametrize("label", COUNTED)
def test_what_the_first_call_makes_is_not_counted_twice(label):
    make, count = COUNTED[label]
    cache: dict[str, Any] = {}

    @torch.compile
    def step(x):
        if "kept" not in cache:
            cache["kept"] = make()
        return x * count(cache["kept"])

    assert [step(torch.ones(1)).item() for _ in range(4)] == [1, 2, 3, 4]
