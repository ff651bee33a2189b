"""Conversions, sizes and storages, older constructors, dtype questions and settings, compared with torch."""

import copy
import io
import os
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest

import torchgrad_jax as tg
from tests.differential import live_torch
from tests.expressions import table
from tests.programs import complaint
from torchgrad_jax._core.arrays import dtypes

test_as_torch_does = table(__file__, "convert.txt")


@pytest.fixture(autouse=True, scope="module")
def _storages_warned_already():
    """Storages with a dtype warn once per process, whichever test comes first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in (tg, live_torch()):
            if module is not None:
                module.ones(1).storage()


VALUES = [
    0.0, 1.0, -1.0, 0.5, 1.5, -1.5, 2.5, 126.9, 127.0, 128.0, -128.9, -129.0, 200.7, 255.0, 256.0, 300.5, -300.0, 448.0,
    449.0, 464.0, 57344.0, 65504.0, 65520.0, 70000.0, 2147483000.0, 2147483648.0, -2147483649.0, 4294967296.0,
    1e10, -1e10, 1e18, 9.3e18, 1.8e19, 1e20, 3e38,
]  # fmt: skip
TAME = [n for n in (d.name for d in dtypes.ALL) if not n.startswith(("float8", "uint32"))]


def values_of(m, t):
    wide = m.complex128 if t.is_complex() else m.float64
    return t.to(wide).tolist() if t.dtype.is_floating_point or t.is_complex() else t.tolist()


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@pytest.mark.parametrize("source", ["float64", "float32", "int64", "float16", "bfloat16", "complex64", "uint8", "bool"])
def test_every_cast_of_awkward_values_is_torchs(oracle, source):
    """Overflowing and fractional values included: integers wrap around as they do on x86."""
    for target in [d.name for d in dtypes.ALL]:
        # What torch makes of other numbers as uint32 differs between its kernels.
        values = [v for v in VALUES if 0 <= v < 65505] if target == "uint32" else VALUES
        got, want = [], []
        for m, out in ((oracle, want), (tg, got)):
            t = m.tensor(values, dtype=m.float64).to(getattr(m, source))
            out.extend(str(v) for v in values_of(m, t.to(getattr(m, target))))
        assert got == want, target


@pytest.mark.parametrize("target", TAME)
def test_nan_and_infinities_cast_as_in_torch(oracle, target):
    got, want = (
        [str(v) for v in values_of(m, m.tensor([np.nan, np.inf, -np.inf]).to(getattr(m, target)))] for m in (tg, oracle)
    )
    assert got == want


def test_conversions_are_recorded_and_give_back_the_dtype():
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    y = x.double().half().float()
    assert y.grad_fn.name() == "ToCopyBackward0"
    (y * tg.tensor([2.0, 3.0])).sum().backward()
    assert x.grad is not None
    assert (x.grad.tolist(), x.grad.dtype) == ([2.0, 3.0], tg.float32)
    assert not x.long().requires_grad


def test_what_does_not_change_is_the_same_object():
    x = tg.ones(2, 3)
    same = [
        x.to(tg.float32),
        x.to("cpu"),
        x.to(x),
        x.float(),
        x.cpu(),
        x.type(tg.float32),
        x.type_as(x),
        x.contiguous(),
    ]
    assert all(y is x for y in same)
    copied = x.to(tg.float32, copy=True)
    copied.zero_()
    assert x.sum().item() == 6.0


ON_TWO_DEVICES = """
import sys
import jax
import torchgrad_jax as tg
from torchgrad_jax._core.arrays import devices

real = devices.to_jax
for module in list(sys.modules.values()):
    if vars(module).get("to_jax") is real:
        module.to_jax = lambda d: jax.devices()[1] if d.type == "cuda" else real(d)

x = tg.tensor([1.0, 2.0], requires_grad=True)
y = x.to("cuda")
assert str(y.device) == "cuda:0" and y.grad_fn.name() == "ToCopyBackward0", y
(y * y).sum().backward()
assert x.grad.tolist() == [2.0, 4.0] and str(x.grad.device) == "cpu"
w = tg.tensor([1.0, 2.0], device="cuda", requires_grad=True)
w.cpu().mul(3).sum().backward()
assert w.grad.tolist() == [3.0, 3.0] and str(w.grad.device) == "cuda:0"
(g,) = tg.autograd.grad((x.to("cuda") ** 3).sum(), x, create_graph=True)
(h,) = tg.autograd.grad(g.sum(), x)
assert h.tolist() == [6.0, 12.0]
assert (tg.tensor(2.0) * w).tolist() == [2.0, 4.0]
assert w.to("cuda") is w and w.type() == "torch.cuda.FloatTensor" and x.to("cuda", tg.float64).dtype is tg.float64
try:
    tg.ones(2) + w
except RuntimeError as error:
    assert "Expected all tensors to be on the same device" in str(error)
else:
    raise AssertionError("two devices were mixed")
with tg.device("cuda"):
    made = [tg.zeros(2), tg.tensor([1.0]), tg.rand(2), tg.arange(3)]
assert {str(t.device) for t in made} == {"cuda:0"}
tg.set_default_device("cuda")
assert str(tg.ones(1).device) == "cuda:0"
"""


def test_copies_between_devices_and_their_gradients():
    """A second CPU device stands in for a GPU, in a process of its own."""
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    run = subprocess.run([sys.executable, "-c", ON_TWO_DEVICES], env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_without_a_gpu_cuda_says_so():
    if tg.cuda.is_available():
        pytest.skip("this machine has a GPU")
    assert (tg.cuda.device_count(), tg.cuda.memory_allocated(), tg.cuda.is_initialized()) == (0, 0, False)
    tg.cuda.manual_seed_all(0)
    tg.cuda.empty_cache()
    for call in (tg.cuda.current_device, tg.cuda.synchronize, tg.cuda.get_device_name, tg.cuda.get_rng_state):
        with pytest.raises(RuntimeError, match="JAX sees no GPU backend"):
            call()
    with pytest.raises(RuntimeError, match="No CUDA GPUs are available"):
        tg.ones(2).cuda()


def test_the_memory_formats_are_strides():
    x = tg.arange(24.0).view(1, 2, 3, 4)
    for y in (x.to(memory_format=tg.channels_last), x.clone(memory_format=tg.channels_last)):
        assert y.stride() == (24, 1, 8, 2)
        assert y.tolist() == x.tolist()
        assert y.is_contiguous(memory_format=tg.channels_last)
        assert not y.is_contiguous()
    assert x.contiguous(memory_format=tg.channels_last).contiguous().stride() == x.stride()


# --- sizes and storages ---------------------------------------------------------------------------


def test_resize_grows_the_storage_of_views_too():
    x = tg.arange(4.0)
    y = x[1:3]
    y.resize_(6)
    assert (y[:3].tolist(), x.tolist()) == ([1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 3.0])
    y.fill_(7.0)
    assert x.tolist() == [0.0, 7.0, 7.0, 7.0]


def test_resize_grows_a_storage_that_others_share():
    x = tg.arange(4.0)
    alias = x.detach()
    x.resize_(8)
    x[0] = 5
    assert x.shape == (8,)
    assert (x[:4].tolist(), alias.tolist()) == ([5.0, 1.0, 2.0, 3.0],) * 2
    x.resize_(2)
    assert (x.tolist(), alias.tolist()) == ([5.0, 1.0], [5.0, 1.0, 2.0, 3.0])


def test_set_shares_and_is_counted_apart():
    x, y = tg.zeros(3), tg.ones(2, 2)
    x.set_(y)
    y.mul_(5)
    assert (x.tolist(), x._version, y._version) == ([[5.0, 5.0], [5.0, 5.0]], 1, 1)


def test_out_tensors_are_resized_quietly_when_empty_and_keep_their_identity():
    out = tg.empty(0)
    assert tg.ones(2, 3, out=out) is out
    assert (out.shape, out._version) == ((2, 3), 1)


def test_a_storage_that_others_share_is_not_resized():
    x = tg.ones(4)
    y = x[1:]
    with pytest.raises(NotImplementedError, match="several tensors share"):
        x.untyped_storage().resize_(20)
    assert (x.tolist(), y.tolist()) == ([1.0] * 4, [1.0] * 3)


def _freed(m, make, dtype):
    """A storage without memory, which several tensors are on, gets memory back, or a tensor gets another storage."""
    x = make(m).to(getattr(m, dtype))
    others = [x.detach(), x[:, 1:], x[1], x.t()]
    storage = x.untyped_storage()
    n = storage.nbytes()
    seen = [storage.resize_(0) is storage, len(storage), storage.tolist(), x.storage().size(), storage.data_ptr()]
    seen += [x.data_ptr(), x.shape, x.stride(), x._version, x.is_contiguous(), storage.resize_(n).nbytes()]
    x.copy_(m.arange(6).view(2, 3))
    seen += [t.clone() for t in (x, *others)]
    x.storage().resize_(0)
    x.set_(m.ones(2, 3).to(x.dtype))
    seen += [x, x.untyped_storage().nbytes(), others[0].untyped_storage().nbytes()]
    x.storage().resize_(0)
    x.data = m.zeros(3).to(x.dtype)
    return [*seen, x, x._version]


@pytest.mark.parametrize("order", ["rows", "columns"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool", "complex64"])
def test_memory_is_let_go_and_given_back(order, dtype, same):
    make = {"rows": lambda m: m.zeros(2, 3), "columns": lambda m: m.zeros(3, 2).t()}[order]
    same(lambda m: _freed(m, make, dtype), name=f"memory let go, {dtype}, {order}")


@pytest.mark.parametrize(
    "use",
    [
        lambda x, y, v: x + 1,
        lambda x, y, v: x.add_(1),
        lambda x, y, v: x.copy_(tg.ones(2, 3)),
        lambda x, y, v: y.zero_(),
        lambda x, y, v: x.__setitem__(0, 1.0),
        lambda x, y, v: v.sum(),
        lambda x, y, v: y.clone(),
        lambda x, y, v: repr(x),
        lambda x, y, v: x.tolist(),
        lambda x, y, v: x.numpy(),
        lambda x, y, v: v.numpy(),
        lambda x, y, v: x.to(tg.float64),
        lambda x, y, v: tg.stack([x, y]),
        lambda x, y, v: copy.deepcopy(x),
        lambda x, y, v: tg.save(x, io.BytesIO()),
        lambda x, y, v: tg.compile(lambda t: t * 2)(x),
        lambda x, y, v: x.untyped_storage().clone(),
    ],
)
def test_what_has_no_memory_is_not_read(use):
    """PyTorch refuses some of these, does some without values, and in most reads address 0, which ends the process."""
    x = tg.zeros(2, 3)
    y, v = x.detach(), x[1]
    x.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="storage of 0 elements"):
        use(x, y, v)
    x.untyped_storage().resize_(24)
    x.fill_(2.0)
    assert (y.tolist(), v.tolist()) == ([[2.0] * 3] * 2, [2.0] * 3)


def test_a_pass_reads_memory_that_was_given_back(same):
    """So networks of invertible layers train: each computes its input again before the pass needs it."""

    def program(m):
        x = m.arange(3.0, requires_grad=True)
        h = x * 2
        loss = (h * h).sum()
        h.untyped_storage().resize_(0)
        h.untyped_storage().resize_(12)
        h.data.copy_(x.detach() * 2)
        loss.backward()
        return x.grad

    same(program, name="a pass over memory that was given back")


def test_a_storage_is_not_cut_to_a_part_of_its_tensor():
    x = tg.ones(4)
    with pytest.raises(NotImplementedError, match="a part of what its tensor needs"):
        x.untyped_storage().resize_(8)


def _slices(m, storage, put):
    """Slices of a storage, and what is seen through them after writes on both sides."""
    shown = []
    for index in (slice(None), slice(2, 5), slice(-3, None), slice(4, 2), slice(1, 100), slice(None, -2)):
        part = storage[index]
        shown.append((type(part).__name__, len(part), part.tolist(), part.nbytes()))
    part = storage[2:6]
    part[0] = put[0]
    storage[3] = put[1]
    part[2:4] = put[2]
    inner = part[1:3]
    inner[0] = put[3]
    shown += [part.tolist(), storage.tolist(), inner.tolist(), part.data_ptr() - storage.data_ptr()]
    tensor = m.tensor([], dtype=m.uint8).set_(part)
    tensor.zero_()
    return shown, storage.tolist(), tensor, part.clone().tolist()


@pytest.mark.parametrize("dtype", ["uint8", "float32", "int16", "bool", "complex64", "bfloat16"])
def test_slices_of_storages_share_their_memory(dtype, same):
    def slices(m):
        x = m.tensor([[1, 0], [1, 1], [0, 1], [1, 0]]).to(getattr(m, dtype))
        return _slices(m, x.untyped_storage(), (0, 1, 0, 1) if dtype == "bool" else (77, 88, 99, 55))

    same(slices, f"slices of storages of {dtype}")


def test_tensors_and_slices_of_storages_see_each_other(same):
    def program(m):
        x = m.arange(6.0).reshape(2, 3)
        part = x.untyped_storage()[4:12]
        y = m.tensor([]).set_(part)
        x.mul_(2)
        first = y.clone()
        y.add_(10)
        part[0:8] = 0
        kept = x.clone(), y
        del part, y
        x.t().add_(1)
        return first, kept, x, x.untyped_storage()[0:4].tolist()

    same(program, "tensors and slices of storages")


def test_what_storages_refuse(same):
    def program(m):
        s = m.arange(6, dtype=m.uint8).untyped_storage()

        def put(index, value):
            s[index] = value

        return [
            complaint(lambda: s[::2]), complaint(lambda: put(slice(0, 6, 2), 1)), complaint(lambda: put(0, 2.5))[0],
            complaint(lambda: put(slice(0, 2), "a"))[0], complaint(lambda: s[9])[0], put(slice(0, 2), 300), s.tolist(),
        ]  # fmt: skip

    same(program, "what storages refuse")


def test_a_slice_of_a_storage_without_memory_of_its_own_is_refused():
    with pytest.raises(NotImplementedError, match="slice a tensor"):
        tg.empty(4, device="meta").untyped_storage()[1:2]


def test_a_tensor_of_a_storage_without_memory_cannot_be_read_until_there_is_some():
    x = tg.ones(3)
    storage = x.untyped_storage()
    storage.resize_(0)
    with pytest.raises(RuntimeError, match="storage of 0 elements"):
        x.tolist()
    storage.resize_(12)
    x.copy_(tg.arange(3.0))
    assert x.tolist() == [0.0, 1.0, 2.0]


def test_the_older_file_format_needs_storages_that_have_a_class():
    with pytest.raises(NotImplementedError, match="zip format"):
        tg.save(tg.ones(1).untyped_storage(), io.BytesIO(), _use_new_zipfile_serialization=False)


def test_storages_of_a_checkpoint_are_those_of_its_tensors():
    file, x = io.BytesIO(), tg.arange(4.0)
    tg.save({"x": x, "storage": x.storage()}, file)
    file.seek(0)
    found = tg.load(file)
    found["storage"][0] = 9
    assert found["x"].tolist() == [9.0, 1.0, 2.0, 3.0]


def test_sizes_are_never_symbols():
    with pytest.raises(NotImplementedError, match="SymInt"):
        tg.SymInt(3)


def test_a_loop_keeps_the_number_of_its_values():
    with pytest.raises(RuntimeError, match="same number of values"):
        tg.while_loop(lambda i: i < 3, lambda i: (i, i), (tg.tensor(0),))


@pytest.mark.parametrize("name", ["set_overwrite_module_params_on_conversion", "set_swap_module_params_on_conversion"])
def test_conversions_of_modules_work_in_one_way(name):
    getattr(tg.__future__, name)(False)
    with pytest.raises(NotImplementedError, match=name):
        getattr(tg.__future__, name)(True)


def test_the_configuration_names_what_runs_underneath():
    assert "jaxlib" in tg.__config__.show()
    assert "thread" in tg.__config__.parallel_info()


def test_an_exception_of_another_thread_is_raised_again_with_where_it_was():
    try:
        {}["missing"]
    except KeyError:
        wrapped = tg._utils.ExceptionWrapper(where="in a worker")
    with pytest.raises(KeyError, match=r"(?s)Caught KeyError in a worker.*missing"):
        wrapped.reraise()


def test_tensors_come_back_in_the_order_of_others():
    a, b, c = tg.ones(1), tg.ones(2).int(), tg.ones(3)
    found = tg._utils._reorder_tensors_as([b, a, c], [a, c, b])
    assert [id(t) for t in found] == [id(t) for t in (a, c, b)]


# --- classes --------------------------------------------------------------------------------------


def test_tensor_types_construct_and_recognise():
    t = tg.LongTensor([1, 2])
    assert isinstance(t, tg.LongTensor)
    assert isinstance(t, tg.Tensor)
    assert not isinstance(t, tg.FloatTensor)
    assert tg.Tensor([1, 2]).dtype is tg.float32
    assert t.type(tg.FloatTensor).dtype is tg.float32
    with pytest.raises(TypeError, match="expected a tensor of dtype float32"):
        tg.FloatTensor(t)


def test_subclasses_construct_their_own():
    class Named(tg.Tensor):
        pass

    n = Named([1.0, 2.0])
    assert (type(n), n.tolist()) == (Named, [1.0, 2.0])


def test_settings_and_types_survive_pickling():
    for value in (tg.ones(2, 3).t(), tg.float64, tg.contiguous_format, tg.Size([2]), tg.device("cpu")):
        back = pickle.loads(pickle.dumps(value))
        assert repr(back) == repr(value)
    assert pickle.loads(pickle.dumps(tg.channels_last)) is tg.channels_last
    assert copy.deepcopy(tg.strided) is not None


def test_default_devices_hold_for_one_thread():
    import threading

    seen = []
    tg.set_default_device("cpu")
    try:
        worker = threading.Thread(target=lambda: seen.append(tg.get_default_device()))
        worker.start()
        worker.join()
    finally:
        tg.set_default_device(None)
    assert [str(d) for d in seen] == [str(tg.zeros(1).device)]
