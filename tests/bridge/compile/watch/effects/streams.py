"""Steps that change what is printed, logged and warned of."""

ROWS = r"""
print
    step: print("a"); return x * 2

print of a shape, without a line end
    step: print(tuple(x.shape), end=""); return x * 2

print under another name
    log = print
    step: log("a"); return x * 2

print from builtins
    import builtins
    step: builtins.print("a"); return x * 2

print in a dict
    held = {"log": print}
    step: held["log"]("a"); return x * 2

print in an attribute
    import types
    own = types.SimpleNamespace(log=print)
    step: own.log("a"); return x * 2

print in a class
    class Own: log = staticmethod(print)
    step: Own.log("a"); return x * 2

print as a default
    def log(text, write=print): write(text)
    step: log("a"); return x * 2

print in a closure
    enclosed: log = print
    step: log("a"); return x * 2

a partial of print
    import functools
    log = functools.partial(print, "a")
    step: log(); return x * 2

a partial of print, made inside
    import functools
    step: functools.partial(print, "a")(); return x * 2

map of print
    step: list(map(print, ["a", "b"])); return x * 2

print by its __call__
    step: print.__call__("a"); return x * 2

print as a key of sorted
    step: sorted(["a"], key=print); return x * 2

print by eval
    step: eval("print('a')"); return x * 2

print in a comprehension
    step: [print(name) for name in "ab"]; return x * 2

print in a __del__
    class Own:
        def __del__(self): print("gone")
    step:
        own = Own()
        del own
        return x * 2

print in a __str__
    class Own:
        def __str__(self):
            print("asked")
            return "a"
    own = Own()
    step: return x, str(own)

print in a property
    class Own:
        @property
        def n(self):
            print("asked")
            return 2.0
    own = Own()
    step: return x * own.n

print in an operator of the user's
    class Own:
        def __add__(self, n):
            print("added")
            return n
    own = Own()
    step: return x * (own + 2.0)

print in a callback of an exit stack
    import contextlib
    step:
        with contextlib.ExitStack() as stack:
            stack.callback(print, "a")
        return x * 2

print in a hook of a module
    net = nn.ReLU()
    def hook(net, args, out): print("called")
    net.register_forward_hook(hook)
    step: return net(x)

print in a hook of a tensor
    w = torch.ones(2, requires_grad=True)
    w.register_hook(lambda g: print("called"))
    step:
        w.grad = None
        (x * w).sum().backward()
        return w.grad

print in the backward of a custom Function
    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x): return x * 2
        @staticmethod
        def backward(ctx, g):
            print("called")
            return g
    step:
        y = x.clone().requires_grad_()
        return torch.autograd.grad(Same.apply(y).sum(), y)

print in a custom operator
    @torch.library.custom_op("changes::printing", mutates_args=())
    def scaled(x: torch.Tensor) -> torch.Tensor:
        print("called")
        return x * 2
    step: return scaled(x)

print to standard error
    import sys
    step: print("a", file=sys.stderr); return x * 2

print to a list's writer
    class Own:
        def __init__(self): self.parts = []
        def write(self, text): self.parts.append(text)
    own = Own()
    step: print("a", file=own); return x * 2
    look: own.parts

print to a StringIO
    import io
    text = io.StringIO()
    step: print("a", file=text); return x * 2
    look: text.getvalue()

print to a redirected stream
    import contextlib, io
    text = io.StringIO()
    step:
        with contextlib.redirect_stdout(text):
            print("a")
        return x * 2
    look: text.getvalue()

print with flush
    step: print("a", flush=True); return x * 2

sys.stdout.write
    import sys
    step: sys.stdout.write("a"); return x * 2

sys.stdout.write under another name
    import sys
    write = sys.stdout.write
    step: write("a"); return x * 2

sys.stdout.writelines
    import sys
    step: sys.stdout.writelines(["a", "b"]); return x * 2

map of sys.stderr.write
    import sys
    step: list(map(sys.stderr.write, ["a"])); return x * 2

bytes to the buffer of sys.stdout
    import sys
    step:
        sys.stdout.buffer.write(b"a")
        sys.stdout.flush()
        return x * 2

os.write
    import os
    step: os.write(1, b"a"); return x * 2

pprint
    from pprint import pprint
    step: pprint({"a": [1]}); return x * 2

a traceback that is printed
    import traceback
    step:
        try:
            raise ValueError("a")
        except ValueError as e:
            traceback.print_exception(type(e), e, None)
        return x * 2

the text of a code, by dis
    import dis
    def own(): return 1
    step: dis.dis(own); return x * 2

help of a parser
    import argparse
    parser = argparse.ArgumentParser("own")
    step: parser.print_help(); return x * 2

a bar that a class of the user's draws
    import sys
    class Bar:
        n = 0
        def update(self):
            self.n += 1
            sys.stderr.write(f"\r{self.n}")
    bar = Bar()
    step: bar.update(); return x * 2

logging.warning
    import logging
    handler = logging.StreamHandler()
    logging.getLogger("a_user").addHandler(handler)
    afterwards(logging.getLogger("a_user").removeHandler, handler)
    step: logging.getLogger("a_user").warning("a"); return x * 2

logging.info to a list
    import logging
    lines = []
    class Own(logging.Handler):
        def emit(self, record): lines.append(record.getMessage())
    logger, handler = logging.getLogger("a_user"), Own()
    logger.addHandler(handler), logger.setLevel(logging.INFO)
    afterwards(logger.removeHandler, handler), afterwards(logger.setLevel, logging.NOTSET)
    step: logger.info("n=%d", 2); logger.debug("none"); return x * 2
    look: lines

logging.error to a file
    import logging
    logger, handler = logging.getLogger("a_user"), logging.FileHandler("log")
    logger.addHandler(handler)
    afterwards(handler.close), afterwards(logger.removeHandler, handler)
    step: logger.error("a"); return x * 2

logging.exception
    import logging
    lines = []
    class Own(logging.Handler):
        def emit(self, record): lines.append(record.exc_info[0].__name__)
    logger, handler = logging.getLogger("a_user"), Own()
    logger.addHandler(handler)
    afterwards(logger.removeHandler, handler)
    step:
        try:
            raise ValueError
        except ValueError:
            logger.exception("a")
        return x * 2
    look: lines

a log line under another name
    import logging
    lines = []
    class Own(logging.Handler):
        def emit(self, record): lines.append(record.levelname)
    logger, handler = logging.getLogger("a_user"), Own()
    logger.addHandler(handler)
    afterwards(logger.removeHandler, handler)
    log = logger.critical
    step: log("a"); return x * 2
    look: lines

a filter of a logger that counts
    import logging
    seen, logger = [], logging.getLogger("a_user")
    def count(record): return seen.append(record.msg)
    logger.addFilter(count)
    afterwards(logger.removeFilter, count)
    step: logger.error("a"); return x * 2
    look: seen

a warning
    import warnings
    step: warnings.warn("careful"); return x * 2

a warning under another name
    from warnings import warn as complain
    step: complain("careful", FutureWarning, stacklevel=2); return x * 2

a warning by warn_explicit
    import warnings
    step: warnings.warn_explicit("careful", UserWarning, "own.py", 1); return x * 2

warnings that are collected inside
    import warnings
    n = 0
    step:
        global n
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            warnings.warn("careful")
        n += len(told)
        return x * 2
    look: n
"""
