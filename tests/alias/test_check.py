"""`python -m torchgrad_jax check`: what it finds in source, and what it says about it."""

import json

import pytest

from torchgrad_jax._alias import check

SOURCE = """\
import torch
import torch.nn as nn, torch.nn.functional as F
from torch.utils.data import DataLoader as Loader
from torch.export import Dim

alias = torch.nn
torch.backends.cudnn.benchmark = True


def local(torch, x):
    return torch.nothing_here


@torch.jit.script
def f(x: torch.Tensor, n=torch.surely_not_there) -> "torch.also_text":
    return F.relu(alias.functional.gelu(x)).to_sparse()


torch.onnx.export(f)
torch.sparse_coo_tensor
torch.float32.itemsize
getattr(torch, "as_named")
nn.Linear(1, 2)
nn.Linear(3, 4)
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path


def test_names_and_lines(script):
    uses, complaints = check.check([str(script)])
    found = {u.name: (u.kind, [line for _, line in u.places]) for u in uses}
    assert not complaints
    assert found == {
        "torch.Tensor": ("supported", [15]),
        "torch.Tensor.to_sparse": ("missing", [16]),
        "torch.as_named": ("missing", [22]),
        "torch.backends.cudnn.benchmark": ("differs", [7]),
        "torch.float32": ("supported", [21]),
        "torch.export": ("missing", [4]),
        "torch.jit.script": ("differs", [14]),
        "torch.nn": ("supported", [2, 6]),
        "torch.nn.Linear": ("supported", [23, 24]),
        "torch.nn.functional": ("supported", [2]),
        "torch.nn.functional.gelu": ("supported", [16]),
        "torch.nn.functional.relu": ("supported", [16]),
        "torch.onnx.export": ("missing", [19]),
        "torch.sparse_coo_tensor": ("missing", [20]),
        "torch.surely_not_there": ("missing", [15]),
        "torch.utils.data.DataLoader": ("differs", [3]),
    }


def test_the_answer_as_text_and_the_exit_code(script, capsys):
    assert check.main([str(script)]) == 1
    out = capsys.readouterr().out
    assert out.startswith("16 names of torch: 7 supported, 3 differ, 6 missing\n")
    assert "  torch.nn.Linear  [lines 23, 24]\n" in out
    assert "torch.jit.script  [line 14]: nothing is compiled" in out
    assert out.index("missing (6)") < out.index("differs (3)") < out.index("supported (7)")


def test_the_answer_as_data(script, capsys):
    assert check.main(["--json", str(script.parent)]) == 1
    names = {n["name"]: n for n in json.loads(capsys.readouterr().out)["names"]}
    assert names["torch.export"]["kind"] == "missing"
    assert names["torch.export"]["places"] == [[str(script), 4]]


@pytest.mark.parametrize(
    "text, code, said",
    [
        ("import torch\nprint(torch.ones(2))\n", 0, "1 names of torch: 1 supported"),
        ("import numpy as torch\ntorch.nothing\n", 0, "0 names"),
        ("def f(:\n", 2, "invalid syntax"),
        ("from torch.nn import *\nLinear(1, 2)\n", 0, "torch.nn.Linear"),
    ],
    ids=["fine", "another-torch", "no-python", "star"],
)
def test_programs(tmp_path, capsys, text, code, said):
    path = tmp_path / "p.py"
    path.write_text(text, encoding="utf-8")
    assert check.main([str(path)]) == code
    assert said in capsys.readouterr().out


def test_what_cannot_be_found(capsys):
    assert check.main(["no/such/file.py"]) == 2
    assert "no file, folder or package" in capsys.readouterr().err
    assert check.main([]) == 2
    assert "usage" in capsys.readouterr().err
