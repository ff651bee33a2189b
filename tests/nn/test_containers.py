"""Containers of modules and parameters; compared with torch."""

import copy
import pickle
from collections import OrderedDict

from tests.programs import Programs

from .programs import attempt, quietly

program = Programs()
test_same_as_torch = program.test()


def kinds(modules):
    return [type(x).__name__ for x in modules]


@program
def sequential(m):
    nn = m.nn
    s = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.Sigmoid())
    named = nn.Sequential(OrderedDict([("a", nn.ReLU()), ("b", nn.Tanh())]))
    seen = [repr(s), repr(named), len(s), kinds(s), kinds(s[1:]), kinds([s[-1], named[0]]), repr(named[1:])]
    s[0] = nn.ELU()
    del s[1]
    seen.append(repr(s))
    s.append(nn.Identity()).insert(1, nn.CELU())
    seen += [repr(s), kinds([s.pop(1)]), repr(s), repr(s + named), repr(s * 2), repr(2 * s)]
    s += named
    s *= 2
    seen += [
        repr(s),
        kinds(s.extend([nn.ReLU()])),
        kinds(nn.Sequential()),
        m.nn.Sequential()(3),
        s.append(nn.ReLU()) is s,
    ]
    s.pop(slice(0, 2))
    seen.append(list(s._modules))
    del s[1:3]
    seen.append(list(s._modules))
    return seen


@program
def sequential_errors(m):
    s = m.nn.Sequential(m.nn.ReLU())
    tries = [
        lambda: s[1],
        lambda: s[-2],
        lambda: s["0"],
        lambda: s.__add__([1]),
        lambda: s.__iadd__(3),
        lambda: s * 0,
        lambda: s * "a",
        lambda: s.insert(5, m.nn.ReLU()),
        lambda: s.insert(0, 3),
        lambda: m.nn.Sequential(3),
        lambda: s.append(3),
        lambda: s.__imul__(-1),
        lambda: s.__imul__(1.5),
    ]
    return [attempt(t) for t in tries], [d for d in dir(s) if d in ("0", "append")]


@program
def module_list(m):
    nn = m.nn
    x = nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Linear(2, 2), nn.Sequential(nn.Tanh()), nn.Sequential(nn.Tanh())])
    seen = [repr(x), len(x), kinds(x), kinds(x[1:3]), kinds([x[-1]]), repr(nn.ModuleList())]
    x.insert(1, nn.Tanh())
    x.append(nn.ELU())
    x.extend([nn.CELU()])
    x += [nn.GELU()]
    seen += [repr(x), kinds(x.__add__([nn.ReLU()])), kinds([x.pop(0)]), list(x._modules)]
    del x[0:2]
    x[0] = nn.SELU()
    seen += [repr(x), list(x._modules)]
    del x[-1]
    tries = [lambda: x[10], lambda: x.extend(3), lambda: x.append(3), lambda: x(1), lambda: nn.ModuleList(3)]
    return seen, [attempt(t) for t in tries], list(x._modules), kinds(copy.deepcopy(x))


@program
def module_dict(m):
    nn = m.nn
    d = nn.ModuleDict({"b": nn.ReLU(), "a": nn.Tanh()})
    d["c"] = nn.ELU()
    seen = [repr(d), len(d), list(d), list(d.keys()), kinds(d.values()), "a" in d, [k for k, _ in d.items()]]
    d.update([("x", nn.ReLU()), ["y", nn.ReLU()]])
    d.update(nn.ModuleDict({"z": nn.ReLU()}))
    d.update(OrderedDict(q=nn.Tanh()))
    seen += [list(d), kinds([d.pop("a")]), list(d), kinds([d["b"]])]
    del d["b"]
    tries = [
        lambda: d["none"],
        lambda: d.update(3),
        lambda: d.update([3]),
        lambda: d.update([(1, 2, 3)]),
        lambda: d.update({"u": 3}),
        lambda: nn.ModuleDict({"keys": nn.ReLU()}),
        lambda: d.pop("none"),
    ]
    seen += [attempt(t) for t in tries]
    d.clear()
    return seen, len(d), repr(d)


@program
def parameter_list(m):
    p = m.nn.ParameterList([m.ones(2, 3), 3, m.nn.Parameter(m.ones(2)), m.zeros(1, dtype=m.float64), "x"])
    seen = [repr(p), len(p), [type(v).__name__ for v in p], [k for k, _ in p.named_parameters()], len(p[1:3]), p[-1]]
    p.append(m.zeros(2))
    p.extend([1, 2])
    p += [m.ones(1)]
    p[0] = m.zeros(1)
    seen += [repr(p), list(p.state_dict())]
    tries = [lambda: p[20], lambda: p(1), lambda: p.extend(3), lambda: p.extend(m.ones(1))]
    return (seen, [attempt(t) for t in tries], repr(pickle.loads(pickle.dumps(p))), repr(copy.deepcopy(p)))


@program
def parameter_dict(m):
    p = m.nn.ParameterDict({"b": m.ones(2, 3), "a": 3})
    q = m.nn.ParameterDict(OrderedDict([("z", m.ones(1)), ("a", m.zeros(2))]))
    seen = [repr(p), repr(q), len(p), list(p), list(reversed(p)), "a" in p, [k for k, _ in p.named_parameters()]]
    seen += [
        repr(p | q),
        attempt(lambda: q | p),
        p.get("none", 7),
        p.setdefault("n", 5),
        next(iter(p.items()))[0],
        type(p["b"]).__name__,
    ]
    p |= q
    p.update([("u", m.ones(1))])
    seen += [repr(p), p.popitem()[0], p.pop("a"), repr(p.copy()), repr(p.fromkeys(["r"], 1)), list(p.keys())]
    del p["b"]
    tries = [
        lambda: p["none"],
        lambda: p.update(3),
        lambda: p.update([3]),
        lambda: p.update([(1, 2, 3)]),
        lambda: p(1),
        lambda: m.nn.ParameterDict().__setitem__(3, 1),
        lambda: p.pop("none"),
    ]
    seen += [attempt(t) for t in tries]
    p.clear()
    return seen, len(p), repr(p), [v.shape for v in q.values() if hasattr(v, "shape")]


@program
def container(m):
    return attempt(lambda: repr(m.nn.Container(a=m.nn.ReLU())))


@program
def prefixes(m):
    s = m.nn.Sequential(m.nn.Linear(1, 1)).state_dict(prefix="module.")
    quietly(lambda: m.nn.modules.utils.consume_prefix_in_state_dict_if_present(s, "module."))
    u = m.nn.modules.utils
    return (list(s), sorted(s._metadata), u._pair(3), u._pair([1, 2]), u._reverse_repeat_tuple((1, 2), 2))
