"""A compiled step in which nothing changes stays a program: eager's numbers, no trace after the second call."""

import inspect

import pytest

import torchgrad_jax as torch
from tests.bridge import trainings
from torchgrad_jax import nn, optim
from torchgrad_jax.amp import autocast_mode
from torchgrad_jax.optim import lr_scheduler as schedules, swa_utils

CALLS = 5
SETTLED = 2
"""The first call makes states of optimizers and the like; the second may be traced for what then is there."""
pytestmark = pytest.mark.filterwarnings("ignore:Detected call of .lr_scheduler.step")


class Training:
    """A model, batches, a loss, an optimizer, and a step over them, as users write it. Others change parts of it."""

    tolerance = 1e-4

    def __init__(self):
        torch.manual_seed(0)
        self.model = self.make_model()
        self.optimizer = self.make_optimizer(list(self.model.parameters()))
        self.batches = [self.batch() for _ in range(CALLS)]
        self.begin()
        self.run = self.model
        """What the step calls: the model, or the model compiled."""

    def make_model(self):
        return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))

    def make_optimizer(self, params):
        # A bias before a norm has a gradient that is 0 but for rounding: a small eps would make a whole step of that.
        return optim.AdamW(params, lr=0.01, eps=1e-3)

    def begin(self):
        """What there is beside the model and the optimizer."""

    def batch(self):
        return torch.randn(5, 4)

    def loss(self, batch):
        return ((self.run(batch).sin() - 1) ** 2).mean()  # of which no norm makes a constant

    def step(self, batch):
        self.optimizer.zero_grad()
        loss = self.loss(batch)
        loss.backward()
        self.optimizer.step()
        return loss

    def compile_step(self):
        """The step to call, and what of it is compiled."""
        step = torch.compile(self.step)
        return step, step

    def seen(self):
        """Numbers beside the weights that have to be eager's."""
        return []


def train(make, way):
    """Train one way: the training, what is seen of it, and the compiled object with its counts after each call."""
    training = make()
    step, compiled = training.compile_step() if way == "step" else (training.step, None)
    if way == "model":
        compiled = training.run = torch.compile(training.model)
    torch.manual_seed(1)
    losses, counts = [], []
    for batch in training.batches:
        losses.append(step(batch).detach())
        counts.append(dict(compiled.counts) if compiled is not None else {})
    return training, [losses, dict(training.model.state_dict()), training.seen()], counts, compiled


def assert_stays(make, way):
    """Compiled this way, the training gives eager's numbers, and its calls from the third on run a program."""
    training, want, _, _ = train(make, "eager")
    _, found, counts, compiled = train(make, way)
    assert compiled is not None
    torch.testing.assert_close(found, want, rtol=training.tolerance, atol=training.tolerance / 100)
    settled, last = counts[SETTLED - 1], counts[-1]
    assert last["traced"] == settled["traced"], compiled.reasons
    assert last["eager"] == 0, compiled.reasons
    assert last["run"] - settled["run"] >= CALLS - SETTLED


WAYS = ("step", "model")


# --- optimizers and schedules: of the whole step, since nothing of them is in a model ------------------------------


def with_optimizer(name, **options):
    return type(name, (Training,), {"make_optimizer": lambda self, ps: getattr(optim, name)(ps, lr=0.01, **options)})


class OfWeightsAlone(Training):
    """Muon is for matrices."""

    def make_model(self):
        return nn.Sequential(nn.Linear(4, 6, bias=False), nn.Tanh(), nn.Linear(6, 3, bias=False))

    def make_optimizer(self, params):
        return optim.Muon(params, lr=0.01)


class OfClosures(Training):
    """LBFGS decides by values how to go on: what is compiled is its closure."""

    def make_optimizer(self, params):
        return optim.LBFGS(params, lr=0.1, max_iter=2)

    def begin(self):
        self.gradients = self.fill_gradients

    def fill_gradients(self, batch):
        self.optimizer.zero_grad()
        loss = self.loss(batch)
        loss.backward()
        return loss

    def step(self, batch):
        return self.optimizer.step(lambda: self.gradients(batch))

    def compile_step(self):
        self.gradients = torch.compile(self.gradients)
        return self.step, self.gradients


OPTIMIZERS = {
    **{name: with_optimizer(kind, **options) for name, (kind, options) in trainings.OPTIMIZERS.items()},
    "AdamW": Training,
    "Muon": OfWeightsAlone,
    "LBFGS": OfClosures,
}


def classes(module, base):
    return {
        name
        for name, cls in vars(module).items()
        if inspect.isclass(cls) and issubclass(cls, base) and cls is not base and not name.startswith("_")
    }


def test_every_optimizer_is_here():
    sparse = {"SparseAdam"}  # counts its steps by an int, as torch does, so that each step is another program
    assert classes(optim, optim.Optimizer) - sparse <= {type(make().optimizer).__name__ for make in OPTIMIZERS.values()}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(name):
    assert_stays(OPTIMIZERS[name], "step")


def schedule(name, optimizer):
    """A schedule of the table; the one for two groups gets one rate."""
    if name == "lambda":
        return schedules.LambdaLR(optimizer, lambda n: 1 / (n + 1))
    if name == "SWALR":
        return swa_utils.SWALR(optimizer, swa_lr=0.05, anneal_epochs=3)
    return trainings.SCHEDULES[name](schedules, optimizer)


class Scheduled(Training):
    name = ""

    def make_optimizer(self, params):
        return optim.SGD(params, lr=0.02, momentum=0.9)

    def begin(self):
        self.schedule = schedule(self.name, self.optimizer)

    def step(self, batch):
        loss = super().step(batch)
        self.schedule.step()
        return loss

    def seen(self):
        return [[g["lr"], g["momentum"]] for g in self.optimizer.param_groups]


SCHEDULES = [*trainings.SCHEDULES, "SWALR"]


def test_every_schedule_is_here():
    made = {type(make_schedule(name)) for name in SCHEDULES}
    bases = {"LRScheduler"}
    assert classes(schedules, schedules.LRScheduler) - bases <= {cls.__name__ for cls in made}


def make_schedule(name):
    made = schedule(name, optim.SGD([nn.Parameter(torch.ones(1))], lr=0.02, momentum=0.9))
    return getattr(made, "inner", made)


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule(name):
    assert_stays(type(name, (Scheduled,), {"name": name}), "step")


# --- layers: the model compiled, and the whole step ----------------------------------------------------------------


class First(nn.Module):
    """The first of what a layer returns, where it is given its input once or several times."""

    def __init__(self, layer, times=1):
        super().__init__()
        self.layer, self.times = layer, times

    def forward(self, x):
        return self.layer(*[x] * self.times)[0]


def images():
    return torch.randn(2, 3, 6, 6)


def sequences():
    return torch.randn(2, 5, 8)


def words():
    return torch.randint(0, 9, (2, 5))


def encoder_layer():
    return nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)


class Decoder(nn.Module):
    """A decoder that looks at its own input."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(8, 2, 12, batch_first=True)

    def forward(self, x):
        return self.layer(x, x, tgt_mask=nn.Transformer.generate_square_subsequent_mask(x.shape[1]))


LAYERS = {
    "Linear": (lambda: nn.Linear(8, 3), sequences),
    "Conv2d": (lambda: nn.Conv2d(3, 4, 3, stride=2), images),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(3, 4, 3), images),
    "pools": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        images,
    ),
    "BatchNorm2d": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()), images),
    "BatchNorm1d, of all batches": (
        lambda: nn.Sequential(nn.Linear(8, 3), nn.BatchNorm1d(5, momentum=None)),
        sequences,
    ),
    "LayerNorm": (lambda: nn.Sequential(nn.Linear(8, 4), nn.LayerNorm(4)), sequences),
    "GroupNorm": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4)), images),
    "RMSNorm": (lambda: nn.RMSNorm(8), sequences),
    "Dropout": (lambda: nn.Sequential(nn.Linear(8, 6), nn.Dropout(0.5), nn.Linear(6, 3)), sequences),
    "Embedding": (lambda: nn.Sequential(nn.Embedding(9, 4, padding_idx=0), nn.Linear(4, 3)), words),
    "EmbeddingBag": (lambda: nn.EmbeddingBag(9, 4, mode="mean"), words),
    "RNN": (lambda: First(nn.RNN(8, 4, batch_first=True)), sequences),
    "LSTM": (lambda: First(nn.LSTM(8, 4, 2, batch_first=True, dropout=0.2, bidirectional=True)), sequences),
    "GRU": (lambda: First(nn.GRU(8, 4, batch_first=True)), sequences),
    "MultiheadAttention": (lambda: First(nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True), 3), sequences),
    "TransformerEncoderLayer": (encoder_layer, sequences),
    "TransformerDecoderLayer": (Decoder, sequences),
    "weight_norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(8, 3)), sequences),
    "spectral_norm": (lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(8, 3)), sequences),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", LAYERS)
def test_layer(name, way):
    make, batch = LAYERS[name]
    assert_stays(type(name, (Training,), {"make_model": lambda self: make(), "batch": lambda self: batch()}), way)


# --- what trainings put around and into a step ---------------------------------------------------------------------


class ClippedByNorm(Training):
    def step(self, batch):
        self.optimizer.zero_grad()
        loss = self.loss(batch)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 0.1)
        self.optimizer.step()
        return loss


class ClippedByValue(Training):
    def step(self, batch):
        loss = self.loss(batch)
        loss.backward()
        nn.utils.clip_grad_value_(self.model.parameters(), 0.01)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)
        return loss


class Scaled(Training):
    def begin(self):
        self.scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=3)

    def step(self, batch):
        self.optimizer.zero_grad()
        loss = self.loss(batch)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss

    def seen(self):
        return [self.scaler.get_scale()]


class Autocast(Training):
    tolerance = 1e-2  # of bfloat16, whose results a program rounds less often

    def loss(self, batch):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = self.run(batch)
        return ((out.float() - 1) ** 2).mean()


class Averaged(Training):
    def begin(self):
        self.average = swa_utils.AveragedModel(self.model)

    def step(self, batch):
        loss = super().step(batch)
        self.average.update_parameters(self.model)
        return loss

    def seen(self):
        return [dict(self.average.state_dict())]


class Forgetting(Averaged):
    def begin(self):
        self.average = swa_utils.AveragedModel(
            self.model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9), use_buffers=True
        )


class ForgettingByHand(Averaged):
    def begin(self):
        self.average = self.make_model()
        self.average.load_state_dict(self.model.state_dict())
        self.average.requires_grad_(False)

    def step(self, batch):
        loss = Training.step(self, batch)
        with torch.no_grad():
            for p, q in zip(self.average.parameters(), self.model.parameters()):
                p.lerp_(q, 0.1)
        return loss


class Accumulated(Training):
    """Two halves of a batch, one step."""

    def step(self, batch):
        self.optimizer.zero_grad()
        total = 0
        for half in batch.chunk(2):
            loss = self.loss(half) / 2
            loss.backward()
            total = total + loss.detach()
        self.optimizer.step()
        return total


class Checkpointed(Training):
    def loss(self, batch):
        out = torch.utils.checkpoint.checkpoint(self.run, batch, use_reentrant=False)
        return ((out - 1) ** 2).mean()


class Counting(Training):
    """Numbers in Python that grow with each step."""

    def begin(self):
        self.steps, self.seconds = 0, [0.0, 0.5]

    def step(self, batch):
        self.steps += 1
        self.seconds[1] += 0.5 * self.steps
        return super().step(batch)

    def seen(self):
        return [self.steps, self.seconds]


class Groups(Training):
    """Weights decay, biases do not."""

    def make_optimizer(self, params):
        kept = [p for p in params if p.ndim > 1], [p for p in params if p.ndim == 1]
        return optim.AdamW([{"params": kept[0]}, {"params": kept[1], "weight_decay": 0.0, "lr": 0.02}], lr=0.01)


class TwoOptimizers(Training):
    """A generator and what judges it, each with its optimizer."""

    def begin(self):
        self.judge = nn.Sequential(nn.Linear(3, 4), nn.LeakyReLU(0.2), nn.Linear(4, 1))
        self.judge_optimizer = optim.Adam(self.judge.parameters(), lr=0.01, betas=(0.5, 0.9))

    def step(self, batch):
        fake = self.run(batch)
        self.judge_optimizer.zero_grad()
        ones, zeros = torch.ones(5, 1), torch.zeros(5, 1)
        entropy = nn.functional.binary_cross_entropy_with_logits
        (entropy(self.judge(batch[:, :3]), ones) + entropy(self.judge(fake.detach()), zeros)).backward()
        self.judge_optimizer.step()
        self.optimizer.zero_grad()
        loss = entropy(self.judge(fake), ones)
        loss.backward()
        self.optimizer.step()
        return loss

    def seen(self):
        return [dict(self.judge.state_dict())]


PARTS = [
    ClippedByNorm,
    ClippedByValue,
    Scaled,
    Autocast,
    Averaged,
    Forgetting,
    ForgettingByHand,
    Accumulated,
    Checkpointed,
    Counting,
    Groups,
    TwoOptimizers,
]


@pytest.mark.parametrize("way", WAYS)
def test_casts_that_an_unfinished_block_has_left_are_not_used(way, monkeypatch):
    """As after a generator with an autocast block that nobody runs to its end."""
    monkeypatch.setattr(autocast_mode.STATE, "nesting", 1)
    assert_stays(Autocast, way)


# A compiled model inside of a checkpoint runs eagerly: what it saves goes through the checkpoint's hooks.
@pytest.mark.parametrize(
    ("make", "way"), [(make, way) for make in PARTS for way in WAYS if (make, way) != (Checkpointed, "model")]
)
def test_part(make, way):
    assert_stays(make, way)
