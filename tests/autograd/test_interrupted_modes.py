"""A signal at any point where Python delivers one leaves the modes of a thread as they were."""

import contextlib
import dis
import gc
import mmap
import re
import signal
import sys
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest

import torchgrad_jax as torch
import torchgrad_jax.profiler
from tests.interrupts import PACKAGE, Signal, length, signalled
from torchgrad_jax import _dynamo, backends, func, serialization
from torchgrad_jax._bridge.compile.stance import POLICY
from torchgrad_jax._core.errors import warn
from torchgrad_jax._core.host import space
from torchgrad_jax._core.jax.running_transforms import current_trace
from torchgrad_jax._core.state import MODES, SETTINGS, UNDER_JAX
from torchgrad_jax._engine.tensor import printing
from torchgrad_jax._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torchgrad_jax.amp import autocast_mode
from torchgrad_jax.autograd import forward_ad, grad_mode, profiler
from torchgrad_jax.distributed import device_mesh
from torchgrad_jax.distributed.device_mesh import init_device_mesh
from torchgrad_jax.distributed.fsdp import wrap
from torchgrad_jax.nn.modules import _hooks as module_hooks
from torchgrad_jax.nn.utils import parametrize
from torchgrad_jax.optim._swap import swap_in_optimizer_params_and_state
from torchgrad_jax.overrides import TorchFunctionMode
from torchgrad_jax.serialization import _options as serialization_options
from torchgrad_jax.testing._internal import common_utils
from torchgrad_jax.utils import checkpoint as checkpoints
from torchgrad_jax.utils.flop_counter import FlopCounterMode

AROUND = (PACKAGE, contextlib.__file__, __file__)
"""The files before whose instructions a signal comes: the program's own, too."""

graph = torch.autograd.graph
x = torch.ones(3, requires_grad=True)


def block(context, body=lambda: x * 2):
    def run():
        with context():
            body()

    return run


def raising(*contexts):
    """An exception leaves blocks, and is handled outside of them."""

    def body():
        raise ValueError

    def run():
        with contextlib.suppress(ValueError):
            nested(*contexts, body=body)()

    return run


def in_one_statement():
    with torch.no_grad(), torch.inference_mode(), torch.device("meta"):
        x * 2


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


@torch.no_grad()
def echo():
    got = yield x * 2
    while got is not None:
        got = yield got * 2


def sent():
    running = echo()
    next(running)
    running.send(x)
    with contextlib.suppress(StopIteration):
        running.send(None)


def closed():
    running = generator()
    next(running)
    running.close()


def decorated_class():
    torch.no_grad()(Doubles)()


class Doubles:
    def __init__(self):
        self.doubled = x * 2


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


layer = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
mesh = init_device_mesh("cpu", (1,))
KEY = jax.random.key(0)


def step():
    optimizer.zero_grad()
    layer(x).sum().backward()
    optimizer.step()


step()


def swapped():
    others = {"weight": torch.ones(2, 3), "bias": torch.ones(2)}
    with swap_in_optimizer_params_and_state(optimizer, others, optimizer.state_dict()):
        x * 2


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
    "decorated without a call": torch.no_grad(lambda: x * 2),
    "a decorated generator that is closed": closed,
    "a decorated generator that is sent something": sent,
    "a decorated class": decorated_class,
    "an exception in a block": raising(torch.no_grad),
    "an exception in blocks": raising(torch.no_grad, lambda: torch.autocast("cpu"), lambda: torch.device("meta")),
    "two blocks in one statement": in_one_statement,
    "a step of training": step,
    "sdpa_kernel": block(lambda: torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)),
    "sdp_kernel": block(lambda: torch.backends.cuda.sdp_kernel(enable_math=False)),
    "cudnn.flags": block(lambda: torch.backends.cudnn.flags(benchmark=True)),
    "mkldnn.flags": block(lambda: torch.backends.mkldnn.flags(deterministic=True)),
    "parametrize.cached": block(parametrize.cached),
    "functional_call": lambda: func.functional_call(layer, {"weight": torch.ones(2, 3)}, (x,)),
    "printoptions": block(lambda: torch._tensor_str.printoptions(precision=2)),
    "fork_rng": block(torch.random.fork_rng, lambda: torch.rand(2)),
    "draws from a key": block(lambda: torch.interop.rngs(KEY), lambda: torch.rand(2)),
    "set_stance": block(lambda: torch.compiler.set_stance("force_eager")),
    "settings of compile": block(lambda: _dynamo.config.patch(recompile_limit=3)),
    "safe_globals": block(lambda: torch.serialization.safe_globals([Other])),
    "skip_data": block(torch.serialization.skip_data),
    "set_default_mmap_options": block(lambda: torch.serialization.set_default_mmap_options(mmap.MAP_SHARED)),
    "FakeTensorMode": block(FakeTensorMode, lambda: torch.ones(2)),
    "no fake tensors": nested(FakeTensorMode, unset_fake_temporarily, body=lambda: torch.ones(2)),
    "set_checkpoint_early_stop": block(lambda: checkpoints.set_checkpoint_early_stop(False)),
    "set_checkpoint_debug_enabled": block(lambda: checkpoints.set_checkpoint_debug_enabled(True)),
    "a mesh": block(lambda: mesh),
    "a default dtype": block(lambda: common_utils.set_default_dtype(torch.float64), torch.get_default_dtype),
    "enable_wrap": block(lambda: wrap.enable_wrap(wrapper_cls=torch.nn.Sequential)),
    "another optimizer's state": swapped,
    "warnings that are refused": block(warn.refused),
    "jvp under no_grad": torch.no_grad()(lambda: func.jvp(cube, (x.detach(),), (x.detach(),))),
    "backward with hooks": hooked_pass,
    "backward that is recorded": recorded_pass,
}


@pytest.mark.filterwarnings("ignore:Anomaly Detection", "ignore:Decorating classes")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of signals while an object is freed
@pytest.mark.parametrize("program", PROGRAMS)
def test_modes_are_as_before(program):
    run = PROGRAMS[program]
    for _ in range(4):  # until all kernels are there
        run()
    before, point = _modes(), 0
    step = max(length(run, AROUND) // 500, 1)  # of the points of long programs
    while where := signalled(run, point, AROUND):
        if where == "<lambda>" and program in AT_ONCE:
            AT_ONCE[program](True)
        assert _modes() == before, (point, where)
        point += step
    assert point > 5


AT_ONCE = {
    "set_grad_enabled(False)": torch.set_grad_enabled,
    "set_multithreading_enabled": grad_mode.set_multithreading_enabled,
    "layouts of gradients": torch.autograd.enforce_grad_layout_policy,
    "tangents turned off": forward_ad._set_fwd_grad_enabled,
    "tangents on and off": forward_ad._set_fwd_grad_enabled,
    "set_detect_anomaly": lambda on: torch.autograd.set_detect_anomaly(not on),
    "anomaly detection twice": lambda on: torch.autograd.set_detect_anomaly(not on),
    "set_stance": lambda on: torch.compiler.set_stance("default"),
    "set_default_mmap_options": lambda on: torch.serialization.set_default_mmap_options(mmap.MAP_PRIVATE),
}
"""What switches when it is called, as in torch, with or without a block, and how to switch back.

Where the signal is delivered in the function that called it (here a lambda), the call has returned and its block has
not begun: it is a call without a block.
"""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
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
    autocast = torch.get_autocast_dtype("cpu"), autocast_mode.STATE.nesting
    return own, shared, process, hooks, allowing, autocast, traced, _settings()


def _settings():
    """What contexts change that is no mode of a thread."""
    files = dict(serialization._safe), serialization_options._chosen, serialization_options.skips_data()
    checkpointing = checkpoints._Overrides.early_stop, checkpoints._Overrides.debug
    flags = backends.cudnn.set_flags(), backends.mkldnn.set_flags()
    compiling = [getattr(POLICY, name) for name in POLICY.__slots__]
    parameters = [id(p) for p in layer.parameters()], [id(p) for g in optimizer.param_groups for p in g["params"]]
    lists = len(device_mesh._ENTERED), len(wrap._ENABLED), parametrize._cache_enabled
    refused = getattr(warn._OF_THREAD, "refused", False)
    return (
        vars(SETTINGS).copy(), files, checkpointing, flags, compiling, parameters, lists, refused,
        printing._options, torch.get_default_dtype(), len(optimizer.state),
    )  # fmt: skip


def test_warnings_of_numpy_are_as_before():
    small = torch.ones(3)
    small + small
    at, before = 0, np.geterr()
    while signalled(lambda: (small + small).tolist(), at, f"{space.__file__}:kernel"):
        assert np.geterr() == before
        at += 1
    assert at


def _all_exits():
    """The classes of the package with an `__exit__` of their own."""
    for name, module in list(sys.modules.items()):
        if name.startswith("torchgrad_jax.") and module is not None:
            for value in list(vars(module).values()):
                if isinstance(value, type) and value.__module__ == name and "__exit__" in vars(value):
                    yield value


def _handles_signals_first(fn):
    steps = [*dis.get_instructions(fn)]
    first = next(i for i in steps if i.opname == "RESUME")
    return first.arg in (0, 1) and any(i.opname.startswith(("CALL", "STORE", "DELETE")) for i in steps)


def test_every_exit_restores_before_a_signal_is_handled():
    exits = list(_all_exits())
    assert [cls for cls in exits if _handles_signals_first(vars(cls)["__exit__"])] == []
    assert len(exits) > 30


FROM_CONTEXTLIB = re.compile(r"contextlib\.contextmanager|^from contextlib import .*\bcontextmanager\b", re.M)


def test_blocks_of_generators_are_the_package_s_own():
    """Blocks of `contextlib.contextmanager` may be over before a signal is handled, and restore nothing then."""
    folder = Path(PACKAGE)
    theirs = {str(p.relative_to(folder)) for p in folder.rglob("*.py") if FROM_CONTEXTLIB.search(p.read_text())}
    of_tools = {p for p in theirs if p.startswith("testing/_")}  # what compares programs runs until it is stopped
    assert theirs - of_tools == {"_core/signals.py"}


def test_training_is_before_or_after_each_write():
    """Each parameter has the values of its version, each gradient is whole, and the next step goes well."""
    weights = [torch.zeros(3, requires_grad=True) for _ in range(3)]
    sgd = torch.optim.SGD(weights, lr=1.0)

    def train():
        sgd.zero_grad()
        sum(w.sum() for w in weights).backward()
        sgd.step()

    for _ in range(4):
        train()
    step = max(length(train, AROUND) // 300, 1)
    point = 0
    while signalled(train, point, AROUND):
        for w in weights:
            assert w.tolist() == [-float(w._version)] * 3
            assert w.grad is None or w.grad.tolist() == [1.0] * 3
        assert torch.is_grad_enabled()
        point += step
    assert point > 100


@pytest.mark.parametrize("program", ["no_grad", "inference_mode", "decorated", "a decorated generator", "autocast"])
def test_signals_at_times_that_nobody_knows(program):
    """A timer of the system, over and over: the place where it strikes is chosen by nobody."""
    run = PROGRAMS[program]
    run()
    before, struck = _modes(), 0

    def raises(number, frame):
        raise Signal

    handler = signal.signal(signal.SIGALRM, raises)
    gc.disable()  # JAX hears of collections, and Python forgets an exception that strikes there
    try:
        for i in range(300):
            try:
                signal.setitimer(signal.ITIMER_REAL, (20 + 7 * i % 311) * 1e-6)
                for _ in range(10_000):
                    run()
            except Signal:
                struck += 1
            assert _modes() == before, i
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        gc.enable()
    assert struck > 250  # Python forgets the exception where it frees an object
