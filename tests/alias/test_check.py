"""`python -m torchgrad_jax check`: what it finds in source, and what it says about it."""

import json

import pytest

from torchgrad_jax._alias import check

SOURCE = """\
import torch
import torch.nn as nn, torch.nn.functional as F
from torch.utils.data import DataLoader as Loader
from torch.not_there import Dim

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
        "torch.not_there": ("missing", [4]),
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
    assert names["torch.not_there"]["kind"] == "missing"
    assert names["torch.not_there"]["places"] == [[str(script), 4]]


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
    for name in ("no/such/file.py", "nofile.py", "no.such.module", "json.no_such_module", "json.decoder.deeper", "a-b"):
        assert check.main([name]) == 2
        assert "no file, folder or package" in capsys.readouterr().err
    assert check.main([]) == 2
    assert "usage" in capsys.readouterr().err


def test_a_package_is_read_without_being_run(tmp_path, monkeypatch, capsys):
    for folder, text in (("around", "raise SystemExit('it ran')"), ("around/inner", "raise SystemExit('it ran')")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text(text)
    (tmp_path / "around/inner/part.py").write_text("import torch\ntorch.not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("around", "around.inner", "around.inner.part"):
        assert check.main([name]) == 1
        assert "torch.not_there" in capsys.readouterr().out


ASKED = """\
import contextlib, torch
try:
    from torch.not_there import a
    torch.nothing_one
except (ImportError, ValueError):
    torch.nothing_two
with contextlib.suppress(AttributeError):
    torch.nothing_three
if torch.xpu.is_available() and torch.nothing_four:
    torch.nothing_five
elif x.device.type == "mps":
    torch.nothing_six
else:
    torch.nothing_seven
if not hasattr(torch, "npu"):
    torch.nothing_eight
else:
    torch.nothing_nine
y = torch.nothing_ten if HAS_TRITON else torch.nothing_eleven
try:
    torch.nothing_twelve
except ValueError:
    pass
not is_other_available() or torch.nothing_thirteen
"""


def test_a_name_that_the_program_asks_for_first_breaks_nothing(tmp_path):
    path = tmp_path / "asked.py"
    path.write_text(ASKED, encoding="utf-8")
    uses, _ = check.check([str(path)])
    found = {u.name.removeprefix("torch.nothing_") for u in uses if u.breaks}
    assert found == {"two", "seven", "eight", "eleven", "twelve"}
    path.write_text("import torch\ntry:\n    torch.nothing\nexcept AttributeError:\n    pass\n", encoding="utf-8")
    assert check.main([str(path)]) == 0


def test_what_a_program_gives_to_a_class_of_torch_is_its_own(tmp_path):
    (tmp_path / "one.py").write_text(
        "import torch, torch.distributions as D\nD.Normal.best = 3\ntorch.backends.cudnn.no_such_flag = True\n"
        "print(D.Normal.worst)\n"
    )
    (tmp_path / "two.py").write_text("import torch\nprint(torch.distributions.Normal.best)\n")
    uses, _ = check.check([str(tmp_path)])
    assert {u.name for u in uses if u.breaks} == {
        "torch.distributions.Normal.worst",
        "torch.backends.cudnn.no_such_flag",
    }


def test_annotations_that_stay_text_break_nothing(tmp_path):
    text = "import torch\ndef f(x: torch.no_a) -> torch.no_b:\n    y: torch.no = torch.no_c\nz: torch.no_d\n"
    for name, first in (("text", "from __future__ import annotations\n"), ("values", "")):
        (tmp_path / f"{name}.py").write_text(first + text)
    breaks = [{u.name for u in check.check([str(tmp_path / f"{n}.py")])[0] if u.breaks} for n in ("text", "values")]
    assert breaks == [{"torch.no_c"}, {f"torch.no_{c}" for c in "abcd"}]


def test_a_folder_gives_a_page(tmp_path, capsys):
    for i in range(3):
        text = "import torch\ntorch.nothing_everywhere\ntorch.ones(2)\n" + f"torch.nothing_{i}\n" * (i + 1)
        (tmp_path / f"file_{i}.py").write_text(text, encoding="utf-8")
    many = "import torch\n" + "".join(f"torch.many_{i}\n" for i in range(30))
    (tmp_path / "many.py").write_text(many, encoding="utf-8")
    (tmp_path / "other.py").write_text("x = 1\n", encoding="utf-8")
    assert check.main([str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert out.startswith("35 names of torch: 1 supported, 0 differ, 34 missing\n4 files use torch; 4 of them use")
    assert out.index("nothing_everywhere") < out.index("nothing_2") < out.index("nothing_1") < out.index("many_0")
    assert "and 9 more, which --all lists" in out
    assert "torch.ones" not in out
    check.main(["--all", str(tmp_path)])
    out = capsys.readouterr().out
    assert "torch.ones" in out
    assert out.count("torch.many_") == 30
