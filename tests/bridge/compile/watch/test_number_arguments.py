"""Python numbers among the arguments of a compiled function are inputs of its program."""

import collections
import copy
import math
import threading
import warnings

import pytest

import torchgrad_jax as torch
from tests.bridge.compile.watch.test_carried_numbers import plain, same

X = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def written(x, n):
    y = x.clone()
    y[0] = n
    return y


INPUTS = {
    "a factor": lambda x, n: x * n,
    "on the left": lambda x, n: n - x / n,
    "of whole numbers": lambda x, n: x.long() * n,
    "of bools": lambda x, n: (x > 2) * n,
    "of half precision": lambda x, n: x.half() * n,
    "an exponent": lambda x, n: x**n + n**x,
    "a comparison": lambda x, n: (x > n, x == n),
    "a bound": lambda x, n: (x.clamp(min=n), torch.clamp(x, -n, n)),
    "a weight": lambda x, n: (x.add(x, alpha=n), torch.lerp(x, x * 2, n), x.addcmul(x, x, value=n)),
    "in place": lambda x, n: x.clone().mul_(n).fill_(n),
    "an element": written,
    "filled in": lambda x, n: (torch.where(x > 2, x, n), x.masked_fill(x > 2, n)),
    "a tensor of its own": lambda x, n: (torch.tensor(n) * x, torch.full((2,), n), torch.as_tensor(n)),
    "arithmetic of Python": lambda x, n: x * (n + 1) / (2 * n) + abs(-n),
    "the math module": lambda x, n: x * math.sqrt(n) + math.log(n),
    "an imaginary part": lambda x, n: x * (n * 1j),
    "given back": lambda x, n: {"x": x, "n": [n, (n * 2, n / 3)]},
}
VALUES = {"int": list(range(1, 21)), "float": [0.25 * k for k in range(1, 21)]}


def described(out):
    """Values, dtypes of tensors and types of numbers."""
    if isinstance(out, tuple | list):
        return type(out)(map(described, out))
    if isinstance(out, dict):
        return {k: described(v) for k, v in out.items()}
    return (str(out.dtype), rounded(out.tolist())) if isinstance(out, torch.Tensor) else out


def rounded(x):
    if isinstance(x, list):
        return [rounded(v) for v in x]
    if isinstance(x, complex):
        return [rounded(x.real), rounded(x.imag)]
    return float(f"{x:.5g}") if isinstance(x, float) else x


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("name", INPUTS)
def test_twenty_values_are_one_program(name, kind):
    f = torch.compile(INPUTS[name])
    for n in VALUES[kind]:
        found, want = described(f(X, n)), described(INPUTS[name](X, n))
        assert same(found, want), f"{n}: {found} is not {want}"
    assert f.counts == {"traced": 1, "run": 20, "eager": 0}, f.reasons


CONSTANTS = {
    "a branch": (lambda x, n: x if n > 10 else -x, 2),
    "one of two": (lambda x, n: x * max(n, 10), 2),
    "whether it is odd": (lambda x, n: x * (3 if n % 2 else 4), 2),
    "a size": (lambda x, n: torch.ones(n).sum() + x, 20),
    "a loop": (lambda x, n: sum(x for _ in range(n)), 20),
    "a text": (lambda x, n: (x, f"{n}"), 20),
    "an index": (lambda x, n: x[:, n % 3], 3),
    "a setting of an op": (lambda x, n: torch.nn.functional.elu(x - 3, n), 20),
    "a type": (lambda x, n: x * 2 if type(n) is int else x, 20),
    "a result that may hide it": (lambda x, n: (x, frozenset([n])), 20),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_where_the_value_decides_a_program_is_for_that_value(name):
    fn, programs = CONSTANTS[name]
    f = torch.compile(fn)
    for _ in range(2):
        for n in VALUES["int"]:
            assert same(described(f(X, n)), described(fn(X, n)))
    assert f.counts["eager"] == 0
    assert f.counts["traced"] <= programs, f.reasons


def test_the_reason_names_the_argument_and_the_line():
    f = torch.compile(lambda x, n: x * len(range(n)))
    f(X, 2), f(X, 3)
    assert f.reasons[0].startswith("argument 'n' was 2 and is 3; its value is needed at ")
    assert "test_number_arguments.py:" in f.reasons[0]
    g = torch.compile(lambda x, n: x if n > 2 else -x)
    g(X, 2), g(X, 3)
    assert "depends on numbers among its arguments at" in g.reasons[0]
    assert "test_number_arguments.py:" in g.reasons[0]


def test_other_types_of_numbers_are_other_programs():
    f = torch.compile(lambda x, n: x.long() * n)
    for n in (2, 2.0, True, 2 + 0j, 3, 3.0, False, 1j):
        assert f(X, n).dtype == (X.long() * n).dtype
        assert f(X, n).tolist() == (X.long() * n).tolist()
    assert f.counts["traced"] == 5  # a bool is a constant: code asks for one with `is`


@pytest.mark.parametrize("n", [0.0, -0.0, float("inf"), float("nan"), 1e300, 1 << 62, -3])
def test_numbers_of_all_kinds(n):
    f = torch.compile(lambda x, n: (torch.as_tensor(x.double() * n), n))
    f(X, type(n)(1))
    found, given = f(X, n)
    torch.testing.assert_close(found, X.double() * n, rtol=0, atol=0, equal_nan=True)
    assert type(given) is type(n)
    assert same(given, n) or n != n


def test_numbers_in_containers_are_inputs_too():
    def fn(x, options, *, pair):
        return x * options["scale"] + options["more"][0] * pair[1]

    f = torch.compile(fn)
    for k in range(1, 8):
        options, pair = {"scale": k * 0.5, "more": [k, "text"]}, (0.5, k * 1.5)
        assert f(X, options, pair=pair).tolist() == fn(X, options, pair=pair).tolist()
        assert options == {"scale": k * 0.5, "more": [k, "text"]}
        assert type(options["scale"]) is float
    assert f.counts["traced"] == 1


def test_one_container_given_twice_is_no_promise_for_the_next_call():
    f = torch.compile(lambda x, a, b: x * a["n"] - b["n"])
    once = {"n": 2.0}
    assert f(X, once, once).tolist() == (X * 2 - 2).tolist()
    assert f(X, {"n": 3.0}, {"n": 4.0}).tolist() == (X * 3 - 4).tolist()


def test_a_container_that_the_function_reaches_otherwise_as_well():
    config = {"n": 2.0}
    f = torch.compile(lambda x, options: x * config["n"])
    assert f(X, config).tolist() == (X * 2).tolist()
    assert f(X, {"n": 5.0}).tolist() == (X * 2).tolist()


def test_writing_to_an_argument_is_done_in_each_call():
    def fn(x, state):
        state["n"] = state["n"] + 1
        return x * state["n"]

    f = torch.compile(fn)
    state = {"n": 1}
    for k in range(3):
        assert f(X, state).tolist() == (X * (k + 2)).tolist()
        assert state == {"n": k + 2}


def test_a_number_that_is_stored_is_stored_in_each_call():
    class Owner:
        last = 0.0
        twice = 0.0

        def step(self, x, n):
            self.last = n
            self.twice = n * 2
            return x * n

    eager, owner = Owner(), Owner()
    f = torch.compile(owner.step)
    for n in (0.5, 0.5, 0.25, 4.0, 4.0, -1.0):
        assert f(X, n).tolist() == eager.step(X, n).tolist()
        assert (owner.last, owner.twice) == (eager.last, eager.twice)
        assert type(owner.last) is float
    assert f.counts == {"traced": 1, "run": 5, "eager": 1}, f.reasons  # the first call makes the attributes


def test_a_new_attribute_gets_the_number_of_each_call():
    class Owner:
        def step(self, x, n):
            self.last = n
            return x * n

    owner = Owner()
    f = torch.compile(owner.step)
    for n in (0.5, 0.5, 0.25, 4.0):
        f(X, n)
        assert owner.last == n
    assert f.counts["traced"] <= 3, f.reasons


def _nested_entry(held, n):
    held["inner"]["n"] = n


def _new_entry(held, n):
    held["new"] = n + 1


def _slice(held, n):
    held["list"][:1] = [n]


PUT_INTO_CONTAINERS = {
    "an entry of a dict": lambda held, n: held.__setitem__("n", n),
    "an entry of a dict in a dict": _nested_entry,
    "a new entry": _new_entry,
    "an update": lambda held, n: held.update(n=n, other=n * 2),
    "an entry of a list in a dict": lambda held, n: held["list"].__setitem__(0, n),
    "a slice of a list": _slice,
    "an entry of a list in a list": lambda held, n: held["list"][1].__setitem__(0, n),
}


@pytest.mark.parametrize("name", PUT_INTO_CONTAINERS)
def test_a_container_gets_the_number_of_each_call(name):
    """In the first call it is equal to the number that is there already."""
    put = PUT_INTO_CONTAINERS[name]
    start = {"n": 2, "inner": {"n": 2}, "list": [2, [2]]}
    held, expected = copy.deepcopy(start), copy.deepcopy(start)

    @torch.compile
    def step(x, n):
        put(held, n)
        return x * n

    for n in (2, 2, 3, 1, 1, 5):
        step(X, n)
        put(expected, n)
        assert held == expected
    assert step.counts["traced"] <= 3, step.reasons


class Record:
    """An object of the user's that holds a number."""

    def __init__(self, n):
        self.n = n


PUT_INTO_NEW_OBJECTS = {
    "an object": lambda held, n: held.update(last=Record(n)),
    "an object in a list": lambda held, n: held["list"].append(Record(n)),
    "a closure": lambda held, n: held.update(last=lambda: n),
    "a deque": lambda held, n: held.update(last=collections.deque([n], maxlen=2)),
    "a class derived from dict": lambda held, n: held.update(last=collections.Counter(n=n)),
}


@pytest.mark.parametrize("counted", [False, True], ids=["an argument", "a counter"])
@pytest.mark.parametrize("name", PUT_INTO_NEW_OBJECTS)
def test_new_objects_hold_plain_numbers(name, counted):
    put = PUT_INTO_NEW_OBJECTS[name]
    held = {"list": [], "n": 0}

    @torch.compile
    def step(x, n):
        held["n"] += 1
        put(held, held["n"] if counted else n)
        return x * 2

    def number_in(kept):
        if isinstance(kept, Record):
            return kept.n
        return kept() if callable(kept) else next(iter(kept.values() if isinstance(kept, dict) else kept))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i, n in enumerate((2, 2, 3, 1, 1, 5)):
            step(X, n)
            found = number_in(held["list"][-1] if held["list"] else held["last"])
            assert (found, type(found)) == (i + 1 if counted else n, int)


def test_an_object_that_is_returned_holds_plain_numbers():
    held = {"n": 0}

    @torch.compile
    def step(x):
        held["n"] += 1
        return Record((x * 2, held["n"]))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [step(X).n[1] for _ in range(6)]
    assert [(n, type(n)) for n in found] == [(i, int) for i in range(1, 7)]


def test_what_is_drawn_with_a_number_is_drawn_with_that_of_the_call():
    fn = lambda x, p: (torch.nn.functional.dropout(x, p), torch.normal(0.0, p, (2,)))  # noqa: E731
    f = torch.compile(fn)
    for p in (0.1, 0.9, 0.5, 0.1):
        torch.manual_seed(3)
        want = plain(fn(torch.ones(50), p))
        torch.manual_seed(3)
        assert same(plain(f(torch.ones(50), p)), want)


def test_gradients_with_a_number_and_through_the_compiled_call():
    def loss(w, scale):
        return (w.tanh() * scale).pow(2).sum()

    f = torch.compile(loss)
    for scale in (0.5, 1.0, 3.0):
        w, v = (torch.tensor([0.5, -1.0], requires_grad=True) for _ in range(2))
        found = torch.autograd.grad(f(w, scale), w, create_graph=True)[0]
        want = torch.autograd.grad(loss(v, scale), v, create_graph=True)[0]
        torch.testing.assert_close(found.detach(), want.detach())
        found.sum().backward()
        want.sum().backward()
        torch.testing.assert_close(w.grad, v.grad)
    assert f.counts["traced"] == 1


def test_a_training_step_with_a_rate_of_its_own():
    def made():
        w = torch.ones(3, requires_grad=True)
        opt = torch.optim.AdamW([w])

        def step(x, lr, i):
            for group in opt.param_groups:
                group["lr"] = lr
            opt.zero_grad()
            loss = ((x @ w) ** 2).mean() / (i + 1)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_([w], 1.0 + lr)
            opt.step()
            return loss.detach(), norm, lr

        return w, step

    w, step = made()
    v, eager = made()
    f = torch.compile(step)
    for i in range(20):
        found, want = f(X, 0.1 / (i + 1), i), eager(X, 0.1 / (i + 1), i)
        torch.testing.assert_close(found, want)
    torch.testing.assert_close(w.detach(), v.detach())
    assert f.counts["traced"] <= 2, f.reasons


def test_an_error_is_that_of_the_function_and_leaves_all_as_it_was():
    seen = []

    def fn(x, n):
        seen.append(n)
        if n > 2:
            raise ValueError(f"{n} is too large")
        return x * n

    f = torch.compile(fn)
    with pytest.raises(ValueError, match="3 is too large"):
        f(X, 3)
    assert seen == []


def test_two_threads_read_numbers_of_their_own():
    f = torch.compile(lambda x, n: x * (n + 1))
    f(X, 1)
    wrong = []

    def work(n):
        found = [f(X, n)[0, 0].item() for _ in range(200)]
        wrong.extend(x for x in found if x != n + 1)

    threads = [threading.Thread(target=work, args=(n,)) for n in (2, 3, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
    assert f.counts["traced"] == 1, f.reasons


REPEATED = {
    "twice": lambda x, y, n: (x, x, n),
    "in a list": lambda x, y, n: ([x, y, x], y, n),
    "in a dict after numbers": lambda x, y, n: ({"n": n, "x": x}, x, n + 1),
    "required to have a gradient": lambda x, y, n: ((w := x.clone().requires_grad_()), w, n),
}


def _sum_of_all(a, b, n):
    parts = a.values() if isinstance(a, dict) else a if isinstance(a, list) else [a]
    return sum(p * n for p in parts) + b, n + 1, b


@pytest.mark.parametrize("name", REPEATED)
def test_a_tensor_may_be_given_twice_beside_numbers(name):
    f = torch.compile(_sum_of_all)
    for n in (2, 3, 4):
        args = REPEATED[name](X * n, X + 1, n)
        (got, more, b), want = f(*args), _sum_of_all(*args)
        assert b is args[1]
        assert (got.tolist(), more) == (want[0].tolist(), want[1])
        assert got.requires_grad == want[0].requires_grad
    assert f.counts == {"traced": 1, "run": 3, "eager": 0}
