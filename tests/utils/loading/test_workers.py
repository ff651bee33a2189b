"""Workers of loaders: who they are, what they share, and what becomes of them. In processes, and in threads."""

from __future__ import annotations

import os
import pathlib
import pickle
import random
import sqlite3
import threading
import time
import warnings
from typing import Any

import numpy as np
import pytest

import torchgrad_jax as tg
from tests.programs import attempt
from torchgrad_jax.utils import data as ours

from . import imported, opening
from .loaded import Elsewhere, Failing, started

DRAWS = [
    0.7821398973464966,
    0.21315340548154382,
    0.8371640508861415,
    0.6938178539276123,
    0.7733861492043289,
    0.6702704958690073,
]
"""Of torch, random and NumPy, in torch 2.13's workers 0 and 1 after `manual_seed(0)`."""


class Where(ours.Dataset[Any]):
    """Tells who fetched each example."""

    def __init__(self, lock: Any = None) -> None:
        self.lock = lock

    def __getitem__(self, i: int) -> Any:
        info = ours.get_worker_info()
        return i, info.id if info else -1, os.getpid()

    def __len__(self) -> int:
        return 10


@pytest.fixture(params=["processes", "threads"])
def lock(request: pytest.FixtureRequest) -> Any:
    """Something that a dataset holds, by which its workers are processes or threads."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The workers of this DataLoader are threads")
        warnings.filterwarnings("ignore", "This DataLoader will create")
        yield threading.Lock() if request.param == "threads" else None


def batches(loader: Any) -> list[Any]:
    return [b.tolist() for b in loader]


def test_order_and_numbers_of_workers(lock: Any) -> None:
    loader = ours.DataLoader(Where(lock), 2, num_workers=2)
    got = list(loader)
    assert [b[0].tolist() for b in got] == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    assert [b[1].tolist() for b in got] == [[0, 0], [1, 1], [0, 0], [1, 1], [0, 0]]
    processes = {pid for b in got for pid in b[2].tolist()}
    assert processes == {os.getpid()} if lock else len(processes - {os.getpid()}) == 2
    assert ours.get_worker_info() is None


def test_each_has_a_dataset_of_its_own(lock: Any) -> None:
    class Counting(Where):
        seen: Any

        def __getitem__(self, i: int) -> Any:
            self.seen.append(i)
            return len(self.seen)

    dataset = Counting(lock)
    dataset.seen = []
    assert batches(ours.DataLoader(dataset, 2, num_workers=2)) == [[1, 2], [1, 2], [3, 4], [3, 4], [5, 6]]
    assert dataset.seen == []


def test_draws_of_kept_workers(lock: Any) -> None:
    class Noisy(Where):
        def __getitem__(self, i: int) -> Any:
            return i, tg.rand(1), tg.randint(0, 9, (2,))

        def __len__(self) -> int:
            return 6

    tg.manual_seed(0)
    loader = ours.DataLoader(Noisy(lock), 2, shuffle=True, num_workers=2, persistent_workers=True)
    seen = [[[x.flatten().tolist() for x in b] for b in loader] for _ in range(2)]
    assert [b[0] for b in seen[0]] == [[0, 4], [3, 5], [2, 1]]
    assert [b[0] for b in seen[1]] == [[5, 0], [3, 2], [1, 4]]
    assert seen[0][0][1][0] == pytest.approx(DRAWS[0])
    assert seen[0][1][1][0] == pytest.approx(DRAWS[3])
    # Kept workers go on with their generators, and those of the program do not notice.
    assert seen[1][0][1] != seen[0][0][1]
    assert tg.rand(1).item() == pytest.approx(0.4900934100151062)


def test_the_generators_of_the_program_stay_as_they_are(lock: Any) -> None:
    def begin(worker: int) -> None:
        random.seed(1)
        np.random.seed(1)  # noqa: NPY002

    random.seed(3)
    np.random.seed(3)  # noqa: NPY002
    expected = [random.random(), np.random.rand(), random.random(), np.random.rand()]  # noqa: NPY002
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002
    found: list[float] = []
    for _ in zip(range(2), ours.DataLoader(Where(lock), 1, num_workers=2, worker_init_fn=begin)):
        time.sleep(0.01)
        found += random.random(), np.random.rand()  # noqa: NPY002
    assert found == expected


def told(error: Exception) -> tuple[str, str, str]:
    text = str(error).strip().split("\n")
    return type(error).__name__, text[0], text[-1]


def test_errors_in_workers(lock: Any) -> None:
    class TwoArguments(Exception):
        def __init__(self, a: int, b: int) -> None:
            super().__init__(a, b)

    class Broken(Where):
        def __getitem__(self, i: int) -> Any:
            if i in (2, 3, 4):
                raise (KeyError("two"), ValueError("three"), TwoArguments(1, 2))[i - 2]
            return i

        def __len__(self) -> int:
            return 6

    loader = iter(ours.DataLoader(Broken(lock), 1, num_workers=2))
    assert [next(loader).item() for _ in range(2)] == [0, 1]
    where = "in DataLoader worker process"
    assert [told(attempt(lambda: next(loader))) for _ in range(3)] == [
        ("KeyError", f"Caught KeyError {where} 0.", "KeyError: 'two'"),
        ("ValueError", f"Caught ValueError {where} 1.", "ValueError: three"),
        ("RuntimeError", f"Caught TwoArguments {where} 0.", f"{__name__}.{TwoArguments.__qualname__}: (1, 2)"),
    ]
    assert next(loader).item() == 5
    assert list(loader) == []


def test_the_traceback_shows_the_line_that_raised(lock: Any) -> None:
    def refuse(worker: int) -> None:
        raise ZeroDivisionError("of all things")

    refused = ours.DataLoader(Where(lock), num_workers=1, worker_init_fn=refuse)
    kind, first, last = told(attempt(lambda: next(iter(refused))))
    assert (kind, first) == ("ZeroDivisionError", "Caught ZeroDivisionError in DataLoader worker process 0.")
    assert last == "ZeroDivisionError: of all things"
    text = str(attempt(lambda: next(iter(refused))))
    assert f'{os.path.basename(__file__)}", line {refuse.__code__.co_firstlineno + 1}, in refuse' in text
    assert '    raise ZeroDivisionError("of all things")' in text


def test_streams_of_workers(lock: Any) -> None:
    class Part(ours.IterableDataset[Any]):
        def __init__(self) -> None:
            self.lock = lock

        def __iter__(self) -> Any:
            info = ours.get_worker_info()
            assert info is not None
            return iter(range(info.id, 11, info.num_workers))

    three = ours.DataLoader(Part(), 2, num_workers=3, prefetch_factor=1)
    assert batches(three) == [[0, 3], [1, 4], [2, 5], [6, 9], [7, 10], [8]]
    two = ours.DataLoader(Part(), 2, num_workers=2, drop_last=True)
    assert batches(two) == [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10]]
    single = ours.DataLoader(Part(), None, num_workers=2, persistent_workers=True)
    assert [list(single), list(single)] == [list(range(11))] * 2


def test_workers_introduce_themselves(lock: Any) -> None:
    class Telling(Where):
        def __getitem__(self, i: int) -> Any:
            info: Any = ours.get_worker_info()
            refused = str(attempt(lambda: setattr(info, "id", 3)))
            before = tg.initial_seed() - info.seed
            tg.manual_seed(info.seed + 7)
            return [info.id, info.num_workers, info.dataset is self, before, tg.initial_seed() - info.seed, refused]

    before = tg.initial_seed()
    found = next(iter(ours.DataLoader(Telling(lock), None, num_workers=1)))
    assert found == [0, 1, True, 0, 7, "cannot assign to field 'id'"]
    assert tg.initial_seed() == before


def test_a_worker_that_takes_too_long(lock: Any) -> None:
    class Slow(Where):
        def __getitem__(self, i: int) -> Any:
            random.random()
            time.sleep(1)
            return i

    random.seed(4)
    state = random.getstate()
    late = iter(ours.DataLoader(Slow(lock), 1, num_workers=1, timeout=0.3))
    with pytest.raises(RuntimeError, match=r"^DataLoader timed out after 0.3 seconds$"):
        next(late)
    assert random.getstate() == state
    for process in late._workers:
        process.kill()


def test_a_worker_that_leaves(lock: Any) -> None:
    class Leaving(Where):
        def __getitem__(self, i: int) -> Any:
            raise SystemExit

    who = "thread 0" if lock else r"pid\(s\) \d+"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError, match=rf"^DataLoader worker \({who}\) exited unexpectedly$"):
            next(iter(ours.DataLoader(Leaving(lock), 1, num_workers=1)))


def test_two_loaders_at_once(lock: Any) -> None:
    inner = ours.DataLoader(Where(lock), 5, num_workers=1)
    found = [(a[0].tolist(), [b[0].tolist() for b in inner]) for a in ours.DataLoader(Where(lock), 4, num_workers=2)]
    assert [a for a, _ in found] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert all(b == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]] for _, b in found)


# --- processes ------------------------------------------------------------------------------------


def test_batches_as_they_are_ready(tmp_path: Any) -> None:
    go = tmp_path / "go"

    class Waiting(Where):
        def __getitem__(self, i: int) -> Any:
            while i == 0 and not go.exists():
                time.sleep(0.001)
            return i

        def __len__(self) -> int:
            return 4

    loader = iter(ours.DataLoader(Waiting(), 1, num_workers=2, in_order=False))
    got = [next(loader).item()]
    go.touch()
    assert got[0] == 1
    assert sorted(got + [b.item() for b in loader]) == [0, 1, 2, 3]


@pytest.mark.parametrize("context", [None, "spawn"])
def test_workers_as_processes(context: Any) -> None:
    loader = ours.DataLoader(
        Elsewhere(), 2, num_workers=2, worker_init_fn=started, multiprocessing_context=context, persistent_workers=True
    )
    tg.manual_seed(0)
    first, second = list(loader), list(loader)
    assert [b["i"].tolist() for b in first] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert [b["worker"].tolist() for b in first] == [[0, 0], [1, 1], [0, 0], [1, 1]]
    pids = {pid for b in first + second for pid in b["pid"].tolist()}
    assert len(pids) == 2
    assert os.getpid() not in pids
    assert all(b["started"].tolist() == [True, True] for b in first)
    assert all(b["large"].shape == (2, 3000) for b in first)
    assert [b["large"].tolist()[1][-1] for b in second] == [1.0, 3.0, 5.0, 7.0]
    draws = [b[k].tolist()[0] for b in first[:2] for k in ("torch", "python", "numpy")]
    assert draws == pytest.approx(DRAWS, abs=1e-6)


def test_processes_that_fail() -> None:
    loader = iter(ours.DataLoader(Failing(), 1, num_workers=2, timeout=100))
    assert next(loader).item() == 0
    with pytest.raises(LookupError, match=r"(?s)^Caught LookupError in DataLoader worker process 1\.\nOrig.*one"):
        next(loader)
    with pytest.raises(RuntimeError, match=r"in DataLoader worker process 0(?s:.*)two"):
        next(loader)
    with pytest.raises(RuntimeError, match=r"^DataLoader worker \(pid\(s\) \d+\) exited unexpectedly$"):
        next(loader)
    assert [b.item() for b in loader] == [4]


def test_what_cannot_be_sent_back_is_told() -> None:
    class Unsent(Where):
        def __getitem__(self, i: int) -> Any:
            return threading.Lock() if i else tg.ones(2, requires_grad=True) * 2

    loader = iter(ours.DataLoader(Unsent(), None, num_workers=1, collate_fn=lambda x: x))
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor which requires_grad"):
        next(loader)
    with pytest.raises(TypeError, match=r"cannot pickle '_thread\.lock' object"):
        next(loader)


def test_a_module_is_imported_once_for_all_workers(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    who = tmp_path / "imports"
    monkeypatch.setenv("IMPORTS", str(who))
    for _ in range(2):
        loader = ours.DataLoader([1, 2, 3, 4], 2, num_workers=2, collate_fn=imported.negative)
        assert list(loader) == [[-1, -2], [-3, -4]]
    assert len(who.read_text().split()) == 1


def test_a_module_that_computes_is_imported_by_each_worker() -> None:
    for _ in range(2):
        loader = ours.DataLoader([1, 2, 3], 2, num_workers=2, collate_fn=opening.added)
        assert list(loader) == [[[2.0] * 3, [3.0] * 3], [[4.0] * 3]]


def test_no_worker_outlives_its_loader() -> None:
    loader = iter(ours.DataLoader(Where(), 1, num_workers=2))
    next(loader)
    pids = [p.pid for p in loader._workers]
    del loader
    assert [alive(pid) for pid in pids] == [False, False]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_large_array_goes_over_once() -> None:
    class Large(Where):
        def __init__(self) -> None:
            self.array = np.arange(1 << 20)
            self.tensor = tg.arange(1 << 20)

        def __getitem__(self, i: int) -> Any:
            self.array[0] += 1
            return int(self.array[i + 1] + self.tensor[i + 1]), int(self.array[0])

    dataset = Large()
    loader = ours.DataLoader(dataset, 5, num_workers=2)
    assert [b[0].tolist() for b in loader] == [[2, 4, 6, 8, 10], [12, 14, 16, 18, 20]]
    first = shared(loader)
    assert [b[1].tolist() for b in loader] == [[1, 2, 3, 4, 5]] * 2  # each writes to what only it sees
    assert shared(loader) == first
    assert dataset.array[0] == 0
    dataset.array[1] = 100
    assert next(iter(loader))[0].tolist()[0] == 101
    assert shared(loader) != first


def shared(loader: Any) -> set[int]:
    """The segments that arrays of a loader's workers lie in."""
    return {c.segment.fd for c in loader._sent[0]._copies if c.size >= 1 << 20}


def test_a_file_that_is_mapped_is_mapped_there(tmp_path: Any) -> None:
    file = np.memmap(tmp_path / "file", np.float32, "w+", shape=(1000, 1000))
    file[:] = np.arange(1000)
    dataset = Where()
    dataset.rows = file[10:, ::2]  # type: ignore[attr-defined]

    class Rows(Where):
        def __getitem__(self, i: int) -> Any:
            return self.rows[i, 3]  # type: ignore[attr-defined]

    dataset.__class__ = Rows
    loader = ours.DataLoader(dataset, 10, num_workers=1)
    assert batches(loader) == [[6.0] * 10]
    assert sum(c.size for c in loader._sent[0]._copies) < 1 << 20


# --- threads --------------------------------------------------------------------------------------


def test_a_warning_names_what_stands_in_the_way_once() -> None:
    class Deep(Where):
        def __getitem__(self, i: int) -> Any:
            return i

    dataset = Deep()
    dataset.parts = {"a": [1, threading.Lock()]}  # type: ignore[attr-defined]
    loader = ours.DataLoader(dataset, 5, num_workers=1)
    with pytest.warns(UserWarning, match=r"are threads, since dataset\.parts\['a'\]\[1\] \(cannot pickle '_thread"):
        assert batches(loader) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(loader)) == 2


@pytest.mark.filterwarnings("ignore:The workers of this DataLoader are threads")
def test_files_and_handles(tmp_path: Any) -> None:
    path = pathlib.Path(tmp_path) / "lines"
    path.write_text("".join(f"{i:03}\n" for i in range(10)))

    class Lines(Where):
        def __init__(self) -> None:
            self.file, self.raw = open(path), open(path, "rb")  # noqa: SIM115
            self.file.readline()
            self.base = sqlite3.connect(tmp_path / "base", check_same_thread=False)
            self.base.execute("create table t (i int)")

        def __getitem__(self, i: int) -> Any:
            self.raw.seek(4 * i)
            return self.file.readline(), self.raw.read(3), self.base.execute("select count(*) from t").fetchone()[0]

    dataset = Lines()
    found = list(ours.DataLoader(dataset, 2, num_workers=2))
    assert [b[0] for b in found] == [
        ("001\n", "002\n"),
        ("001\n", "002\n"),
        ("003\n", "004\n"),
        ("003\n", "004\n"),
        ("005\n", "006\n"),
    ]
    assert [b[1][0] for b in found] == [b"000", b"002", b"004", b"006", b"008"]
    assert dataset.file.readline() == "001\n"
    for each in (dataset.file, dataset.raw, dataset.base):
        each.close()


@pytest.mark.filterwarnings("ignore:The workers of this DataLoader are threads")
def test_what_is_one_object_is_one_in_each_copy() -> None:
    found = tg.multiprocessing.Queue()

    class Twice(Where):
        def __init__(self) -> None:
            self.lock = self.other = threading.Lock()
            self.base = sqlite3.connect(":memory:", check_same_thread=False)
            self.cursor, self.found = self.base.cursor(), found

        def __getitem__(self, i: int) -> Any:
            self.found.put(i)
            one = self.cursor.execute("select 1").fetchone()[0]
            return self.lock is self.other, self.lock is dataset.lock, self.lock.locked(), one

    dataset = Twice()
    with dataset.lock:
        batches = list(ours.DataLoader(dataset, 5, num_workers=2))
    assert [[x.tolist() for x in b] for b in batches] == [[[True] * 5, [False] * 5, [False] * 5, [1] * 5]] * 2
    assert sorted(found.get() for _ in range(10)) == list(range(10))
    dataset.base.close()


@pytest.mark.filterwarnings("ignore:The workers of this DataLoader are threads")
def test_a_worker_that_has_workers_of_its_own() -> None:
    class Nested(Where):
        def __getitem__(self, i: int) -> Any:
            before = random.getstate()
            inner = ours.DataLoader(Where(self.lock), 5, num_workers=2)
            return i, [b[0].tolist() for b in inner], random.getstate() == before

        def __len__(self) -> int:
            return 3

    found = list(ours.DataLoader(Nested(threading.Lock()), None, num_workers=2, collate_fn=lambda x: x))
    assert found == [(i, [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]], True) for i in range(3)]


@pytest.mark.filterwarnings("ignore:The workers of this DataLoader are threads")
def test_a_generator_is_refused() -> None:
    class Endless(ours.IterableDataset[Any]):
        def __init__(self) -> None:
            self.items = (i for i in range(4))

        def __iter__(self) -> Any:
            return self.items

    with pytest.raises(TypeError, match=r"'generator' can be neither pickled nor copied.*num_workers=0"):
        iter(ours.DataLoader(Endless(), num_workers=2))


def test_a_loader_can_be_pickled_after_use() -> None:
    loader = ours.DataLoader([1, 2, 3], num_workers=1)
    assert batches(loader) == batches(pickle.loads(pickle.dumps(loader))) == [[1], [2], [3]]


def test_what_has_a_method_for_it_is_pinned() -> None:
    class Batch:
        pinned = 0

        def pin_memory(self) -> Any:
            self.pinned += 1
            return self

    batch = {"a": [Batch(), "text"], "b": (Batch(), 3)}
    found = ours._utils.pin_memory.pin_memory(batch)
    assert [found["a"][0].pinned, found["b"][0].pinned] == [1, 1]
    assert found["a"][1:] == ["text"]
    assert found["b"][1] == 3
