"""Exported functions: dimensions of any size, containers, platforms, gradients, processes without this package."""

import dataclasses
import io
import subprocess
import sys
from collections import OrderedDict, defaultdict, namedtuple
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import pytest

import torchgrad_jax as torch
from torchgrad_jax import nn

pytest.importorskip("flatbuffers")
F = nn.functional


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def last_state():
    layer = nn.LSTM(3, 4, batch_first=True)
    return lambda x: layer(x)[0][:, -1]


def sizes_as_numbers(x):
    n = x.shape[0]
    return x / n, x.reshape(-1), torch.arange(n), torch.zeros(n, 2), x.mean(), x.var(0)


ANY_SIZE = {
    "mlp": (lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), (4, 3), "b, ...", (6, 3)),
    "convolution": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 2)),
        (4, 1, 8, 8),
        "b, ...",
        (2, 1, 8, 8),
    ),
    "image of any size": (lambda: nn.Conv2d(1, 2, 3, padding=1), (1, 1, 8, 8), "b, _, h, w", (2, 1, 5, 9)),
    "transformer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(),
        (4, 5, 8),
        "b, t, _",
        (3, 7, 8),
    ),
    "recurrent": (last_state, (4, 5, 3), "b, ...", (2, 5, 3)),
    "sizes as numbers": (lambda: sizes_as_numbers, (4, 3), "b, ...", (9, 3)),
    "product of sizes": (lambda: lambda x: x.flatten() * x.shape[1], (4, 3), "b, n", (2, 5)),
    "targets": (lambda: lambda x: F.cross_entropy(x, torch.zeros(len(x), dtype=torch.long)), (4, 3), "b, _", (7, 3)),
    "causal attention": (
        lambda: lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
        (2, 2, 4, 8),
        "b, _, t, _",
        (1, 2, 9, 8),
    ),
    "multiples": (lambda: lambda x: x.view(-1, 4).sum(0), (8,), "4*n", (20,)),
    "running statistics": (lambda: nn.BatchNorm1d(3), (4, 3), "b, _", (6, 3)),
    "sums": (lambda: lambda x: (x.cumsum(0) @ x.T).tril(), (4, 3), "b, _", (6, 3)),
}


@pytest.mark.parametrize("name", ANY_SIZE)
def test_any_size(name):
    """What is exported at one size gives at others what the function itself gives there."""
    make, shape, text, other = ANY_SIZE[name]
    f = make()
    exported = torch.interop.export(f, torch.randn(shape), shapes=[text])
    for size in (other, shape):
        x = torch.randn(size)
        with torch.no_grad():
            torch.testing.assert_close(exported(x), f(x))


def test_constraints():
    with pytest.raises(RuntimeError, match=r"'b - 1' >= '1' is inconclusive.*constraints="):
        torch.interop.export(lambda x: x[1:].cumsum(0), torch.ones(4, 3), shapes=["b, _"])
    f = torch.interop.export(lambda x: x[1:].cumsum(0), torch.ones(4, 3), shapes=["b, _"], constraints=["b >= 2"])
    x = torch.randn(6, 3)
    torch.testing.assert_close(f(x), x[1:].cumsum(0))


REFUSED = {
    "another course": (lambda x: x * 2 if len(x) > 6 else x, "something else at another size of b"),
    "another course at the size of the argument": (lambda x: x * min(len(x), 5), "something else at another size of b"),
    "odd or even": (lambda x: x * (len(x) % 2), "something else at another size of b"),
    "a flag": (lambda x: x * (len(x) > 6), "something else at another size of b"),
    "nearly the size": (lambda x: x * (len(x) + 0.0003), "something else at another size of b"),
    "halves": (lambda x: torch.zeros(len(x) // 2, 2), "something else at another size of b"),
    "a number by another rule": (lambda x: x * len(x) ** 0.5, "something else at another size of b"),
    "results of another form": (lambda x: list(x), "another form at another size"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_depends_on_the_size_is_refused(name):
    f, text = REFUSED[name]
    with pytest.raises(RuntimeError, match=text):
        torch.interop.export(f, torch.ones(4, 3), shapes=["b, _"])


@pytest.mark.parametrize(
    "shapes", [["b"], ["b, 4"], ["3*b, _"], [["b"]], ["b c, _"], ["b, _", "c"], ["b**2, _"]], ids=str
)
def test_dimensions_that_do_not_fit(shapes):
    with pytest.raises(ValueError, match="export: "):
        torch.interop.export(torch.sin, torch.ones(4, 3), shapes=shapes)


def test_sizes_of_one_name_are_equal():
    with pytest.raises(ValueError, match="do not fit"):
        torch.interop.export(torch.add, torch.ones(4, 1), torch.ones(1, 3), shapes=["b, _", "b, n"])
    exported = torch.interop.export(torch.add, torch.ones(4, 1), torch.ones(4, 3), shapes=["b, _", "b, n"])
    assert exported(torch.ones(2, 1), torch.ones(2, 5)).shape == (2, 5)
    with pytest.raises(RuntimeError, match=r"shapes \[\('b', 1\), \('b', 'n'\)\], called with"):
        exported(torch.ones(2, 1), torch.ones(3, 5))


@dataclasses.dataclass
class Prediction:
    scores: Any
    about: dict


Pair = namedtuple("Pair", "first second")


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g * 5


def predicting():
    net = nn.Linear(3, 2)

    def predict(batch, scale, *, shift=None):
        scores = net(batch["x"]) * scale + shift
        return Prediction(scores, {"rounded": Rounded.apply(batch["x"]), "pair": Pair(batch["ids"] + 1, "ids")})

    return net, predict


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    torch.manual_seed(0)
    net, predict = predicting()
    batch = {"x": torch.randn(4, 3), "ids": torch.arange(4)}
    made = torch.interop.export(
        predict, batch, 2.0, kwargs={"shift": torch.ones(2)}, shapes=[{"x": "b, _", "ids": "b"}, None], gradients=True
    )
    path = tmp_path_factory.mktemp("exported") / "f"
    made.save(path)
    return net, made, path


@pytest.mark.parametrize("loaded", [False, True], ids=["made", "loaded"])
def test_containers_and_gradients(exported, loaded):
    net, f, path = exported
    if loaded:
        f = torch.interop.load_exported(path, [Prediction, Pair])
    x, shift = torch.randn(6, 3, requires_grad=True), torch.zeros(2, requires_grad=True)
    out = f({"ids": torch.arange(6), "x": x}, 2.0, shift=shift)
    assert type(out) is Prediction
    assert type(out.about["pair"]) is Pair
    assert out.about["pair"].first.tolist() == [1, 2, 3, 4, 5, 6]
    assert out.about["pair"].second == "ids"
    (out.scores.sum() + out.about["rounded"].sum()).backward()
    want = net.weight.detach().sum(0) * 2 + 5  # the Function's own gradient
    torch.testing.assert_close(x.grad, want.expand(6, 3))
    assert shift.grad.tolist() == [6, 6]


def test_objects_of_unknown_classes_are_namespaces(exported):
    f = torch.interop.load_exported(exported[2])
    out = f({"x": torch.ones(2, 3), "ids": torch.arange(2)}, 2.0, shift=torch.ones(2))
    assert type(out).__name__ == "SimpleNamespace"
    assert out.about["pair"].second == "ids"


WRONG = {
    "another number": (
        ({"x": torch.ones(4, 3), "ids": torch.arange(4)}, 3.0),
        "exported for 2.0 as args[1], called with 3.0",
    ),
    "no key": (({"x": torch.ones(4, 3)}, 2.0), "exported for a dict of ['x', 'ids'] as args[0]"),
    "a list": (([torch.ones(4, 3)], 2.0), "exported for a dict of ['x', 'ids'] as args[0], called with a list of 1"),
    "too few": (({"x": torch.ones(4, 3), "ids": torch.arange(4)},), "exported for a list of 2 as args"),
    "sizes": (({"x": torch.ones(4, 3), "ids": torch.arange(5)}, 2.0), "exported for arguments of shapes"),
    "dtypes": (({"x": torch.ones(4, 3).double(), "ids": torch.arange(4)}, 2.0), "exported for arguments of dtypes"),
}


@pytest.mark.parametrize("name", WRONG)
def test_calls_that_do_not_fit(exported, name):
    args, text = WRONG[name]
    with pytest.raises((TypeError, RuntimeError)) as e:
        exported[1](*args, shift=torch.ones(2))
    assert text in str(e.value)


def test_what_cannot_be_an_argument():
    with pytest.raises(TypeError, match="the arguments hold a object"):
        torch.interop.export(lambda x, y: x, torch.ones(2), object())
    with pytest.raises(TypeError, match="the results hold a set"):
        torch.interop.export(lambda x: {1}, torch.ones(2))


def test_gradients_that_were_not_exported_are_not_zero():
    f = torch.interop.export(torch.sin, torch.ones(2))
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="exported without gradients"):
        f(x)
    with torch.no_grad():
        torch.testing.assert_close(f(x), x.sin())
    twice = torch.interop.export(lambda x: (x**3).sum(), torch.ones(2), gradients=True)
    with pytest.raises(RuntimeError, match="first order only"):
        torch.autograd.grad(twice(x), x, create_graph=True)


def test_state_and_gradients_of_a_training_layer(tmp_path):
    layer = nn.BatchNorm1d(3)
    f = torch.interop.export(layer, torch.randn(4, 3), shapes=["b, _"], gradients=True)
    f.save(tmp_path / "f")
    for g in (f, torch.interop.load_exported(tmp_path / "f")):
        x = torch.randn(6, 3, requires_grad=True)
        twin = nn.BatchNorm1d(3)
        (found,) = torch.autograd.grad(g(x).pow(3).sum(), x)
        (want,) = torch.autograd.grad(twin(x).pow(3).sum(), x)
        torch.testing.assert_close(found, want)
        kept = [a.tolist() for a in g.state]
        assert twin.running_mean.tolist() in [pytest.approx(a) for a in kept if isinstance(a, list)]


def test_several_platforms(tmp_path):
    f = torch.interop.export(torch.sin, torch.ones(2), shapes=["n"], platforms=["cpu", "cuda", "tpu"])
    f.save(tmp_path / "f")
    again = torch.interop.load_exported(tmp_path / "f")
    assert again.platforms == ("cpu", "cuda", "tpu")
    torch.testing.assert_close(again(torch.ones(3)), torch.ones(3).sin())


READER = """
import io, sys, zipfile
sys.modules["torchgrad_jax"] = sys.modules["torch"] = None  # there is no such package
import jax, jax.export, numpy as np
with zipfile.ZipFile(sys.argv[1]) as file:
    program = jax.export.deserialize(bytearray(file.read("program")))
    gradient = jax.export.deserialize(bytearray(file.read("gradient")))
    names = sorted((n for n in file.namelist() if n.startswith("state/")), key=lambda n: int(n[6:-4]))
    state = [np.load(io.BytesIO(file.read(n))) for n in names]
x = np.ones((5, 3), np.float32)
(y,) = program.call(state, [x])
(g,) = gradient.call(state, [x, np.ones_like(y)])
print(y.shape, g.shape)
"""


def test_a_process_without_this_package(tmp_path):
    net = nn.Linear(3, 2)
    torch.interop.export(net, torch.ones(2, 3), shapes=["b, _"], gradients=True).save(tmp_path / "f")
    run = subprocess.run(
        [sys.executable, "-c", READER, str(tmp_path / "f")], capture_output=True, text=True, check=False
    )
    assert run.stdout == "(5, 2) (5, 3)\n", run.stderr


def test_files_that_are_open(tmp_path):
    f, x = torch.interop.export(torch.sin, torch.ones(2)), torch.tensor([0.5, 2.0])
    want = torch.sin(x).tolist()
    with io.BytesIO() as in_memory, open(tmp_path / "f", "w+b") as on_disk:
        for file in (in_memory, on_disk):
            f.save(file)
            file.seek(0)
            assert torch.interop.load_exported(file)(x).tolist() == want
            assert not file.closed
    with open(tmp_path / "f", "rb") as file:
        assert torch.interop.load_exported(file)(x).tolist() == want


@pytest.mark.parametrize("name", ["save", "load_exported"])
def test_without_flatbuffers(monkeypatch, name, tmp_path):
    f = torch.interop.export(torch.sin, torch.ones(2))
    f.save(tmp_path / "f")
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n, *a: None if n == "flatbuffers" else find(n, *a))
    call = {
        "save": lambda: f.save(tmp_path / "g"),
        "load_exported": lambda: torch.interop.load_exported(tmp_path / "f"),
    }
    with pytest.raises(ModuleNotFoundError, match=f"{name}: .*pip install flatbuffers"):
        call[name]()


def test_programs_of_jax_itself_are_what_is_written():
    f = torch.interop.export(torch.sin, torch.ones(2))
    assert isinstance(f.program, jax.export.Exported)


def test_a_training_step_for_any_batch():
    """What its backward pass is made of does not depend on how often such a pass has run."""
    net = nn.Linear(3, 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    def batch(n):
        return torch.randn(n, 3), torch.randn(n, 1)

    for n in (4, 4, 4, 8, 8, 8):
        step(*batch(n))
    exported = torch.interop.export(step, *batch(4), shapes=["b, _", "b, _"])
    for n in (2, 9):
        x, y = batch(n)
        torch.testing.assert_close(exported(x, y), step(x, y).detach())


X = torch.arange(3.0)
SHARED = {
    "twice the same": ((X, X), (torch.ones(3), torch.full((3,), 2.0))),
    "views of one": ((X[:2], X[1:]), (torch.ones(2), torch.zeros(2))),
    "expanded": ((torch.ones(1).expand(3), X), (X, torch.ones(3))),
    "meta": ((torch.ones(3, device="meta"), X), (X, torch.ones(3))),
}


@pytest.mark.parametrize("name", SHARED)
def test_memory_of_the_arguments_is_not_part_of_the_program(name):
    given, other = SHARED[name]
    exported = torch.interop.export(lambda a, b: a * 3 + b, *given, gradients=True)
    torch.testing.assert_close(exported(*other), other[0] * 3 + other[1])
    assert X.tolist() == [0, 1, 2]


DTYPES = [
    torch.bfloat16,
    torch.float16,
    torch.float8_e5m2,
    torch.float8_e4m3fn,
    torch.int8,
    torch.uint16,
    torch.bool,
    torch.complex64,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes_of_the_state(dtype, tmp_path):
    kept = torch.tensor([1, 0, 2]).to(dtype)
    torch.interop.export(lambda x: torch.cat([x, kept]), kept).save(tmp_path / "f")
    out = torch.interop.load_exported(tmp_path / "f")(kept)
    assert out.dtype is dtype
    assert out.to(torch.complex64).tolist() == [*kept.to(torch.complex64).tolist()] * 2


@pytest.mark.parametrize("dtype", [torch.complex64, torch.bfloat16], ids=str)
def test_gradients_by_dtype(dtype):
    weight = torch.randn(3, 3, dtype=dtype)

    def f(x):
        return x @ weight * x.conj(), x.abs().sum()

    exported = torch.interop.export(f, torch.randn(4, 3, dtype=dtype), shapes=["b, _"], gradients=True)
    x = torch.randn(5, 3, dtype=dtype, requires_grad=True)
    slopes = torch.randn(5, 3, dtype=dtype), torch.tensor(2.0, dtype=f(x)[1].dtype)
    (found,) = torch.autograd.grad(exported(x), x, slopes)
    (want,) = torch.autograd.grad(f(x), x, slopes)
    torch.testing.assert_close(found, want)


@pytest.mark.parametrize("shapes", [None, ["b, _"]], ids=["fixed", "any"])
def test_constants_that_the_function_makes_are_no_state(shapes):
    def f(x):
        y = x * torch.tensor([1.0, 2.0, 3.0])
        total = torch.zeros(3)
        total += y.sum(0)
        return torch.maximum(total, torch.full((), -100.0))

    exported = torch.interop.export(f, torch.ones(4, 3), shapes=shapes, gradients=True)
    assert exported.state == []
    x = torch.ones(4, 3, requires_grad=True)
    exported(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[1, 2, 3]] * 4


KEY = jax.random.key(3)


@pytest.mark.parametrize("shapes", [None, ["b, _"]], ids=["fixed", "any"])
def test_random_numbers_from_a_key(shapes, tmp_path):
    net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(), nn.RReLU())
    f = torch.interop.export(net, torch.randn(4, 3), shapes=shapes, gradients=True, rngs=KEY)
    f.save(tmp_path / "f")
    for g in (f, torch.interop.load_exported(tmp_path / "f")):
        x = torch.randn(4 if shapes is None else 7, 3, requires_grad=True)
        for key in (KEY, jax.random.key(4)):
            with torch.interop.rngs(key):
                want = net(x)
            torch.testing.assert_close(g(x, rngs=key), want)
            (found,) = torch.autograd.grad(g(x, rngs=key).sum(), x)
            torch.testing.assert_close(found, torch.autograd.grad(want.sum(), x)[0])
    with pytest.raises(TypeError, match="called without rngs="):
        f(x)
    with pytest.raises(TypeError, match="a key of threefry2x32 as rngs, called with one of rbg"):
        f(x, rngs=jax.random.key(0, impl="rbg"))
    with pytest.raises(RuntimeError, match=r"draws random numbers; export.*rngs="):
        torch.interop.export(nn.Dropout(), torch.randn(4, 3))


@dataclasses.dataclass
class Output(OrderedDict):
    """As results of models often are: attributes and a dict at once."""

    logits: Any = None
    hidden: Any = None
    computed: Any = dataclasses.field(init=False, default=None)

    def __post_init__(self):
        self.update((k, v) for k, v in (("logits", self.logits), ("hidden", self.hidden)) if v is not None)


class OtherDict(dict):
    pass


def test_classes_of_containers(tmp_path):
    def f(batch):
        out = Output(batch["x"] * 2)
        out.computed = batch["x"] + 1
        return out, batch["x"].max(0), Pair(1, batch["x"])

    batch = defaultdict(list, x=torch.ones(3))
    exported = torch.interop.export(f, batch)
    exported.save(tmp_path / "f")
    classes = [Output, Pair, torch.return_types.max]
    for g in (exported, torch.interop.load_exported(tmp_path / "f", classes)):
        out, largest, pair = g(batch)
        assert type(out) is Output
        assert out["logits"].tolist() == [2, 2, 2]
        assert out.computed.tolist() == [2, 2, 2]
        assert type(largest) is torch.return_types.max
        assert type(pair) is Pair
    _, (values, indices), pair = torch.interop.load_exported(tmp_path / "f")(batch)
    assert (values.item(), indices.item(), pair.first) == (1, 0, 1)
    with pytest.raises(TypeError, match="the arguments hold a OtherDict"):
        torch.interop.export(lambda x: x["a"], OtherDict(a=torch.ones(1)))


def test_arguments_of_any_size_by_name():
    def f(x, scale, *, mask=None):
        return x * scale * mask

    x = torch.ones(4)
    exported = torch.interop.export(f, x, 2.0, kwargs={"mask": x}, shapes={"x": "n", "mask": "n"})
    assert exported(torch.ones(6), 2.0, mask=torch.ones(6)).tolist() == [2.0] * 6
    with pytest.raises(ValueError, match=r"names the argument 'maks'; there are \['x', 'scale', 'mask'\]"):
        torch.interop.export(f, x, 2.0, kwargs={"mask": x}, shapes={"maks": "n"})
    with pytest.raises(RuntimeError, match=r"kwargs\['mask'\] does not fit"):
        exported(torch.ones(6), 2.0, mask=torch.ones(5))


OPTIONS = {
    "shapes": ({"shapes": "b"}, TypeError, "shapes is a list or dict"),
    "a platform": ({"platforms": ["gpu"]}, ValueError, "platforms is a list of some of"),
    "one platform": ({"platforms": "cpu"}, ValueError, "platforms is a list of some of"),
    "no platform": ({"platforms": []}, ValueError, "platforms is a list of some of"),
    "one constraint": ({"shapes": ["b"], "constraints": "b >= 2"}, TypeError, "constraints is a list"),
    "a constraint on nothing": ({"constraints": ["b >= 2"]}, ValueError, "names b, which shapes does not"),
    "no constraint": ({"shapes": ["b"], "constraints": ["b"]}, ValueError, "constraints="),
    "kwargs": ({"kwargs": [1]}, TypeError, "kwargs is a dict"),
    "a key": ({"rngs": 1}, TypeError, "expected a key"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_that_mean_nothing(name):
    options, error, text = OPTIONS[name]
    with pytest.raises(error, match=text):
        torch.interop.export(torch.sin, torch.ones(4), **options)


NO_PROGRAM = {
    "values": lambda x: x * x.sum().item(),
    "an output of unknown size": lambda x: x.nonzero(),
    "printing": print,
}


@pytest.mark.parametrize("name", NO_PROGRAM)
def test_what_no_program_can_do(name):
    with pytest.raises(RuntimeError, match=r"^export: "):
        torch.interop.export(NO_PROGRAM[name], torch.ones(2))


def test_values_are_asked_of_no_meta_tensor():
    with pytest.raises(RuntimeError, match=r"called with one on meta as args\[0\]"):
        torch.interop.export(torch.sin, torch.ones(2))(torch.ones(2, device="meta"))


@pytest.mark.parametrize("gradients", [False, True])
def test_tangents_that_were_not_exported_are_not_zero(gradients):
    f = torch.interop.export(lambda x: x * 2, X, gradients=gradients)
    text = "no forward mode" if gradients else "exported without gradients"
    with pytest.raises((RuntimeError, NotImplementedError), match=text):
        torch.func.jvp(f, (X,), (X,))
    with pytest.raises((RuntimeError, NotImplementedError), match=text):
        jax.jvp(torch.to_jax(f), (jnp.ones(3, "float32"),), (jnp.ones(3, "float32"),))
    assert jax.jit(torch.to_jax(f))(jnp.ones(3, "float32")).tolist() == [2, 2, 2]
    if gradients:
        g = jax.grad(lambda x: torch.to_jax(f)(x).sum())(jnp.ones(3, "float32"))
        assert g.tolist() == [2, 2, 2]


def test_state_inside_of_compiled_functions():
    counter = torch.zeros((), dtype=torch.long)

    def count(x):
        counter.add_(1)
        return x * counter

    f = torch.interop.export(count, torch.ones(()))
    twice = torch.compile(lambda x: f(x) + f(x))
    assert [twice(torch.ones(())).item() for _ in range(3)] == [3, 7, 11]
    with pytest.raises(RuntimeError, match="may not write to a tensor that was made outside"):
        jax.jit(torch.to_jax(f))(jnp.ones((), "float32"))
    assert f.state[0].item() == 6


def test_a_program_in_a_file_seeds_no_generator():
    def seeded(x):
        torch.manual_seed(3)
        return x * torch.rand(2)

    with pytest.raises(RuntimeError, match="export: a program in a file has no generator"):
        torch.interop.export(seeded, torch.ones(2), rngs=KEY)
