"""Steps that change queues, locks, threads, handles, buffers and modules."""

ROWS = r"""
a put into a queue
    import queue
    held = queue.Queue()
    step: held.put(1); return x * 2
    look: held.qsize()

a put into a SimpleQueue
    import queue
    held = queue.SimpleQueue()
    step: held.put(1); return x * 2
    look: held.qsize()

a lock that is acquired
    import threading
    lock = threading.Lock()
    each: lock.locked() and lock.release()
    step: lock.acquire(); return x * 2
    look: lock.locked()

a lock of the user's around the step
    class Own:
        seen = []
        def __enter__(self): self.seen.append("in")
        def __exit__(self, *error): self.seen.append("out")
    lock = Own()
    step:
        with lock:
            return x * 2
    look: lock.seen

a semaphore that is taken
    import threading
    semaphore = threading.Semaphore(9)
    step: semaphore.acquire(); return x * 2
    look: semaphore._value

an Event that is set
    import threading
    event = threading.Event()
    each: event.clear()
    step: event.set(); return x * 2
    look: event.is_set()

a thread that is started
    import threading
    held = []
    step:
        thread = threading.Thread(target=held.append, args=(1,))
        thread.start()
        thread.join()
        return x * 2
    look: held

a thread of a pool
    from concurrent.futures import ThreadPoolExecutor
    held, pool = [], ThreadPoolExecutor(1)
    afterwards(pool.shutdown)
    step: pool.submit(held.append, 1).result(); return x * 2
    look: held

a thread of _thread
    import _thread, threading
    held, done = [], threading.Semaphore(0)
    def own():
        held.append(1)
        done.release()
    step:
        _thread.start_new_thread(own, ())
        done.acquire()
        return x * 2
    look: held

a Future that gets its result
    from concurrent.futures import Future
    each: future = Future()
    step: future.set_result(1); return x * 2
    look: future.done()

a callback of a Future
    from concurrent.futures import Future
    future = Future()
    future.set_result(1)
    step: future.add_done_callback(lambda future: print("done")); return x * 2

a context variable that is set
    import contextvars
    variable = contextvars.ContextVar("variable", default=0)
    each: variable.set(0)
    step: variable.set(1); return x * 2
    look: variable.get()

a context variable that is counted
    import contextvars
    variable = contextvars.ContextVar("variable", default=0)
    step: variable.set(variable.get() + 1); return x * 2
    look: variable.get()

state of a thread that is set
    import threading
    local = threading.local()
    each: local.n = 0
    step: local.n = 1; return x * 2
    look: local.n

a callback of a weak reference
    import weakref
    class Own: pass
    own = Own()
    step:
        other = Own()
        ref = weakref.ref(other, lambda ref: print("gone"))
        del other
        return x * 2

a finalizer
    import weakref
    class Own: pass
    step:
        own = Own()
        weakref.finalize(own, print, "gone")
        del own
        return x * 2

an entry of a WeakValueDictionary that is set
    import weakref
    class Own: pass
    own, held = Own(), weakref.WeakValueDictionary()
    each: held.clear()
    step: held["a"] = own; return x * 2
    look: len(held)

a row of a data base that is inserted
    import sqlite3
    base = sqlite3.connect(":memory:")
    afterwards(base.close)
    base.execute("create table t (n)")
    step: base.execute("insert into t values (1)"); return x * 2
    look: base.execute("select count(*) from t").fetchone()[0]

bytes sent by a socket
    import socket
    one, two = socket.socketpair()
    afterwards(one.close), afterwards(two.close)
    two.setblocking(False)
    step: one.send(b"a"); return x * 2
    look: two.recv(9, socket.MSG_PEEK)

bytes sent by a pipe
    import os, select
    out, into = os.pipe()
    afterwards(os.close, out), afterwards(os.close, into)
    os.set_blocking(out, False)
    step: os.write(into, b"a"); return x * 2
    look: select.select([out], [], [], 0)[0] and os.read(out, 1)

a connection of multiprocessing
    import multiprocessing
    one, two = multiprocessing.Pipe()
    afterwards(one.close), afterwards(two.close)
    step: one.send(1); return x * 2
    look: two.poll() and two.recv()

bytes written into an mmap
    import mmap
    held = mmap.mmap(-1, 8)
    step: held.write(b"a"); return x * 2
    look: held.tell()

a byte of an mmap
    import mmap
    held = mmap.mmap(-1, 8)
    each: held[0] = 0
    step: held[0] = 1; return x * 2
    look: held[0]

an append to an array.array
    import array
    held = array.array("d")
    step: held.append(1.0); return x * 2
    look: list(held)

a bytearray extended
    held = bytearray()
    step: held.extend(b"a"); return x * 2
    look: bytes(held)

a byte of a bytearray by a memoryview
    source = bytearray(1)
    held = memoryview(source)
    each: source[0] = 0
    step: held[0] = 1; return x * 2
    look: bytes(source)

a ctypes number
    import ctypes
    held = ctypes.c_double()
    each: held.value = 0.0
    step: held.value = 1.0; return x * 2
    look: held.value

a struct packed into a buffer
    import struct
    held = bytearray(4)
    each: held[:] = bytes(4)
    step: struct.pack_into("i", held, 0, 1); return x * 2
    look: bytes(held)

a NumPy array written in place
    import numpy as np
    held = np.zeros(1)
    step: held[0] += 1; return x * 2
    look: held.tolist()

a NumPy array filled
    import numpy as np
    held = np.zeros(1)
    each: held[:] = 0
    step: held.fill(1); return x * 2
    look: held.tolist()

a NumPy array as out=
    import numpy as np
    held = np.zeros(1)
    step: np.add(held, 1, out=held); return x * 2
    look: held.tolist()

a NumPy array written by copyto
    import numpy as np
    held = np.zeros(1)
    each: held[:] = 0
    step: np.copyto(held, 1); return x * 2
    look: held.tolist()

a NumPy array written by ufunc.at
    import numpy as np
    held = np.zeros(1)
    step: np.add.at(held, [0, 0], 1); return x * 2
    look: held.tolist()

a StringIO written
    import io
    held = io.StringIO()
    step: held.write("a"); return x * 2
    look: held.getvalue()

an XML element that grows
    from xml.etree import ElementTree
    held = ElementTree.Element("a")
    step: ElementTree.SubElement(held, "b"); return x * 2
    look: len(held)

a Mock that is called
    from unittest import mock
    own = mock.Mock(return_value=2.0)
    step: return x * own(1)
    look: own.call_count

a hash that is fed
    import hashlib
    held = hashlib.sha256()
    step: held.update(b"a"); return x * 2
    look: held.hexdigest()

a module that is put into sys.modules
    import sys, types
    module = types.ModuleType("own_module")
    patch.setitem(sys.modules, "own_module", module)
    each: sys.modules.pop("own_module", None)
    step: sys.modules["own_module"] = module; return x * 2
    look: "own_module" in sys.modules

a module that runs when it is imported
    import sys
    from pathlib import Path
    Path(__file__).with_name("own_module.py").write_text("print('imported')")
    patch.setitem(sys.modules, "own_module", None)
    each: sys.modules.pop("own_module", None)
    step: import own_module; return x * 2

a function that is patched inside
    import math
    patch.setattr(math, "tau", 1.0)
    each: math.tau = 1.0
    step: math.tau = 2.0; return x * 2
    look: math.tau

a path that is added to sys.path
    import sys
    step: sys.path.append("own"); return x * 2
    look: sys.path.count("own")

an iterator in a default that is advanced
    def take(it=iter([2.0, 3.0, 4.0, 5.0, 6.0])): return next(it)
    step: return x * take()
"""
