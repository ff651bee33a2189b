"""Steps that depend on other collections."""

ROWS = r"""
a number in a deque
    from collections import deque
    held = deque([1.0, 2.0], maxlen=2)
    step: return x * held[0]
    then: held.append(3.0)

the order of an OrderedDict
    from collections import OrderedDict
    held = OrderedDict(a=2.0, b=3.0)
    step: return x * next(iter(held.values()))
    then: held.move_to_end("a")

a number in a defaultdict
    from collections import defaultdict
    held = defaultdict(lambda: 2.0)
    step: return x * held["a"]
    then: held["a"] = 3.0

the factory of a defaultdict
    from collections import defaultdict
    held = defaultdict(lambda: 2.0)
    step: return x * held.default_factory()
    then: held.default_factory = lambda: 3.0

a number in a Counter
    from collections import Counter
    held = Counter("aab")
    step: return x * held["c"]
    then: held.update("cc")

the most common in a Counter
    from collections import Counter
    held = Counter("aab")
    step: return x, held.most_common(1)[0][0]
    then: held.update("bb")

a number in a ChainMap
    from collections import ChainMap
    held = ChainMap({}, {"a": 2.0})
    step: return x * held["a"]
    then: held.maps[0]["a"] = 3.0

a number behind a MappingProxyType
    import types
    source = {"a": 2.0}
    held = types.MappingProxyType(source)
    step: return x * held["a"]
    then: source["a"] = 3.0

the values of a dict, taken outside
    source = {"a": 2.0}
    held = source.values()
    step: return x * sum(held)
    then: source["b"] = 3.0

a UserDict
    from collections import UserDict
    held = UserDict(a=2.0)
    step: return x * held["a"]
    then: held["a"] = 3.0

a subclass of dict
    class Table(dict): pass
    held = Table(a=2.0)
    step: return x * held["a"]
    then: held["a"] = 3.0

a subclass of dict with __missing__
    class Table(dict):
        missing = 2.0
        def __missing__(self, key): return self.missing
    held = Table()
    step: return x * held["a"]
    then: held.missing = 3.0

a subclass of dict whose key appears
    class Table(dict):
        def __missing__(self, key): return 2.0
    held = Table()
    step: return x * held["a"]
    then: held["a"] = 3.0

a subclass of list with an attribute
    class Values(list): scale = 2.0
    held = Values([1.0])
    step: return x * held[0] * held.scale
    then: held.scale = 3.0

a container of the user's
    class Own:
        def __init__(self): self.items = [2.0]
        def __getitem__(self, i): return self.items[i]
    held = Own()
    step: return x * held[0]
    then: held.items[0] = 3.0

a container of the user's, by len, truth and `in`
    class Own:
        n = 0
        def __len__(self): return self.n
        def __contains__(self, i): return i < self.n
    held = Own()
    step: return x * (2.0 if held else 1.0) + len(held) + (3 in held)
    then: held.n = 4

an iterator of the user's
    class Own:
        n = 2
        def __iter__(self): return iter(range(self.n))
    held = Own()
    step: return x * sum(held)
    then: held.n = 3

a container of the user's as an index
    class Own:
        n = 0
        def __index__(self): return self.n
    held, values = Own(), [2.0, 3.0]
    step: return x * values[held]
    then: held.n = 1
"""
