"""A signal at any point where Python delivers one leaves the modes of a thread as they were."""

import numpy as np
import pytest

import torchgrad_jax as torch
import torchgrad_jax.utils.checkpoint
from tests.interrupts import interrupted
from torchgrad_jax._core.state import MODES, TRACED

graph = torch.autograd.graph
x = torch.ones(3, requires_grad=True)


def block(context):
    def run():
        with context():
            x * 2

    return run


def same(t):
    return t


@torch.no_grad()
def decorated():
    x * 2


def hooked_pass():
    y = x * 2
    y.register_hook(lambda g: g * 2)
    y.grad_fn.register_prehook(lambda grads: None)
    y.sum().backward()


def recorded_pass():
    torch.autograd.grad((x * x).sum(), x, create_graph=True)


def checkpointed(reentrant):
    def run():
        with torch.enable_grad():
            y = torch.utils.checkpoint.checkpoint(lambda a: a * 2, x, use_reentrant=reentrant)
        torch.autograd.grad(y.sum(), x) if not reentrant else y.sum().backward()

    return run


PROGRAMS = {
    "no_grad": block(torch.no_grad),
    "enable_grad": block(torch.enable_grad),
    "enable_grad inside of no_grad": torch.no_grad()(block(torch.enable_grad)),
    "inference_mode": block(torch.inference_mode),
    "autocast": block(lambda: torch.autocast("cpu", dtype=torch.bfloat16)),
    "autocast turned off": block(lambda: torch.autocast("cpu", enabled=False)),
    "saved_tensors_hooks": block(lambda: graph.saved_tensors_hooks(same, same)),
    "save_on_cpu": block(lambda: graph.save_on_cpu()),
    "detect_anomaly": block(lambda: torch.autograd.detect_anomaly()),
    "dual_level": block(torch.autograd.forward_ad.dual_level),
    "checkpoint": checkpointed(False),
    "reentrant checkpoint": checkpointed(True),
    "record_function": block(lambda: torch.profiler.record_function("name")),
    "decorated": decorated,
    "backward with hooks": hooked_pass,
    "backward that is recorded": recorded_pass,
}


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("program", PROGRAMS)
def test_modes_are_as_before(program):
    run = PROGRAMS[program]
    for _ in range(4):  # until all kernels are there
        run()
    before, point = _modes(), 0
    step = 7 if program.startswith("backward") else 1  # of some two thousand points
    while interrupted(run, point, delivered=True):
        assert _modes() == before, point
        point += step
    assert point > 5


def _modes():
    """The modes of this thread, less what is known of JAX's traces, which any write brings up to date."""
    known = {k: v for k, v in vars(MODES).items() if k not in ("birth", "open_traces", "undo")}
    known["bits"] = MODES.bits & ~TRACED
    own = {k: v for k, v in known.items() if v != getattr(type(MODES), k)}
    shared = MODES.dual_level, torch.is_anomaly_enabled(), torch.is_autocast_enabled("cpu")
    return own, shared, torch.get_autocast_dtype("cpu")


def test_warnings_of_numpy_are_as_before():
    small = torch.ones(3)
    small + small
    at, before = 0, np.geterr()
    while interrupted(lambda: small + small, at, within="<string>", delivered=True):
        assert np.geterr() == before
        at += 1
    assert at
