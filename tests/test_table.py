"""Every row of the op table is well formed, and the table refuses rows that are not."""

import dataclasses
import inspect
import itertools

import jax
import pytest

import torchgrad_jax
from torchgrad_jax._engine.entry import bind
from torchgrad_jax._engine.entry.binding import public_name
from torchgrad_jax._ops import TABLE, registry as reg

ROWS = sorted(TABLE.values(), key=lambda row: row.name)
every_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
EMPTY = inspect.Parameter.empty
KINDS = {
    reg.Array,
    reg.Scalar,
    reg.TracedInt,
    reg.Arrays,
    reg.OptArrays,
    int,
    float,
    bool,
    str,
    reg.Dims,
    reg.Size,
    reg.Dtype,
    reg.Static,
}
TENSORS = {reg.Array, reg.Arrays, reg.OptArrays}
PUBLIC = {"", "linalg", "fft", "special", "nn.functional"}
DEFAULTS = {
    reg.Scalar: (int, float, bool, complex),
    reg.TracedInt: int,
    int: int,
    float: (int, float),
    bool: bool,
    str: str,
    reg.Dims: (int, tuple),
    reg.Size: (int, tuple),
}
"""What a default that is not None may be; tensors and dtypes have no other default."""
CPP_NODES = {"CopySlices", "CopyBackwards", "Identity", "NotImplemented"}
"""Names of another form that torch has."""


@every_row
def test_parameters(row):
    signature = inspect.signature(row.impl)
    assert [p.name for p in row.params] == list(signature.parameters)
    for p in row.params:
        assert p.kind in KINDS
        assert p.name.isidentifier()
        assert not p.name.startswith("_")  # names in generated code do
        if p.scalar:
            assert p.kind is reg.Array
        if p.default is not EMPTY and p.default is not None and p.kind is not reg.Static:
            assert isinstance(p.default, DEFAULTS[p.kind]), p.name
    assert any(p.kind in TENSORS for p in row.params)
    names = [p.name for p in row.params]
    assert len(names) == len(set(names))


@every_row
def test_promotion(row):
    assert isinstance(row.promote, reg.Promote)
    if row.promoted is not None:
        assert row.promote is not reg.Promote.NONE, "names what to promote, and promotes nothing"
        assert set(row.promoted) <= {p.name for p in row.params if p.dynamic}


@every_row
def test_results(row):
    assert isinstance(row.grad, reg.Grad)
    if row.returns is not None:
        assert len(row.returns) > 1
        assert all(name.isidentifier() for name in row.returns)
        assert len(set(row.returns)) == len(row.returns)
        assert all(0 <= k < len(row.returns) for k in row.nondiff)
    assert list(row.nondiff) == sorted(set(row.nondiff))
    assert all(k >= 0 for k in row.nondiff)


def _bound_arguments(row):
    """Every way in which the arguments can be a tensor, a number, missing or given."""
    choices = []
    for p in row.params:
        if p.kind in TENSORS or p.scalar:
            options = ["tensor"] + ["scalar"] * p.scalar + [None] * (p.optional or p.default is None)
        elif p.dynamic:
            options = ["scalar"] + [None] * (p.default is not EMPTY)
        else:
            given = {int: 1, float: 1.0, bool: True, str: "none", reg.Dims: (0,), reg.Size: (1,)}.get(p.kind)
            options = list({repr(v): v for v in (None if p.default is EMPTY else p.default, given)}.values())
        choices.append([(p.name, v) for v in options])
    return [dict(c) for c in itertools.islice(itertools.product(*choices), 200)]


@every_row
def test_node_name(row):
    if isinstance(row.node, str):
        # A view's copy: AliasBackward0_copy.
        stem = row.node.removesuffix("_copy").rstrip("0123456789")
        known = stem.endswith("Backward") or row.node in CPP_NODES
        assert known
        return
    names = {row.node(args) for args in _bound_arguments(row)}
    assert names
    assert all(isinstance(n, str) and n.isidentifier() for n in names)


@every_row
def test_views(row):
    if not row.view:
        return
    assert row.params[0].kind is reg.Array
    assert not row.params[0].optional
    assert row.grad is reg.Grad.YES
    assert not any(p.kind in TENSORS for p in row.params[1:]), "a view reads one storage"
    parameters = list(inspect.signature(row.geometry).parameters.values())
    takes = {p.name for p in parameters[1:]}
    assert {p.name for p in row.params[1:]} <= takes or any(p.kind is p.VAR_KEYWORD for p in parameters)


@every_row
def test_reachable(row):
    """A row is a public function, a method, or something that a composition calls by name."""
    label = public_name(row)
    assert callable(getattr(bind.ops, row.name))
    assert row.namespace in PUBLIC
    if row.function:
        space = bind.NAMESPACES[row.namespace]
        assert all(callable(space[n]) for n in (label, *row.aliases))
    if row.method and row.namespace == "":
        assert all(callable(getattr(torchgrad_jax.Tensor, n)) for n in (label, *row.aliases))


@every_row
def test_inplace(row):
    if not row.inplace:
        assert not any(bind.inplace_operator(row.operators[0]) == name for name in row.operators)
        return
    first = row.params[0]
    assert first.kind is reg.Array, "writes to its first argument"
    assert row.returns is None
    # A view's in-place form changes how the tensor sees its storage, under a node of its own name.
    assert row.geometry is None or row.inplace.node is not None
    assert row.inplace.node is not None or not row.inplace.missing
    assert callable(getattr(bind.ops, row.name + "_"))
    label = public_name(row) + "_"
    space = bind.NAMESPACES.get(row.namespace, {}) if row.namespace else bind.METHODS
    if row.method or row.namespace:
        assert callable(space[label])


@every_row
def test_operators(row):
    for name in row.operators:
        assert name.startswith("__")
        assert name.endswith("__")
        assert callable(getattr(torchgrad_jax.Tensor, name))


@every_row
def test_described(row):
    assert row.layout in list(reg.Layout) or callable(row.layout)


def _impl(input: reg.Array) -> jax.Array:
    return input


def test_sealed():
    assert TABLE.sealed
    with pytest.raises(RuntimeError, match="the op table is sealed; cannot add 'one_too_many'"):
        reg.op(_impl, name="one_too_many")
    assert "one_too_many" not in TABLE


@pytest.fixture
def table(monkeypatch):
    """An empty table in place of the real one."""
    monkeypatch.setattr(reg, "TABLE", reg.Table())
    return reg.TABLE


def test_duplicates_are_refused(table):
    reg.op(_impl, name="twice")
    with pytest.raises(ValueError, match="op 'twice' is declared twice"):
        reg.op(_impl, name="twice")


def test_unknown_options_are_refused(table):
    with pytest.raises(ValueError, match=r"op 'mine': unknown options \['differentiable'\]"):
        reg.op(_impl, name="mine", differentiable=True)


def test_ops_without_a_tensor_are_refused(table):
    def impl(n: int) -> jax.Array:
        raise AssertionError(n)

    with pytest.raises(ValueError, match="op 'numbers' has no Array parameter"):
        reg.op(impl, name="numbers")


@pytest.mark.parametrize(
    "annotation",
    [EMPTY, list, dict, reg.Array | str, int | float, "an_array"],
    ids=lambda a: getattr(a, "__name__", str(a)),
)
def test_unknown_annotations_are_refused(table, annotation):
    def impl(input, n): ...

    impl.__annotations__ = {"input": reg.Array} | ({} if annotation is EMPTY else {"n": annotation})
    with pytest.raises((ValueError, NameError)):
        reg.op(impl, name="strange")


def test_star_arguments_are_refused(table):
    def impl(input: reg.Array, **options: int): ...

    with pytest.raises(ValueError, match="hide torch's signature"):
        reg.op(impl, name="anything")


def test_rows_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        TABLE["mul"].name = "mull"  # type: ignore[misc]


@pytest.mark.parametrize(
    "name,kinds,optional,scalar",
    [
        ("mul", [reg.Array, reg.Array], [False, False], [False, True]),
        ("cat", [reg.Arrays, int], [False, False], [False, False]),
    ],
    ids=["mul", "cat"],
)
def test_how_annotations_are_read(name, kinds, optional, scalar):
    params = TABLE[name].params
    assert [p.kind for p in params] == kinds
    assert [p.optional for p in params] == optional
    assert [p.scalar for p in params[: len(scalar)]] in (scalar, [True, True])


def test_variant_shares_the_implementation(table):
    reg.op(_impl, name="original", node="OriginalBackward0")
    reg.variant("original", "copy", namespace="special")
    assert table["copy"].impl is table["original"].impl
    assert table["copy"].node == "OriginalBackward0"
    assert table["copy"].namespace == "special"


@pytest.mark.parametrize(
    "name,expected", [("exp", "Exp"), ("log_softmax", "LogSoftmax"), ("_unsafe_view", "UnsafeView")]
)
def test_camel(name, expected):
    assert reg.camel(name) == expected


def test_generated_code_shadows_no_parameter():
    """Whatever a parameter is called, the generated function's own names start with an underscore."""
    for row in ROWS:
        fn = getattr(bind.ops, row.name)
        parameters = set(inspect.signature(fn, follow_wrapped=False).parameters)
        own = {v for v in fn.__code__.co_varnames if v not in parameters}
        assert all(v.startswith("_") for v in own), row.name
        assert all(v.startswith("_") for v in fn.__globals__ if v != row.name and v != fn.__name__), row.name
