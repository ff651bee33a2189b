"""Lengths and counts that are tensors among the arguments of a compiled function, which knows them when it runs."""

from __future__ import annotations

import warnings

import pytest

import torchgrad_jax as torch

F = torch.nn.functional
rnn = torch.nn.utils.rnn


def ints(*values, dtype=torch.int64):
    return torch.tensor(values, dtype=dtype)


def leaf(*shape):
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return values.requires_grad_()


LABELS = ints(1, 2, 3, 1).reshape(2, 2)
LOG_PROBS = leaf(5, 2, 4).detach().log_softmax(-1).requires_grad_()
ROWS = leaf(3, 2)

CALLS = {
    "ctc_loss": (F.ctc_loss, LOG_PROBS, LABELS, ints(5, 4), ints(2, 1)),
    "ctc_loss of int32": (F.ctc_loss, LOG_PROBS, LABELS.int(), ints(5, 4).int(), ints(2, 0).int()),
    "ctc_loss, some lengths known": (lambda x, n: F.ctc_loss(x, LABELS, [5, 4], n), LOG_PROBS, ints(1, 2)),
    "repeat_interleave": (lambda x, n: x.repeat_interleave(n, 0, output_size=5), ROWS, ints(2, 0, 3)),
    "repeat_interleave of columns": (lambda x, n: x.repeat_interleave(n, 1, output_size=3), ROWS, ints(1, 2)),
    "repeat_interleave of elements": (lambda x, n: x.repeat_interleave(n, output_size=4), ROWS, ints(1, 0, 1, 1, 0, 1)),
    "repeat_interleave, one count": (lambda x, n: x.repeat_interleave(n, 0, output_size=6), ROWS, ints(2)),
    "repeat_interleave, nothing": (lambda x, n: x.repeat_interleave(n, 0, output_size=0), ROWS, ints(0, 0, 0)),
    "repeat_interleave of places": (lambda x, n: x[torch.repeat_interleave(n, output_size=4)], ROWS, ints(1, 3, 0)),
}

REFUSED = {
    "ctc_loss, steps": (F.ctc_loss, LOG_PROBS, LABELS, ints(6, 4), ints(2, 1)),
    "ctc_loss, labels": (F.ctc_loss, LOG_PROBS, LABELS, ints(5, 4), ints(3, 1)),
    "ctc_loss, negative": (F.ctc_loss, LOG_PROBS, LABELS, ints(5, -4), ints(2, 1)),
    "ctc_loss, negative labels": (F.ctc_loss, LOG_PROBS, LABELS, ints(5, 4), ints(-2, 1)),
    "ctc_loss, batch": (F.ctc_loss, LOG_PROBS, LABELS, ints(5, 4, 3), ints(2, 1)),
    "repeat_interleave, total": (lambda x, n: x.repeat_interleave(n, 0, output_size=5), ROWS, ints(2, 0, 2)),
    "repeat_interleave, negative": (lambda x, n: x.repeat_interleave(n, 0, output_size=5), ROWS, ints(2, -1, 4)),
}


def with_gradient(f):
    def run(x, *args):
        out = f(x, *args)
        return out, *torch.autograd.grad(out.square().sum(), x)

    return run


@pytest.mark.parametrize("name", CALLS)
def test_programs_give_what_eager_code_gives(name):
    f, *args = CALLS[name]
    run = torch.compile(with_gradient(f), fullgraph=True)
    for _ in range(2):
        for got, want in zip(run(*args), with_gradient(f)(*args), strict=True):
            torch.testing.assert_close(got, want)
    assert run.counts["traced"] == 1


@pytest.mark.parametrize("name", REFUSED)
def test_programs_refuse_what_eager_code_refuses(name):
    f, *args = REFUSED[name]
    said = []
    for run in (f, torch.compile(f)):
        with pytest.raises(RuntimeError) as error:
            run(*args)
        said.append(str(error.value).split("\n")[0])
    assert said[0] == said[1]


LSTM = torch.nn.LSTM(2, 3, dtype=torch.float64)


def through_lstm(x, lengths):
    packed = rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    return rnn.pad_packed_sequence(LSTM(packed)[0])[0]


def joined_labels(x, lengths):
    return F.ctc_loss(x, LABELS.reshape(-1)[:3], [5, 5], lengths)


SEQUENCES = leaf(4, 3, 2)


@pytest.mark.parametrize(
    ("f", "x", "lengths"),
    [(through_lstm, SEQUENCES, ((4, 2, 3), (1, 2, 2))), (joined_labels, LOG_PROBS, ((2, 1), (1, 2)))],
    ids=["pack_padded_sequence", "ctc_loss of joined labels"],
)
def test_shapes_that_follow_lengths_run_as_written(f, x, lengths):
    run = torch.compile(with_gradient(f))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for n in lengths:
            for got, want in zip(run(x, ints(*n)), with_gradient(f)(x, ints(*n)), strict=True):
                torch.testing.assert_close(got, want)
    assert [w.category for w in said] == [UserWarning]
    assert "runs eagerly" in str(said[0].message)


def test_lengths_from_outside_and_in_lists_are_known():
    outside = ints(4, 2, 3)
    for run, args in (
        (torch.compile(lambda x: through_lstm(x, outside), fullgraph=True), ()),
        (torch.compile(through_lstm), ([4, 2, 3],)),
    ):
        for _ in range(3):
            torch.testing.assert_close(run(SEQUENCES, *args), through_lstm(SEQUENCES, outside))
        assert run.counts["eager"] == 0
