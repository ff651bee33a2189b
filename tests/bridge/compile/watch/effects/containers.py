"""Steps that change lists, dicts, sets and other containers."""

ROWS = r"""
an append to a list
    held = []
    step: held.append(1); return x * 2
    look: held

an append to a list, under another name
    held = []
    add = held.append
    step: add(1); return x * 2
    look: held

an append to a list, by map
    held = []
    step: list(map(held.append, [1, 2])); return x * 2
    look: held

an append to a list, by a partial
    import functools
    held = []
    add = functools.partial(held.append, 1)
    step: add(); return x * 2
    look: held

an append to a list, by list.append
    held = []
    step: list.append(held, 1); return x * 2
    look: held

an append to a list, by a methodcaller
    import operator
    held, add = [], operator.methodcaller("append", 1)
    step: add(held); return x * 2
    look: held

an append to a list in an attribute
    import types
    own = types.SimpleNamespace(held=[])
    step: own.held.append(1); return x * 2
    look: own.held

an append to a list that a default holds
    def add(n, held=[]): held.append(n)
    step: add(1); return x * 2
    look: add.__defaults__[0]

an append of the result
    held = []
    step: held.append(x * 2); return x * 3
    look: held

an append of a number in place of a tensor
    held = []
    step: held.append(float(x.shape[0])); return x * 3
    look: held

an insert into a list
    held = [1]
    step: held.insert(0, len(held)); return x * 2
    look: held

an extend of a list
    held = []
    step: held.extend([1, 2]); return x * 2
    look: held

a list extended in place
    held = []
    step:
        global held
        held += [1, 2]
        return x * 2
    look: held

a list sorted in place
    held = [3, 1, 2]
    each: held[:] = [3, 1, 2]
    step: held.sort(); return x * 2
    look: held

a list reversed in place
    held = [1, 2, 3]
    step: held.reverse(); return x * 2
    look: held

a list cleared
    held = []
    each: held.append(1)
    step: held.clear(); return x * 2
    look: held

an item popped off a list
    held = [5.0, 4.0, 3.0, 2.0]
    step: return x * held.pop()
    look: held

an item of a list set
    held = [0, 0]
    each: held[0] = 0
    step: held[0] = 1; return x * 2
    look: held

an item of a list counted
    held = [0]
    step: held[0] += 1; return x * held[0]
    look: held

a slice of a list set
    held = [0, 0]
    each: held[:] = [0, 0]
    step: held[:1] = [1, 2]; return x * 2
    look: held

an item of a list deleted
    held = list(range(9))
    step: del held[0]; return x * 2
    look: held

a list as a target of a loop
    held = [0]
    step:
        for held[0] in range(4):
            pass
        return x * 2
    each: held[0] = 0
    look: held

an item of a dict set
    held = {}
    each: held.clear()
    step: held["a"] = 1; return x * 2
    look: held

an item of a dict set by dict.__setitem__
    held = {}
    each: held.clear()
    step: dict.__setitem__(held, "a", 1); return x * 2
    look: held

an item of a dict counted
    held = {}
    step: held["a"] = held.get("a", 0) + 1; return x * 2
    look: held

a dict updated
    held = {}
    each: held.clear()
    step: held.update(a=1); return x * 2
    look: held

a dict updated by an operator
    held = {}
    each: held.clear()
    step:
        global held
        held |= {"a": 1}
        return x * 2
    look: held

a key popped off a dict
    held = {}
    each: held["a"] = 1
    step: held.pop("a"); return x * 2
    look: held

the last item popped off a dict
    held = {1: 2.0, 2: 3.0, 3: 4.0, 4: 5.0}
    step: return x * held.popitem()[1]
    look: held

a key deleted from a dict
    held = {}
    each: held["a"] = 1
    step: del held["a"]; return x * 2
    look: held

setdefault of a dict
    held = {}
    each: held.clear()
    step: held.setdefault("a", []).append(1); return x * 2
    look: held

a factory of a defaultdict
    from collections import defaultdict
    held = defaultdict(list)
    step: held[len(held)]; return x * 2
    look: dict(held)

a factory of a defaultdict that prints
    from collections import defaultdict
    held = defaultdict(lambda: print("made"))
    each: held.clear()
    step: held["a"]; return x * 2

a Counter updated
    from collections import Counter
    held = Counter()
    step: held.update("ab"); return x * 2
    look: dict(held)

a key moved to the end of an OrderedDict
    from collections import OrderedDict
    held = OrderedDict(a=1, b=2, c=3)
    step: held.move_to_end(next(iter(held))); return x * 2
    look: list(held)

a result kept in a dict
    held = {}
    step: held[len(held)] = x * 2; return x * 3
    look: held

an item added to a set
    held = set()
    step: held.add(len(held)); return x * 2
    look: sorted(held)

an item discarded from a set
    held = set()
    each: held.add(1)
    step: held.discard(1); return x * 2
    look: sorted(held)

an append to a deque
    from collections import deque
    held = deque(maxlen=3)
    step: held.append(len(held)); return x * 2
    look: list(held)

a deque rotated
    from collections import deque
    held = deque([1, 2, 3])
    step: held.rotate(); return x * 2
    look: list(held)

a heap pushed to
    import heapq
    held = []
    step: heapq.heappush(held, -len(held)); return x * 2
    look: held
"""
