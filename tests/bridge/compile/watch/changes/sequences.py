"""Steps that depend on lists, tuples and sets."""

ROWS = r"""
a number in a list
    held = [1.0, 2.0]
    step: return x * held[1]
    then: held[1] = 3.0

a list that another one replaces
    held = [2.0]
    step: return x * held[0]
    then: held = [3.0]

the last item of a list
    held = [1.0, 2.0]
    step: return x * held[-1]
    then: held.append(3.0)

a slice of a list
    held = [1.0, 2.0, 3.0]
    step: return x * sum(held[:2])
    then: held.insert(0, 5.0)

a slice whose end is a global
    held, end = [1.0, 2.0, 3.0], 2
    step: return x * sum(held[:end])
    then: end = 3

a list that grows, by a loop
    held = [1.0, 2.0]
    step:
        for value in held:
            x = x * value
        return x
    then: held.append(3.0)

a list in another order, by enumerate
    held = [1.0, 2.0]
    step:
        for i, value in enumerate(held):
            x = x + i * value
        return x
    then: held.reverse()

a comprehension over a list
    held = [1.0, 2.0]
    step: return x * sum([value * 2 for value in held])
    then: held[0] = 3.0

a comprehension with a condition over a list
    held = [("a", 1.0), ("b", 2.0)]
    step: return x * sum({value for name, value in held if name != "a"})
    then: held[0] = ("c", 3.0)

a dict comprehension over a list of pairs
    held = [("a", 1.0)]
    step: return x * {name: value for name, value in held}["a"]
    then: held.append(("a", 2.0))

any of a generator over a list
    held = [1.0, 2.0]
    step: return x * (2.0 if any(value > 2 for value in held) else 1.0)
    then: held.append(3.0)

all of a list
    held = [True, True]
    step: return x * (2.0 if all(held) else 1.0)
    then: held[1] = False

two lists zipped
    first, second = [1.0, 2.0], [3.0, 4.0]
    step: return x * sum(a * b for a, b in zip(first, second))
    then: second[1] = 5.0

map over a list
    held = ["1", "2"]
    step: return x * sum(map(float, held))
    then: held[0] = "3"

filter over a list
    held = [0.0, 2.0]
    step: return x * len(list(filter(None, held)))
    then: held[0] = 1.0

a list sorted
    held = [3.0, 2.0]
    step: return x * sorted(held)[0]
    then: held.append(1.0)

the largest number of a list
    held = [1.0, 2.0]
    step: return x * max(held)
    then: held.append(3.0)

a list reduced
    import functools, operator
    held = [1.0, 2.0]
    step: return x * functools.reduce(operator.mul, held)
    then: held.append(3.0)

a list accumulated
    import itertools
    held = [1.0, 2.0]
    step: return x * list(itertools.accumulate(held))[-1]
    then: held.append(3.0)

lists chained
    import itertools
    held = [[1.0], [2.0]]
    step: return x * sum(itertools.chain.from_iterable(held))
    then: held[0].append(3.0)

a number in a list of lists
    held = [[1.0, 2.0], [3.0, 4.0]]
    step: return x * held[1][0]
    then: held[1][0] = 5.0

lists compared
    first, second = [1, 2], [1, 3]
    step: return x * (2.0 if first < second else 1.0)
    then: first[1] = 4

a list unpacked
    held = [1.0, 2.0]
    step:
        a, b = held
        return x * a + b
    then: held[1] = 3.0

a list unpacked with a star
    held = [1.0, 2.0]
    step:
        first, *others = held
        return x * first + len(others)
    then: held.append(3.0)

pairs unpacked in a loop
    held = [(1.0, (2.0, 3.0))]
    step:
        for a, (b, c) in held:
            x = x * a + b * c
        return x
    then: held[0] = (1.0, (2.0, 4.0))

a list spliced into another
    held = [1.0]
    step: return x * sum([2.0, *held, 4.0])
    then: held.append(3.0)

the index of an item
    held = ["a", "b"]
    step: return x * held.index("b")
    then: held.insert(0, "c")

how often an item is in a list
    held = ["a", "b"]
    step: return x * held.count("a")
    then: held.append("a")

an item in a list, by `in`
    held = ["a"]
    step: return x * (2.0 if "b" in held else 1.0)
    then: held.append("b")

the text of a list
    held = [1, 2]
    step: return x, f"{held}"
    then: held.append(3)

names joined
    held = ["a", "b"]
    step: return x, ", ".join(held)
    then: held[0] = "c"

a list that a default argument holds
    def scale(x, held=[2.0]): return x * held[0]
    step: return scale(x)
    then: scale.__defaults__[0][0] = 3.0

a number in a tuple
    held = (1.0, 2.0)
    step: return x * held[1]
    then: held = (1.0, 3.0)

a list in a tuple
    held = (1.0, [2.0])
    step: return x * held[1][0]
    then: held[1][0] = 3.0

a number in a set
    held = {1.0, 2.0}
    step: return x * sum(held)
    then: held.add(4.0)

a name in a set, by `in`
    held = {"a"}
    step: return x * (2.0 if "b" in held else 1.0)
    then: held.add("b")

sets intersected
    first, second = {1, 2}, {2, 3}
    step: return x * len(first & second)
    then: second.add(1)

a set compared with another
    first, second = {1, 2}, {1, 2, 3}
    step: return x * (2.0 if first >= second else 1.0)
    then: second.remove(3)

a frozenset
    held = frozenset({"a"})
    step: return x * (2.0 if "b" in held else 1.0)
    then: held = frozenset({"a", "b"})
"""
