"""Steps that depend on modules of the user's."""

ROWS = r"""
a number in a file of the user's
    own = user_module("own", "n = 2.0")
    import own
    step: return x * own.n
    then: own.n = 3.0

a name imported from a module of the user's, inside
    user_module("own", "n = 2.0")
    step:
        from own import n
        return x * n
    then: import own; own.n = 3.0

a module imported inside
    user_module("own", "n = 2.0")
    step:
        import own
        return x * own.n
    then: import own; own.n = 3.0

a module of a package imported inside
    package = user_module("own", "__path__ = []")
    package.part = user_module("own.part", "n = 2.0")
    step:
        import own.part as part
        return x * part.n
    then: package.part.n = 3.0

all names imported, and one replaced in their module
    own = user_module("own", "n = 2.0\ndef scale(x): return x * n")
    from own import *
    step: return scale(x)
    then: own.n = 3.0

a module handed to a helper
    own = user_module("own", "n = 2.0")
    def scale(module, x): return x * module.n
    step: return scale(own, x)
    then: own.n = 3.0

a module in a list of modules
    held = [user_module("own", "n = 2.0")]
    step: return x * held[0].n
    then: held[0].n = 3.0

a module handed to a helper, by getattr
    own, name = user_module("own", "n = 2.0"), "n"
    def scale(module, x): return x * getattr(module, name)
    step: return scale(own, x)
    then: own.n = 3.0

a module by importlib
    import importlib
    user_module("own", "n = 2.0")
    name = "own"
    step: return x * importlib.import_module(name).n
    then: import own; own.n = 3.0

a module by importlib, under another name
    import importlib
    user_module("own", "n = 2.0")
    user_module("other", "n = 3.0")
    name = "own"
    step: return x * importlib.import_module(name).n
    then: name = "other"

a module in sys.modules
    import sys
    own = user_module("own", "n = 2.0")
    step: return x * sys.modules["own"].n
    then: own.n = 3.0

another module in sys.modules
    import sys
    user_module("own", "n = 2.0")
    step:
        import own
        return x * own.n
    then: user_module("own", "n = 3.0")

a module that appears in sys.modules
    import sys
    step: return x * 2 if "own_module" in sys.modules else x
    then: user_module("own_module", "")

a module that can be imported later
    step:
        try:
            import own_module
        except ImportError:
            return x
        return x * own_module.n
    then: user_module("own_module", "n = 3.0")

a module that is run again
    own = user_module("own", "n = 2.0\ndef scale(x): return x * n")
    step: return own.scale(x)
    then: exec("n = 3.0\ndef scale(x): return x + n", vars(own))

__getattr__ of a module
    own = user_module("own", "table = {'n': 2.0}\ndef __getattr__(name): return table[name]")
    step: return x * own.n
    then: own.table["n"] = 3.0

__getattr__ of a module that an attribute takes the place of
    own = user_module("own", "def __getattr__(name): return 2.0")
    step: return x * own.n
    then: own.n = 3.0

a module with a class of its own
    import types
    class Lazy(types.ModuleType):
        inner = 2.0
        @property
        def n(self): return self.inner
    own = user_module("own", "")
    own.__class__ = Lazy
    step: return x * own.n
    then: Lazy.inner = 3.0

a user's own file called statistics.py
    own = user_module("statistics", "n = 2.0\ndef mean(): return n")
    import statistics
    step: return x * statistics.mean()
    then: statistics.n = 3.0

a user's own file called queue.py, by its number
    own = user_module("queue", "n = 2.0")
    import queue
    step: return x * queue.n
    then: queue.n = 3.0

a user's own class in a file called random.py
    own = user_module("random", "class Scale:\n    n = 2.0\n    def __call__(self, x): return x * self.n")
    scale = own.Scale()
    step: return scale(x)
    then: scale.n = 3.0

a setting in a user's package called flax
    own = user_module("flax", "n = 2.0\ndef scale(x): return x * n")
    step: return own.scale(x)
    then: own.n = 3.0
"""
