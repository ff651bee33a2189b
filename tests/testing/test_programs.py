"""`compare` finds the bugs of the programs in examples/compare, and planted ones in what it recorded.

What torch did in these programs was recorded by `python -m torchgrad_jax compare --nudges 1 --record FILE --steps N
PROGRAM`, so that the tests run without torch.
"""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from torchgrad_jax.testing import compare_program
from torchgrad_jax.testing._observer import rounding
from torchgrad_jax.testing._observer.digest import digest, places
from torchgrad_jax.testing._observer.recording import Entry, Recording, load, save
from torchgrad_jax.testing._programs import compare as comparing, judge as judging
from torchgrad_jax.testing._programs.command import main
from torchgrad_jax.testing._programs.compare import report_of
from torchgrad_jax.testing._programs.locate import parting, step_of
from torchgrad_jax.testing._programs.runs import Run, has_torch, record

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = ROOT / "examples" / "compare"
RECORDED = Path(__file__).resolve().parent / "recorded"

BUGS = {
    "digits_port": ("digits", 1, "buffer", "model.norm.running_mean", ""),
    "attention": (
        "attention",
        1,
        "op gradient",
        "model.blocks.1.qkv.bias",
        "backward of scaled_dot_product_attention, attention.py:22",
    ),
    "sequences_port": ("sequences", 3, "gradient", "model.read.weight_ih_l0", ""),
}


@pytest.mark.parametrize("name", BUGS)
def test_bug_is_found(name):
    recording, step, kind, parameter, operator = BUGS[name]
    report = compare_program(str(PROGRAMS / f"{name}.py"), against=str(RECORDED / f"{recording}.npz"))
    found = report.parting
    assert found is not None, str(report)
    assert found.verdict is not None
    assert (found.step, found.verdict.entry.kind, found.parameter, found.operator) == (step, kind, parameter, operator)
    assert found.verdict.moved < abs(found.verdict.got - found.verdict.want) / 1000
    assert f"They part at step {step}" in str(report)
    assert parameter in report.html()
    assert "http" not in report.html()


def test_original_agrees():
    report = compare_program(str(PROGRAMS / "digits.py"), against=str(RECORDED / "digits.npz"))
    assert report.agrees, str(report)
    assert report.compared > 50


@pytest.fixture(scope="module")
def sequences():
    """What torch did, plain and nudged."""
    return load(str(RECORDED / "sequences.npz"))


def changed(recording, change, kind, name):
    """A copy of a recording in which the numbers of one entry are others."""
    copy = Recording(dict(recording.facts), recording.events, [*recording.entries], recording.numbers.copy())
    copy.facts["unreadable"] = 0
    i, entry = next((i, e) for i, e in enumerate(copy.entries) if (e.kind, e.name) == (kind, name))
    values = change(recording.values(entry).copy())
    copy.numbers[entry.begin : entry.begin + entry.size] = values
    copy.entries[i] = dataclasses.replace(entry)
    return copy


def one_element(values):
    values[values.size // 2] *= 1.001
    return values


FAULTS = {
    "one element of a gradient": (one_element, "gradient", "model.read.weight_hh_l0"),
    "sign of a gradient": (np.negative, "gradient", "model.answer.bias"),
    "missing gradient": (np.zeros_like, "gradient", "model.read.bias_ih_l0"),
    "state of an optimizer": (one_element, "state", "model.answer.weight exp_avg_sq"),
    "frozen step counter": (lambda v: v - 1, "state", "model.answer.weight step"),
    "learning rate": (lambda v: v * (1 + 1e-9), "option", "Adam.param_groups[0]['lr']"),
    "output of a module": (one_element, "output", "model.answer"),
    "not a number": (lambda v: v * np.nan, "gradient", "model.answer.weight"),
}


def test_another_dtype_is_found(sequences):
    plain, *moved = sequences
    other = changed(plain, lambda values: values, "gradient", "model.answer.bias")
    at = next(i for i, e in enumerate(other.entries) if (e.kind, e.name) == ("gradient", "model.answer.bias"))
    other.entries[at] = dataclasses.replace(other.entries[at], dtype="float64")
    report = report_of("planted", ("judged", "torch"), [other, plain, *moved])
    assert report.parting is not None
    assert "float64" in str(report)


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_fault_is_found(fault, sequences):
    change, kind, name = FAULTS[fault]
    plain, *moved = sequences
    report = report_of("planted", ("judged", "torch"), [changed(plain, change, kind, name), plain, *moved])
    assert report.parting is not None
    assert report.parting.verdict is not None
    assert (report.parting.verdict.entry.kind, report.parting.verdict.entry.name) == (kind, name)


def test_nudged_run_is_no_difference(sequences):
    plain, *moved = sequences
    report = report_of("rounding", ("nudged", "torch"), [moved[0], plain, *moved])
    assert report.agrees, str(report)


def test_chaos_is_told_from_error(sequences):
    """Where a rounding moves the reference far, another value is no difference, and the report says so."""
    plain, *moved = sequences
    far = [changed(m, lambda v: v * 1.5, "root", "loss") for m in moved]
    judged = changed(plain, lambda v: v * 1.2, "root", "loss")
    assert report_of("chaos", ("judged", "torch"), [judged, plain, *far]).agrees
    assert not report_of("error", ("judged", "torch"), [judged, plain, *moved]).agrees


def test_other_course_is_found(sequences):
    plain, *moved = sequences
    events = [*plain.events]
    events[1] = events[1] | {"kind": "step"}
    other = Recording(plain.facts, events, plain.entries, plain.numbers)
    report = report_of("course", ("judged", "torch"), [other, plain, *moved])
    assert report.parting is not None
    assert "goes on with" in report.parting.text
    assert "goes on with" in str(report)


@pytest.mark.parametrize("size, kept, wrong", [(1000, 32, 777), (100_000, 256, 12_345)])
def test_an_element_that_is_not_kept_still_counts(size, kept, wrong):
    values = np.random.default_rng(0).standard_normal(size)
    other = values.copy()
    other[wrong] += 0.5
    assert wrong not in places(size, kept)
    (sample, sums), (same, others) = digest(values, kept), digest(other, kept)
    np.testing.assert_array_equal(sample, same)
    assert abs(sums[0] - others[0]) == pytest.approx(0.5) == abs(sums[1] - others[1])


PROGRAM = """
import os, sys, torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.Adam(model.parameters(), 0.1)
for step in range(4):
    optimizer.zero_grad()
    x = torch.randn(8, 3)
    loss = model(x).pow(2).mean()
    if len(sys.argv) > 1 and step == 2 and hasattr(torch, "from_jax"):
        loss = loss * float(sys.argv[1])
    loss.backward()
    optimizer.step()
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("programs") / "train.py"
    path.write_text(PROGRAM)
    return str(path)


def test_command_records_and_compares(program, tmp_path, capsys):
    """A recording of this package, and the program beside it on eight devices."""
    kept, page, data = (str(tmp_path / n) for n in ("kept.npz", "page.html", "data.json"))
    common = ["--nudges", "0", "--steps", "2"]
    assert main([*common, "--against", "here", "--record", kept, program]) == 0
    assert main([*common, "--against", kept, "--html", page, "--json", data, program]) == 0
    assert "They agree" in capsys.readouterr().out
    assert "They agree" in Path(page).read_text()
    found = json.loads(Path(data).read_text())
    assert found["agrees"]
    assert len(found["losses"]) == 2


@pytest.mark.oracle
def test_a_later_step_is_looked_at_once_more(program):
    """Operators are recorded where the runs part, although that is behind the first steps."""
    report = compare_program(program, ["1.5"], operators=2, nudges=1)
    assert report.parting is not None
    assert report.parting.step == 3
    assert "only the run that is judged calls mul, train.py:12" in str(report)
    assert report.parting.verdict is not None
    assert report.parting.verdict.entry.name == "loss"


@pytest.mark.parametrize("against", ["compiled", "exact", "float64", "devices=2"])
def test_against_itself(program, against):
    assert compare_program(program, against=against, nudges=0, steps=2).agrees


ONE_WAY = """
import torch
torch.manual_seed(0)
class Net(torch.nn.Linear):
    def forward(self, x):
        y = super().forward(x)
        return y * 1.01 if WRONG else y
model = Net(3, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(2):
    optimizer.zero_grad()
    model(torch.randn(8, 3)).pow(2).mean().backward()
    optimizer.step()
"""
WRONG = {
    "compiled": "torch.compiler.is_compiling()",
    "exact": "torch.compiler.is_compiling()",
    "float64": "y.dtype == torch.float64",
    "devices=8": "len(y.sharding.device_set) == 8",
}


@pytest.mark.parametrize("against", WRONG)
def test_what_is_wrong_in_one_way_alone_is_found(against, tmp_path):
    path = tmp_path / "train.py"
    path.write_text(ONE_WAY.replace("WRONG", WRONG[against]))
    report = compare_program(str(path), against=against, nudges=0, steps=1)
    assert report.parting is not None
    assert report.parting.step == 1


def test_what_is_wrong_beside_a_recording_is_found(tmp_path):
    """The recording was made by the program before it was changed; the change shows in the second step alone."""
    path, kept = tmp_path / "train.py", str(tmp_path / "kept.npz")
    path.write_text(ONE_WAY.replace("WRONG", "False"))
    assert main(["--nudges", "0", "--against", "here", "--record", kept, str(path)]) == 0
    path.write_text(ONE_WAY.replace("WRONG", "seen()"))
    later = "calls = []\ndef seen():\n    calls.append(1)\n    return len(calls) > 1\n"
    path.write_text(path.read_text().replace("class Net", later + "class Net"))
    report = compare_program(str(path), against=kept, nudges=0)
    assert report.parting is not None
    assert report.parting.step == 2


def test_gradients_that_earlier_passes_left_are_named(tmp_path):
    """A port that forgets `zero_grad`, beside a recording of the program that calls it; and one that sets zeros."""
    path, kept = tmp_path / "train.py", str(tmp_path / "kept.npz")
    right = ONE_WAY.replace("WRONG", "False")
    path.write_text(right)
    assert main(["--nudges", "0", "--against", "here", "--record", kept, str(path)]) == 0
    path.write_text(right.replace("zero_grad()", "zero_grad(set_to_none=False)"))
    assert compare_program(str(path), against=kept, nudges=0).agrees
    path.write_text(right.replace("optimizer.zero_grad()", "pass"))
    found = compare_program(str(path), against=kept, nudges=0).parting
    assert found is not None
    assert (found.step, found.verdict.want, found.verdict.got) == (2, 0, 2)
    assert "zero_grad" in found.advice
    assert (found.parameter, found.operator) == ("model.bias", "")


def test_a_fault_of_one_rounding_is_told_from_rounding(tmp_path):
    """A result that is larger by one in 2^23 in compiled code alone: less than XLA's own rounding makes of it."""
    path = tmp_path / "train.py"
    path.write_text(ONE_WAY.replace("y * 1.01 if WRONG", "y * (1 + 2**-23) if torch.compiler.is_compiling()"))
    assert compare_program(str(path), against="compiled", nudges=0, steps=1).agrees
    report = compare_program(str(path), against="exact", steps=1)
    assert report.parting is not None
    assert report.parting.step == 1


WAYS = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
    def forward(self, x):
        compiled = torch.compiler.is_compiling()
        self.seen = f"{x.dtype} {'compiled' if compiled else len(x.sharding.device_set)}"
        return self.layer(x)
net, x = Net(), torch.ones(4, 2)
net.seen = ""
net(x).sum().backward()
print(net.seen)
print("own", torch.compile(torch.compiler.is_compiling)())
"""
SEEN = {
    "plain": ["torch.float32 1", "own True"],
    "eager": ["torch.float32 1", "own False"],
    "compiled": ["torch.float32 compiled", "own True"],
    "exact": ["torch.float32 compiled", "own True"],
    "float64": ["torch.float64 1", "own True"],
    "devices": ["torch.float32 2", "own True"],
}


def test_ways_to_run_a_program(tmp_path):
    """What a program sees of each way in which it runs."""
    path = tmp_path / "ways.py"
    path.write_text(WAYS)
    found = record([Run(str(path), variant=v, devices=2) for v in SEEN])
    assert {v: r.facts["tail"].splitlines() for v, r in zip(SEEN, found)} == SEEN


def test_a_program_on_another_platform_finds_the_cpu_as_well(monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    env = Run("train.py", platform="gpu").environment()
    assert env["JAX_DEFAULT_DEVICE"] == "gpu"
    assert "JAX_PLATFORMS" not in env


def test_nudge_moves_by_a_rounding(program):
    """And is not taken for something that the program does."""
    plain, moved = record([Run(program, steps=1), Run(program, steps=1, nudge=1)])
    names = [[(e.kind, e.name) for e in r.entries] for r in (plain, moved)]
    assert names[0] == names[1]
    at = names[0].index(("gradient", "model.0.weight"))
    before, after = (r.values(r.entries[at]) for r in (plain, moved))
    assert 0 < np.abs(after - before).max() < 1e-5 * np.abs(before).max()


ROUNDED = """
import torch
torch.nn.Embedding(4, 3, padding_idx=1)
first, second = torch.nn.init.orthogonal_(torch.empty(2, 8, 8)).unbind(0)
x = torch.randn(64, 8)
x = x / x.std(0)
x.std(0).log()
scores = torch.tanh(x @ first)
kept, _ = scores.topk(3)
print(int((scores < kept[:, -1:]).sum()), int((scores == scores.amax(1, keepdim=True)).sum()))
distances = torch.cdist(x, x)
print(bool((distances == distances.T).all()), float(x.clamp(-0.3, 0.3).max()))
w = torch.ones(8, requires_grad=True)
torch.cumprod(w * scores, 1).sum().backward()
"""


def values_of(recording, kind, name):
    return next(recording.values(e) for e in recording.entries if (e.kind, e.name) == (kind, name))


def test_results_and_gradients_are_nudged(tmp_path):
    """Where no weight takes part, too; but what is only picked, and what is symmetric, stays so."""
    path = tmp_path / "rounded.py"
    path.write_text(ROUNDED)
    plain, moved = record([Run(str(path)), Run(str(path), nudge=1)])
    assert (plain.facts["error"], moved.facts["error"]) == ("", "")
    assert plain.facts["tail"] == moved.facts["tail"] == "320 64\nTrue 0.30000001192092896"
    for kind, name in (("op", "log"), ("op", "unbind[0]"), ("op gradient", "mul")):
        a, b = (values_of(r, kind, name) for r in (plain, moved))
        assert 0 < np.abs(a - b).max() < 1e-5, name


def test_large_tensors_are_nudged_where_operators_are_recorded(tmp_path):
    path = tmp_path / "large.py"
    path.write_text("import torch\nprint((torch.ones(70000) * 0.3 + 0.1)[0].item())")
    runs = [Run(str(path)), *(Run(str(path), nudge=1, window=w) for w in ((0, 12), (1, 12)))]
    plain, near, far = (r.facts["tail"] for r in record(runs))
    assert plain == far != near


def test_what_rounds_nothing_is_exact():
    x = np.array([0.3, -1.7, 2.5, 2.5], np.float32)
    assert rounding.exact(-x[::-1], [x])
    assert rounding.exact(np.maximum(x, 0.1), [x, np.asarray(0.1)])
    assert rounding.exact(np.sign(x), [])
    assert not rounding.exact(x + x[::-1], [x])
    assert not rounding.exact(x, [])
    factor = rounding.factor(np.array([0.3, -0.3, 2.5, 2.0, np.inf], np.float32), 1)
    assert factor[0] == factor[1]
    np.testing.assert_array_equal(np.abs(factor - 1) > 0, [True, True, True, False, False])
    assert len({float(rounding.factor(x, seed)[0]) for seed in range(8)}) == 2


STEPS = {
    "of an optimizer, over several backward passes": (
        "optimizer = torch.optim.SGD([w], 0.1)",
        "w.sum().backward(); (w * w).sum().backward(); optimizer.step()",
        [("backward", 1), ("backward", 1), ("step", 1), ("backward", 2), ("backward", 2), ("step", 2), ("end", 2)],
    ),
    "by hand": ("", "(w * w).sum().backward()", [("backward", 1), ("backward", 2), ("end", 2)]),
    "of gradients": (
        "",
        "g, = torch.autograd.grad((w * w).sum(), w, create_graph=True); torch.autograd.grad(g.sum(), w)",
        [("grad", 1), ("grad", 1), ("grad", 2), ("grad", 2), ("end", 2)],
    ),
    "with a compiled loss": (
        "optimizer = torch.optim.SGD([w], 0.1); loss = torch.compile(lambda: (w * w).sum())",
        "loss().backward(); optimizer.step()",
        [("call", 1), ("backward", 1), ("step", 1), ("call", 2), ("backward", 2), ("step", 2), ("end", 2)],
    ),
    "compiled whole": (
        "optimizer = torch.optim.SGD([w], 0.1)\n@torch.compile\ndef step(): (w * w).sum().backward(); optimizer.step()",
        "step()",
        [("call", 1), ("call", 2), ("end", 2)],
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_are_counted(name, tmp_path):
    """`steps` lets so many whole steps run, and events belong to the step that they lead to."""
    before, step, expected = STEPS[name]
    path = tmp_path / "steps.py"
    path.write_text(f"import torch\nw = torch.ones(2, requires_grad=True)\n{before}\nfor _ in range(4): {step}\n")
    (seen,) = record([Run(str(path), steps=2)])
    assert [(e["kind"], step_of(e)) for e in seen.events] == expected


def test_module_beside_a_script(program, monkeypatch):
    monkeypatch.chdir(Path(program).parent)
    report = compare_program("train", module=True, reference=program, against="here", nudges=0, steps=1)
    assert report.agrees, str(report)


def test_what_cannot_be_compared(tmp_path, capsys):
    silent = tmp_path / "silent.py"
    kept = str(tmp_path / "kept.npz")
    silent.write_text("raise ValueError('in the program')")
    assert main(["--against", "here", "--nudges", "0", str(silent)]) == 2
    assert "ValueError: in the program" in capsys.readouterr().err
    for arguments, text in (
        (["--against", str(silent), str(silent)], "no recording"),
        (["--against", "elsewhere", str(silent)], "elsewhere"),
        ([str(tmp_path / "absent.py")], "no such program"),
        (["--record", kept, "--against", "here", str(tmp_path / "absent.py")], "no such program"),
        (["--record", kept, "--against", "here", "--nudges", "0", str(silent)], "nothing was seen"),
        (["--reference", str(silent), "--against", str(silent), str(silent)], "cannot be both"),
    ):
        assert main(arguments) == 2
        assert text in capsys.readouterr().err
    assert not Path(kept).exists()
    with pytest.raises(SystemExit):
        main(["--record", kept, "--against", "compiled", str(silent)])
    assert "no use for --against compiled" in capsys.readouterr().err


def test_without_torch(monkeypatch, program, capsys):
    monkeypatch.setattr(comparing, "has_torch", lambda: False)
    assert main([program]) == 2
    assert "--against FILE" in capsys.readouterr().err


def test_observer_needs_neither_jax_nor_this_package():
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import _boot; _boot.observer()\n"
        "import torchgrad_jax_observer.program\n"
        "print(sorted({m.partition('.')[0] for m in sys.modules} & {'jax', 'torch', 'torchgrad_jax'}))"
    )
    folder = ROOT / "torchgrad_jax" / "testing"
    done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


SUITE = """
import torch
FACTOR = 1.001 if hasattr(torch, "from_jax") else 1.0

def test_right():
    torch.nn.Linear(3, 2)(torch.randn(4, 3)).sum().backward()

def test_other_gradient():
    layer = torch.nn.Linear(3, 2)
    (layer(torch.randn(4, 3)) * FACTOR).sum().backward()

def test_raises_there():
    assert FACTOR > 1
"""


def compared_tests(folder, suite, *options):
    """A run of pytest over a suite with options of the plugin."""
    (folder / "test_suite.py").write_text(suite)
    (folder / "temporary").mkdir(exist_ok=True)
    env = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder / "temporary")}
    plugins = ["-p", "torchgrad_jax.pytest_compare", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, *options, folder]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


@pytest.mark.oracle
def test_plugin(tmp_path):
    done = compared_tests(tmp_path, SUITE, "--compare-with", "torch")
    assert "2 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "gradient of layer.bias" in done.stdout
    assert "the reference raised AssertionError" in done.stdout
    assert not [*tmp_path.glob("temporary/torchgrad_jax-*")]


COMPILED = """
import torch

class Net(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x) * (1.001 if torch.compiler.is_compiling() else 1)

def test_right():
    torch.nn.Linear(3, 2)(torch.randn(4, 3)).sum().backward()

def test_other_when_compiled():
    Net(3, 2)(torch.randn(4, 3)).sum().backward()
"""


def test_plugin_beside_this_package(tmp_path):
    """What a test computes differs when its modules are compiled."""
    done = compared_tests(tmp_path, COMPILED, "--compare-with", "jax")
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "module       Net" in done.stdout


CHANGED_LATER = SUITE.partition("def test_raises_there")[0].replace("1.001", "1.0")


@pytest.mark.oracle
def test_plugin_beside_a_recording(tmp_path):
    """What torch did is kept; a factor that comes into the suite afterwards is found beside it."""
    kept, folder = str(tmp_path / "kept"), tmp_path / "suite"
    folder.mkdir()
    made = compared_tests(folder, CHANGED_LATER, "--compare-record", kept)
    assert "2 passed" in made.stdout, made.stdout + made.stderr
    changed_suite = CHANGED_LATER.replace("1.0 if", "1.001 if")
    done = compared_tests(folder, changed_suite, "--compare-with", kept)
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "gradient of layer.bias" in done.stdout


def test_killed_program_says_so(tmp_path):
    path = tmp_path / "killed.py"
    path.write_text("import os, sys\nprint('last words', flush=True)\nos._exit(3)")
    with pytest.raises(RuntimeError, match=r"ended with 3:\nlast words"):
        record([Run(str(path))])


def test_recording_comes_back(tmp_path, sequences):
    save(sequences, str(tmp_path / "again.npz"))
    for a, b in zip(sequences, load(str(tmp_path / "again.npz")), strict=True):
        assert (a.facts, a.events, a.entries) == (b.facts, b.events, b.entries)
        np.testing.assert_array_equal(a.numbers, b.numbers)


def test_another_interpreter_is_believed_to_have_torch():
    assert has_torch("another-python")


def test_steps_of_another_implementation_are_not_paired():
    """On a line whose library function is written in another way, steps of the same name are no partners."""

    def calls(*names):
        return [Entry(0, "op", name, where=line) for name, line in names]

    theirs = calls(("mul", "a.py:1"), ("full", "a.py:2"), ("to", "a.py:2"), ("to", "a.py:3"))
    ours = calls(("mul", "a.py:1"), ("to", "a.py:2"), ("isfinite", "a.py:2"), ("to", "a.py:3"))
    paired = [b.where for a, b in judging._pairs(ours, theirs) if a is not None and b is not None]
    assert paired == ["a.py:1", "a.py:3"]


def test_gradients_that_arrive_are_paired_as_their_operators():
    """Backward passes may go another way round, and a library may compute one result from another."""

    def side(numbers, arriving):
        made = [Entry(0, "op", f"cell[{i}]", number=n, where="a.py:1") for n in numbers for i in (0, 1)]
        return made + [Entry(0, "op gradient", f"cell[{i}]", number=n) for n, i in arriving]

    def paired(ours, theirs):
        both = judging._pairs(ours, theirs)
        return [(a.number, b.number, b.name) for a, b in both if a and b and b.kind == "op gradient"]

    theirs = side([1, 2], [(2, 0), (1, 0), (1, 1)])
    ours = side([5, 6], [(5, 1), (5, 0), (6, 0)])
    assert paired(ours, theirs) == [(6, 2, "cell[0]"), (5, 1, "cell[0]"), (5, 1, "cell[1]")]
    assert paired([*ours, Entry(0, "op gradient", "cell[1]", number=6)], theirs) == [
        (6, 2, "cell[0]"),
        (5, 1, "cell[0]"),
    ]


def test_a_run_that_fails_is_named_before_what_it_lacks():
    weight = Entry(0, "parameter", "net.weight", size=1, shape=(1,))
    end = {"kind": "end", "where": "", "step": 0}
    failed = Recording({"error": "RuntimeError: no", "status": 1, "unreadable": 0}, [end], [])
    begin = {"kind": "begin", "where": "a.py:1", "step": 0, "name": "net"}
    other = Recording({"error": "", "status": 0, "unreadable": 0}, [begin, end], [weight], np.ones(1))
    found = parting(judging.Judge(other, failed))
    assert found is not None
    assert (
        found.text
        == "then the reference raised RuntimeError: no, and the other goes on with the first call of net (a.py:1)"
    )


@pytest.mark.parametrize(("inside", "differs"), [("bfloat16", False), ("float32", True)])
def test_gradients_of_half_precision_are_judged_by_it(inside, differs):
    """Under `autocast` a gradient of float32 was computed in bfloat16."""

    def run(slope):
        made = Entry(0, "op", "linear", dtype=inside)
        gradient = Entry(0, "gradient", "w", dtype="float32", size=1, sums=(slope, slope, slope), shape=(1,))
        return Recording({}, [{}], [made, gradient], np.array([slope]))

    judge = judging.Judge(run(138.5), run(139.0))
    assert [v.differs for v in judge.event(0) if v.entry.kind == "gradient"] == [differs]


def test_a_program_beside_itself_is_not_nudged(tmp_path, monkeypatch):
    path, started = tmp_path / "train.py", []
    path.write_text("")

    def begun(runs):
        started.extend(runs)
        raise InterruptedError

    monkeypatch.setattr(comparing, "record", begun)
    for against, nudges in (("here", [0, 0]), ("compiled", [0, 0, 1, 2])):
        started.clear()
        with pytest.raises(InterruptedError):
            compare_program(str(path), against=against)
        assert [run.nudge for run in started] == nudges
