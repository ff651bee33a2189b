"""What packages built on torch ask of it, beyond what programs use: names, addresses, sequences, refusals."""

import ctypes
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import torchgrad_jax as tg
from tests.engine.helpers import Programs, attempt
from tests.programs import complaint

PROGRAMS = Programs()


@PROGRAMS
def sobol_points(m):
    engine = m.quasirandom.SobolEngine(3)
    seen = [repr(engine), engine.draw(5), engine.quasi, engine.draw(2, dtype=m.float64), engine.num_generated]
    engine.reset()
    seen += [engine.draw(3), engine.fast_forward(5) is engine, engine.draw(2), engine.sobolstate[:, :6]]
    engine = m.quasirandom.SobolEngine(2)
    out = m.empty(0)
    seen += [engine.draw_base2(2), attempt(lambda: engine.draw_base2(3)), engine.draw(0).shape]
    seen += [engine.draw(2, out=out) is out, out, attempt(lambda: engine.draw(-1))]
    return [*seen, attempt(lambda: m.quasirandom.SobolEngine(0)), attempt(lambda: m.quasirandom.SobolEngine(30000))]


@PROGRAMS
def scrambled_sobol_points(m):
    seen = []
    for seed in (None, 0, 1234):
        m.manual_seed(3)
        engine = m.quasirandom.SobolEngine(4, scramble=True, seed=seed)
        seen += [repr(engine), engine.sobolstate[:, ::7], engine.shift, engine.draw(4)]
        engine.reset()
        seen += [engine.draw(1), engine.fast_forward(3).draw(2), m.rand(2)]
    return seen


def bytes_at(t):
    return list(ctypes.string_at(t.data_ptr(), t.numel() * t.element_size()))


@PROGRAMS
def addresses_can_be_read(m):
    x = m.arange(6, dtype=m.int16).reshape(2, 3)
    at = x.data_ptr()
    seen = [bytes_at(x), bytes_at(x[1]), x[1].data_ptr() - at, x.untyped_storage().data_ptr() == at]
    x.add_(1)
    column = m.zeros(2, 2, dtype=m.int16).t()
    seen += [bytes_at(x), x.data_ptr() == at, column.data_ptr() == column.untyped_storage().data_ptr()]
    big = m.arange(300_000)
    other = m.zeros(4)
    apart = other.data_ptr() >= big.data_ptr() + big.nbytes or other.data_ptr() < big.data_ptr()
    return [*seen, apart, bytes_at(m.tensor([True, False])), m.empty(0).data_ptr(), bytes_at(m.tensor(1.5).bfloat16())]


@PROGRAMS
def modules_among_base_classes(m):
    class Flow(m.distributions.Transform, m.nn.Module):
        domain = codomain = m.distributions.constraints.real
        bijective = True

        def __init__(self):
            super().__init__(cache_size=1)
            self.scale = m.nn.Parameter(m.tensor(2.0))

        __hash__ = m.nn.Module.__hash__

        def _call(self, x):
            return x * self.scale

        def _inverse(self, y):
            return y / self.scale

        def log_abs_det_jacobian(self, x, y):
            return self.scale.log().expand(x.shape)

    flow = Flow()
    density = m.distributions.TransformedDistribution(m.distributions.Normal(0.0, 1.0), [flow])
    loss = density.log_prob(m.tensor([0.5, 1.0])).sum()
    loss.backward()
    return loss, flow.scale.grad, [name for name, _ in flow.named_parameters()]


@PROGRAMS
def autocast_of_devices_that_are_not_there(m):
    return [attempt(lambda name=name: m.is_autocast_enabled(name)) for name in ("xpu", "hpu", "mps", "nope")]


@PROGRAMS
def without_a_gpu(m):
    cuda = m.cuda
    with cuda.stream(None):
        inside = 1
    return [
        inside,
        type(cuda.stream(None)).__name__,
        cuda.set_stream(None),
        attempt(lambda: cuda.Stream()),
        attempt(lambda: cuda.Event(enable_timing=True)),
        attempt(lambda: cuda.CUDAGraph()),
        attempt(cuda.current_stream),
        attempt(lambda: cuda.nvtx.range_push("a")),
        attempt(lambda: cuda.nvtx.range("a").__enter__()),
    ]


@PROGRAMS
def patterns_of_file_names(m):
    return m.hub.HASH_REGEX.search("net-0a1b2c.pth").group(1)


@PROGRAMS
def tensors_on_files(m):
    """What is written to a tensor on a file gets there if they share memory."""
    seen = []
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/numbers"
        x = m.from_file(path, shared=True, size=4, dtype=m.int32)
        x.fill_(3)
        again = m.from_file(path, True, 4, dtype=m.int32)
        again[1:3].mul_(5)
        seen.append(("seen by both", (x.tolist(), again.tolist())))
        seen.append(("the file", list(Path(path).read_bytes())))
        own = m.from_file(path, size=2, dtype=m.int32)
        own.zero_()
        seen.append(("of its own", (own.tolist(), list(Path(path).read_bytes()[:4]))))
        storage = m.UntypedStorage.from_file(path, shared=True, nbytes=8)
        storage[0] = 77
        seen.append(("bytes", (x.tolist(), storage.filename == path, storage.nbytes(), own.untyped_storage().filename)))
        seen.append(
            ("longer", (m.from_file(path, shared=True, size=6, dtype=m.int32)[1:].tolist(), Path(path).stat().st_size))
        )
        seen.append(("nothing", m.from_file(path, dtype=m.int32)))
        seen.append(("too short", str(attempt(lambda: m.from_file(path, size=7, dtype=m.int32))).replace(folder, "")))
        seen.append(("missing", str(attempt(lambda: m.from_file(path + "x", size=7))).replace(folder, "")))
        wrong = [{"pin_memory": True}, {"pin_memory": 1}, {"layout": 3}, {"requires_grad": 1}, {"shared": 1}]
        seen += [(f"refused: {o}", complaint(lambda o=o: m.from_file(path, size=2, **o))) for o in wrong]
        absent = [
            attempt(lambda o=o: m.from_file(path, size=2, **o)) for o in ({"layout": m.sparse_coo}, {"device": "meta"})
        ]
        seen.append(("not implemented", [isinstance(error, NotImplementedError) for error in absent]))
        seen.append(("a leaf", m.from_file(path, size=2, dtype=m.float32, requires_grad=True).requires_grad))
    return seen


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_as_torch(program, same):
    if program is without_a_gpu and tg.cuda.is_available():
        pytest.skip("there is a GPU")
    same(program)


def test_storages_from_files(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(12)))
    storage = tg.UntypedStorage.from_file(str(path), False, 8)
    assert storage.tolist() == list(range(8))
    part = storage[4:8]
    assert tg.asarray(part, dtype=tg.uint8).view(tg.int16).tolist() == [0x0504, 0x0706]
    with pytest.raises(RuntimeError, match="size <12> is smaller than the required mapping size <13>"):
        tg.UntypedStorage.from_file(str(path), False, 13)
    part[0] = 9  # the memory of the storage; the file is not shared
    assert storage.tolist()[4] == 9
    assert path.read_bytes()[4] == 4


def test_a_recorded_main_function_works_without_a_launcher():
    from torchgrad_jax.distributed.elastic.multiprocessing.errors import record

    main = record(lambda x, y=1: x / y)
    assert main(6, y=3) == 2
    with pytest.raises(ZeroDivisionError):
        main(1, y=0)


def test_names_of_what_is_not_there():
    from torchgrad_jax._subclasses.fake_tensor import FakeTensor, is_fake
    from torchgrad_jax.distributed.nn import all_reduce
    from torchgrad_jax.distributed.tensor import DTensor, distribute_tensor

    x = tg.ones(2)
    assert not isinstance(x, DTensor | FakeTensor)
    assert not is_fake(x)
    with (
        pytest.warns(FutureWarning, match="all_reduce is deprecated"),
        pytest.raises(ValueError, match="Default process group has not been initialized"),
    ):
        all_reduce(x)
    for call in (distribute_tensor, DTensor.from_local):
        with pytest.raises(RuntimeError, match="No device mesh is currently active!"):
            call(x)


def test_the_alias_is_called_torch():
    code = """
import torchgrad_jax
alias = torchgrad_jax.install_as_torch()
import torch
assert torch.__name__ == "torch" and torch.torch is torch is torchgrad_jax
alias.remove()
assert torchgrad_jax.__name__ == "torchgrad_jax"
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_vmap_tells_containers_that_keep_account_of_dimensions():
    from torchgrad_jax._functorch.vmap import _add_batch_dim, _maybe_remove_batch_dim
    from torchgrad_jax.utils._pytree import register_pytree_node

    class Batch:
        def __init__(self, x, size):
            self.x, self.size = x, list(size)

        def dim(self):
            return len(self.size)

        def _add_batch_dim(self, *, in_dim, vmap_level):
            size = [n for d, n in enumerate(self.size) if d != in_dim]
            return Batch(_add_batch_dim(self.x, in_dim, vmap_level), size)

        def _maybe_remove_batch_dim(self, name, vmap_level, batch_size, out_dim):
            size = [*self.size[:out_dim], batch_size, *self.size[out_dim:]]
            return Batch(_maybe_remove_batch_dim(name, self.x, vmap_level, batch_size, out_dim), size)

    register_pytree_node(Batch, lambda b: ([b.x], tuple(b.size)), lambda parts, size: Batch(parts[0], size))
    seen = []

    def doubled(batch, y):
        seen.append((list(batch.x.shape), batch.size))
        return {"batch": Batch(batch.x * y, batch.size), "sum": batch.x.sum()}

    x = tg.arange(24.0).reshape(2, 3, 4)
    out = tg.vmap(doubled, (-1, 0), {"batch": 1, "sum": 0})(Batch(x, (2, 3)), tg.arange(3.0))
    assert seen == [([2, 4], [2])]
    assert out["batch"].size == [2, 3]
    assert out["batch"].x.tolist() == (x * tg.arange(3.0)[:, None]).tolist()
    assert out["sum"].tolist() == x.sum((0, 2)).tolist()
    assert tg.vmap(lambda y, b: y * b.x.sum(), (0, None))(tg.ones(2), Batch(x, (2, 3))).tolist() == [276.0, 276.0]
