"""Steps that change settings of the process, of libraries and of random numbers."""

ROWS = r"""
an environment variable that is set
    import os
    patch.setenv("NAME_OF_A_USER", "")
    each: os.environ["NAME_OF_A_USER"] = ""
    step: os.environ["NAME_OF_A_USER"] = "a"; return x * 2
    look: os.environ["NAME_OF_A_USER"]

an environment variable by putenv
    import os, subprocess
    patch.setenv("NAME_OF_A_USER", "")
    each: os.putenv("NAME_OF_A_USER", "b")
    step: os.putenv("NAME_OF_A_USER", "a"); return x * 2
    look: subprocess.run(["sh", "-c", "echo $NAME_OF_A_USER"], capture_output=True).stdout

an environment variable that is counted
    import os
    patch.setenv("NAME_OF_A_USER", "0")
    step: os.environ["NAME_OF_A_USER"] = str(int(os.environ["NAME_OF_A_USER"]) + 1); return x * 2
    look: os.environ["NAME_OF_A_USER"]

the folder of the process
    import os
    os.mkdir("inner"), os.mkdir("inner/inner"), os.mkdir("inner/inner/inner")
    step: os.chdir("inner"); return x * 2
    look: os.path.relpath(os.getcwd(), os.path.dirname(__file__))

random.seed inside
    import random
    afterwards(random.setstate, random.getstate())
    step: random.seed(0); return x * 2
    look: [random.random(), random.random()]
    each: random.random()

np.random.seed inside
    import numpy as np
    afterwards(np.random.set_state, np.random.get_state())
    step: np.random.seed(0); return x * 2
    look: float(np.random.rand())

random.shuffle inside
    import random
    afterwards(random.setstate, random.getstate())
    random.seed(0)
    held = list(range(20))
    step: random.shuffle(held); return x * 2
    look: held

a random number that nobody uses
    import random
    afterwards(random.setstate, random.getstate())
    random.seed(0)
    step: random.random(); return x * 2
    look: random.getstate()[1][-1]

a NumPy generator's number that nobody uses
    import numpy as np
    source = np.random.default_rng(0)
    step: source.random(); return x * 2
    look: source.bit_generator.state["state"]["state"]

a number drawn from the package's generator
    torch.manual_seed(0)
    step: return torch.rand(2)
    look: torch.rand(1)

the recursion limit that is set
    import sys
    afterwards(sys.setrecursionlimit, sys.getrecursionlimit())
    each: sys.setrecursionlimit(4000)
    step: sys.setrecursionlimit(5000); return x * 2
    look: sys.getrecursionlimit()

a function that atexit keeps
    import atexit
    def own(): pass
    afterwards(atexit.unregister, own)
    start = atexit._ncallbacks()
    step: atexit.register(own); return x * 2
    look: atexit._ncallbacks() - start

garbage collection switched off
    import gc
    afterwards(gc.enable)
    each: gc.enable()
    step: gc.disable(); return x * 2
    look: gc.isenabled()

garbage collected
    import gc, weakref
    class Own: pass
    def circle():
        own = Own()
        own.own = own
        return weakref.ref(own)
    each: gc.disable(); afterwards(gc.enable); ref = circle()
    step: gc.collect(0); return x * 2
    look: ref() is None

a signal's handler that is set
    import signal
    afterwards(signal.signal, signal.SIGUSR1, signal.getsignal(signal.SIGUSR1))
    each: signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    step: signal.signal(signal.SIGUSR1, signal.SIG_IGN); return x * 2
    look: signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN

a signal that is raised
    import signal
    seen = []
    afterwards(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, lambda *args: seen.append(1)))
    step: signal.raise_signal(signal.SIGUSR1); return x * 2
    look: seen

the level of a logger that is set
    import logging
    logger = logging.getLogger("a_user")
    afterwards(logger.setLevel, logging.NOTSET)
    each: logger.setLevel(logging.NOTSET)
    step: logger.setLevel(logging.ERROR); return x * 2
    look: logger.level

a filter of warnings that is set
    import warnings
    step: warnings.simplefilter("error", ResourceWarning); return x * 2
    each: warnings.filters[:] = [f for f in warnings.filters if f[2] is not ResourceWarning]
    look: sum(f[2] is ResourceWarning for f in warnings.filters)

a setting of NumPy
    import numpy as np
    afterwards(np.seterr, **np.geterr())
    each: np.seterr(divide="warn")
    step: np.seterr(divide="raise"); return x * 2
    look: np.geterr()["divide"]

the precision of decimals
    import decimal
    afterwards(decimal.setcontext, decimal.getcontext().copy())
    each: decimal.getcontext().prec = 28
    step: decimal.getcontext().prec = 3; return x * 2
    look: decimal.getcontext().prec

the default dtype that is set
    afterwards(torch.set_default_dtype, torch.float32)
    each: torch.set_default_dtype(torch.float32)
    step: torch.set_default_dtype(torch.float64); return x * 2
    look: str(torch.get_default_dtype())

gradients switched off for good
    afterwards(torch.set_grad_enabled, True)
    each: torch.set_grad_enabled(True)
    step: torch.set_grad_enabled(False); return x * 2
    look: torch.is_grad_enabled()

time that is slept
    import time
    each: start = time.monotonic()
    step: time.sleep(0.003); return x * 2
    look: time.monotonic() - start >= 0.003
"""
