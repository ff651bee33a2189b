"""What trainings put into a step and around it gives eager's numbers over 50 calls, by a bounded number of programs."""

import copy

import pytest

import torchgrad_jax as torch
from tests.bridge.compile.test_one_trace import OPTIMIZERS
from torchgrad_jax import nn, optim
from torchgrad_jax.optim import lr_scheduler as schedules, swa_utils

CALLS = 50


class Training:
    """A model, an optimizer, and a step over both."""

    factor = 1.0
    """Of the batch with number 5 and 13: what is not finite makes a scaler leave out the step."""

    def __init__(self, make=lambda ps: optim.Adam(ps, lr=0.01)):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.BatchNorm1d(4), nn.Linear(4, 2))
        self.opt = make(list(self.model.parameters()))
        self.i = 0
        self.begin()

    def begin(self):
        pass

    def loss(self, x):
        return (self.model(x) ** 2).mean()

    def backward(self, x):
        self.model.zero_grad()
        loss = self.loss(x)
        loss.backward()
        return loss

    def step(self, x):
        loss = self.backward(x)
        self.opt.step()
        return loss, self.after()

    def after(self):
        """The end of the step."""

    def call(self, run, x):
        return run(x)

    def seen(self):
        """Whatever the training changes, beside the model."""
        return []


class Scaled(Training):
    factor = float("inf")

    def begin(self):
        self.scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=7)

    def step(self, x):
        self.model.zero_grad()
        loss = self.loss(x)
        self.scaler.scale(loss).backward()
        clipped = self.clip()
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss, clipped

    def clip(self):
        return None

    def seen(self):
        return [self.scaler.state_dict(), self.opt.state_dict()["state"]]


class ScaledAndClipped(Scaled):
    def clip(self):
        self.scaler.unscale_(self.opt)
        return nn.utils.clip_grad_norm_(self.model.parameters(), 0.1)


class Averaged(Training):
    options: dict = {}

    def begin(self):
        self.average = swa_utils.AveragedModel(self.model, **self.options)

    def after(self):
        self.average.update_parameters(self.model)

    def seen(self):
        return [dict(self.average.state_dict())]


class StatisticsOfAllBatches(Training):
    """Batch norm whose running statistics are an average over all batches, as `update_bn` makes it."""

    def begin(self):
        self.model[2].momentum = None


class AveragedOutside(Averaged):
    def after(self):
        pass

    def call(self, run, x):
        out = run(x)
        self.average.update_parameters(self.model)
        return out


class ForgettingTogether(Averaged):
    options = {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.9)}


class ForgettingEach(Averaged):
    options = {"avg_fn": swa_utils.get_ema_avg_fn(0.9)}


class ForgettingByHand(Averaged):
    def begin(self):
        self.average = copy.deepcopy(self.model)

    def after(self):
        with torch.no_grad():
            for p, q in zip(self.average.parameters(), self.model.parameters()):
                p.lerp_(q, 0.1)


class ForgettingData(ForgettingByHand):
    def after(self):
        for p, q in zip(self.average.parameters(), self.model.parameters()):
            p.data.mul_(0.9).add_(q.data, alpha=0.1)


class ForgettingMoreAndMore(ForgettingByHand):
    def after(self):
        self.i += 1
        kept = min(0.99, (1 + self.i) / (10 + self.i))
        with torch.no_grad():
            for p, q in zip(self.average.parameters(), self.model.parameters()):
                p.mul_(kept).add_(q, alpha=1 - kept)


class Accumulated(Training):
    to_none = True

    def step(self, x):
        loss = self.loss(x)
        (loss / 4).backward()
        if (self.i + 1) % 4 == 0:
            self.opt.step()
            self.opt.zero_grad(set_to_none=self.to_none)
        self.i += 1
        return loss

    def seen(self):
        return [self.i, *[p.grad for p in self.model.parameters()]]


class AccumulatedInPlace(Accumulated):
    to_none = False


class AccumulatedByArgument(Accumulated):
    def step(self, x, i):
        loss = self.loss(x)
        (loss / 4).backward()
        if (i + 1) % 4 == 0:
            self.opt.step()
            self.opt.zero_grad()
        return loss

    def call(self, run, x):
        self.i += 1
        return run(x, self.i - 1)


class Clipped(Training):
    def step(self, x):
        loss = self.backward(x)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), 0.1)
        nn.utils.clip_grad_value_(self.model.parameters(), 0.05)
        self.opt.step()
        return loss, norm


class Plateau(Training):
    """A schedule that is given an earlier result, as a number that the step finds."""

    def begin(self):
        self.last = 1.0
        self.schedule = schedules.ReduceLROnPlateau(self.opt, patience=1, threshold=0.1)

    def after(self):
        self.schedule.step(self.last)

    def call(self, run, x):
        loss, _ = run(x)
        self.last = loss.item()
        return loss

    def seen(self):
        return [self.opt.param_groups[0]["lr"], self.schedule.num_bad_epochs]


class PlateauByArgument(Plateau):
    def step(self, x, last):
        loss = self.backward(x)
        self.opt.step()
        self.schedule.step(last)
        return loss, None

    def call(self, run, x):
        loss, _ = run(x, self.last)
        self.last = loss.item()
        return loss


class PlateauOutside(Plateau):
    def after(self):
        pass

    def call(self, run, x):
        loss, _ = run(x)
        self.schedule.step(loss.detach())
        return loss


TRACES = {
    Scaled: 1, ScaledAndClipped: 1, Averaged: 1, AveragedOutside: 1, StatisticsOfAllBatches: 1, ForgettingTogether: 1,
    ForgettingEach: 1, ForgettingByHand: 1, ForgettingData: 1, ForgettingMoreAndMore: 2, Accumulated: 6,
    AccumulatedInPlace: 5, AccumulatedByArgument: 5, Clipped: 1, Plateau: 2, PlateauByArgument: 2, PlateauOutside: 1,
}  # fmt: skip
"""How many programs at most: more than one where Python values, or gradients that are there or not, decide."""


def copied(x):
    """A copy of values."""
    if isinstance(x, torch.Tensor):
        return x.detach().clone()
    if isinstance(x, dict):
        return {k: copied(v) for k, v in x.items()}
    return [copied(v) for v in x] if isinstance(x, list | tuple) else x


def record(training, compiled):
    """What there is to see after each call, and the compiled function."""
    run = torch.compile(training.step) if compiled else training.step
    torch.manual_seed(1)
    found = []
    for i in range(CALLS):
        x = torch.randn(6, 3) * (training.factor if i in (5, 13) else 1)
        out = training.call(run, x)
        versions = [p._version for p in training.model.parameters()]
        found.append(copied([out, training.seen(), dict(training.model.state_dict())]))
    return found, versions, run


def assert_same(make, traces):
    want, versions, _ = record(make(), False)
    found, own_versions, run = record(make(), True)
    for i, (a, b) in enumerate(zip(found, want)):
        torch.testing.assert_close(
            a, b, equal_nan=True, rtol=1e-4, atol=1e-5, msg=lambda text, i=i: f"call {i}: {text}"
        )
    assert run.counts["eager"] == 0, run.reasons
    assert run.counts["traced"] <= traces, run.reasons
    return versions, own_versions


@pytest.mark.parametrize("kind", TRACES, ids=lambda kind: kind.__name__)
def test_parts_of_trainings(kind):
    versions, own = assert_same(kind, TRACES[kind])
    if kind.factor == 1.0:  # the program writes in a step that is left out, too
        assert own == versions


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_with_a_scaler(name):
    assert_same(lambda: Scaled(of_matrices(name)), 1)


def of_matrices(name):
    """An optimizer of the parameters that it takes."""
    return lambda ps: OPTIMIZERS[name]([p for p in ps if p.ndim == 2] if name == "Muon" else ps)


def test_a_step_that_may_be_left_out_changes_no_python_values():
    class Counting(optim.SGD):
        steps = 0

        def step(self, closure=None):
            self.param_groups[0]["lr"] *= 0.5
            return super().step(closure)

    training = Scaled(lambda ps: Counting(ps, lr=0.1))
    before = copied(dict(training.model.state_dict()))
    with pytest.raises(RuntimeError, match=r"in a part of the function that the values|step of a Counting"):
        torch.compile(training.step)(torch.ones(6, 3))
    torch.testing.assert_close(dict(training.model.state_dict()), before)
    assert training.opt.param_groups[0]["lr"] == 0.1
    assert training.scaler._scale is None


def test_a_scale_that_is_set_and_loaded_is_that_of_the_program():
    want, found = Scaled(), Scaled()
    fast, x = torch.compile(found.step), torch.ones(6, 3)
    for i in range(9):
        if i == 3:
            [t.scaler.update(32.0) for t in (want, found)]
        if i == 6:
            state = {**want.scaler.state_dict(), "scale": 8.0, "_growth_tracker": 5}
            [t.scaler.load_state_dict(state) for t in (want, found)]
        torch.testing.assert_close(fast(x), want.step(x))
        assert found.scaler.state_dict() == want.scaler.state_dict()
    assert fast.counts["traced"] == 2, fast.reasons  # it holds another scale to begin with


def test_a_scaler_whose_update_is_outside_of_the_step():
    class Apart(Scaled):
        def step(self, x):
            self.opt.zero_grad()
            loss = self.loss(x)
            self.scaler.scale(loss).backward()
            return loss

        def call(self, run, x):
            loss = run(x)
            self.scaler.step(self.opt)
            self.scaler.update()
            return loss

    assert_same(Apart, 2)  # once more with the optimizer's state
