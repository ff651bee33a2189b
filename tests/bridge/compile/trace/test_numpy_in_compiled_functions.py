"""NumPy arrays made tensors, and tensors made NumPy arrays, inside of compiled functions and of `vmap`."""

import sys

import numpy as np
import pytest

import torchgrad_jax as tg

pytestmark = pytest.mark.filterwarnings("ignore:torch.compile")


def adds_to_the_array(array, t, x):
    tg.from_numpy(array).add_(x)
    return x * 2


def returns_its_tensor(array, t, x):
    return tg.as_tensor(array)


def returns_a_written_view(array, t, x):
    part = tg.from_numpy(array)[1:]
    part += 1
    return part


def fills_the_array_later(array, t, x):
    made = tg.asarray(array)
    array[0] += 5
    return made + x


def adds_to_a_buffer(array, t, x):
    tg.frombuffer(memoryview(array), dtype=tg.float32).add_(x)
    return x


def reads_the_array(array, t, x):
    return tg.from_numpy(array) + x


def fills_a_new_array(array, t, x):
    return tg.from_numpy(np.zeros(3, "f4")).add_(x)


def reads_numbers_of_a_written_tensor(array, t, x):
    seen = t.numpy()
    t.add_(x)
    return x * float(seen[0])


def reads_numbers_before_a_write(array, t, x):
    number = float(t.numpy()[0])
    t.add_(x)
    return x * number


def writes_by_numpy(array, t, x):
    seen = t.numpy()
    seen += 1
    return x * t


def writes_to_a_new_tensor_by_numpy(array, t, x):
    new = tg.zeros(3)
    new.numpy()[0] += 1
    return new + x


WRITES = [
    adds_to_the_array,
    returns_its_tensor,
    returns_a_written_view,
    fills_the_array_later,
    adds_to_a_buffer,
    reads_numbers_of_a_written_tensor,
]
FUNCTIONS = [
    *WRITES,
    reads_the_array,
    fills_a_new_array,
    reads_numbers_before_a_write,
    writes_by_numpy,
    writes_to_a_new_tensor_by_numpy,
]


def calls(wrap, f, given):
    """What three calls give and leave behind; NumPy writes in between, and to what is returned."""
    array, t = np.ones(3, "f4"), tg.zeros(3)
    if given:
        run = wrap(f)
        step = lambda x: run(array, t, x)  # noqa: E731
    else:
        step = wrap(lambda x: f(array, t, x))
    seen = []
    for k in range(3):
        out = step(tg.full((3,), k + 1.0))
        out_values = out.tolist()
        out.zero_()
        seen.append((out_values, array.tolist(), t.tolist()))
        array[2] += 10
    return seen


LOOKING = (reads_numbers_of_a_written_tensor, reads_numbers_before_a_write, writes_by_numpy)
"""They look at values of `t`, which are not known inside of a compiled function if `t` is an argument."""
CASES = {f"{f.__name__} from outside": (f, False) for f in FUNCTIONS} | {
    f"{f.__name__} of arguments": (f, True) for f in FUNCTIONS if f not in LOOKING
}


@pytest.mark.parametrize("case", CASES)
def test_a_compiled_function_does_to_numpys_memory_what_it_does_uncompiled(case):
    f, given = CASES[case]
    assert calls(tg.compile, f, given) == calls(lambda f: f, f, given)


@pytest.mark.parametrize("f", WRITES, ids=lambda f: f.__name__)
def test_what_a_program_cannot_do_to_numpys_memory_is_refused_where_all_has_to_be_one_program(f):
    with pytest.raises(tg._dynamo.exc.Unsupported, match="memory of a NumPy array"):
        calls(lambda f: tg.compile(f, fullgraph=True), f, False)


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_vmap_writes_to_the_array_that_a_tensor_was_made_of(shape):
    array = np.zeros(shape, "f4")

    def f(x):
        made = tg.from_numpy(array)
        made.add_(1)
        return made * x

    out = tg.func.vmap(f)(tg.arange(2.0))
    assert array.tolist() == np.ones(shape).tolist()
    assert out.tolist() == [np.zeros(shape).tolist(), np.ones(shape).tolist()]


def test_vmap_reads_an_array_of_a_tensor_that_it_writes_to():
    t = tg.zeros(3)

    def f(x):
        seen = t.numpy()
        t.add_(1)
        return x * float(seen[0])

    assert tg.func.vmap(f)(tg.ones(2)).tolist() == [1, 1]


@pytest.mark.parametrize("make", [bytearray, np.array], ids=["bytes", "numbers"])
def test_an_array_is_what_it_was_after_an_error_in_a_compiled_function(make):
    array = make([1, 2, 3])

    @tg.compile
    def f(x):
        array[0] = 9
        raise LookupError

    with pytest.raises(LookupError):
        f(tg.ones(1))
    assert list(array) == [1, 2, 3]


def _adds(t):
    seen = t.numpy()
    seen += 1


def _fills(t):
    t.numpy()[:] = 5


def _by_a_part(t):
    part = t.numpy()[1:]
    part *= 2
    part += 1


def _four_calls(form, write, ends):
    """What four calls give and leave; `t` is another one before the last."""
    t, found = tg.zeros(3), []

    def step(x):
        write(t)
        ends()
        return x * t

    run = form(step)
    for k in range(4):
        t.fill_(9.0 if k == 3 else t[0].item())
        found.append((run(tg.ones(3)).tolist(), t.tolist()))
    return found


@pytest.mark.parametrize("ends", [lambda: None, lambda: sys.stdout.write("effect\n")], ids=["silent", "with an effect"])
@pytest.mark.parametrize("verify", [0, 1])
@pytest.mark.parametrize("write", [_adds, _fills, _by_a_part])
def test_a_write_by_numpy_happens_once_although_a_trace_is_undone(write, verify, ends):
    compiled = _four_calls(lambda f: tg.compile(f, verify=verify), write, ends)
    assert compiled == _four_calls(lambda f: f, write, ends)


@pytest.mark.parametrize("write", [_adds, _fills, _by_a_part])
def test_a_write_by_numpy_is_undone_where_the_call_raises(write):
    t = tg.zeros(3)

    @tg.compile
    def step(x):
        write(t)
        raise KeyError("no")

    for _ in range(2):
        with pytest.raises(KeyError, match="no"):
            step(tg.ones(3))
        assert t.tolist() == [0.0, 0.0, 0.0]
