"""The scripts of examples/ that are planned: memory as a count by hand gives it, in the gallery and by the command."""

import importlib.util

import pytest

from benchmarks import plans


def gpt(layers, width, tokens, length):
    return (tokens + length) * width + layers * (12 * width**2 + 13 * width) + 2 * width


def llama(layers, width, inner, tokens):
    return 2 * tokens * width + layers * (4 * width**2 + 3 * width * inner + 2 * width) + width


def resnet(blocks=(3, 4, 6, 3), width=64, classes=1000):
    """Convolutions have no bias; each is followed by a scale and a shift."""
    numbers, now = 3 * 49 * width + 2 * width, width
    for stage, count in enumerate(blocks):
        inner = width << stage
        for i in range(count):
            numbers += now * inner + 9 * inner**2 + 4 * inner**2 + 2 * (inner + inner + 4 * inner)
            numbers += now * 4 * inner + 8 * inner if not i else 0
            now = 4 * inner
    return numbers + now * classes + classes


# How many parameters there are, and how many bytes each has: itself, in the optimizer, in the gradients that stay.
BY_HAND = {
    "plan_gpt": (gpt(12, 768, 50257, 1024), 4, 8, 0),
    "plan_llama": (llama(32, 4096, 11008, 32000), 2, 4, 2),
    "plan_resnet": (resnet(), 4, 4, 0),
}


def test_the_counts_are_those_of_the_published_models():
    assert [row[0] for row in BY_HAND.values()] == [124_439_808, 6_738_415_616, 25_557_032]


@pytest.mark.parametrize("name", BY_HAND)
def test_the_gallery_shows_the_memory_that_a_count_by_hand_gives(name):
    numbers, *each = BY_HAND[name]
    recorded = plans.recorded(name)
    assert recorded["arguments"] == plans.SCRIPTS[name]
    for plan in recorded["plans"]:
        counted = [numbers * n / plan["devices"] for n in each]
        planned = [plan["memory"].get(kind, 0) for kind in ("parameters", "optimizer", "results")]
        assert planned[:2] == pytest.approx(counted[:2], rel=0.001)
        assert planned[2] == pytest.approx(counted[2], rel=0.001, abs=4096)  # the loss, and padding
        assert plan["fits"]
        assert (plans.FOLDER / f"{name}.svg").exists()


@pytest.mark.usefixtures("tpu")
def test_the_command_plans_a_small_gpt():
    (plan,) = plans.planned("plan_gpt", "--on v5e:1x1 -- --layers 2 --width 48 --tokens 100 --length 32 --batch 4")
    assert plan["memory"]["parameters"] == 4 * gpt(2, 48, 100, 32)
    assert plan["memory"]["optimizer"] == pytest.approx(8 * gpt(2, 48, 100, 32), rel=0.01)
    assert plan["memory"].get("results", 0) < 4096


@pytest.mark.usefixtures("gpu")
def test_the_command_plans_a_small_resnet():
    (plan,) = plans.planned("plan_resnet", "--on h100 -- --blocks 1 1 --width 8 --size 32 --batch 4")
    assert plan["memory"]["parameters"] == plan["memory"]["optimizer"] == 4 * resnet((1, 1), 8)


@pytest.mark.usefixtures("gpu")
def test_the_command_plans_a_small_llama_on_four_devices():
    if importlib.util.find_spec("transformers") is None and not (plans.PACKAGES / "transformers").is_dir():
        pytest.skip("needs transformers: python -m compat_suite packages --name transformers")
    (plan,) = plans.planned("plan_llama", "--on h100:4 -- --layers 2 --width 64 --tokens 64 --length 32 --heads 4")
    numbers = llama(2, 64, 172, 64)
    assert plan["memory"]["parameters"] == pytest.approx(2 * numbers / 4, rel=0.01)
    assert plan["memory"]["optimizer"] == pytest.approx(4 * numbers / 4, rel=0.01)
    assert plan["memory"]["results"] == pytest.approx(2 * numbers / 4, rel=0.02)
    assert {e["kind"] for e in plan["exchanges"]} & {"all-gather", "all-reduce", "reduce-scatter"}
