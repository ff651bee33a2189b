"""What a compiled function does in Python happens in each run, or an error says that it cannot."""

# ruff: noqa: T201 - what is printed is what is tested

import io
import itertools
import logging
import random
import sys
import threading
import time
import warnings
from collections import OrderedDict, deque
from time import perf_counter

import numpy as np
import pytest

import torchgrad_jax as torch

RUNS = 6
pytestmark = pytest.mark.filterwarnings("ignore:torch.compile. .* is not compiled")


def runs_of(fn, *args):
    """What a compiled function does in several runs, and how often it was traced."""
    fast = torch.compile(fn)
    return [fast(*args) for _ in range(RUNS)], fast.counts


def test_printing(capsys):
    def f(x):
        print("shape", tuple(x.shape))
        return x * 2

    out, counts = runs_of(f, torch.ones(2))
    assert capsys.readouterr().out == "shape (2,)\n" * RUNS
    assert [t.tolist() for t in out] == [[2.0, 2.0]] * RUNS
    assert counts == {"traced": 0, "run": 0, "eager": RUNS}


def test_output_of_one_call_costs_the_others_no_program(capsys):
    said = []

    def f(x):
        if not said:
            said.append(1)
            print("only once")
        return x * 2

    out, counts = runs_of(f, torch.ones(2))
    assert capsys.readouterr().out == "only once\n"
    assert [t.tolist() for t in out] == [[2.0, 2.0]] * RUNS
    assert counts == {"traced": 1, "run": RUNS - 1, "eager": 1}


def test_a_function_of_which_all_has_to_be_one_program_may_only_print_in_its_first_call(capsys):
    fast = torch.compile(lambda x: print("x"), fullgraph=True)
    fast(torch.ones(1))
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"print\(\) was called at .*test_effects.py:\d+"):
        fast(torch.ones(1))
    assert capsys.readouterr().out == "x\n"  # what is refused is not done


def _says(x, asked=False):
    if asked:
        print("asked", file=sys.stderr)
        warnings.warn("asked", stacklevel=1)
        return x * perf_counter() * time.time()
    return x * 2


def test_what_is_named_and_not_called_costs_nothing():
    assert runs_of(_says, torch.ones(2))[1] == {"traced": 1, "run": RUNS, "eager": 0}


def test_log_lines_and_warnings():
    text = io.StringIO()
    logger = logging.getLogger("a.user")
    logger.addHandler(logging.StreamHandler(text))
    logger.setLevel(logging.INFO)

    def f(x):
        logger.info("line")
        logger.debug("not asked for")
        warnings.warn("careful", stacklevel=1)
        return x * 2

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        runs_of(f, torch.ones(2))
    assert text.getvalue() == "line\n" * RUNS
    given_up = [w for w in told if "is not compiled from now on" in str(w.message)]
    line = f.__code__.co_firstlineno + 1
    clock = "time.time_ns" if sys.version_info >= (3, 13) else "time.time"  # which the record of the line asks
    assert f"{clock}() was called at {__file__}:{line}." in str(given_up[0].message)
    assert [str(w.message) for w in told if w not in given_up] == ["careful"] * RUNS
    assert len(given_up) == 1
    assert {w.filename for w in told} == {__file__}


def test_what_was_not_asked_for_costs_nothing():
    logger = logging.getLogger("another.user")
    logger.setLevel(logging.ERROR)

    def f(x):
        logger.info("line")
        return x * 2

    out, counts = runs_of(f, torch.ones(2))
    assert [t.tolist() for t in out] == [[2.0, 2.0]] * RUNS
    # In the first call the logger remembers, under a lock, that the line is not asked for: that is done once.
    assert counts == {"traced": 1, "run": RUNS, "eager": 0}


@pytest.mark.parametrize(
    "draw",
    [random.random, lambda: random.randrange(10**9), lambda: np.random.rand()],  # noqa: NPY002 - the old generator
    ids=["random", "randrange", "numpy"],
)
def test_random_numbers_are_new(draw):
    found = [b for _, b in runs_of(lambda x: (x + 1, draw()), torch.ones(2))[0]]
    assert len(set(found)) == RUNS


@pytest.mark.parametrize("clock", ["time", "perf_counter", "monotonic_ns"])
def test_the_time_is_that_of_the_run(clock, monkeypatch):
    ticks = itertools.count()
    monkeypatch.setattr(time, clock, lambda: next(ticks))
    out = runs_of(lambda x: (x + 1, getattr(time, clock)()), torch.ones(2))[0]
    found = [b for _, b in out]
    assert sorted(set(found)) == found


def test_the_stream_of_random_numbers_goes_on():
    random.seed(0)
    found = [t.item() for t in runs_of(lambda x: x * random.random(), torch.ones(()))[0]]
    random.seed(0)
    np.testing.assert_allclose(found, [random.random() for _ in range(RUNS)], rtol=1e-6)


def test_containers_among_the_arguments():
    def f(x, held, table):
        held.append(x * 2)
        table["n"] = table.get("n", 0) + 1
        table["last"] = held[-1]
        return held.pop(0) + x

    held, table = [], {}
    fast = torch.compile(f)
    for i in range(RUNS):
        assert fast(torch.full((2,), float(i)), held, table).tolist() == [3.0 * i] * 2
    assert held == []
    assert table["n"] == RUNS
    assert table["last"].tolist() == [2.0 * RUNS - 2] * 2


def test_shapes_stay_shapes():
    fast = torch.compile(lambda x, size: (x.shape, x.view(size), type(size)))
    shape, y, kind = fast(torch.ones(2, 3), torch.Size([6]))
    assert shape == torch.Size([2, 3])
    assert type(shape) is kind is torch.Size
    assert y.shape == (6,)


def test_a_mode_that_is_left_switched():
    def f(x):
        torch.set_grad_enabled(False)
        return x * 2

    fast = torch.compile(f)
    for _ in range(RUNS):
        fast(torch.ones(1))
        assert not torch.is_grad_enabled()
        torch.set_grad_enabled(True)


def test_results_of_inference_mode():
    fast = torch.compile(lambda x: (x * 2, [x + 1]))
    single = torch.compile(lambda x: x * 2)
    for _ in range(2):
        with torch.inference_mode():
            a, (b,) = fast(torch.ones(2))
            assert a.is_inference()
            assert b.is_inference()
            assert single(torch.ones(2)).is_inference()
        assert not single(torch.ones(2)).is_inference()


# --- values from outside --------------------------------------------------------------------------


def test_values_that_python_looked_at_are_guarded():
    flag = torch.ones(())

    def f(x):
        return x * 2 if flag.item() > 0 else x - 1

    fast = torch.compile(f)
    one = torch.ones(2)
    assert [fast(one).tolist() for _ in range(2)] == [[2.0, 2.0]] * 2
    flag.fill_(-1)
    assert [fast(one).tolist() for _ in range(2)] == [[0.0, 0.0]] * 2
    assert fast.counts["traced"] == 2
    assert "values of a tensor from outside" in fast.reasons[0]


def test_a_counter_in_a_buffer():
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.zeros((), dtype=torch.long))

        def forward(self, x):
            return x * int(self.n)

    model = Counting()
    fast = torch.compile(model)
    found = []
    for _ in range(RUNS):
        found.append(fast(torch.ones(())).item())
        model.n += 1
    assert found == [float(i) for i in range(RUNS)]


def test_printing_a_tensor(capsys):
    outside = torch.ones(2)

    def f(x):
        print(outside)
        return x * outside

    torch.compile(f)(torch.ones(2))
    assert capsys.readouterr().out == "tensor([1., 1.])\n"
    fast = torch.compile(lambda x: print(x))
    fast(torch.ones(2)), fast(torch.zeros(2))
    assert capsys.readouterr().out == "tensor([1., 1.])\ntensor([0., 0.])\n"
    assert fast.counts == {"traced": 0, "run": 0, "eager": 2}
    with pytest.raises(RuntimeError, match=r"values of a tensor are needed(.|\n)*str\(x\)"):
        torch.compile(lambda x: str(x))(torch.ones(2))


# --- eager ----------------------------------------------------------------------------------------


def test_tensors_without_data():
    fast = torch.compile(lambda x: x * 2)
    assert fast(torch.ones(2, device="meta")).shape == (2,)
    w = torch.ones(2, device="meta", requires_grad=True)
    y = fast(w)
    y.sum().backward()
    assert w.grad.device.type == "meta"
    outside = torch.compile(lambda: w * 3)
    assert outside().device.type == "meta"
    assert fast(torch.ones(2)).tolist() == [2.0, 2.0]
    assert fast.counts == {"traced": 1, "run": 1, "eager": 2}


MADE_ON_META = {
    "empty": lambda: torch.empty(2, 3, device="meta"),
    "drawn": lambda: torch.rand(2, device="meta") * 2,
    "permuted": lambda: torch.randperm(4, device="meta").shape,
    "a module": lambda: torch.nn.Linear(2, 3, device="meta")(torch.ones(4, 2, device="meta")),
    "a module that was moved": lambda: list(with_gradients(torch.nn.Linear(2, 3)).to("meta").parameters()),
}


def with_gradients(module):
    for p in module.parameters():
        p.grad = torch.ones(p.shape)
    return module


@pytest.mark.filterwarnings("ignore:torch.compile")
@pytest.mark.parametrize("make", MADE_ON_META.values(), ids=MADE_ON_META)
def test_tensors_without_data_are_made_inside(make):
    """They ended in errors of JAX's."""
    fast = torch.compile(make)
    assert [str(fast()) for _ in range(2)] == [str(make())] * 2


def test_generators():
    fast = torch.compile(lambda x: (x * i for i in range(3)))
    assert [t.item() for t in fast(torch.ones(()))] == [0.0, 1.0, 2.0]

    @torch.compile
    def steps(x):
        yield x * 2
        yield x * 3

    assert [t.item() for t in steps(torch.ones(()))] == [2.0, 3.0]

    def plain():
        yield 1

    with pytest.raises(RuntimeError, match="generator"):
        torch.compile(plain, fullgraph=True)


def test_errors_may_be_suppressed():
    class Holder:
        n = 0

    seen, table, holder = [], {}, Holder()
    holder.n = 0
    w = torch.ones(2, requires_grad=True)

    def f(x, given):
        seen.append(1)
        table["n"] = table.get("n", 0) + 1
        holder.n += 1
        given.append(x)
        (w * x).sum().backward()
        with torch.no_grad():
            w.add_(1)
        if x.sum() > 0:
            return x * random.random()
        return x

    x = torch.ones(2)
    with pytest.raises(torch._dynamo.exc.Unsupported, match="suppress_errors"):
        torch.compile(f)(x, [])
    assert (seen, table, holder.n) == ([], {}, 0)
    given = []
    fast = torch.compile(f)
    random.seed(0)
    with torch._dynamo.config.patch(suppress_errors=True):
        with pytest.warns(UserWarning, match="runs eagerly"):
            first = fast(x, given)
        fast(x, given)
        with pytest.raises(RuntimeError, match="values of a tensor"):
            torch.compile(f, fullgraph=True)(x, [])
    random.seed(0)
    np.testing.assert_allclose(first.numpy(), [random.random()] * 2, rtol=1e-6)
    assert len(given) == 2
    assert w.tolist() == [3.0, 3.0]
    assert w.grad.tolist() == [2.0, 2.0]
    assert fast.counts == {"traced": 0, "run": 0, "eager": 2}
    assert len(seen) == table["n"] == holder.n == 2  # what the error above did is undone


NAMES = [f"name {i}" for i in range(40)]
CONTAINERS = {
    "a set that grows": (lambda: set(NAMES), lambda held: held.add("more")),
    "a set that nobody changes": (lambda: set(NAMES), lambda held: None),
    "a dict in another order": (lambda: dict.fromkeys(NAMES), lambda held: held.update({NAMES[1]: held.pop(NAMES[1])})),
    "an ordered dict": (lambda: OrderedDict.fromkeys(NAMES), lambda held: held.move_to_end(NAMES[1])),
    "a list in another order": (lambda: list(NAMES), lambda held: held.reverse()),
    "a bounded deque": (lambda: deque(NAMES, 40), lambda held: held.append("more")),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_an_attempt_to_compile_leaves_containers_as_they_were(name):
    """The function changes each once, although it ran twice: until it asked for a value, and eagerly."""
    make, change = CONTAINERS[name]
    held, once = make(), make()
    change(once)

    def f(x):
        change(held)
        return x + 1 if x.sum() > 0 else x

    with torch._dynamo.config.patch(suppress_errors=True), pytest.warns(UserWarning, match="runs eagerly"):
        assert torch.compile(f)(torch.ones(2)).tolist() == [2.0, 2.0]
    assert held == once
    assert isinstance(held, set) or list(held) == list(once)


@pytest.mark.filterwarnings("ignore:Anomaly Detection", "ignore:Error detected in")
def test_anomaly_checks_inside_name_the_line():
    w = torch.ones(2, requires_grad=True)
    seen = []

    def step(x):
        seen.append(1)
        with torch.autograd.detect_anomaly(check_forward=True):
            y = w * x
            loss = torch.log(y).sum()  # this one
            loss.backward()
        return loss

    fast = torch.compile(step)
    assert [fast(torch.ones(2)).item() for _ in range(2)] == [0.0, 0.0]
    assert w.grad.tolist() == [2.0, 2.0]
    assert len(seen) == 2
    with pytest.raises(RuntimeError, match=r"'log' made NaN or infinity(.|\n)*# this one"):
        fast(torch.zeros(2))
    assert fast.counts == {"traced": 0, "run": 0, "eager": 3}

    @torch.compile
    def slope(x):
        with torch.autograd.detect_anomaly():
            (g,) = torch.autograd.grad(((w * x).sqrt() * 0).sum(), w)
        return g

    with pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan values in its 0th output"):
        slope(torch.zeros(2))


def test_output_is_not_lost_with_an_error(capsys):
    def f(x):
        print("before")
        raise KeyError("k")

    with pytest.raises(KeyError):
        torch.compile(f)(torch.ones(1))
    assert capsys.readouterr().out == "before\n"


# --- how functions are to run ---------------------------------------------------------------------


def test_stances():
    fast = torch.compile(lambda x: x * 2)
    one, two = torch.ones(1), torch.ones(2)
    with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="Detected recompile"):
        fast(one)
    fast(one)
    with torch.compiler.set_stance("fail_on_recompile"):
        assert fast(one).tolist() == [2.0]
    with torch.compiler.set_stance("eager_on_recompile"):
        fast(one)
        fast(two)
    assert fast.counts == {"traced": 1, "run": 3, "eager": 1}

    @torch.compiler.set_stance("force_eager")
    def eagerly():
        return fast(one)

    eagerly()
    fast(one)
    assert fast.counts == {"traced": 1, "run": 4, "eager": 2}
    late = torch.compile(lambda x: x * 2)
    with torch.compiler.set_stance("eager_then_compile"):
        late(one), late(one)
    assert late.counts == {"traced": 1, "run": 1, "eager": 1}
    with pytest.raises(RuntimeError, match="stance"):
        torch.compiler.set_stance("surely_not")


def test_reset_forgets_programs():
    fast = torch.compile(lambda x: x * 2)
    fast(torch.ones(1)), fast(torch.ones(1))
    torch.compiler.reset()
    fast(torch.ones(1))
    assert fast.counts["traced"] == 2


@pytest.mark.parametrize(
    "settings, error, text",
    [
        ({"backend": "surely_not"}, RuntimeError, "Invalid backend: 'surely_not'"),
        ({"backend": lambda graph, inputs: graph}, NotImplementedError, "lowered to XLA whole"),
        ({"dynamic": "yes"}, AssertionError, "Expected enable to be a bool"),
        ({"options": 3}, AttributeError, "items"),
        ({"mode": "fast"}, RuntimeError, "default, lite, reduce-overhead"),
        ({"shapes_spec": 1}, NotImplementedError, "shapes_spec"),
    ],
)
def test_what_compile_refuses(settings, error, text):
    with pytest.raises(error, match=text):
        torch.compile(lambda x: x, **settings)


def test_what_is_no_function():
    with pytest.raises(AssertionError, match="A callable function is expected, but <class 'int'>"):
        torch.compile(3)  # type: ignore[arg-type]


def test_the_default_backend():
    def f(x):
        return x

    assert torch.compiler.get_default_backend() == "inductor"
    torch.compiler.set_default_backend("eager")
    try:
        assert torch.compile(f) is f
    finally:
        torch.compiler.set_default_backend(None)
    assert torch.compile(f) is not f
    assert torch.compile(f)._torchdynamo_orig_callable is f


@pytest.mark.filterwarnings("ignore:.*recompile_limit")
def test_settings():
    config = torch._dynamo.config
    assert config.suppress_errors is False
    with config.patch("suppress_errors", True):
        assert config.suppress_errors is True
    with config.patch({"cache_size_limit": 2}):
        assert config.recompile_limit == 2
        fast = torch.compile(lambda x: x * 2)
        for n in (1, 2, 3):
            fast(torch.ones(n))
        assert sum(map(len, fast.entries.values())) == 2  # the first of three is forgotten
    for bad in (lambda: config.surely_not, lambda: config.patch(surely_not=1)):
        with pytest.raises(AttributeError, match=r"torch\._dynamo\.config\.surely_not"):
            bad()
    with pytest.raises(TypeError, match="must be bool"):
        config.suppress_errors = 1


def test_numpy_functions_over_tensors():
    twice = torch.compiler.wrap_numpy(lambda a, b: {"sum": a + b["x"]})
    assert twice(torch.ones(2), {"x": torch.ones(2)})["sum"].tolist() == [2.0, 2.0]


# --- methods and modules --------------------------------------------------------------------------


def test_methods_of_all_kinds():
    class Model:
        k = 2

        @torch.compile
        def plain(self, x):
            return x * self.k

        @staticmethod
        @torch.compile
        def alone(x):
            return x + 1

        @classmethod
        @torch.compile
        def of_class(cls, x):
            return x * cls.k

    model = Model()
    one = torch.ones(())
    assert (model.plain(one), Model.alone(one), Model.of_class(one)) == (2.0, 2.0, 2.0)
    assert model.plain.__name__ == "plain"
    assert model.plain.__self__ is model


def test_attributes_of_a_compiled_module_are_the_originals():
    plain = torch.nn.Linear(2, 2)
    model = torch.compile(plain)
    model.note = "n"
    assert plain.note == "n"
    model.weight = torch.nn.Parameter(torch.ones(2, 2))
    assert plain.weight.tolist() == [[1.0, 1.0]] * 2
    model.eval()
    assert not plain.training
    plain.train()
    assert model.training
    model.register_buffer("extra", torch.ones(1))
    assert list(model.state_dict()) == ["extra", "_orig_mod.weight", "_orig_mod.bias"]
    del model.weight
    assert not hasattr(plain, "weight")
    with pytest.raises(AttributeError, match="'Linear' object has no attribute 'surely_not'"):
        model.surely_not


def test_hooks_around_and_inside():
    plain, called = torch.nn.Linear(2, 2), []
    model = torch.compile(plain)
    model.register_forward_hook(lambda *_: called.append("outer"))
    plain.register_forward_hook(lambda *_: called.append("inner"))
    for _ in range(RUNS):
        model(torch.ones(1, 2))
    assert called == ["inner", "outer"] * RUNS


def test_what_is_replaced_while_tracing_comes_back_when_threads_overlap():
    before = (print, time.time, warnings.warn, logging.Logger.handle)
    started, first_done = threading.Event(), threading.Event()
    said = []

    def early(x):
        started.wait(10)
        print("early")
        return x + 1

    def late(x):
        started.set()
        first_done.wait(10)
        said.append("late")
        return x + 2

    def run_early():
        torch.compile(early)(torch.ones(2))
        first_done.set()

    threads = [threading.Thread(target=run_early), threading.Thread(target=torch.compile(late), args=(torch.ones(2),))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert (print, time.time, warnings.warn, logging.Logger.handle) == before
    assert said == ["late"]
