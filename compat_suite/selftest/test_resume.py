"""A run that was killed goes on where it was, and ends with the result of one that was not."""

import json
from types import SimpleNamespace

import pytest

from compat_suite import report, saved_state
from compat_suite.cli import main
from compat_suite.judge import Verdict
from compat_suite.saved_state import SavedState, code_of

RUN = ["run", "--op", "torch.sin", "--checks", "value", "grad", "--oracle", "recorded"]


@pytest.fixture
def judged(monkeypatch):
    """Ids of the jobs that were judged; every fifth fails. The run ends by force before the job number `stop`."""
    seen = SimpleNamespace(ids=[], stop=None)

    def judge(job, oracle):
        if len(seen.ids) == seen.stop:
            raise KeyboardInterrupt
        seen.ids.append(job.id)
        if len(job.id) % 5:
            return Verdict(job, "passed")
        return Verdict(job, "failed", (f"value of {job.id}",))

    monkeypatch.setattr(report, "judge", judge)
    monkeypatch.setattr(saved_state, "_EVERY", 0.0)
    return seen


def verdicts(path):
    return json.loads(path.read_text())["jobs"]


def test_an_interrupted_run_goes_on(judged, tmp_path, capsys):
    state, whole, resumed = (tmp_path / name for name in ("state", "whole", "resumed"))
    failed = main([*RUN, "--json", str(whole)])
    every, judged.ids[:] = list(judged.ids), []
    judged.stop = 4
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            main([*RUN, "--state", str(state), "--json", str(resumed)])
        judged.stop += 3
    judged.stop = None
    assert main([*RUN, "--state", str(state), "--json", str(resumed)]) == failed
    assert judged.ids == every, "each job was judged once"
    assert verdicts(resumed) == verdicts(whole)
    assert "7 of them are judged already" in capsys.readouterr().out


def test_a_sample_is_a_part_of_the_run(judged, tmp_path):
    """`--minutes` judges in another order; the whole run afterwards reports in its own."""
    state, whole, resumed = (tmp_path / name for name in ("state", "whole", "resumed"))
    main([*RUN, "--json", str(whole)])
    judged.ids[:] = []
    judged.stop = 5
    with pytest.raises(KeyboardInterrupt):
        main([*RUN, "--minutes", "9", "--state", str(state)])
    judged.stop = None
    main([*RUN, "--state", str(state), "--json", str(resumed)])
    assert len(judged.ids) == len(set(judged.ids)) == len(verdicts(whole))
    assert verdicts(resumed) == verdicts(whole)


@pytest.mark.parametrize("other", [["--op", "torch.cos"], ["--checks", "jvp"]])
def test_the_state_of_another_run_is_refused(judged, tmp_path, other):
    state = str(tmp_path / "state")
    main([*RUN, "--state", state])
    with pytest.raises(SystemExit, match="of another run"):
        main([*RUN, *other, "--state", state])


def test_verdicts_about_other_code_are_dropped(judged, tmp_path, monkeypatch, capsys):
    state = str(tmp_path / "state")
    main([*RUN, "--state", state])
    every = len(judged.ids)
    main([*RUN, "--state", state])
    assert len(judged.ids) == every
    monkeypatch.setattr(report, "code_of", lambda *modules: "other")
    main([*RUN, "--state", state])
    assert len(judged.ids) == 2 * every
    assert "begins again" in capsys.readouterr().out


def test_the_digest_follows_the_sources(tmp_path, monkeypatch):
    package = tmp_path / "judged_package"
    package.mkdir()
    (package / "__init__.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    first = code_of("judged_package")
    assert code_of("judged_package") == first
    (package / "deeper.py").write_text("y = 1\n")
    second = code_of("judged_package")
    (package / "deeper.py").write_text("y = 2\n")
    assert len({first, second, code_of("judged_package")}) == 3


def test_a_broken_state_is_refused(tmp_path):
    file = tmp_path / "state"
    file.write_text("{")
    with pytest.raises(SystemExit, match="not the state of a run"):
        SavedState(str(file), "")
    assert file.read_text() == "{"
