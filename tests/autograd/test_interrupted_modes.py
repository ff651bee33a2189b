"""A signal at any point where Python delivers one leaves the modes of a thread as they were."""

import contextlib
from functools import partial

import numpy as np
import pytest

import torchgrad_jax as torch
import torchgrad_jax.profiler
import torchgrad_jax.utils.checkpoint
from tests.interrupts import PACKAGE, length, signalled
from torchgrad_jax import func
from torchgrad_jax._core.host import code
from torchgrad_jax._core.jax.running_transforms import current_trace
from torchgrad_jax._core.state import MODES, UNDER_JAX
from torchgrad_jax.autograd import forward_ad, grad_mode, profiler
from torchgrad_jax.nn.modules import _hooks as module_hooks
from torchgrad_jax.overrides import TorchFunctionMode
from torchgrad_jax.utils.flop_counter import FlopCounterMode

AROUND = (PACKAGE, contextlib.__file__, __file__)
"""The files before whose instructions a signal comes: the program's own, too."""

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


@torch.set_grad_enabled(False)
def decorated_by_a_switch():
    x * 2


@grad_mode.set_multithreading_enabled(False)
@torch.autograd.enforce_grad_layout_policy(False)
@forward_ad._set_fwd_grad_enabled(False)
def decorated_by_more_switches():
    x * 2


grad_mode.set_multithreading_enabled(True)  # decorators of these leave them as they set them
torch.autograd.enforce_grad_layout_policy(True)
forward_ad._set_fwd_grad_enabled(True)


@torch.no_grad()
def generator():
    yield x * 2
    yield x * 3


class Looking(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **kwargs or {})


class Other(torch.Tensor):
    pass


other = torch.ones(3).as_subclass(Other)


def nested(*contexts, body=lambda: x * 2):
    """A program with several contexts, the first outermost."""
    for context in reversed(contexts):
        body = _within(context, body)
    return body


def _within(context, body):
    def run():
        with context():
            body()

    return run


def forward_mode(*contexts):
    def body():
        dual = forward_ad.make_dual(torch.ones(3), torch.ones(3))
        nested(*contexts, body=lambda: dual * 2)()

    return nested(forward_ad.dual_level, body=body)


def scheduled_profile():
    plan = torch.profiler.schedule(wait=0, warmup=1, active=1)
    with torch.profiler.profile(schedule=plan, acc_events=True) as p:
        for _ in range(3):
            x * 2
            p.step()


def selective():
    contexts = partial(torch.utils.checkpoint.create_selective_checkpoint_contexts, [torch.ops.aten.mul.Tensor])
    y = torch.utils.checkpoint.checkpoint(lambda a: (a * 2).sin(), x, use_reentrant=False, context_fn=contexts)
    torch.autograd.grad(y.sum(), x)


def cube(a):
    return (a * a * a).sum()


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
    "enable_grad inside of inference_mode": torch.inference_mode()(block(torch.enable_grad)),
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
    "set_grad_enabled(False)": block(lambda: torch.set_grad_enabled(False)),
    "set_grad_enabled(True)": torch.no_grad()(block(lambda: torch.set_grad_enabled(True))),
    "inference_mode turned off": torch.inference_mode()(block(lambda: torch.inference_mode(False))),
    "set_multithreading_enabled": block(lambda: grad_mode.set_multithreading_enabled(False)),
    "layouts of gradients": block(lambda: torch.autograd.enforce_grad_layout_policy(False)),
    "set_detect_anomaly": block(lambda: torch.autograd.set_detect_anomaly(True)),
    "anomaly detection twice": nested(
        lambda: torch.autograd.set_detect_anomaly(True),
        lambda: torch.autograd.detect_anomaly(check_nan=False, check_forward=True),
    ),
    "tangents": forward_mode(),
    "tangents turned off": forward_mode(lambda: forward_ad._set_fwd_grad_enabled(False)),
    "tangents on and off": forward_mode(
        lambda: forward_ad._set_fwd_grad_enabled(False), lambda: forward_ad._set_fwd_grad_enabled(True)
    ),
    "allow_mutation_on_saved_tensors": block(graph.allow_mutation_on_saved_tensors),
    "disable_saved_tensors_hooks": block(lambda: graph.disable_saved_tensors_hooks("none here")),
    "DisableTorchFunction": nested(torch._C.DisableTorchFunction, body=lambda: other * 2),
    "DisableTorchFunctionSubclass": nested(torch._C.DisableTorchFunctionSubclass, body=lambda: other * 2),
    "a subclass": lambda: other * 2,
    "TorchFunctionMode": block(Looking),
    "two modes": nested(Looking, Looking, body=lambda: torch.matmul(other, x)),
    "a mode turned off": nested(Looking, torch._C.DisableTorchFunction, Looking, body=lambda: other * 2),
    "a mode and autocast": nested(
        Looking, lambda: torch.autocast("cpu"), body=lambda: torch.nn.functional.linear(x, x)
    ),
    "profile": block(profiler.profile),
    "profile of events that add up": block(lambda: profiler.profile(acc_events=True)),
    "torch.profiler.profile": block(torch.profiler.profile),
    "profile with a schedule": scheduled_profile,
    "FlopCounterMode": block(lambda: FlopCounterMode(display=False)),
    "selective checkpoint": selective,
    "func.grad": lambda: func.grad(cube)(x),
    "func.vjp": lambda: func.vjp(cube, x)[1](torch.ones(())),
    "func.jvp": lambda: func.jvp(cube, (x,), (x.detach(),)),
    "func.hessian": lambda: func.hessian(cube)(x.detach()),
    "device": block(lambda: torch.device("meta")),
    "decorated by a switch": decorated_by_a_switch,
    "decorated by more switches": decorated_by_more_switches,
    "a decorated generator": lambda: list(generator()),
    "record_function": block(lambda: torch.profiler.record_function("name")),
    "decorated": decorated,
    "backward with hooks": hooked_pass,
    "backward that is recorded": recorded_pass,
}


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("program", PROGRAMS)
def test_modes_are_as_before(program):
    run = PROGRAMS[program]
    for _ in range(4):  # until all kernels are there
        run()
    before, point = _modes(), 0
    step = max(length(run, AROUND) // 4000, 1)  # of the points of long programs
    while signalled(run, point, AROUND):
        assert _modes() == before, point
        point += step
    assert point > 5


def test_jax_traces_what_it_traced_before():
    """Every point of the module that stands around JAX's blocks, which the samples of the test above may miss."""

    def run():
        return func.hessian(cube)(x.detach())

    for _ in range(3):
        run()
    before, at = current_trace(), 0
    while signalled(run, at, f"{PACKAGE}/_core/jax/running_transforms.py"):
        assert current_trace() is before, at
        at += 1
    assert at > 5


def _modes():
    """The modes of this thread, less what is known of JAX's traces, which any write brings up to date."""
    known = {k: v for k, v in vars(MODES).items() if k not in ("birth", "open_traces", "undo")}
    known["bits"] = MODES.bits & ~UNDER_JAX
    own = {k: v for k, v in known.items() if v != getattr(type(MODES), k)}
    shared = MODES.dual_level, torch.is_anomaly_enabled(), torch.is_autocast_enabled("cpu")
    process = type(MODES).bits & ~UNDER_JAX, len(MODES.dual_open)
    allowing = vars(graph._allowing).get("on", False)
    hooks = len(module_hooks.forward_pre), len(module_hooks.forward)
    traced = current_trace()
    return own, shared, process, hooks, allowing, torch.get_autocast_dtype("cpu"), traced


def test_warnings_of_numpy_are_as_before():
    small = torch.ones(3)
    small + small
    at, before = 0, np.geterr()
    while signalled(lambda: small + small, at, f"{code.__file__}:kernel"):
        assert np.geterr() == before
        at += 1
    assert at
