"""torch.export: a module as a program, of any size where asked for, with its parameters, in a file; against torch."""

import dataclasses
import importlib
import io

import pytest

import torchgrad_jax as tg
from tests.programs import Programs, attempt

pytest.importorskip("flatbuffers")
program = Programs()
test_same_as_torch = program.test()


def part(m):
    return importlib.import_module(f"{m.__name__}.export")


def network(m):
    class Net(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = m.nn.Sequential(m.nn.Linear(3, 4), m.nn.BatchNorm1d(4), m.nn.ReLU(), m.nn.Linear(4, 2))
            self.register_buffer("offset", m.ones(2), persistent=False)

        def forward(self, x, *more, scale=1.0, mask=None):
            y = self.layers(x) * scale + self.offset
            for other in more:
                y = y + other.sum()
            return {"y": y if mask is None else y * mask, "n": [x.mean(0)]}

    net = Net()
    with m.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_((m.arange(float(p.numel())).view(p.shape) - 3) / (i + 7))
    return net


def rows(m, n):
    return (m.arange(3.0 * n).view(n, 3) - n) / 5


@program
def any_number_of_rows(m):
    e = part(m)
    batch = e.Dim("batch", min=2, max=20)
    shapes = {"x": {0: batch}, "mask": (batch, None), "scale": None}
    ep = e.export(network(m).eval(), (rows(m, 4),), {"scale": 2.0, "mask": m.ones(4, 1)}, dynamic_shapes=shapes)
    run = ep.module()
    found = [run(rows(m, n), scale=2.0, mask=m.arange(float(n)).view(n, 1)) for n in (2, 5, 20)]
    return [(f["y"].detach(), [t.detach() for t in f["n"]]) for f in found]


@program
def its_parameters_are_those_of_the_module(m):
    net = network(m).eval()
    ep = part(m).export(net, (rows(m, 4),))
    run = ep.module()
    x = rows(m, 4)
    run(x)["y"].square().sum().backward()
    grads = [p.grad for p in run.parameters()]
    return (
        list(ep.state_dict),
        [name for name, _ in ep.named_parameters()],
        sorted(name for name, _ in ep.named_buffers()),
        list(ep.constants),
        sorted(name for name, _ in run.named_parameters()),
        grads,
        [a is b for a, b in zip(ep.parameters(), net.parameters())],
    )


@program
def running_averages_are_written(m):
    net = network(m)
    run = part(m).export(net, (rows(m, 4),)).module()
    with m.no_grad():
        first, second = run(rows(m, 4))["y"], run(rows(m, 4) + 1)["y"]
    buffers = dict(run.named_buffers())
    return first, second, buffers["layers.1.running_mean"], buffers["layers.1.num_batches_tracked"]


@program
def through_a_file(m):
    e, file = part(m), io.BytesIO()
    shapes = ({0: e.Dim.AUTO},)
    e.save(e.export(network(m).eval(), (rows(m, 4),), dynamic_shapes=shapes), file, extra_files={"note": "mine"})
    file.seek(0)
    kept = {"note": ""}
    ep = e.load(file, extra_files=kept)
    with m.no_grad():
        return ep.module()(rows(m, 7))["y"], list(ep.state_dict), list(ep.constants), str(kept["note"])


@program
def more_tensors_and_sizes_of_each(m):
    e = part(m)
    n = e.Dim("n")
    shapes = {"x": {0: 2 * n}, "more": ({0: n}, None)}
    run = e.export(network(m).eval(), (rows(m, 8), m.ones(4), m.ones(1)), dynamic_shapes=shapes).module()
    with m.no_grad():
        return run(rows(m, 6), m.ones(3), m.ones(1))["y"]


@program
def what_dimensions_are_called(m):
    d = part(m).Dim
    return [repr(x) for x in (d("x"), d("x", min=3), d("x", min=3, max=5), d.AUTO, d.STATIC, *part(m).dims("a", "b"))]


@program
def dimensions_that_cannot_be(m):
    found = []
    for call in (lambda: part(m).Dim("x", min=5, max=3), lambda: part(m).Dim("1x")):
        with pytest.raises(AssertionError) as error:
            call()
        found.append(str(error.value))
    with pytest.raises(ValueError, match=r"Expected `mod` to be an instance of `torch\.nn\.Module`"):
        part(m).export(lambda x: x, (m.ones(2),))
    return found


def test_sizes_outside_of_the_limits_and_other_arguments_are_refused():
    e = part(tg)
    shapes = {"x": {0: e.Dim("batch", min=2, max=8)}}
    run = e.export(network(tg).eval(), (rows(tg, 4),), {"scale": 2.0}, dynamic_shapes=shapes).module()
    with pytest.raises(AssertionError, match="batch is 9, and the program was exported for 2 to 8"):
        run(rows(tg, 9), scale=2.0)
    with pytest.raises(AssertionError, match="batch is 1, and the program was exported for 2 to 8"):
        run(rows(tg, 1), scale=2.0)
    with pytest.raises(RuntimeError, match="does not fit"):
        run(tg.ones(4, 4), scale=2.0)
    with pytest.raises(TypeError, match=r"exported for 2.0 .* called with 3.0"):
        run(rows(tg, 4), scale=3.0)
    with pytest.raises(ValueError, match="does not fit Dim"):
        e.export(network(tg).eval(), (rows(tg, 9),), dynamic_shapes=shapes)
    with pytest.raises(ValueError, match="has no such argument"):
        e.export(network(tg).eval(), (rows(tg, 4),), dynamic_shapes={"z": {0: 4}})


def test_the_program_is_text_and_no_graph():
    ep = part(tg).export(network(tg).eval(), (rows(tg, 4),))
    assert "stablehlo" in ep.mlir
    assert ep(rows(tg, 4))["y"].shape == (4, 2)
    with pytest.raises(NotImplementedError, match="no graph of ATen's operators"):
        _ = ep.graph
    with pytest.raises(NotImplementedError, match="no graph of ATen's operators"):
        ep.run_decompositions()


def test_a_file_of_another_kind_is_refused():
    file = io.BytesIO()
    tg.save(tg.ones(1), file)
    file.seek(0)
    with pytest.raises(RuntimeError, match="no file of torchgrad_jax's"):
        part(tg).load(file)


def test_a_file_stays_as_it_was_if_a_program_cannot_be_written(tmp_path, monkeypatch):
    program = part(tg).export(tg.nn.Linear(2, 1), (tg.ones(1, 2),))
    path = tmp_path / "program.pt2"
    part(tg).save(program, path)
    before = path.read_bytes()
    monkeypatch.setattr(type(program._exported), "save", lambda self, path: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        part(tg).save(program, path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@program
def dimensions_by_tensor(m):
    e = part(m)
    batch = e.Dim("batch")
    x, y, z = m.ones(4, 3), m.ones(4, 2), m.ones(1)
    shapes = e.ShapesCollection()
    shapes[x] = (batch, None)
    shapes[y] = {0: batch}
    call = m.nn.Module()
    call.forward = lambda first, others, *rest, k=None: first
    given = (
        lambda: shapes.dynamic_shapes(call, (x, [y, 3])),
        lambda: shapes.dynamic_shapes(call, (x, {"a": y}, y), {"k": y}),
        lambda: shapes.dynamic_shapes(call, (x, [1])),
        lambda: shapes.dynamic_shapes(call, (x,)),
        lambda: shapes.__setitem__(x, {}),
        lambda: (shapes[z], len(shapes)),
    )
    return [attempt(g) if not isinstance(g, dict) else g for g in given]


@program
def dataclasses_go_in_and_come_out(m):
    @dataclasses.dataclass
    class Batch:
        x: object
        scale: int = 2
        mask: object = None

    class Net(m.nn.Module):
        def forward(self, batch, others):
            return Batch(batch.x * batch.scale, 3, others[0])

    e = part(m)
    e.register_dataclass(Batch)
    x, y = m.ones(4, 3), m.ones(5)
    shapes = e.ShapesCollection()
    shapes[x] = {0: e.Dim("rows")}
    run = e.export(Net(), (Batch(x), [y]), dynamic_shapes=shapes).module()
    found = run(Batch(m.ones(2, 3)), [y])
    return found.x, found.scale, found.mask, attempt(lambda: e.register_dataclass(dict))


def test_entries_for_dataclasses_may_be_lists_in_the_order_of_their_fields():
    @dataclasses.dataclass
    class Batch:
        x: object
        mask: object = None

    class Net(tg.nn.Module):
        def forward(self, batch):
            return batch.x * 2

    e = part(tg)
    e.register_dataclass(Batch)
    for entry in ([{0: e.Dim("rows")}], {"x": {0: e.Dim("rows")}}):
        run = e.export(Net(), (Batch(tg.ones(4, 3)),), dynamic_shapes=(entry,)).module()
        assert run(Batch(tg.ones(2, 3))).shape == (2, 3)
