"""`aot_compile` and `load_compiled_function`: a function in a file, which needs no source and compiles nothing."""

import ast
import io

import pytest

import torchgrad_jax as torch
from tests.core.jax.test_kernel_files import said
from torchgrad_jax._core.jax import kernel_archives
from torchgrad_jax.compiler._ahead import AOTCompiledFunction

SAVES = """
import torchgrad_jax as torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(300, 300), torch.nn.Tanh(), torch.nn.Linear(300, 300))


def predicted(x, scale):
    return net(x) * scale["all"]


x, scale = torch.randn(500, 300, requires_grad=True), {"all": torch.tensor(2.0)}
ahead = torch.compile(predicted, fullgraph=True).aot_compile(((x,), {"scale": scale}))
ahead.save_compiled_function("predicted.bin")
ahead(x, scale=scale).square().sum().backward()
print(x.grad.square().sum().item())
"""

LOADS = """
import torchgrad_jax as torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(300, 300), torch.nn.Tanh(), torch.nn.Linear(300, 300))
x, scale = torch.randn(500, 300, requires_grad=True), {"all": torch.tensor(2.0)}
net = None
with open("predicted.bin", "rb") as file:
    predicted = torch.compiler.load_compiled_function(file)
predicted(x, scale=scale).square().sum().backward()
print(x.grad.square().sum().item())
"""


def run(tmp_path, monkeypatch, text, name):
    """What the program prints, and which of its programs it compiled."""
    script = tmp_path / f"{name}.py"
    script.write_text(text)
    cache = tmp_path / f"cache of {name}"
    out, log = said(tmp_path, monkeypatch, (str(script),), TORCHGRAD_JAX_CACHE=cache, TORCHGRAD_JAX_LOGS="kernels")
    lines = [line for line in log.splitlines() if "[kernels]" in line and "compiled in" in line]
    return ast.literal_eval(out), [n for n in ("forward", "backward") if any(f"] {n}(" in line for line in lines)]


def test_another_process_runs_the_function_without_its_source_and_compiles_nothing(tmp_path, monkeypatch):
    value, compiled = run(tmp_path, monkeypatch, SAVES, "saves")
    assert compiled == ["forward", "backward"]
    assert run(tmp_path, monkeypatch, LOADS, "loads") == (value, [])


def doubled(x, *, y=None):
    return {"both": x * 2 if y is None else x * 2 + y}


def again(ahead):
    """The function as a file has it."""
    return torch.compiler.load_compiled_function(io.BytesIO(ahead.serialize(ahead).serialized_data))


def test_results_gradients_and_what_does_not_fit():
    x, y = torch.randn(3, requires_grad=True), torch.randn(3)
    ahead = torch.compile(doubled, fullgraph=True).aot_compile(((x,), {"y": y}))
    for call in (ahead, again(ahead)):
        out = call(x, y=y)["both"]
        assert torch.equal(out, doubled(x, y=y)["both"])
        (slope,) = torch.autograd.grad(out.sum(), x)
        assert slope.tolist() == [2.0, 2.0, 2.0]
        call.disable_guard_check()
        with pytest.raises(RuntimeError, match=r"shapes \[\(3,\), \(3,\)\], called with \[\(2,\), \(3,\)\]"):
            call(torch.ones(2), y=y)
        with pytest.raises(RuntimeError, match=r"args\[0\] does not fit"):
            call(x.double(), y=y)


def test_what_the_function_writes_stays_from_call_to_call():
    count = torch.zeros(())

    def counted(x):
        count.add_(1)
        return x + count

    ahead = torch.compile(counted, fullgraph=True).aot_compile(((torch.zeros(2),), {}))
    loaded = again(ahead)
    assert count.item() == 0
    assert [loaded(torch.zeros(2))[0].item() for _ in range(3)] == [1, 2, 3]


def test_it_is_for_whole_functions():
    with pytest.raises(RuntimeError, match=r"use torch\.compile\(fullgraph=True\)"):
        torch.compile(doubled).aot_compile(((torch.ones(2),), {}))

    def looks(x):
        return x * 2 if x.sum() > 0 else x

    with pytest.raises(RuntimeError, match="values of a tensor are needed"):
        torch.compile(looks, fullgraph=True).aot_compile(((torch.ones(2),), {}))
    ahead = torch.compile(doubled, fullgraph=True).aot_compile(((torch.ones(2),), {}))
    with pytest.raises(NotImplementedError, match="external_data"):
        ahead.serialize(ahead, {"w": 1})


def test_files_that_are_damaged_or_of_another_machine(monkeypatch):
    ahead = torch.compile(doubled, fullgraph=True).aot_compile(((torch.ones(2),), {}))
    data = ahead.serialize(ahead).serialized_data
    for damaged in (b"", b"no file", data[: len(data) // 2]):
        with pytest.raises(RuntimeError, match="no file of save_compiled_function, or it is damaged"):
            AOTCompiledFunction.deserialize(damaged)
    monkeypatch.setattr(kernel_archives, "machine", lambda *_: "another one")
    with pytest.warns(UserWarning, match="XLA compiles the function again"):
        loaded = AOTCompiledFunction.deserialize(data)
    assert loaded(torch.ones(2))["both"].tolist() == [2.0, 2.0]


def test_precompile_says_what_there_is():
    with pytest.raises(NotImplementedError, match="aot_compile"):
        torch.compiler.precompile(doubled)


def test_a_process_that_has_read_a_function_writes_it_once_more():
    """XLA loses functions of a program that it read from a file when it writes that program again."""
    for _ in range(3):
        ahead = torch.compile(lambda x: x * 2 + 1, fullgraph=True).aot_compile(((torch.ones(2),), {}))
        file = io.BytesIO(ahead.serialize(ahead).serialized_data)
        assert torch.compiler.load_compiled_function(file)(torch.tensor([1.0, 2.0])).tolist() == [3, 5]
