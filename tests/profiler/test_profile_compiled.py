"""`profile_compiled` tells on which lines of the user a compiled step spends its time."""

import inspect

import pytest

import torchgrad_jax as torch
from torchgrad_jax import nn
from torchgrad_jax.profiler import CompiledProfile, profile_compiled


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.narrow = nn.Linear(128, 256), nn.Linear(256, 4)

    def forward(self, x):
        h = self.wide(x).tanh()
        return self.narrow(h)


def made():
    net = Net()
    opt = torch.optim.AdamW(net.parameters())

    @torch.compile
    def step(x):
        opt.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        opt.step()
        return loss

    return net, step


def test_lines_and_page(tmp_path):
    net, step = made()
    x = torch.randn(64, 128)
    step(x)
    before, runs = net.wide.weight.detach().clone(), step.counts["run"]
    prof = profile_compiled(step, x, calls=2)
    assert isinstance(prof, CompiledProfile)
    assert step.counts["run"] == runs + 3
    assert not torch.equal(before, net.wide.weight)
    lines, first = inspect.getsourcelines(Net.forward)
    forward = {s.line: s for s in prof.spent if s.function == "Net.forward" and s.operation == "dot_general"}
    assert sorted(forward) == [first + 1, first + 2]
    backward = inspect.getsourcelines(made)[1] + 8
    assert any(s.line == backward and s.operation == "dot_general" for s in prof.spent)
    assert prof.total == pytest.approx(sum(time for _, time, _ in prof.lines()))
    assert all(s.microseconds > -1e-6 for s in prof.spent)
    prof.export_html(str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text()
    for text in ("Net.forward", lines[1].strip(), "loss.backward()", 'class="bar"'):
        assert text in page
        assert text == 'class="bar"' or text in prof.table()


def test_a_function_whose_result_needs_a_gradient():
    w = torch.randn(128, 128, requires_grad=True)
    f = torch.compile(lambda x: (x @ w).tanh())
    prof = profile_compiled(f, torch.randn(64, 128), calls=1)
    assert any(s.operation == "dot_general" and s.file == __file__ for s in prof.spent)


def test_a_loop_is_not_counted_twice():
    layers = torch.scan_layers([nn.Linear(64, 64) for _ in range(4)], stacked=True)
    f = torch.compile(lambda x: layers(x).detach())
    prof = profile_compiled(f, torch.randn(256, 64), calls=1)
    assert all(s.microseconds > -1e-6 for s in prof.spent)
    assert any(s.operation == "dot_general" for s in prof.spent)


def test_results_that_nobody_holds_are_waited_for():
    f = torch.compile(lambda x: x @ x @ x @ x)
    prof = profile_compiled(f, torch.randn(700, 700), calls=1)
    assert any(s.operation == "dot_general" for s in prof.spent)


def test_what_is_not_compiled():
    with pytest.raises(TypeError, match=r"that torch\.compile returned"):
        profile_compiled(lambda: None)
