"""`step.save` and `step.load`: programs that were compiled in one process run in another, which compiles nothing."""

import ast
import errno

import jax
import pytest

import torchgrad_jax as torch
from tests.core.jax.test_kernel_files import said
from torchgrad_jax._bridge.compile.travel import write_to_cache
from torchgrad_jax._core.files import atomic
from torchgrad_jax._core.jax import kernel_archives, programs_ahead

PROGRAM = """
import sys
import torchgrad_jax as torch
from torchgrad_jax._bridge.compile.travel import write_to_cache

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(300, 300), torch.nn.Tanh(), torch.nn.Linear(300, 300))
optimizer = torch.optim.AdamW(net.parameters())


@torch.compile
def step(x):
    loss = net(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


@torch.compile
def predicted(x):
    return net(x)


x = torch.randn(500, 300)
if sys.argv[1] == "load":
    step.load("step.bin")
    predicted.load("predicted.bin")
print([step(x).item() for _ in range(3)])
if sys.argv[1] == "save":
    step.save("step.bin", x)
    write_to_cache(step.lower(x), "cache")
predicted(x).square().sum().backward()
print([step.counts["traced"], net[0].weight.grad.square().sum().item()])
if sys.argv[1] == "save":
    predicted.save("predicted.bin", x)
    write_to_cache(predicted.lower(x), "cache")
"""
OURS = ("compiled_step", "forward", "backward")


def run(tmp_path, monkeypatch, how, cache):
    """What the program prints, and which of its programs it compiled."""
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    out, log = said(tmp_path, monkeypatch, (str(script), how), TORCHGRAD_JAX_CACHE=cache, TORCHGRAD_JAX_LOGS="kernels")
    lines = [line for line in log.splitlines() if "[kernels]" in line]
    compiled = [name for name in OURS for line in lines if f"] {name}(" in line and "compiled in" in line]
    return [ast.literal_eval(line) for line in out.splitlines()], compiled


def test_another_process_runs_the_programs_of_a_file_and_of_a_cache_and_compiles_none(tmp_path, monkeypatch):
    saved, compiled = run(tmp_path, monkeypatch, "save", tmp_path / "first")
    assert {*compiled} == {*OURS}
    assert run(tmp_path, monkeypatch, "load", tmp_path / "second") == (saved, [])
    assert run(tmp_path, monkeypatch, "load", "off") == (saved, [])
    assert run(tmp_path, monkeypatch, "neither", tmp_path / "cache") == (saved, [])


def step_of(width):
    net = torch.nn.Linear(4, width)

    @torch.compile
    def step(x):
        return net(x).detach()

    return step, net


@pytest.fixture
def saved(tmp_path):
    step, _ = step_of(3)
    step.save(tmp_path / "step.bin", torch.ones(2, 4))
    assert step.counts["run"] == 0
    return tmp_path / "step.bin"


@pytest.fixture
def added(monkeypatch):
    found = {}
    monkeypatch.setattr(programs_ahead, "add", lambda key, value: found.update({key: value}))
    return found


def test_a_file_names_the_state_of_its_program(saved, added):
    archive = kernel_archives.unpacked(saved.read_bytes())
    assert archive.state == {"net.weight": "float32 (3, 4)", "net.bias": "float32 (3,)"}
    assert archive.kind == programs_ahead.kind_of(jax.local_devices()[0])
    step_of(3)[0].load(saved)
    assert [*added] == [*archive.programs]


def test_a_file_for_another_state_is_refused(saved, added):
    with pytest.raises(RuntimeError, match=r"are for net.bias of float32 \(3,\), and here it is float32 \(5,\)"):
        step_of(5)[0].load(saved)
    assert not added


@pytest.mark.parametrize("what, value", [("jaxlib", "0.1"), ("platform", "tpu, TPU v5 lite"), ("machine", "0")])
def test_a_file_for_another_machine_is_refused(saved, added, what, value):
    archive = kernel_archives.unpacked(saved.read_bytes())
    saved.write_bytes(kernel_archives.packed(archive.kind | {what: value}, programs=archive.programs.items()))
    with pytest.raises(RuntimeError, match=f"cannot run here: they were made for another {what}: {value}, and here is"):
        step_of(3)[0].load(saved)
    assert not added


def test_a_damaged_file_is_refused(saved, added):
    saved.write_bytes(saved.read_bytes()[:-40])
    with pytest.raises(RuntimeError, match=r"step.bin is no file that step.save has written, or it is damaged"):
        step_of(3)[0].load(saved)
    assert not added


def test_the_bytes_of_a_file_are_artifacts_as_torch_knows_them(saved, added):
    info = torch.compiler.load_cache_artifacts(saved.read_bytes())
    assert info.inductor_artifacts == [*added]
    assert len(added) == 1


def test_a_file_that_cannot_be_written_stays_as_it_was(saved, monkeypatch):
    def full(fd):
        raise OSError(errno.ENOSPC, "no space left")

    before = saved.read_bytes()
    monkeypatch.setattr(atomic, "_sync", full)
    with pytest.raises(OSError, match="no space left"):
        torch.compile(lambda x: x * 3).save(saved, torch.ones(5))
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_a_program_that_calls_functions_of_this_process_stays_here(tmp_path):
    def f(x):
        return torch.from_jax(lambda a: jax.pure_callback(lambda b: b, a, a))(x)

    step = torch.compile(f)
    with pytest.raises(RuntimeError, match="calls functions of this process"):
        step.save(tmp_path / "step.bin", torch.ones(2))
    assert not (tmp_path / "step.bin").exists()


def test_a_key_holds_what_decides_and_no_line_of_source(tmp_path):
    def lowered(by):
        return torch.compile(lambda x: x * by).lower(torch.ones(2))

    def key(by, **kind):
        module = lowered(by).as_jax().compiler_ir("stablehlo")
        return programs_ahead.key_of(module, programs_ahead.kind_of(jax.local_devices()[0]) | kind)

    def again(by):
        module = lowered(by).as_jax().compiler_ir("stablehlo")
        return programs_ahead.key_of(module, programs_ahead.kind_of(jax.local_devices()[0]))

    assert key(2.0) == again(2.0)
    assert key(2.0) != key(3.0)
    assert key(2.0) != key(2.0, jaxlib="0.1")
    low = lowered(2.0)
    write_to_cache(low, tmp_path)
    assert [file.name for file in (tmp_path / "programs").iterdir()] == [key(2.0)]
