"""torch.utils._pytree, and small containers of torch.utils; the expected answers are those of torch 2.13."""

import collections

import pytest

import torchgrad_jax as torch
from torchgrad_jax.utils import _pytree as pytree
from torchgrad_jax.utils._contextlib import _DecoratorContextManager
from torchgrad_jax.utils._ordered_set import OrderedSet
from torchgrad_jax.utils._python_dispatch import TorchDispatchMode
from torchgrad_jax.utils.weak import WeakIdKeyDictionary

Pair = collections.namedtuple("Pair", "a b")
TREE = {"a": [1, (2, 3)], "b": None, "p": Pair(4, [5])}


def test_paths():
    found = pytree.tree_flatten_with_path(TREE)[0]
    assert [(pytree.keystr(k), v) for k, v in found] == [
        ("['a'][0]", 1),
        ("['a'][1][0]", 2),
        ("['a'][1][1]", 3),
        ("['b']", None),
        ("['p'].a", 4),
        ("['p'].b[0]", 5),
    ]
    assert all(pytree.key_get(TREE, path) == value for path, value in found)
    assert pytree.tree_map_with_path(lambda k, v: len(k), [1, {"x": 2}]) == [1, {"x": 2}]


def test_a_specification_tells_what_it_is():
    spec = pytree.tree_structure(TREE)
    assert (spec.num_leaves, spec.num_nodes, spec.num_children, spec.type) == (6, 11, 3, dict)
    assert not spec.is_leaf()
    assert pytree.treespec_leaf().is_leaf()
    assert hash(spec) == hash(pytree.tree_structure(TREE))
    with pytest.raises(ValueError, match="`leaves` has length 1 but the spec refers to a pytree that holds 6 items"):
        spec.unflatten([1])


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        ([1, 2], [1], "Node arity mismatch; expected 2, but got 1."),
        ([1, 2], (1, 2), "Node type mismatch; expected <class 'list'>, but got <class 'tuple'>."),
        ({"a": 1}, {"b": 1}, "Node keys mismatch; missing key(s): {'a'}; extra key(s): {'b'}."),
    ],
)
def test_trees_that_do_not_fit(a, b, text):
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the text is compared below
        pytree.tree_map(lambda x, y: x, a, b)
    assert str(raised.value) == text


def test_further_trees_may_go_deeper_and_name_keys_in_another_order():
    assert pytree.tree_map(lambda x, y: y, [1], [[2, 3]]) == [[2, 3]]
    assert pytree.tree_map(lambda x, y: (x, y), {"a": 1, "b": 2}, {"b": 3, "a": 4}) == {"a": (1, 4), "b": (2, 3)}


def test_a_class_with_keys_of_its_own():
    class Own:
        def __init__(self, x):
            self.x = x

    pytree.register_pytree_node(
        Own,
        lambda o: ([o.x], None),
        lambda xs, _: Own(*xs),
        flatten_with_keys_fn=lambda o: ([(pytree.GetAttrKey("x"), o.x)], None),
    )
    assert [pytree.keystr(k) for k, _ in pytree.tree_leaves_with_path([Own([1, 2])])] == ["[0].x[0]", "[0].x[1]"]


def test_calls_for_what_they_do():
    seen = []
    assert pytree.tree_map_only_(int, seen.append, [1, "a"]) == [1, "a"]
    assert seen == [1]
    assert pytree.tree_map_only(lambda v: v == 1, lambda v: 9, [1, 2]) == [9, 2]
    assert pytree.arg_tree_leaves(1, [2], k=3) == [1, 2, 3]


def test_sets_in_order():
    s = OrderedSet([3, 1, 3])
    s.add(2)
    assert repr(s) == "OrderedSet([3, 1, 2])"
    assert list(s | {5}) == [3, 1, 2, 5]
    assert s == {1, 2, 3}
    assert (s.pop(), list(s.union([9])), list(reversed(s))) == (2, [3, 1, 9], [1, 3])
    assert (list(s.difference([3])), list(s.intersection([1, 2])), list(s - {1})) == ([1], [1], [3])


def test_keys_held_weakly_by_identity():
    a, b = torch.ones(2), torch.ones(2)
    d = WeakIdKeyDictionary({a: 1})
    d[b] = 2
    assert (len(d), d[a], d[b], torch.ones(2) in d) == (2, 1, 2, False)
    del a
    assert list(d.values()) == [2]


def test_a_context_for_each_call():
    entered = []

    class Noting(_DecoratorContextManager):
        def __enter__(self):
            entered.append(id(self))

        def __exit__(self, *exc):
            entered.append("out")

    fn = Noting()(lambda: "ran")
    assert [fn(), fn(), len(entered)] == ["ran", "ran", 4]


def test_modes_of_the_dispatcher_are_refused_when_entered():
    class Mode(TorchDispatchMode):
        pass

    with pytest.raises(NotImplementedError, match="Mode: a TorchDispatchMode cannot be entered"), Mode():
        pass
