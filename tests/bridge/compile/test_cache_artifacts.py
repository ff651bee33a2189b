"""`torch.compiler.save_cache_artifacts` and `load_cache_artifacts`: kernels that go to another machine as bytes."""

import ast
import io
import json
import re
import zipfile

import pytest

import torchgrad_jax as torch
from tests.core.jax.test_kernel_files import said
from torchgrad_jax.compiler import _cache as artifacts

PROGRAM = """
import sys
import jax
import torchgrad_jax as torch

events = []
jax.monitoring.register_event_listener(lambda event, **about: events.append(event))
loaded = None
if len(sys.argv) > 1:
    loaded = torch.compiler.load_cache_artifacts(open(sys.argv[1], "rb").read())
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


x = torch.randn(500, 300)
losses = [step(x).item() for _ in range(3)]
x.exp().sum().item()
missed = sum(event.endswith("cache_misses") for event in events)
print([losses, missed, loaded and len(loaded.inductor_artifacts)])
if len(sys.argv) < 2:
    data, info = torch.compiler.save_cache_artifacts()
    open("kernels.bin", "wb").write(data)
    print([len(info.inductor_artifacts), info.empty()])
"""


def test_a_step_that_was_compiled_elsewhere_starts_without_compiling(tmp_path, monkeypatch):
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    first, _ = said(tmp_path, monkeypatch, (str(script),), TORCHGRAD_JAX_CACHE=tmp_path / "first")
    [losses, missed, _], [saved, empty] = parsed(first)
    assert missed > 0
    assert saved > 0
    assert not empty
    second, complaints = said(
        tmp_path, monkeypatch, (str(script), "kernels.bin"), TORCHGRAD_JAX_CACHE=tmp_path / "second"
    )
    assert parsed(second) == [[losses, 0, saved]], complaints
    assert len(list((tmp_path / "second").glob("*/*-cache"))) == saved
    third, complaints = said(tmp_path, monkeypatch, (str(script), "kernels.bin"), TORCHGRAD_JAX_CACHE="off")
    [[again, _, loaded]] = parsed(third)
    assert again == losses
    assert loaded is None
    assert "keeps no kernels in files" in complaints


def parsed(text):
    return [ast.literal_eval(line) for line in text.splitlines()]


def made(**changed):
    """Bytes like those of `save_cache_artifacts`, with another description or another kernel."""
    buffer = io.BytesIO()
    about = artifacts.kind_here() | changed.get("about", {})
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("about.json", json.dumps(changed.get("described", about)))
        archive.writestr(changed.get("name", "kernels/jit_torch.made-up"), b"code")
    return buffer.getvalue()


@pytest.fixture
def added(monkeypatch):
    found = {}
    monkeypatch.setattr(artifacts, "add_kernel", lambda key, value: found.update({key: value}) is None)
    return found


def test_what_was_saved_is_loaded(added):
    info = torch.compiler.load_cache_artifacts(made())
    assert info.inductor_artifacts == ["jit_torch.made-up"]
    assert not info.empty()
    assert [info.autotune_artifacts, info.aot_autograd_artifacts, info.pgo_artifacts, info.precompile_artifacts] == [
        []
    ] * 4
    assert added == {"jit_torch.made-up": b"code"}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no kernels that save_cache_artifacts has saved"),
        (b"abc" * 100, "no kernels that save_cache_artifacts has saved"),
        (made()[:-30], "no kernels that save_cache_artifacts has saved"),
        (made().replace(b"code", b"edoc"), "Bad CRC-32"),
        (made(described=[1]), "is no table"),
        (made(about={"jaxlib": "0.1"}), "another jaxlib: 0.1"),
        (made(about={"machine": "0"}), "another machine"),
        (made(about={"torchgrad_jax": "9"}), "another torchgrad_jax"),
        (made(name="kernels/jit_other"), "is no kernel"),
        (made(name="kernels/jit_torch.a/../../b"), "is no kernel"),
        (made(name="../b"), "is no kernel"),
    ],
)
def test_what_does_not_fit_loads_nothing_and_says_why(added, data, said):
    with pytest.warns(UserWarning, match=re.escape(said)):
        assert torch.compiler.load_cache_artifacts(data) is None
    assert added == {}


def test_nothing_to_save(monkeypatch):
    monkeypatch.setattr(artifacts, "used_kernels", lambda: iter(()))
    assert torch.compiler.save_cache_artifacts() is None
