"""torch.utils.module_tracker, compared with torch."""

import importlib

from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


def tracker(m):
    return importlib.import_module(f"{m.__name__}.utils.module_tracker").ModuleTracker()


def model(m, look):
    class Block(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = m.nn.Linear(2, 2)
            self.rest = m.nn.Sequential(m.nn.Tanh(), m.nn.Identity())

        def forward(self, x):
            return look("block ends", self.rest(self.lin(look("block begins", x))))

    class Net(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block()
            self.act = m.nn.ReLU()
            self.again = self.block

        def forward(self, x):
            x = look("between", self.block(look("net begins", x)))
            return look("net ends", self.act(x) * 2), 3

    return Net()


@program
def forward_and_backward(m):
    t, seen = tracker(m), []

    def look(where, x):
        seen.append((where, sorted(t.parents), t.is_bw))
        if x.requires_grad:
            x.register_hook(lambda g: seen.append((where, sorted(t.parents), t.is_bw)))
        return x

    net = model(m, look)
    with t as entered:
        seen.append(entered is t)
        net(m.ones(1, 2, requires_grad=True))[0].sum().backward()
        seen.append(sorted(t.parents))
        net(m.ones(1, 2))[0].sum().backward()
        seen.append(sorted(t.parents))
        m.nn.Sequential(m.nn.Linear(2, 2))(m.ones(1, 2, requires_grad=True)).sum().backward()
        with m.no_grad():
            net(m.ones(1, 2))
    net(m.ones(1, 2))
    return seen


@program
def containers_of_tensors(m):
    class Pair(m.nn.Module):
        def forward(self, x):
            return [x["a"] * 2, {"k": x["b"] * 1}]

    seen = []
    with tracker(m) as t:
        a, b = (m.ones(1, requires_grad=True) for _ in range(2))
        out = Pair()({"a": a, "b": b})
        out[0].register_hook(lambda g: seen.append(sorted(t.parents)))
        (out[0] + out[1]["k"]).sum().backward()
    return seen, sorted(t.parents)


@program
def recomputed(m):
    seen = []
    net = m.nn.Linear(2, 2)
    net.register_forward_hook(lambda *args: seen.append((sorted(t.parents), t.is_bw)))
    checkpoint = importlib.import_module(f"{m.__name__}.utils.checkpoint").checkpoint
    with tracker(m) as t:
        checkpoint(net, m.ones(1, 2, requires_grad=True), use_reentrant=False).sum().backward()
    return seen, sorted(t.parents)


@program
def after_an_exception(m):
    class Bad(m.nn.Module):
        def forward(self, x):
            raise ValueError

    bad, seen = Bad(), []
    with tracker(m) as t:
        for _ in range(2):
            try:
                bad(m.ones(1))
            except ValueError:
                seen.append(sorted(t.parents))
    return seen
