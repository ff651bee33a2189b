"""Windows: kernels that are put off and start together do what they do one by one, to the last bit.

Most tests put off NumPy's kernels as well, which strict eager would run at once, so that small tensors go all ways.
"""

import copy
import io
import linecache
import os
import pickle
import random
import subprocess
import sys
import threading
import weakref

import jax
import numpy as np
import pytest

import torchgrad_jax as torch
from tests.expressions import exact
from torchgrad_jax._core.arrays import placement, summands
from torchgrad_jax._core.host import choice
from torchgrad_jax._core.state import MODES, WINDOWS
from torchgrad_jax._engine.memory.strided import operand
from torchgrad_jax._engine.memory.tensor import held_by, make
from torchgrad_jax._engine.run import window_programs, windows
from torchgrad_jax._engine.run.kernel import Kernel
from torchgrad_jax._engine.run.windows import Pending

eager = torch.interop.eager


@pytest.fixture(autouse=True)
def everything(monkeypatch):
    """Put off NumPy's kernels, too, and count from 0. What earlier tests have spread over devices is no matter here."""
    monkeypatch.setattr(windows, "PUT_OFF", windows.PUT_OFF | {"numpy", "look"})
    spread = [(held, [*held]) for held in (placement.MANY, summands.SEVERAL)]
    for held, _ in spread:
        held.clear()
    with eager("strict"):
        torch.interop.windows(reset=True)
        yield
    for held, was in spread:
        held[:] = was


@pytest.fixture
def ran(monkeypatch):
    """The windows that ran: their steps, which values were wanted, and whether a program was there."""
    seen, run = [], window_programs.run

    def noted(steps, inputs, alive, fused, device):
        program, arrays = run(steps, inputs, alive, fused, device)
        seen.append(([s[0].name for s in steps], alive, arrays is not None))
        return program, arrays

    monkeypatch.setattr(window_programs, "run", noted)
    return seen


def is_pending(t):
    """Whether the elements of a tensor are not there yet."""
    held = held_by(t._st)
    return isinstance(held, Pending) and held.window is not None


def causes():
    return [(c.cause, c.count) for c in torch.interop.windows().cuts]


# --- the same bits --------------------------------------------------------------------------------

UNARY = ("sin", "exp", "tanh", "neg", "abs", "sigmoid", "relu", "square")
BINARY = ("add", "mul", "sub", "maximum", "hypot")
VIEWS = {
    "a transpose": lambda x: x.t().t(),
    "rows turned over": lambda x: x.flip(0),
    "a slice": lambda x: x[1:],
    "columns": lambda x: x[:, ::2],
    "in one row": lambda x: x.reshape(-1).view(x.shape),
    "expanded": lambda x: x[:1].expand(4, -1),
}
WRITES = {
    "a row": lambda x, y: x[0].mul_(0.5),
    "all of it": lambda x, y: x.add_(1.5),
    "an element": lambda x, y: x.__setitem__((1, 1), 2.5),
    "a column": lambda x, y: x[:, 0].copy_(y.flatten()[0]),
    "another's": lambda x, y: x.mul_(y.mean()),
}


def random_program(seed, size):
    """A program of forty steps: operators, views, writes, reads of values and backward passes."""
    choose = random.Random(seed)

    def program():
        torch.manual_seed(seed)
        choose.seed(seed)
        leaf = torch.randn(*size, requires_grad=True)
        pool, seen = [leaf * 1.0, torch.randn(*size), torch.randn(*size)], []
        for _ in range(40):
            x, y = choose.choice(pool), choose.choice(pool)
            what = choose.choice(("unary", "unary", "binary", "binary", "view", "write", "read", "drop", "backward"))
            if what == "unary":
                pool.append(getattr(torch, choose.choice(UNARY))(x).clamp(-3, 3))
            elif what == "binary" and x.shape == y.shape:
                pool.append(getattr(torch, choose.choice(BINARY))(x, y).clamp(-3, 3))
            elif what == "view" and x.shape == torch.Size(size):
                pool.append(VIEWS[choose.choice([*VIEWS])](x))
            elif what == "write" and x.shape == torch.Size(size):
                with torch.no_grad():
                    WRITES[choose.choice([*WRITES])](z := x.detach().clone(), y)
                pool.append(z)
            elif what == "read":
                seen.append(x.sum().item() if choose.random() < 0.5 else bool((x > 0).any()))
            elif what == "drop" and len(pool) > 3:
                pool.pop(choose.randrange(len(pool)))
            elif what == "backward" and x.requires_grad:
                (x * x).sum().backward(retain_graph=True)
        return seen, [exact(t) for t in pool], None if leaf.grad is None else exact(leaf.grad)

    return program


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_have_the_bits_of_strict_ones(seed):
    program = random_program(seed, (4, 6))
    expected = program()
    with eager("windows"):
        assert [program() for _ in range(3)] == [expected] * 3
    assert torch.interop.windows().windows


@pytest.mark.parametrize("seed", range(3))
def test_programs_of_large_tensors_whose_kernels_are_joined(seed):
    program = random_program(seed, (64, 640))
    expected = program()
    with eager("windows"):
        assert [program() for _ in range(3)] == [expected] * 3
    found = torch.interop.windows()
    assert found.met < found.windows


def test_kernels_of_xla_start_as_one_program(ran, monkeypatch):
    monkeypatch.setattr(choice, "BLOCKS_END", choice.LARGEST)  # NumPy does none of it block by block
    torch.clear_caches()
    x = torch.linspace(-1, 1, 300_000)
    expected = exact(((x * 2).sin() + x).exp().tanh() * x)
    with eager("windows"):
        for _ in range(3):
            assert exact(((x * 2).sin() + x).exp().tanh() * x) == expected
    found = torch.interop.windows()
    assert (found.windows, found.steps, found.met, found.starts) == (3, 18, 1, 6 + 1 + 1)


def training(optimizer, **options):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Dropout(0.2), torch.nn.Linear(5, 3))
    opt = getattr(torch.optim, optimizer)(net.parameters(), lr=0.05, **options)
    x, y = torch.randn(8, 6), torch.randint(0, 3, (8,))
    losses = []
    for _ in range(4):
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()
        losses.append(loss.item())
    return losses, [exact(p) for p in net.parameters()]


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        ("SGD", {}),
        ("SGD", {"momentum": 0.9}),
        ("AdamW", {}),
        ("Adam", {"amsgrad": True}),
        ("Adagrad", {}),
        ("NAdam", {}),
    ],
)
def test_training_has_the_same_bits(optimizer, options):
    expected = training(optimizer, **options)
    with eager("windows"):
        assert training(optimizer, **options) == expected


def test_kernels_that_share_an_executable_are_part_of_the_program():
    """A Huber loss is compiled for any delta, which is an input."""
    x, y = torch.randn(64, 640), torch.randn(64, 640)

    def loss():
        out = torch.nn.functional.huber_loss(x, y, delta=0.7, reduction="none") * 1.5 + y
        return exact(((out + 1).tanh() * 0.3).exp())

    expected = loss()
    with eager("windows"):
        assert [loss() for _ in range(3)] == [expected] * 3
    assert torch.interop.windows().met == 1


def test_fused_windows_agree_to_rounding():
    losses, _ = training("SGD")
    with eager("fused"):
        np.testing.assert_allclose(training("SGD")[0], losses, rtol=1e-6)


# --- where windows end ----------------------------------------------------------------------------


def test_nothing_runs_before_a_value_is_read(ran):
    with eager("windows"):
        x = torch.arange(6.0).reshape(2, 3)
        y = (x * 2 + 1).sin().cos().tan().exp()
        assert y.shape == (2, 3)
        assert y.dtype is torch.float32
        assert is_pending(y)
        assert not ran
        y.tolist()
        assert len(ran) == 1
        assert not is_pending(y)
    assert causes() == [("a value is read by `tolist`", 1)]


def test_a_window_ends_with_a_backward_pass_and_with_a_step_of_an_optimizer():
    w = torch.ones(3, requires_grad=True)
    opt = torch.optim.SGD([w], lr=0.1)
    with eager("windows"):
        for _ in range(5):
            opt.zero_grad()
            (w * w).sum().backward()
            opt.step()
    assert dict(causes()) == {"a backward pass ends": 5, "an optimizer's step ends": 5}


def test_a_window_ends_after_so_many_steps_and_bytes(monkeypatch):
    monkeypatch.setattr(windows, "MOST_STEPS", 10)
    monkeypatch.setattr(windows, "MOST_BYTES", 1 << 20)
    with eager("windows"):
        x = torch.ones(3)
        for _ in range(35):
            x = x * 1.5
        assert causes() == [("it has 10 steps", 3)]
        y = torch.ones(1 << 19) * 2
        y = y * 3
    assert ("its results take 1 MB", 1) in causes()


def test_a_place_is_a_file_and_a_line():
    with eager("windows"):
        y = torch.ones(3).sin().cos().exp().tan().sin()
        y.sum().item()
    (cut,) = torch.interop.windows().cuts
    name, line = cut.where.rsplit(":", 1)
    assert name == __file__
    assert "y.sum().item()" in linecache.getline(name, int(line))
    assert cut.where in str(torch.interop.windows())


def test_few_steps_are_computed_alone_and_the_window_goes_on(ran):
    with eager("windows"):
        x = torch.ones(3)
        y = (x * 2).sin().cos().exp().tan().sin()
        assert (x + 1).sum().item() == 6.0
        assert is_pending(y)
        assert not ran
        z = (y + 1).exp()
    assert ran[-1][2] is False
    assert exact(z) == exact(((x * 2).sin().cos().exp().tan().sin() + 1).exp())


def test_a_value_that_was_computed_alone_is_read_by_later_steps_of_its_window():
    with eager("windows"):
        x = torch.full((3,), 2.0)
        y = x * 3
        z = (y + 1).sin().cos().tan().exp().sin()
        assert y.tolist() == [6.0] * 3
        u = z + y
    assert exact(u) == exact((torch.full((3,), 7.0)).sin().cos().tan().exp().sin() + 6)


def test_a_window_that_comes_again_runs_as_a_program_and_numbers_are_inputs(ran):
    with eager("windows"):
        for k in range(4):
            x = torch.arange(5.0) * (k + 0.5) + k
            x.sin().cos().tan().exp().sum().item()
    assert [program for _, _, program in ran] == [False, True, True, True]
    assert torch.interop.windows().met == 1


# --- memory ---------------------------------------------------------------------------------------


def test_results_that_nobody_holds_are_not_made(ran):
    with eager("windows"):
        x = torch.ones(4)
        y = x.sin()
        for _ in range(5):
            y = y.exp()
        x.cos()
        y.tolist()
    (names, alive, _) = ran[-1]
    assert names == ["sin", *["exp"] * 5, "cos"]
    assert alive == (5,)


def test_kernels_of_what_nobody_needs_are_not_called():
    called = []

    def step(*xs):
        called.append(1)
        return xs[0]

    with eager("windows"):
        t = torch.ones(3) * 2
        windows.call(Kernel.of_others(step), (operand(t),), (t._m,), True)
        t.sin().cos().tan().exp().tolist()
    assert not called


def test_a_window_lets_go_of_its_inputs_when_it_has_run():
    with eager("windows"):
        x = torch.randn(4)
        array = weakref.ref(x._st.array) if not isinstance(x._st.array, np.ndarray) else None
        held = weakref.ref(x._st)
        y = x.sin().cos().tan().exp().sum()
        del x
        y.item()
        assert held() is None
        assert array is None or array() is None


# --- errors ---------------------------------------------------------------------------------------


def failing(t):
    """A step whose kernel raises."""

    def fails(*xs):
        return np.linalg.inv(np.zeros((2, 2)))

    return make(windows.call(Kernel.of_others(fails), (operand(t),), (t._m,), True), t._m)


def test_errors_that_are_known_at_the_call_are_raised_there():
    with eager("windows"):
        x = torch.ones(3).sin().cos()
        with pytest.raises(RuntimeError, match="must match"):
            x + torch.ones(4)
        with pytest.raises(IndexError):
            torch.nn.functional.embedding(torch.tensor([7]), torch.ones(3, 2) * 2)
        w = torch.ones(3, requires_grad=True)
        y = w.exp()
        y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
        assert is_pending(x)


def test_a_step_that_fails_is_named_and_nothing_else_is_lost():
    with eager("windows"):
        x = torch.ones(3) * 2
        good = x + 1
        bad = failing(x)
        worse = (bad + 1).sin()
        other = good * 2
        with pytest.raises(np.linalg.LinAlgError, match="Singular") as caught:
            worse.tolist()
        assert f"`fails`, a step of a window, called at {__file__}:" in caught.value.__notes__[0]
        for _ in range(2):
            for t in (bad, worse):
                with pytest.raises(np.linalg.LinAlgError, match="Singular"):
                    t.tolist()
        assert good.tolist() == [3.0] * 3
        assert other.tolist() == [6.0] * 3
        with pytest.raises(np.linalg.LinAlgError, match="Singular"):
            worse + 1
        assert (good + 1).tolist() == [4.0] * 3


def test_a_program_that_fails_runs_kernel_by_kernel(monkeypatch):
    def run():
        return torch.ones(3).sin().cos().tan().exp().sum().item()

    with eager("windows"):
        expected = run()
        monkeypatch.setattr(window_programs.Program, "_written", lambda self: np.linalg.inv(np.zeros((2, 2))))
        assert [run(), run()] == [expected] * 2
    assert torch.interop.windows().met == 3


def test_an_interrupted_run_has_done_nothing(monkeypatch):
    run, raised = window_programs.run, []

    def interrupted(*args):
        if not raised:
            raised.append(1)
            raise KeyboardInterrupt
        return run(*args)

    monkeypatch.setattr(window_programs, "run", interrupted)
    with eager("windows"):
        x = torch.ones(3).sin().cos().tan().exp().sin()
        with pytest.raises(KeyboardInterrupt):
            x.tolist()
        y = (x + 1).cos()
        assert exact(x) == exact(torch.ones(3).sin().cos().tan().exp().sin())
        assert exact(y) == exact((x + 1).cos())


# --- threads and processes ------------------------------------------------------------------------


def test_a_thread_without_windows_reads_a_pending_value():
    with eager("windows"):
        x = torch.full((3,), 2.0)
        y = (x * 3).sin().cos().tan().exp()
        found = []
        thread = threading.Thread(target=lambda: found.extend([MODES.bits & WINDOWS, exact(y), exact(y + 1)]))
        thread.start()
        thread.join()
        z = y * 2
    assert found == [0, exact(y), exact(y + 1)]
    assert exact(z) == exact(y * 2)


@pytest.mark.usefixtures("many_switches")
def test_threads_read_one_another_s_values():
    start = threading.Barrier(4)
    made, wrong = [torch.full((3,), float(k)) for k in range(4)], []

    def work(k):
        with eager("windows"):
            start.wait()
            for n in range(60):
                mine = made[k]
                made[k] = (mine + 1).sin().cos() + mine
                other = made[(k + n) % 4]
                if not torch.equal((other * 1).sin(), other.sin()):
                    wrong.append((k, n))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    for k, t in enumerate(made):
        expected = torch.full((3,), float(k))
        for _ in range(60):
            expected = (expected + 1).sin().cos() + expected
        assert exact(t) == exact(expected)


PROGRAM = """
import random, sys, time
import torchgrad_jax as torch
torch.manual_seed(0)
wait = random.Random(int(sys.argv[1]))
net = torch.nn.Sequential(torch.nn.Linear(40, 50), torch.nn.Tanh(), torch.nn.Linear(50, 8))
opt = torch.optim.AdamW(net.parameters())
x, y = torch.randn(16, 40), torch.randint(0, 8, (16,))
for n in range(6):
    time.sleep(wait.random() / 20)
    opt.zero_grad()
    h = net(x)
    if h.sum() > 1e9:
        break
    loss = torch.nn.functional.cross_entropy(h, y)
    loss.backward()
    opt.step()
    if n % 3 == 2:
        loss.item()
found = torch.interop.windows()
print(found.windows, found.steps, found.met, found.starts, sorted(found.cuts))
print(b"".join(p.detach().numpy().tobytes() for p in net.parameters()).hex())
"""


def launched(seed, **environment):
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, str(seed)],
        env={**os.environ, "TORCHGRAD_JAX_EXECUTOR": "xla", "TORCHGRAD_JAX_EQUAL_BITS": "1", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.splitlines(), run.stderr


def test_processes_cut_at_the_same_places_whatever_time_it_takes():
    (cuts, bits), _ = launched(1, TORCHGRAD_JAX_EAGER="windows")
    (again, _), log = launched(2, TORCHGRAD_JAX_EAGER="windows", TORCHGRAD_JAX_LOGS="windows")
    (strict_cuts, strict), _ = launched(3, TORCHGRAD_JAX_EAGER="")
    assert cuts == again
    assert bits == strict
    assert strict_cuts == "0 0 0 0 []"
    found = [int(n) for n in cuts.split(" [")[0].split()]
    assert found[0] == 2 * 6  # a step of an optimizer of small parameters runs at once
    assert "cause='a backward pass ends', where='<string>:16', count=6" in cuts
    assert "cause='a value is read by `truth`', where='<string>:13', count=6" in cuts
    assert "[windows] " in log


def test_a_forked_process_has_what_was_put_off():
    if not hasattr(os, "fork"):
        pytest.skip("this system does not fork")
    with eager("windows"):
        x = torch.ones(3) * 2
        y = x.sin().cos().tan().exp()
        windows.before_fork()
        assert not is_pending(y)


# --- values that leave ----------------------------------------------------------------------------

LEAVING = {
    "numpy": lambda y: y.numpy().copy(),
    "numpy's asarray": np.asarray,
    "dlpack": np.from_dlpack,
    "a copy": lambda y: copy.deepcopy(y).numpy(),
    "pickle": lambda y: pickle.loads(pickle.dumps(y)).numpy(),
    "a file": lambda y: (torch.save(y, f := io.BytesIO()), f.seek(0), torch.load(f))[2].numpy(),
    "text": lambda y: np.array(eval(str(y.tolist())), np.float32),
    "a storage": lambda y: np.array(y.untyped_storage().tolist(), np.uint8).view(np.float32),
    "to_jax": lambda y: np.asarray(torch.to_jax(lambda: y * 1)()),
    "vmap": lambda y: torch.vmap(lambda a: a * 1)(y).numpy(),
    "a compiled function": lambda y: torch.compile(lambda a: a * 1)(y).numpy(),
    "a shared memory": lambda y: y.share_memory_().numpy(),
}


@pytest.mark.parametrize("name", LEAVING)
def test_values_leave(name):
    expected = torch.arange(4.0).sin().cos().tan().exp()
    with eager("windows"):
        y = torch.arange(4.0).sin().cos().tan().exp()
        found = LEAVING[name](y)
    np.testing.assert_array_equal(found, expected.numpy())


def test_memory_that_numpy_has_is_written_to():
    with eager("windows"):
        n = np.zeros(4, np.float32)
        t = torch.from_numpy(n)
        t.add_(torch.ones(4).sin().cos())
        assert exact(torch.from_numpy(n.copy())) == exact(torch.ones(4).sin().cos())
        n[0] = 7
        assert (t * 2)[0].item() == 14


# --- other modes ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
def test_code_that_is_traced_or_watched_runs_strictly():
    x = torch.arange(6.0).reshape(2, 3)
    with eager("windows"):
        step = torch.compile(lambda a: a + 2)
        assert exact(step(x * 1)) == exact(x + 2)
        assert exact(torch.vmap(lambda a: a.sin().sum())(x * 1)) == exact(x.sin().sum(1))
        with torch.autograd.detect_anomaly(check_nan=True):
            y = x.sin()
            assert not is_pending(y)
            w = torch.zeros(1, requires_grad=True)
            with pytest.raises(RuntimeError, match="nan values"), pytest.warns(UserWarning, match="Error detected"):
                (w / w).sum().backward()
        with torch.profiler.profile() as seen:
            x.cos()
        assert any(e.key == "aten::cos" for e in seen.key_averages())
        with torch.inference_mode():
            z = x.sin().exp().cos().tan().sin()
            assert is_pending(z)
            assert z.is_inference()
    with torch.inference_mode():
        assert exact(z) == exact(x.sin().exp().cos().tan().sin())


def test_hooks_see_gradients_and_packed_values():
    def program():
        seen = []
        w = torch.arange(3.0, requires_grad=True)
        hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: (seen.append(exact(t)), t)[1], lambda t: t * 1)
        with hooks:
            y = (w * w).sin().exp()
        y.register_hook(lambda g: seen.append(exact(g)))
        y.register_hook(lambda g: g * 2)
        y.sum().backward()
        (g,) = torch.autograd.grad((w.sin() ** 2).sum(), w, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), w)
        return seen, exact(w.grad), exact(h)

    expected = program()
    with eager("windows"):
        assert program() == expected


def test_the_way_is_that_of_a_thread_and_of_a_block():
    with pytest.raises(ValueError, match="'strict', 'windows', 'fused', not 'lazy'"):
        eager("lazy")  # type: ignore[arg-type]  # on purpose
    with eager("windows"):
        x = torch.ones(3).sin().cos()
        with eager("strict"):
            assert not is_pending(x)
            assert not is_pending(x.sin())
        assert is_pending(x.sin())
        eager("strict")
        assert not MODES.bits & WINDOWS
    assert not MODES.bits & WINDOWS
    assert not is_pending(x)


def test_an_error_ends_a_block_and_its_window_runs_when_it_is_read():
    made = []

    def program():
        with eager("windows"):
            made.append(torch.ones(3).sin().cos().tan().exp().sin())
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - that of the program
        program()
    assert is_pending(made[0])
    assert not MODES.bits & WINDOWS
    assert exact(made[0]) == exact(torch.ones(3).sin().cos().tan().exp().sin())


def test_the_environment_names_a_way():
    run = subprocess.run(
        [sys.executable, "-c", "import torchgrad_jax"],
        env={**os.environ, "TORCHGRAD_JAX_EAGER": "lazy"},
        capture_output=True,
        text=True,
    )
    assert "TORCHGRAD_JAX_EAGER='lazy': it is one of 'strict', 'windows', 'fused', or is not set" in run.stderr


def test_what_does_more_than_to_give_results_runs_when_it_is_called():
    seen = []
    f = torch.interop.from_jax(lambda x: (jax.debug.callback(lambda: seen.append(1), ordered=True), x * 2)[1])
    with eager("windows"):
        f(torch.ones(3) * 2)
        jax.effects_barrier()
        assert seen == [1]


def test_synchronize_starts_what_was_put_off():
    with eager("windows"):
        x = torch.ones(3).sin().cos().tan().exp().sin()
        torch.cpu.synchronize()
        assert not is_pending(x)
    assert causes() == [("the program waits for what it has started", 1)]


def test_a_compiled_step_gets_no_memory_that_somebody_else_holds():
    w = torch.zeros(300_000)

    @torch.compile
    def step():
        w.add_(1)

    with eager("windows"):
        for n in range(4):
            w.copy_(torch.linspace(0, 1, 300_000) * n)
            same, put_off = w.clone(), w * 2
            step()
            assert same[-1].item() == n
            assert put_off[-1].item() == 2 * n
            assert w[-1].item() == n + 1
