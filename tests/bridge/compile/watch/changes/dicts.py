"""Steps that depend on dicts."""

ROWS = r"""
a number in a dict
    held = {"a": 2.0}
    step: return x * held["a"]
    then: held["a"] = 3.0

a number in a nested dict
    held = {"a": {"b": {"c": 2.0}}}
    step: return x * held["a"]["b"]["c"]
    then: held["a"]["b"]["c"] = 3.0

an inner dict that another one replaces
    held = {"a": {"b": 2.0}}
    step: return x * held["a"]["b"]
    then: held["a"] = {"b": 3.0}

one number of a dict of 30,000
    held = dict.fromkeys(range(30_000), 2.0)
    step: return x * held[29_998]
    then: held[29_998] = 3.0

one number of a dict of 30,000 by a name
    held = {f"name {i}": 2.0 for i in range(30_000)}
    step: return x * held["name 29998"]
    then: held["name 29998"] = 3.0

one number of a list of 30,000
    held = [2.0] * 30_000
    step: return x * held[29_998]
    then: held[29_998] = 3.0

a number under a key that is a global
    held, name = {"a": 2.0, "b": 3.0}, "a"
    step: return x * held[name]
    then: name = "b"

a number under a key that is computed
    held, i = {"w0": 2.0, "w1": 3.0}, 0
    step: return x * held[f"w{i}"]
    then: held["w0"] = 4.0

a key that appears, by get with a default
    held = {}
    step: return x * held.get("a", 2.0)
    then: held["a"] = 3.0

a key that disappears, by get with a default
    held = {"a": 3.0}
    step: return x * held.get("a", 2.0)
    then: del held["a"]

a key that appears, by a KeyError
    held = {}
    step:
        try:
            return x * held["a"]
        except KeyError:
            return x
    then: held["a"] = 3.0

a key that appears, by `in`
    held = {}
    step: return x * (2.0 if "a" in held else 1.0)
    then: held["a"] = None

a key that disappears, by `not in`
    held = {"a": 1}
    step: return x * (2.0 if "a" not in held else 1.0)
    then: held.clear()

a dict that is no longer empty, by its truth
    held = {}
    step: return x * (2.0 if held else 1.0)
    then: held["b"] = 0

a dict that grows, by len
    held = {"a": 1}
    step: return x * len(held)
    then: held["b"] = 1

the sum of a dict's values
    held = {"a": 1.0, "b": 2.0}
    step: return x * sum(held.values())
    then: held["c"] = 3.0

a loop over the items of a dict
    held = {"a": 1.0}
    step:
        for name, value in held.items():
            x = x + value * len(name)
        return x
    then: held["bb"] = 2.0

the keys of a dict
    held = {"a": 1, "b": 2}
    step: return x, list(held)
    then: held["c"] = 3

the order of a dict
    held = {"a": 2.0, "b": 3.0}
    step: return x * next(iter(held.values()))
    then: held["a"] = held.pop("a")

the last key of a dict, by reversed
    held = {"a": 2.0}
    step: return x * held[next(reversed(held))]
    then: held["b"] = 3.0

keyword arguments from a dict
    held = {"scale": 2.0}
    step: return (lambda x, scale=1.0, shift=0.0: x * scale + shift)(x, **held)
    then: held["shift"] = 1.0

positional arguments from a list
    held = [2.0]
    step: return (lambda x, scale=1.0, shift=0.0: x * scale + shift)(x, *held)
    then: held.append(1.0)

two dicts merged
    first, second = {"a": 2.0}, {}
    step: return x * (first | second)["a"]
    then: second["a"] = 3.0

a dict unpacked into another
    held = {}
    step: return x * {"a": 2.0, **held}["a"]
    then: held["a"] = 3.0

a copy of a dict
    held = {"a": 2.0}
    step: return x * dict(held)["a"]
    then: held["a"] = 3.0

a deep copy of a dict
    import copy
    held = {"a": {"b": 2.0}}
    step: return x * copy.deepcopy(held)["a"]["b"]
    then: held["a"]["b"] = 3.0

two dicts compared
    first, second = {"a": [1]}, {"a": [1]}
    step: return x * (2.0 if first == second else 1.0)
    then: second["a"].append(2)

a dict by setdefault
    held = {"a": 2.0}
    step: return x * held.setdefault("a", 1.0)
    then: held["a"] = 3.0
"""
