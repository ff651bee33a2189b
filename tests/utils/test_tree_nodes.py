"""Classes that a program adds to torch.utils._pytree; the expected answers are those of torch 2.13."""

import collections
import dataclasses
from typing import Any, NamedTuple

import pytest

import torchgrad_jax as torch
from torchgrad_jax.utils import _pytree as pytree


@dataclasses.dataclass
class Point:
    x: Any
    y: Any
    label: Any = None
    count: int = dataclasses.field(default=0, init=False)


class Plain:
    def __init__(self, x: Any) -> None:
        self.x = x


@dataclasses.dataclass(frozen=True)
class Setting:
    name: str


class Pair(NamedTuple):
    a: Any
    b: Any


class Registered(Pair):
    pass


@pytest.fixture
def known():
    """Classes registered in a test are forgotten afterwards."""
    classes = [Point, Plain, Setting, Registered]
    yield
    for cls in classes:
        if cls in pytree.SUPPORTED_NODES:
            pytree._deregister_pytree_node(cls)


@pytest.mark.usefixtures("known")
def test_a_dataclass_has_the_fields_that_are_not_none():
    pytree.register_dataclass(Point)
    leaves, spec = pytree.tree_flatten(Point(1, [2, None]))
    assert leaves == [1, 2, None]
    assert spec.context == [["x", "y"], ["label"]]
    assert pytree.tree_map(lambda v: (v,), Point(1, 2)) == Point((1,), (2,))
    paths = [pytree.keystr(k) for k, _ in pytree.tree_flatten_with_path(Point(1, [2]))[0]]
    assert paths == [".x", ".y[0]"]
    out = torch.func.vmap(lambda p: Point(p.x * 2, p.y))(Point(torch.ones(3), torch.zeros(3)))
    assert out.x.tolist() == [2, 2, 2]
    with pytest.warns(UserWarning, match="is already registered as pytree node. Overwriting"):
        pytree.register_dataclass(Point)


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("names", "text"),
    [
        (
            ["x", "label"],
            "field_names does not include all dataclass fields.\nMissing fields in `field_names`: {'y'}. If you want "
            "to include these fields in the pytree, please add them to `field_names`, otherwise please add them to "
            "`drop_field_names`.\n",
        ),
        (
            ["x", "y", "label", "z"],
            "field_names does not include all dataclass fields.\nUnexpected fields in `field_names`: {'z'}. Please "
            "remove these fields, or add them to `drop_field_names`.\n",
        ),
    ],
    ids=["missing", "unexpected"],
)
def test_names_that_are_not_the_fields(names, text):
    with pytest.raises(ValueError, match="field_names does not") as raised:
        pytree.register_dataclass(Point, field_names=names)
    assert str(raised.value) == text


@pytest.mark.usefixtures("known")
def test_other_classes_need_names():
    with pytest.raises(ValueError, match="as it is not a dataclass"):
        pytree.register_dataclass(Plain)
    pytree.register_dataclass(Plain, field_names=["x"])
    assert pytree.tree_leaves(Plain([1, 2])) == [1, 2]


@pytest.mark.usefixtures("known")
def test_fields_may_be_dropped():
    pytree.register_dataclass(Point, field_names=["x", "y"], drop_field_names=["label"])
    assert pytree.tree_leaves(Point(1, 2, 3)) == [1, 2]


@pytest.mark.usefixtures("known")
def test_a_constant_has_no_leaves():
    pytree.register_constant(Setting)
    leaves, spec = pytree.tree_flatten(Setting("a"))
    assert leaves == []
    assert pytree.tree_unflatten([], spec) == Setting("a")
    assert spec == pytree.tree_structure(Setting("a"))
    assert spec != pytree.tree_structure(Setting("b"))
    assert pytree.is_constant_class(Setting)
    assert not pytree.is_constant_class(Point)
    with pytest.raises(TypeError, match="non-default `__eq__`"):
        pytree.register_constant(Plain)
    with pytest.raises(TypeError, match="non-default `__hash__`"):
        pytree.register_constant(Point)


@pytest.mark.usefixtures("known")
def test_a_class_derived_from_a_named_tuple_may_be_registered_by_its_flattening():
    pytree.register_pytree_node(Registered, pytree._namedtuple_flatten, pytree._namedtuple_unflatten)
    out = pytree.tree_map(lambda v: v + 1, Registered(1, (2,)))
    assert type(out) is Registered
    assert out == (2, (3,))


@pytest.mark.usefixtures("known")
def test_the_old_name_warns():
    with pytest.warns(FutureWarning, match="Please use `torch.utils._pytree.register_pytree_node`"):
        pytree._register_pytree_node(Plain, lambda p: ([p.x], None), lambda v, _: Plain(*v))
    assert pytree.tree_leaves(Plain(1)) == [1]
    with pytest.raises(ValueError, match="must be None or registered"):
        pytree.register_pytree_node(Setting, lambda p: ([], p), lambda v, c: c, to_dumpable_context=str)


@pytest.mark.parametrize(
    ("kind", "value", "keyed"),
    [
        ("list", [1, 2], ([(pytree.SequenceKey(0), 1), (pytree.SequenceKey(1), 2)], None)),
        ("tuple", (1,), ([(pytree.SequenceKey(0), 1)], None)),
        ("dict", {"a": 1}, ([(pytree.MappingKey("a"), 1)], ["a"])),
        ("ordereddict", collections.OrderedDict(a=1), ([(pytree.MappingKey("a"), 1)], ["a"])),
        ("defaultdict", collections.defaultdict(int, a=1), ([(pytree.MappingKey("a"), 1)], [int, ["a"]])),
        ("deque", collections.deque([1], 3), ([(pytree.SequenceKey(0), 1)], 3)),
        ("namedtuple", Pair(1, 2), ([(pytree.GetAttrKey("a"), 1), (pytree.GetAttrKey("b"), 2)], Pair)),
    ],
)
def test_the_flattening_of_a_container(kind, value, keyed):
    leaves, context = getattr(pytree, f"_{kind}_flatten")(value)
    assert (leaves, context) == ([v for _, v in keyed[0]], keyed[1])
    again = getattr(pytree, f"_{kind}_unflatten")(leaves, context)
    assert type(again) is type(value)
    assert again == value
    assert getattr(pytree, f"_{kind}_flatten_with_keys")(value) == keyed


def test_specifications_made_from_others():
    leaf = pytree.treespec_leaf()
    assert pytree.treespec_tuple([leaf, leaf]) == pytree.tree_structure((1, 2))
    assert pytree.treespec_dict({"a": leaf}, b=leaf) == pytree.tree_structure({"a": 1, "b": 2})
    wrong: Any = 1
    with pytest.raises(ValueError, match=r"Expected a tuple of TreeSpec values, got: \[1\]\."):
        pytree.treespec_tuple([wrong])
    with pytest.raises(ValueError, match=r"Expected a dictionary of TreeSpec values, got: {'a': 1}\."):
        pytree.treespec_dict(a=wrong)


def test_map_only():
    double = pytree.map_only((int, float))(lambda v: v * 2)
    assert [double(v) for v in (1, 2.5, "a")] == [2, 5.0, "a"]
    assert pytree.map_only(lambda v: v == "a")(str.upper)("a") == "A"


def test_classes_and_instances_of_tuples_with_names():
    assert pytree.is_namedtuple_class(Pair)
    assert pytree.is_namedtuple_instance(Pair(1, 2))
    assert not pytree.is_namedtuple_class(Pair(1, 2))
    assert not pytree.is_namedtuple_instance(Pair)
    kind = type(torch.ones(2, 2).max(0))
    assert pytree.is_structseq_class(kind) == pytree.is_structseq(kind)
    assert not pytree.is_structseq_instance(kind)
