"""torch.multiprocessing.spawn: functions in several processes, and how their failures come back."""

import multiprocessing
import os
import pickle
import time

import pytest

import torchgrad_jax.multiprocessing as ours
from tests.utils import started


def joined(found):
    while not found.join(grace_period=60):
        pass


def raised_by(found, kind):
    with pytest.raises(kind) as raised:
        joined(found)
    again = pickle.loads(pickle.dumps(raised.value))
    assert again.error_pid == found.pids()[again.error_index]
    return again


def by_hand(*calls):
    """Processes that need not import this package."""
    context = multiprocessing.get_context("forkserver")
    processes = [context.Process(target=fn, args=args) for fn, *args in calls]
    for process in processes:
        process.start()
    return ours.ProcessContext(processes, ["none"] * len(processes))


def test_a_function_in_two_processes(tmp_path):
    found = ours.start_processes(started.write_or_fail, (str(tmp_path),), 2, join=False, start_method="forkserver")
    failure = raised_by(found, ours.ProcessRaisedException)
    assert failure.error_index == 1
    assert str(failure).startswith("\n\n-- Process 1 terminated with the following error:\nTraceback")
    assert str(failure).endswith("ValueError: as it has to\n")
    assert [f.read_text() for f in tmp_path.iterdir()] == ["written"]


def test_exit_codes_and_signals():
    assert by_hand((os._exit, 0)).join(60)
    failure = raised_by(by_hand((os._exit, 3)), ours.ProcessExitedException)
    assert (str(failure), failure.exit_code) == ("process 0 terminated with exit code 3", 3)
    found = by_hand((time.sleep, 600))
    assert found.join(0.01) is False
    found.processes[0].terminate()
    failure = raised_by(found, ours.ProcessExitedException)
    assert (str(failure), failure.signal_name) == ("process 0 terminated with signal SIGTERM", "SIGTERM")
    assert found.join()


def test_old_names():
    with pytest.warns(UserWarning, match="SpawnContext is renamed to ProcessContext"):
        ours.SpawnContext([], [])
    with pytest.warns(FutureWarning, match="This method only supports start_method=spawn"):
        assert ours.spawn(started.write_or_fail, nprocs=0, start_method="fork") is None
