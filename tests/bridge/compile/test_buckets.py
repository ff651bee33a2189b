"""`compile(..., buckets=...)` pads named dimensions to a few sizes, and gives the function a mask."""

import itertools

import jax
import pytest

import torchgrad_jax as torch
from torchgrad_jax._core.jax import programs_ahead

SHAPES = {"x": "_, length", "y": "_, length"}


def bucketed(f, sizes=(4, 8), shapes=None, **settings):
    return torch.compile(f, buckets={"length": sizes}, shapes=shapes or SHAPES, **settings)


def error(x, y, length_mask):
    return ((x - y).square() * length_mask).sum() / (length_mask.sum() * len(x))


@pytest.mark.parametrize("device", ["kept", "needs a gradient"])
def test_sizes_share_the_program_of_their_bucket(device):
    f = bucketed(error)
    for n in (1, 3, 4, 5, 8):
        x = torch.randn(2, n, requires_grad=device != "kept")
        y = torch.randn(2, n)
        found, wanted = f(x, y), (x - y).square().mean()
        torch.testing.assert_close(found, wanted)
        if x.requires_grad:
            (g,), (h,) = (torch.autograd.grad(t, x) for t in (found, wanted))
            torch.testing.assert_close(g, h)
    assert f.counts["traced"] == 2


def test_a_whole_step_with_two_names():
    w = torch.zeros(3, requires_grad=True)
    opt = torch.optim.SGD([w], lr=0.1)

    def step(x, y, rows_mask, length_mask):
        opt.zero_grad()
        loss = ((x @ w - y).square() * rows_mask[:, None] * length_mask).sum() / rows_mask.sum()
        loss.backward()
        opt.step()
        return loss

    shapes = {"x": "rows, length, _", "y": "rows, length"}
    run = torch.compile(step, buckets={"rows": [4], "length": [8, 2]}, shapes=shapes)
    got = []
    for rows, length in [(1, 2), (3, 1), (4, 5), (2, 8)]:
        x, y = torch.randn(rows, length, 3), torch.randn(rows, length)
        before = w.detach().clone()
        loss = run(x, y)
        torch.testing.assert_close(loss, ((x @ before - y) ** 2).sum() / rows)
        got.append(w.detach().clone())
    assert not any(torch.equal(a, b) for a, b in itertools.pairwise(got))
    assert run.counts["traced"] == 2


def test_by_keyword_with_kwargs_in_methods_and_decorated():
    class Model:
        @torch.compile(buckets={"length": 4}, shapes={"x": "..., length"})
        def masked_sum(self, x, scale=1.0, **masks):
            return (x * masks["length_mask"]).sum(-1) * scale + (~masks["length_mask"]).sum()

    assert Model().masked_sum(x=torch.ones(2, 1, 3), scale=2.0).tolist() == [[7.0], [7.0]]


def test_many_and_lower():
    f = bucketed(error)
    xs, ys = torch.randn(3, 2, 5), torch.randn(3, 2, 5)
    torch.testing.assert_close(f.many(xs, ys), (xs - ys).square().mean((1, 2)))
    assert "2x8" in f.lower(xs[0], ys[0]).as_text()


def test_a_file_has_the_program_of_the_bucket_that_arguments_are_padded_to(tmp_path, monkeypatch):
    """And a step that loads the files of all its buckets compiles none of their programs."""
    added = {}
    monkeypatch.setattr(programs_ahead, "add", lambda key, value: added.update({key: value}))
    f = bucketed(error)
    for columns in (3, 4, 7):
        f.save(tmp_path / f"{columns}.bin", torch.ones(2, columns), torch.ones(2, columns))
        f.load(tmp_path / f"{columns}.bin")
    assert len(added) == 2
    assert f.counts["run"] == 0
    low = f.lower(torch.ones(2, 6), torch.ones(2, 6))
    kind = programs_ahead.kind_of(jax.local_devices()[0])
    assert programs_ahead.key_of(low.as_jax().compiler_ir("stablehlo"), kind) in added
    with pytest.raises(ValueError, match=r"more than the largest of its buckets"):
        f.save(tmp_path / "none.bin", torch.ones(2, 9), torch.ones(2, 9))
    assert not (tmp_path / "none.bin").exists()


def test_the_mask_is_where_its_argument_is():
    """A mask on another device than the tensors could not be multiplied by them."""
    f = bucketed(error)
    x = torch.empty(2, 3, device="meta")
    assert f(x, x).device.type == "meta"
    with torch.device("meta"):
        assert f(torch.ones(2, 3, device="cpu"), torch.zeros(2, 3, device="cpu")).item() == 1.0


REFUSED = {
    "too long": (
        lambda: bucketed(error)(torch.ones(1, 9), torch.ones(1, 9)),
        ValueError,
        "'length' is 9 in x.*largest.*8",
    ),
    "two sizes": (lambda: bucketed(error)(torch.ones(1, 3), torch.ones(1, 4)), ValueError, "3 in x and 4 in y"),
    "rank": (lambda: bucketed(error)(torch.ones(3), torch.ones(3)), ValueError, "says '_, length' of x"),
    "no tensor": (lambda: bucketed(error)(1.0, torch.ones(1, 3)), TypeError, "x, which has to be a tensor"),
    "a mask by hand": (
        lambda: bucketed(error)(torch.ones(1, 3), torch.ones(1, 3), torch.ones(3)),
        TypeError,
        "length_mask is given",
    ),
    "no mask taken": (lambda: bucketed(lambda x, y: x), ValueError, "has to take length_mask"),
    "unknown argument": (lambda: bucketed(error, shapes={"z": "length"}), ValueError, "names the argument 'z'"),
    "unknown name": (lambda: bucketed(error, shapes={"x": "_, width"}), ValueError, "without buckets"),
    "unused name": (lambda: bucketed(error, shapes={"x": "_, _"}), ValueError, "no argument has"),
    "no sizes": (lambda: bucketed(error, ()), ValueError, "are sizes"),
    "a module": (lambda: bucketed(torch.nn.Linear(1, 1)), TypeError, "that calls the module"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    make, kind, told = REFUSED[case]
    with pytest.raises(kind, match=told):
        make()


WRITES = {
    "in place": lambda x, length_mask: x.mul_(2).sum(),
    "to a part": lambda x, length_mask: x[:, 1:].add_(length_mask[1:] * 3.0).sum(),
    "to the first element": lambda x, length_mask: (x[0].fill_(-1), x * 2)[1].sum(),
    "not at all": lambda x, length_mask: (x * 2).sum(),
}


@pytest.mark.parametrize("name", WRITES)
def test_what_is_written_to_an_argument_arrives_there_whether_it_is_padded_or_not(name):
    f = torch.compile(WRITES[name], buckets={"length": (4, 8)}, shapes={"x": "_, length"})
    for n in (3, 4, 5, 3):
        x, want = torch.arange(2.0 * n).view(2, n), torch.arange(2.0 * n).view(2, n)
        f(x)
        WRITES[name](want, torch.ones(n, dtype=torch.bool))
        assert x.tolist() == want.tolist()
        assert (x._version > 0) == (want._version > 0)
    xs, want = torch.ones(2, 2, 3), torch.ones(2, 2, 3)
    f.many(xs)
    for row in want:
        WRITES[name](row, torch.ones(3, dtype=torch.bool))
    assert xs.tolist() == want.tolist()


@pytest.mark.filterwarnings("ignore:torch.compile")
def test_a_write_to_a_padded_leaf_that_requires_a_gradient_raises():
    f = torch.compile(lambda x, length_mask: x.mul_(2).sum(), buckets={"length": (4,)}, shapes={"x": "length"})
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        f(x)
    assert x.tolist() == [1.0] * 3
