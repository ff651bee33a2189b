"""Steps that go on after something was missing, wherever the error is caught."""

ROWS = r"""
an attribute that appears, caught by a bare except
    class Own: pass
    own = Own()
    step:
        try:
            return x * own.n
        except:
            return x
    then: own.n = 3.0

an attribute that appears, swallowed by suppress
    import contextlib
    class Own: pass
    own = Own()
    step:
        with contextlib.suppress(AttributeError):
            x = x * own.n
        return x
    then: own.n = 3.0

an attribute that appears, swallowed by a context manager of the user's
    class Swallows:
        def __enter__(self): return self
        def __exit__(self, kind, error, trace): return kind is AttributeError
    class Own: pass
    own = Own()
    step:
        with Swallows():
            x = x * own.n
        return x
    then: own.n = 3.0

an attribute that appears, caught by the caller of what reads it
    class Own: pass
    own = Own()
    def scale(): return own.n
    step:
        try:
            return x * scale()
        except AttributeError:
            return x
    then: own.n = 3.0

a global that appears, caught two calls above
    def inner(): return LATER
    def scale(): return inner()
    step:
        try:
            return x * scale()
        except NameError:
            return x
    then: globals()["LATER"] = 3.0

a name in a class that appears, caught by the caller
    class Own: pass
    def scale(): return Own.n
    step:
        try:
            return x * scale()
        except Exception:
            return x
    then: Own.n = 3.0

an attribute of a module that appears, caught by the caller
    import types
    settings = types.ModuleType("settings")
    def scale(): return settings.n
    step:
        try:
            return x * scale()
        except AttributeError:
            return x
    then: settings.n = 3.0

an object in a default that is read
    import types
    own = types.SimpleNamespace(n=2.0)
    def scale(held=own): return held.n
    step: return x * scale()
    then: own.n = 3.0

a value that was there before a finally
    own = {"n": 2.0}
    step:
        try:
            return x * own["n"]
        finally:
            x = None
    then: own["n"] = 3.0
"""
