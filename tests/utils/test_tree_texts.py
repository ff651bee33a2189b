"""treespec_dumps and treespec_loads: structures of trees as JSON, letter by letter as torch writes them."""

import collections
import dataclasses
import enum
import importlib
import itertools

import torchgrad_jax as tg
from tests.programs import Programs, attempt, result_or_error

program = Programs()
test_same_as_torch = program.test()


def trees(m):
    return importlib.import_module(f"{m.__name__}.utils._pytree")


RUNS = itertools.count()


class Kind(enum.Enum):
    A = 1


def there_and_back(m, *given):
    t, found = trees(m), []
    for tree in given:
        spec = t.tree_structure(tree)
        text = result_or_error(lambda spec=spec: t.treespec_dumps(spec))
        found.append(text if isinstance(text, tuple) else (text, t.treespec_loads(text) == spec))
    return found


@program
def containers_of_python(m):
    return there_and_back(
        m,
        {"a": [1, (2, 3)], "b": None},
        collections.deque([1, 2], maxlen=4),
        collections.OrderedDict(a=1),
        collections.defaultdict(list, a=[1]),
        {Kind.A: 1},
        {1: 2},
        1,
        m.Size([1, 2]),
    )


@program
def what_cannot_be_written(m):
    plain = collections.namedtuple("plain", "a b")
    found = there_and_back(m, plain(1, 2), {Kind: 1})
    t = trees(m)

    @dataclasses.dataclass
    class Nameless:
        x: int

    t.register_dataclass(Nameless)
    other = result_or_error(lambda: t.treespec_dumps(t.tree_structure(Nameless(1))))
    return [f[0] for f in found], found[1], other[0], result_or_error(lambda: t.treespec_dumps(3))[0]


@program
def classes_with_names(m):
    t, pair = trees(m), collections.namedtuple("pair", "a b")
    run = next(RUNS)  # torch keeps a name for the class that had it first
    t._register_namedtuple(pair, serialized_type_name=f"tests.pair.{run}")

    @dataclasses.dataclass
    class Point:
        x: int
        y: int | None = None

    class Bag:
        def __init__(self, *xs):
            self.xs = xs

    t.register_dataclass(Point, serialized_type_name=f"tests.Point.{run}")
    t.register_pytree_node(
        Bag,
        lambda b: (list(b.xs), {len(b.xs)}),
        lambda xs, c: Bag(*xs),
        serialized_type_name=f"tests.Bag.{run}",
        to_dumpable_context=sorted,
        from_dumpable_context=set,
    )
    found = there_and_back(m, pair(1, [2]), Point(1), Point(1, 2), Bag(1, 2))
    return [(text.replace(f".{run}", ""), same) for text, same in found]


@program
def texts_that_are_none(m):
    t = trees(m)
    texts = ("[2, {}]", '[1, {"type":"zz","context":"null","children_spec":[]}]', "{}", "garbage")
    found = [attempt(lambda s=s: t.treespec_loads(s)) for s in texts]
    return found, attempt(lambda: t.treespec_dumps(t.tree_structure([1]), 2)), t.treespec_pprint(t.tree_structure([1]))


def test_a_class_that_is_registered_again_takes_the_new_registration(recwarn):
    @dataclasses.dataclass
    class Point:
        x: int

    tg.export.register_dataclass(Point, serialized_type_name="first")
    tg.export.register_dataclass(Point, serialized_type_name="second")
    assert "already registered as pytree node. Overwriting" in str(recwarn.pop(UserWarning).message)
    pytree = trees(tg)
    assert '"second"' in pytree.treespec_dumps(pytree.tree_structure(Point(1)))
