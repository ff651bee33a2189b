"""What a compiled function looks at that is changed between two calls: flags, levels, versions, attributes, names."""

import logging
import operator
import random
import subprocess
import sys
import time
import types
import warnings

import pytest

import torchgrad_jax as torch

backends = torch.backends
LOGGER = logging.getLogger("test_settings_looked_at")
HERE = types.ModuleType("a_module_of_the_user")
FACTOR = 1.0


class Kind(type):
    factor = 1.0


class WithKind(metaclass=Kind):
    pass


class Settings:
    factor = 1.0


SETTINGS = Settings()
FACTOR_OF = operator.attrgetter("factor")


def _evaluated(x):
    return x * eval("FACTOR")


def _missing_global(x):
    try:
        return x * NOT_THERE_YET  # type: ignore[name-defined]
    except NameError:
        return x * 7


def _set_global(name, value):
    globals()[name] = value


def _set_on(holder, name, *values):
    return [lambda value=value: setattr(holder, name, value) for value in values]


def _flag(look, *changes):
    return lambda x: x * (2 if look() else 3), changes


STATES = {
    "cudnn.enabled": _flag(lambda: backends.cudnn.enabled, *_set_on(backends.cudnn, "enabled", False, True)),
    "cudnn.deterministic": _flag(
        lambda: torch.backends.cudnn.deterministic, *_set_on(backends.cudnn, "deterministic", True, False)
    ),
    "matmul.allow_tf32": _flag(
        lambda: torch.backends.cuda.matmul.allow_tf32, *_set_on(backends.cuda.matmul, "allow_tf32", True, False)
    ),
    "a flag of products": _flag(
        lambda: torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction,
        *_set_on(backends.cuda.matmul, "allow_fp16_reduced_precision_reduction", False, True),
    ),
    "mkldnn.enabled": _flag(lambda: torch.backends.mkldnn.enabled, *_set_on(backends.mkldnn, "enabled", True, False)),
    "flash attention": _flag(
        lambda: torch.backends.cuda.flash_sdp_enabled(),
        lambda: backends.cuda.enable_flash_sdp(False),
        lambda: backends.cuda.enable_flash_sdp(True),
    ),
    "warnings each time": _flag(
        torch.is_warn_always_enabled, lambda: torch.set_warn_always(True), lambda: torch.set_warn_always(False)
    ),
    "a seed": (lambda x: x * torch.initial_seed(), [lambda: torch.manual_seed(3), lambda: torch.manual_seed(4)]),
    "the level of a logger": _flag(
        lambda: LOGGER.isEnabledFor(20), *[lambda n=n: LOGGER.setLevel(n) for n in (10, 30, 10)]
    ),
    "a logger by its name": (
        lambda x: x * logging.getLogger("test_settings_looked_at").level,
        [lambda: LOGGER.setLevel(10), lambda: LOGGER.setLevel(30)],
    ),
    "logging is off": _flag(
        lambda: LOGGER.isEnabledFor(40),
        lambda: LOGGER.setLevel(10),
        lambda: logging.disable(50),
        lambda: logging.disable(0),
    ),
    "code that is text": (_evaluated, [lambda: _set_global("FACTOR", 2.0), lambda: _set_global("FACTOR", 1.0)]),
    "a global that is not there": (
        _missing_global,
        [lambda: None, lambda: _set_global("NOT_THERE_YET", 5.0), lambda: globals().pop("NOT_THERE_YET")],
    ),
    "an attribute of a module that is not there": _flag(
        lambda: hasattr(HERE, "later"), lambda: None, lambda: setattr(HERE, "later", 1), lambda: delattr(HERE, "later")
    ),
    "an attribute of a metaclass": (lambda x: x * WithKind.factor, _set_on(Kind, "factor", 2.0, 3.0)),
    "what attrgetter looks up": (lambda x: x * FACTOR_OF(SETTINGS), _set_on(SETTINGS, "factor", 2.0, 3.0)),
}


def _results(form, state):
    function, changes = STATES[state]
    step = form(lambda x: function(x))
    found = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.compile: .* runs eagerly")
        for change in changes * 2:
            change()
            found.append(step(torch.ones(2)).tolist())
    return found


@pytest.mark.parametrize("state", STATES)
def test_what_is_changed_between_calls_is_seen(state):
    eager = _results(lambda f: f, state)
    assert len({str(result) for result in eager}) > 1
    assert _results(torch.compile, state) == eager


def _with_attribute(value):
    x = torch.ones(2)
    x.factor = value
    return x


def _graph_of(x, keeps=False):
    y = x.clone().requires_grad_() * 1
    if keeps:
        y.retain_grad()
    return y


def _written(times):
    x = torch.ones(2)
    for _ in range(times):
        x.mul_(1)
    return x


ARGUMENTS = {
    "an attribute": (lambda x: x * x.factor, lambda: map(_with_attribute, (2.0, 3.0, True, (2.0,)[0]))),
    "an attribute that may be there": (
        lambda x: x * getattr(x, "factor", 7.0),
        lambda: [torch.ones(2), _with_attribute(2.0), torch.ones(2)],
    ),
    "an attribute that is an object": (
        lambda x: x * x.factor["n"],
        lambda: [_with_attribute({"n": 2.0}), _with_attribute({"n": 3.0})],
    ),
    "the version": (lambda x: x * x._version, lambda: map(_written, (0, 1, 2))),
    "the version of what is returned": (
        lambda x: (y := x * 1).add_(1) * (y._version + x._version),
        lambda: map(_written, (0, 1, 2)),
    ),
    "whether it is a view": (
        lambda x: x * (2 if x._is_view() else 3),
        lambda: [torch.ones(2), torch.ones(4)[:2], torch.ones(2)],
    ),
    "its base": (
        lambda x: x * (2 if x._base is None else 3),
        lambda: [torch.ones(2), torch.ones(2).view(2), torch.ones(2)],
    ),
    "where it begins": (lambda x: x * x.storage_offset(), lambda: [torch.ones(2), torch.ones(4)[2:], torch.ones(2)]),
    "whether it keeps its gradient": (
        lambda x: x * (2 if x.retains_grad else 3),
        lambda: [_graph_of(torch.ones(2), keeps) for keeps in (False, True)],
    ),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_what_is_asked_of_an_argument_is_that_of_each(name):
    function, arguments = ARGUMENTS[name]
    step = torch.compile(function)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.compile: .* runs eagerly")
        assert [step(x).tolist() for x in arguments()] == [function(x).tolist() for x in arguments()]


def test_attributes_of_arguments_with_equal_values_share_a_program():
    step = torch.compile(lambda x: x * x.factor)
    assert [step(_with_attribute(2.0)).tolist() for _ in range(4)] == [[2, 2]] * 4
    assert step.counts["traced"] == 1


def test_a_global_that_the_function_makes_is_kept():
    def step(x):
        global MADE
        MADE = MADE + 1 if "MADE" in globals() else 1
        return x * MADE

    compiled = torch.compile(step)
    assert [compiled(torch.ones(1)).item() for _ in range(5)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("clock", ["process_time", "thread_time_ns"])
def test_clocks_of_the_process(clock):
    step = torch.compile(lambda x: x.double() + getattr(time, clock)() * (sum(range(40_000)) > 0))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.compile: .* is not compiled from now on")
        assert len({step(torch.zeros(1)).item() for _ in range(6)}) == 6


def test_random_numbers_of_the_system():
    source = random.SystemRandom()
    step = torch.compile(lambda x: x.double() * source.random())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.compile: .* runs eagerly")
        assert len({step(torch.ones(1)).item() for _ in range(6)}) == 6


IN_TORCHS_PLACE = """
import torch
step = torch.compile(lambda x: x * (2 if torch.backends.cudnn.enabled else 3))
attention = torch.compile(lambda x: x * (2 if torch.backends.cuda.flash_sdp_enabled() else 3))
print(step(torch.ones(1)).item(), attention(torch.ones(1)).item())
torch.backends.cudnn.enabled = False
torch.backends.cuda.enable_flash_sdp(False)
print(step(torch.ones(1)).item(), attention(torch.ones(1)).item())
"""


def test_flags_where_the_package_has_the_name_of_torch(tmp_path):
    """Nothing has imported the modules of flags when the function is compiled."""
    script = tmp_path / "script.py"
    script.write_text(IN_TORCHS_PLACE)
    command = [sys.executable, "-m", "torchgrad_jax", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.split() == ["2.0", "2.0", "3.0", "3.0"]
