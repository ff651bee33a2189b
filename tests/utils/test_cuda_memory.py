"""torch.cuda.memory where there is no GPU, with the names that functions had before."""

import pytest

import torchgrad_jax as tg
from torchgrad_jax.cuda import memory


@pytest.fixture(autouse=True)
def no_gpus(monkeypatch):
    monkeypatch.setattr(memory, "_gpus", list)


@pytest.mark.parametrize(
    ("name", "now"), [("memory_cached", "memory_reserved"), ("max_memory_cached", "max_memory_reserved")]
)
def test_former_names(name, now):
    told = f"`torch.cuda.{name}` has been renamed to `torch.cuda.{now}`"
    with pytest.warns(FutureWarning, match=told):
        assert getattr(tg.cuda, name)() == 0
    assert getattr(tg.cuda, now) is getattr(memory, now)


@pytest.mark.parametrize("name", ["reset_max_memory_allocated", "reset_max_memory_cached"])
def test_peaks_are_not_reset(name, monkeypatch):
    monkeypatch.setattr(memory, "_gpu", lambda device: None)
    with (
        pytest.warns(FutureWarning, match=f"torch.cuda.{name} now calls torch.cuda.reset_peak"),
        pytest.raises(NotImplementedError, match="XLA does not reset its peak"),
    ):
        getattr(tg.cuda, name)()


def test_summaries():
    assert tg.cuda.memory_stats_as_nested_dict() == {} == tg.cuda.memory_stats()
    assert tg.cuda.memory_summary().split() == ["bytes_in_use", "0"]
    assert (tg.cuda.get_arch_list(), tg.cuda.get_gencode_flags()) == ([], "")
