"""Steps whose attributes are named by no text in their code: names are computed, given, or stand in a template."""

ROWS = r"""
an attribute of what a computed name gave
    class Own: pass
    own = Own()
    own.v = Own()
    own.v.v = 2.0
    step: return x * getattr(getattr(own, chr(118)), chr(118))
    then: own.v.v = 3.0

a path that a loop walks
    class Own: pass
    own, path = Own(), "vv"
    own.v = Own()
    own.v.v = 2.0
    step:
        found = own
        for name in path:
            found = getattr(found, name)
        return x * found
    then: own.v.v = 3.0

a path that is reduced
    import functools
    class Own: pass
    own, path = Own(), "vv"
    own.v = Own()
    own.v.v = 2.0
    step: return x * functools.reduce(getattr, path, own)
    then: own.v.v = 3.0

a tree of objects that is walked
    class Own: pass
    own = Own()
    own.inner = Own()
    own.inner.inner = Own()
    own.inner.inner.n = 2.0
    step:
        rest, total = [own], 0.0
        while rest:
            part = rest.pop()
            if isinstance(part, float):
                total += part
            else:
                rest += part.__dict__.values()
        return x * total
    then: own.inner.inner.n = 3.0

dicts of attributes one in the other
    class Own: pass
    own = Own()
    own.v = Own()
    own.v.v = 2.0
    step: return x * own.__dict__.get("v").__dict__.get("v")
    then: own.v.v = 3.0

attributes of all attributes
    class Own: pass
    own = Own()
    own.v = Own()
    own.v.v = 2.0
    step: return x * sum(n for part in vars(own).values() for n in vars(part).values())
    then: own.v.v = 3.0

the attributes of a function
    def source(): pass
    source.v = 2.0
    step: return x * source.__dict__[chr(118)]
    then: source.v = 3.0

getattr under another name
    class Own: n = 2.0
    own, get = Own(), getattr
    step: return x * get(own, "n")
    then: own.n = 3.0

getattr in a dict
    class Own: n = 2.0
    own, table = Own(), {"get": getattr}
    step: return x * table["get"](own, "n")
    then: own.n = 3.0

getattr in a partial
    import functools
    class Own: n = 2.0
    own = Own()
    get = functools.partial(getattr, own, "n")
    step: return x * get()
    then: own.n = 3.0

vars under another name
    class Own: pass
    own, of = Own(), vars
    own.n = 2.0
    step: return x * of(own)["n"]
    then: own.n = 3.0

a bound method that looks attributes up
    class Own: n = 2.0
    own = Own()
    get = own.__getattribute__
    step: return x * get("n")
    then: own.n = 3.0

a slot that is looked up by its descriptor
    class Own:
        __slots__ = ("n",)
    own = Own()
    own.n, get = 2.0, Own.n.__get__
    step: return x * get(own)
    then: own.n = 3.0

a name in a template from outside
    class Own: n = 2.0
    own, template = Own(), "{0.n}"
    step: return x * float(template.format(own))
    then: own.n = 3.0
"""
