"""Steps that depend on arrays, buffers, tensors in containers, and the environment."""

ROWS = r"""
an array.array
    import array
    held = array.array("d", [2.0])
    step: return x * held[0]
    then: held[0] = 3.0

a bytearray
    held = bytearray([2])
    step: return x * held[0]
    then: held[0] = 3

a memoryview of a bytearray
    source = bytearray([2])
    held = memoryview(source)
    step: return x * held[0]
    then: source[0] = 3

a number in an mmap
    import mmap
    held = mmap.mmap(-1, 8)
    held[0] = 2
    step: return x * held[0]
    then: held[0] = 3

a ctypes structure
    import ctypes
    class Point(ctypes.Structure): _fields_ = [("a", ctypes.c_double)]
    held = Point(2.0)
    step: return x * held.a
    then: held.a = 3.0

a NumPy array
    import numpy as np
    held = np.array([2.0, 3.0])
    step: return x * float(held[0])
    then: held[0] = 4.0

the sum of a NumPy array
    import numpy as np
    held = np.array([2.0, 3.0])
    step: return x * float(held.sum())
    then: held += 1

a NumPy array behind a view
    import numpy as np
    source = np.array([2.0, 3.0])
    held = source[1:]
    step: return x * float(held[0])
    then: source[1] = 4.0

a NumPy array that becomes a tensor
    import numpy as np
    held = np.array([2.0, 3.0], dtype=np.float32)
    step: return x * torch.from_numpy(held)
    then: held[:] = 4.0

a NumPy array of objects
    import numpy as np
    held = np.array([[2.0], None], dtype=object)
    step: return x * held[0][0]
    then: held[0][0] = 3.0

the shape of a NumPy array
    import numpy as np
    held = np.ones(3)
    step: return x * held.shape[0]
    then: held = np.ones(4)

a NumPy scalar
    import numpy as np
    held = np.float64(2.0)
    step: return x * float(held)
    then: held = np.float64(3.0)

a field of a NumPy record
    import numpy as np
    held = np.zeros(1, dtype=[("a", "f4")])
    step: return x * float(held["a"][0])
    then: held["a"][0] = 3.0

an array of JAX
    import jax.numpy as jnp
    held = [jnp.float32(2.0)]
    step: return torch.interop.from_jax(lambda x: x * held[0])(x)
    then: held[0] = jnp.float32(3.0)

tensors as keys of a dict
    key = torch.ones(1)
    held = {key: 2.0}
    step: return x * held[key]
    then: held[key] = 3.0

ids of tensors as keys of a dict
    key = torch.ones(1)
    held = {id(key): 2.0}
    step: return x * held[id(key)]
    then: held[id(key)] = 3.0

a tensor that takes another's place, with ids as keys
    first, second = torch.ones(1), torch.ones(1)
    key, held = first, {id(first): 2.0, id(second): 3.0}
    step: return x * held[id(key)]
    then: key = second

functions as keys of a dict
    def key(): pass
    held = {key: 2.0}
    step: return x * held[key]
    then: held[key] = 3.0

modules as keys of a dict
    net = nn.Linear(1, 1)
    held = {net: 2.0}
    step: return x * sum(scale for module, scale in held.items() if module is net)
    then: held[net] = 3.0

tuples as keys of a dict
    held = {("a", 1): 2.0}
    step: return x * held["a", 1]
    then: held["a", 1] = 3.0

an object with a hash of its own as a key
    class Key:
        n = 1
        def __hash__(self): return 7
        def __eq__(self, other): return self.n == other.n
    key, other = Key(), Key()
    held = {key: 2.0}
    step: return x * held.get(other, 1.0)
    then: other.n = 2

a tensor in a list
    held = [torch.ones(2)]
    step: return x * held[0]
    then: held[0] = torch.zeros(2)

a tensor in a dict, written in place
    held = {"w": torch.ones(2)}
    step: return x * held["w"]
    then: held["w"].fill_(3.0)
    kind: input

a tensor in a set of one
    held = {torch.ones(2)}
    step: return x * next(iter(held))
    then: held.clear(); held.add(torch.zeros(2))

a list of tensors that grows
    held = [torch.ones(2)]
    step: return x + sum(held)
    then: held.append(torch.ones(2))

a list of tensors in another order
    held = [torch.ones(2), torch.zeros(2)]
    step: return x * held[0]
    then: held.reverse()

a table of os.environ
    import os
    patch.setenv("SCALE_OF_A_USER", "2")
    step: return x * float(os.environ["SCALE_OF_A_USER"])
    then: patch.setenv("SCALE_OF_A_USER", "3")

an environment variable that appears
    import os
    step: return x * float(os.environ.get("SCALE_OF_A_USER", "2"))
    then: patch.setenv("SCALE_OF_A_USER", "3")

an environment variable by getenv under another name
    from os import getenv as g
    step: return x * float(g("SCALE_OF_A_USER", "2"))
    then: patch.setenv("SCALE_OF_A_USER", "3")

an environment variable as bytes
    import os
    patch.setenv("SCALE_OF_A_USER", "2")
    step: return x * float(os.environb[b"SCALE_OF_A_USER"])
    then: patch.setenv("SCALE_OF_A_USER", "3")

an environment variable in a path
    import os
    patch.setenv("SCALE_OF_A_USER", "a")
    step: return x, os.path.expandvars("$SCALE_OF_A_USER/b")
    then: patch.setenv("SCALE_OF_A_USER", "c")

an entry of sys.argv
    import sys
    step: return x * len(sys.argv)
    then: patch.setattr(sys, "argv", [*sys.argv, "more"])

an entry of a WeakValueDictionary
    import weakref
    class Own: scale = 2.0
    one, two = Own(), Own()
    two.scale = 3.0
    held = weakref.WeakValueDictionary(a=one)
    step: return x * held["a"].scale
    then: held["a"] = two

an entry of a WeakKeyDictionary
    import weakref
    class Own: pass
    own = Own()
    held = weakref.WeakKeyDictionary({own: 2.0})
    step: return x * held[own]
    then: held[own] = 3.0

an entry of a WeakSet that dies
    import gc, weakref
    class Own: pass
    own = Own()
    held = weakref.WeakSet([own])
    step: return x * len(held)
    then: del own; gc.collect(1)

a matched mapping
    held = {"kind": "a", "scale": 2.0}
    step:
        match held:
            case {"kind": "a", "scale": scale}:
                return x * scale
        return x
    then: held["kind"] = "b"

a matched mapping that gets a key
    held = {"kind": "a"}
    step:
        match held:
            case {"scale": scale}:
                return x * scale
            case {"kind": _, **others}:
                return x + len(others)
    then: held["scale"] = 3.0

a matched sequence
    held = [1.0, 2.0]
    step:
        match held:
            case [a, b]:
                return x * b
            case [a, *others]:
                return x * len(others)
    then: held += [3.0, 4.0]

a heap
    import heapq
    held = [2.0, 3.0]
    step: return x * heapq.nsmallest(1, held)[0]
    then: heapq.heappush(held, 1.0)

a place found by bisection
    import bisect
    held = [1.0, 2.0]
    step: return x * bisect.bisect(held, 1.5)
    then: held.insert(0, 0.0)

the mean of a list
    import statistics
    held = [1.0, 3.0]
    step: return x * statistics.mean(held)
    then: held.append(5.0)

a list as JSON
    import json
    held = [1.0]
    step: return x, json.dumps(held)
    then: held.append(2.0)

a parser of settings
    import configparser
    held = configparser.ConfigParser()
    held.read_string("[a]\nscale = 2")
    step: return x * held.getfloat("a", "scale")
    then: held["a"]["scale"] = "3"

an XML element
    from xml.etree import ElementTree
    held = ElementTree.Element("a", scale="2")
    step: return x * float(held.get("scale"))
    then: held.set("scale", "3")

the text of a StringIO
    import io
    held = io.StringIO("2")
    step: return x * float(held.getvalue())
    then: held.seek(0); held.write("3")

the bytes of a BytesIO
    import io
    held = io.BytesIO(b"2")
    step: return x * float(held.getvalue())
    then: held.seek(0); held.write(b"3")

how full a queue is
    import queue
    held = queue.Queue()
    step: return x * held.qsize()
    then: held.put(1)

a range
    held = range(3)
    step: return x * sum(held)
    then: held = range(4)

a slice object
    held, values = slice(0, 1), [1.0, 2.0]
    step: return x * sum(values[held])
    then: held = slice(0, 2)
"""
