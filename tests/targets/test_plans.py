"""Plans as text, JSON and pages, and what is said where there is nothing to plan: without any compiler."""

import dataclasses
import json
import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest

import torchgrad_jax as torch
from torchgrad_jax import interop
from torchgrad_jax._alias import plan as command
from torchgrad_jax._bridge.compile.inspection import Collective
from torchgrad_jax._bridge.compile.plans.chips import CHIPS
from torchgrad_jax._bridge.compile.plans.convolutions import flops_of_convolutions
from torchgrad_jax._bridge.compile.plans.page import page, picture
from torchgrad_jax._bridge.compile.plans.plan import (
    Emulated,
    Exchange,
    Held,
    Plan,
    _exchanges,
    _held,
    _result,
    kernels_in,
    report,
    size,
    time,
)  # fmt: skip
from torchgrad_jax._core.jax.target import chips_of, gpus

SMALL = Plan(
    target="v5e:2x2",
    chip="TPU v5e",
    devices=4,
    memory={"parameters": 3 << 30, "optimizer": 6 << 30, "temporary": 1 << 30},
    memory_of_chip=16 << 30,
    flops=2e12,
    bytes=3e9,
    seconds=0.0102,
    limited_by="arithmetic",
    held=[Held("train.py:12:8 (Block.forward)", 4, 3 << 29)],
    exchanges=[Exchange("all-gather", "bf16[768,256]", 28, 11010048)],
    emulates=True,
    emulated=[Emulated("pow", "float64", "train.py:34:82 (step)", 18, 18)],
    host=["pure_callback (train.py:9:1 (step))"],
    kernels=34,
)
LARGE = Plan(
    target="h100",
    chip="NVIDIA H100",
    devices=1,
    memory={"parameters": 90 << 30},
    memory_of_chip=79 << 30,
    flops=2e12,
    bytes=3e9,
    seconds=0.002,
    limited_by="arithmetic",
    held=[],
    exchanges=[],
    emulates=False,
    emulated=[],
    host=[],
)


def test_a_plan_says_whether_it_fits():
    assert (SMALL.total, SMALL.fits) == (10 << 30, True)
    assert (LARGE.total, LARGE.fits) == (90 << 30, False)


def test_a_plan_goes_through_json():
    assert Plan.from_json(SMALL.to_json()) == SMALL
    assert json.loads(LARGE.to_json())["fits"] is False


def test_plans_stand_side_by_side():
    text = "\n".join(report([SMALL, LARGE]))
    assert re.search(r"^fits +yes, 62.5% of 16 GiB +NO, 113.9% of 79 GiB$", text, re.MULTILINE), text
    assert re.search(r"^  optimizer +6 GiB +0 B$", text, re.MULTILINE), text
    assert re.search(r"^kernels +34 in 1 program +0 in 1 program$", text, re.MULTILINE), text
    assert "28 x all-gather of bf16[768,256], 10.5 MiB" in text
    assert "1.5 GiB in 4 of train.py:12:8 (Block.forward)" in text
    assert "18 x pow in float64, 18 elements, train.py:34:82 (step)" in text


def test_the_largest_batch_stands_in_the_table_where_somebody_has_asked():
    asked = dataclasses.replace(SMALL, batch=64, largest_batch=4096)
    assert re.search(r"^largest batch +4096 samples \(64 here\)$", "\n".join(report([asked, LARGE])), re.MULTILINE)
    assert "largest batch" not in "\n".join(report([SMALL, LARGE]))
    assert Plan.from_json(asked.to_json()) == asked


def test_a_page_has_a_bar_for_each_target_and_escapes_what_it_shows():
    text = page("a<b>.py", [SMALL, LARGE])
    assert "a&lt;b&gt;.py" in text
    assert "<b>" not in text
    assert text.count('fill="none"') == 2
    assert "<title>optimizer: 6 GiB</title>" in text
    assert "it does not fit" in text


def test_a_picture_stands_alone_and_names_what_can_be_seen():
    drawn = ElementTree.fromstring(picture([SMALL, dataclasses.replace(LARGE, memory=LARGE.memory | {"numbers": 8})]))
    words = [x.text for x in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert words[0] == SMALL.target
    assert "optimizer" in words
    assert "numbers" not in words
    frames = [x for x in drawn.iter("{http://www.w3.org/2000/svg}rect") if x.get("fill") == "none"]
    widths = [float(x.attrib["width"]) for x in frames]
    assert widths[0] / widths[1] == pytest.approx(SMALL.memory_of_chip / LARGE.memory_of_chip, rel=0.01)


@pytest.mark.parametrize("number, text", [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (16 << 30, "16 GiB"),
                                          (5 << 50, "5120 TiB")])  # fmt: skip
def test_sizes(number, text):
    assert size(number) == text


@pytest.mark.parametrize("seconds, text", [(2.0, "2 s"), (0.0102, "10.2 ms"), (3.4e-7, "0.34 us")])
def test_times(seconds, text):
    assert time(seconds) == text


def collective(kind, shape):
    return Collective(kind, shape)


def test_what_comes_out_of_an_exchange_counts():
    assert _result("bf16[4,2]") == "bf16[4,2]"
    assert _result("(f32[2], f32[3])") == "(f32[2], f32[3])"
    assert _result("((f32[2], /*index=1*/f32[3]), (f32[8], f32[12]))") == "(f32[8], f32[12])"
    found = _exchanges([collective("all-reduce", "f32[8,128]")] * 2 + [collective("all-gather", "s8[3]")])
    assert [(e.kind, e.times, e.bytes) for e in found] == [("all-reduce", 2, 8192), ("all-gather", 1, 3)]


HLO = """
%fused (p: f32[2]) -> f32[2] {
  ROOT %add.1 = f32[2]{0} add(%p, %p)
}

ENTRY %main.3 (x.1: f32[2]) -> (f32[2], f32[2]) {
  %x.1 = f32[2]{0:T(128)} parameter(0), sharding={replicated}
  %copy-start = (f32[2]{0}, f32[2]{0:S(1)}, u32[]{:S(2)}) copy-start(%x.1)
  %copy-done = f32[2]{0:S(1)} copy-done(%copy-start)
  %all-reduce-start = f32[2]{0} all-reduce-start(%x.1), to_apply=%sum
  %all-reduce-done = f32[2]{0} all-reduce-done(%all-reduce-start)
  %fusion = f32[2]{0} fusion(%copy-done), kind=kLoop, calls=%fused
  ROOT %tuple.2 = (f32[2]{0}, f32[2]{0}) tuple(%fusion, %all-reduce-done)
}
"""


def test_steps_that_only_name_or_fetch_memory_are_no_kernels():
    assert kernels_in(HLO) == 2
    assert kernels_in("") == 0


CONVOLUTIONS = """
  %image = f32[4,32,32,8]{3,2,1,0} parameter(0)
  %kernel = f32[16,3,3,4]{3,2,1,0} parameter(1)
  %slope = f32[4,16,16,16]{3,2,1,0} parameter(2)
  %of.1 = (KIND, u8[0]{0}) custom-call(%A, %B), window={size=3x3 stride=2x2}, dim_labels=b01f_o01i->b01f, \
feature_group_count=2, custom_call_target="__cudnn$convNAME", metadata={op_name="f"}
"""


@pytest.mark.parametrize(
    ("name", "first", "second", "result"),
    [
        ("Forward", "image", "kernel", "f32[4,16,16,16]{3,2,1,0}"),
        ("BiasActivationForward", "image", "kernel", "f32[4,16,16,16]{3,2,1,0}"),
        ("BackwardInput", "slope", "kernel", "f32[4,32,32,8]{3,2,1,0}"),
        ("BackwardFilter", "image", "slope", "f32[16,3,3,4]{3,2,1,0}"),
    ],
)
def test_a_convolution_takes_as_much_forward_as_for_either_gradient(name, first, second, result):
    text = CONVOLUTIONS.replace("NAME", name).replace("%A", f"%{first}").replace("%B", f"%{second}")
    assert flops_of_convolutions(text.replace("KIND", result)) == 2 * (3 * 3 * 4 * 16) * (4 * 16 * 16)
    assert flops_of_convolutions(HLO) == 0


def test_what_is_saved_for_a_backward_pass_is_told_by_its_line():
    """At the fullest place: what each of the three layers has saved, less what is needed no more."""
    weight = torch.ones(8, 8)

    def loss(x):
        for _ in range(3):
            x = (x @ weight).tanh()
        return x.sum()

    step = torch.compile(torch.func.grad(loss))
    held = {row.line.rpartition(":")[0].rpartition(":")[2]: row for row in _held(step.lower(torch.ones(4, 8)).jaxpr)}
    code = loss.__code__
    layer = held[str(code.co_firstlineno + 2)]
    assert (layer.times, layer.bytes) == (3, 3 * 4 * 8 * 4)  # the results of tanh, in float32
    assert sum(row.bytes for row in held.values()) <= 5 * 4 * 8 * 4


def test_values_that_are_not_needed_at_once_are_not_added_up():
    def f(x):
        for _ in range(10):
            x = (x + 1).sin()
        return x * 2

    held = _held(torch.compile(f).lower(torch.ones(100)).jaxpr)
    assert sum(row.bytes for row in held) == 2 * 400
    assert _held(torch.compile(lambda x: x * 2).lower(torch.ones(3)).jaxpr) == []


def test_each_gpu_is_described_and_has_its_speeds():
    assert {*gpus()} <= {*CHIPS}
    assert {name for name, chip in CHIPS.items() if not chip.emulates} == {*gpus()}


def test_a_topology_says_how_many_chips_there_are():
    assert chips_of("v5e:4x4") == [4, 4]
    assert chips_of("v4:2x2x1") == [2, 2, 1]
    assert chips_of("v5e") == []


# --- what is said -----------------------------------------------------------------------------------


def test_a_plan_needs_a_target():
    step = torch.compile(lambda x: x * 2)
    with pytest.raises(RuntimeError, match=r"a plan is made for a target: with torch.interop.target"):
        step.plan(torch.ones(3))


def run_plan(*arguments):
    command = [sys.executable, "-m", "torchgrad_jax", "plan", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_help_names_the_options():
    done = run_plan("--help")
    assert done.returncode == 0
    assert {"--on", "--json", "--html", "--largest-batch"} <= {*re.findall(r"--[\w-]+", done.stdout)}


@pytest.mark.parametrize(("plans", "code"), [({"v5e:2x2", "h100"}, 0), ({"v5e:2x2"}, 1), (set(), 1)])
def test_a_target_without_a_plan_leaves_those_of_others(plans, code, monkeypatch, capsys, tmp_path):
    made = {name: (SMALL if name == "v5e:2x2" else LARGE).to_json() for name in plans}
    monkeypatch.setattr(command, "_in_a_process", lambda target, *_: made.get(target))
    file = tmp_path / "plans.json"
    assert command.main(["train.py", "--on", "v5e:2x2", "--on", "h100", "--json", str(file)]) == code
    out, err = capsys.readouterr()
    assert ("TPU v5e" in out) == ("v5e:2x2" in plans)
    assert ("there is no plan for h100" in err) == (plans == {"v5e:2x2"})
    assert file.exists() == bool(plans)


# --- programs of another platform ---------------------------------------------------------------------


def steps_of(platforms):
    layer = torch.nn.Conv2d(8, 8, 3, groups=8, padding=1)
    exported = interop.export(layer, torch.ones(2, 8, 16, 16), platforms=platforms)
    return exported.program.mlir_module()


def test_a_program_for_another_platform_has_the_steps_of_that_platform():
    here, tpu, cuda = steps_of(["cpu"]), steps_of(["tpu"]), steps_of(["cuda", "tpu"])
    assert "feature_group_count = 8" not in here  # a CPU adds up shifted images
    assert "feature_group_count = 8" in tpu
    assert "feature_group_count = 8" in cuda
    assert "feature_group_count = 8" not in steps_of(["cpu"])


def test_an_error_leaves_the_platform_as_it_was():
    def fails(x):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        interop.export(fails, torch.ones(2), platforms=["tpu"])
    assert "feature_group_count = 8" not in steps_of(["cpu"])
