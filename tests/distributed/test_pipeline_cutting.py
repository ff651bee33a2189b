"""`pipeline()`: stages of a module have its parameters and names, and compute what it computes."""

import importlib
import warnings

import pytest

import torchgrad_jax as torch
from torchgrad_jax.distributed.pipelining import Schedule1F1B, ScheduleGPipe, SplitPoint, pipe_split, pipeline


def pipelining(m):
    return importlib.import_module(f"{m.__name__}.distributed.pipelining")


def network(m):
    split = pipelining(m).pipe_split

    class Block(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.norm = m.nn.Linear(4, 4), m.nn.BatchNorm1d(4)
            self.scale = m.nn.Parameter(m.full((4,), 2.0))
            self.register_buffer("shift", m.ones(4))

        def forward(self, x):
            return x + self.norm(m.relu(self.inner(x))) * (self.scale * 0.5) + self.shift

    class Network(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = m.nn.Linear(3, 4)
            self.blocks = m.nn.ModuleList([Block() for _ in range(3)])
            self.last = m.nn.Linear(4, 2)

        def forward(self, x, mask=None, scale=1.0):
            h = start = self.first(x)
            for i, block in enumerate(self.blocks):
                h = block(h)
                if i == 1:
                    split()
            if mask is not None:
                h = h * mask
            rows, width = h.shape
            places = m.arange(width, dtype=h.dtype) if width > 2 else None
            left, right = h.view(rows, 2, -1).unbind(1)
            return self.last(h + start + places) * scale, m.cat([left, right], 1)

    m.manual_seed(0)
    return Network().double()


def batch(m, rows=4):
    m.manual_seed(rows)
    return m.randn(rows, 3, dtype=m.float64), m.randn(rows, 4, dtype=m.float64)


def error(call):
    with pytest.raises(Exception) as raised:  # noqa: PT011 - the program says which
        call()
    return raised.type.__name__


WAYS = {
    "none": None,
    "before a block": {"blocks.1": "BEGINNING"},
    "behind a layer": {"first": "END", "last": "BEGINNING"},
    "a layer in a block": {"blocks.0.inner": "END"},
}


@pytest.mark.parametrize("way", WAYS)
def test_stages_of_a_module(same, way):
    def program(m):
        p = pipelining(m)
        spec = WAYS[way] and {name: p.SplitPoint[point] for name, point in WAYS[way].items()}
        model, (x, mask) = network(m), batch(m)
        before = {name: t.clone() for name, t in model.state_dict().items()}
        pipe = p.pipeline(model, (x,), {"mask": mask, "scale": 2.0}, split_spec=spec)
        stages = [pipe.get_stage_module(i) for i in range(pipe.num_stages)]
        names = [sorted(stage.state_dict()) for stage in stages]
        unchanged = all(m.equal(t, before[name]) for name, t in model.state_dict().items())
        x, mask = batch(m)
        x = x + 1
        results = pipe(x, mask=mask, scale=2.0)
        return pipe.num_stages, names, unchanged, results, pipe.info().num_stages

    same(program, way)


def test_a_cut_before_or_behind_everything_makes_no_stage():
    spec = {"first": SplitPoint.BEGINNING, "last": SplitPoint.END}
    model = torch.nn.Sequential()
    model.first, model.last = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    assert pipeline(model, (torch.ones(1, 2),), split_spec=spec).num_stages == 1


@pytest.mark.parametrize("kind", [ScheduleGPipe, Schedule1F1B])
def test_a_schedule_of_the_stages_gives_the_gradients_of_the_module(kind):
    x, mask = batch(torch)
    want = network(torch)
    want.eval()

    def loss_of(results, y):
        return (results[0] - y).square().mean() + results[1].sum()

    y = torch.ones(4, 2, dtype=torch.float64)
    for rows in (slice(0, 2), slice(2, 4)):
        (loss_of(want(x[rows], mask[rows]), y[rows]) / 2).backward()
    model = network(torch).eval()
    example = (x[:2],), {"mask": mask[:2]}
    pipe = pipeline(model, *example, split_spec={"blocks.1": SplitPoint.BEGINNING})
    stages = [pipe.build_stage(i, torch.device("cpu")) for i in range(3)]
    assert model.first.weight is stages[0].submod.first.weight
    losses: list = []
    kind(stages, 2, loss_fn=loss_of).step(x, mask=mask, target=y, losses=losses)
    for (name, p), q in zip(model.named_parameters(), want.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, msg=name)


def test_what_cannot_be_cut(same):
    def program(m):
        p = pipelining(m)

        class Looks(m.nn.Module):
            def forward(self, x):
                return x if x.sum() > 0 else -x

        x = m.ones(2, 3)
        both = {"split_spec": {"0": p.SplitPoint.END}, "split_policy": lambda g: g}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch's own modules
            pipe = p.pipeline(m.nn.Sequential(m.nn.Linear(3, 3)), (x,))
        calls = [
            lambda: p.pipeline(Looks(), (x,)),
            lambda: p.pipeline(m.nn.Sequential(m.nn.Linear(3, 3)), (x,), **both),
            lambda: p.pipeline(m.nn.ReLU(), (x,), split_spec={"nothing": p.SplitPoint.END}),
            lambda: pipe.get_stage_module(1),
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch's own modules
            return [error(call) for call in calls], p.pipe_split() is None

    same(program, "what cannot be cut")


def test_random_numbers_of_no_argument_are_refused():
    class Noisy(torch.nn.Module):
        def forward(self, x):
            return x + torch.randn(3)

    with pytest.raises(RuntimeError, match="draws random numbers"):
        pipeline(Noisy(), (torch.ones(2, 3),))


def test_a_policy_puts_cuts_into_the_record():
    def policy(recorded):
        node = next(n for n in recorded.graph.nodes if n.op == "call_module")
        with recorded.graph.inserting_after(node):
            recorded.graph.call_function(pipe_split)
        recorded.recompile()
        return recorded

    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 2))
    pipe = pipeline(model, (torch.ones(2, 3),), split_policy=policy)
    names = [list(pipe.get_stage_module(i).state_dict()) for i in range(pipe.num_stages)]
    assert names == [["0.weight", "0.bias"], ["2.weight", "2.bias"]]
    torch.manual_seed(1)
    want = model(torch.ones(2, 3))
    torch.manual_seed(1)
    torch.testing.assert_close(pipe(torch.ones(2, 3))[0], want)
