"""Steps that depend on loggers, iterators, files, random numbers and clocks."""

ROWS = r"""
a level of a logger
    import logging
    logger = logging.getLogger("a_user")
    afterwards(logger.setLevel, logger.level)
    step: return x * 2 if logger.isEnabledFor(logging.INFO) else x
    then: logger.setLevel(logging.INFO)

a level of the logger above
    import logging
    logger = logging.getLogger("a_user.part")
    afterwards(logging.getLogger("a_user").setLevel, logging.getLogger("a_user").level)
    step: return x * logger.getEffectiveLevel()
    then: logging.getLogger("a_user").setLevel(logging.INFO)

logging that is switched off
    import logging
    logger = logging.getLogger("a_user")
    afterwards(logging.disable, logging.NOTSET)
    step: return x * 2 if logger.isEnabledFor(logging.CRITICAL) else x
    then: logging.disable(logging.CRITICAL)

handlers of a logger
    import logging
    logger = logging.getLogger("a_user")
    handler = logging.NullHandler()
    afterwards(logger.removeHandler, handler)
    step: return x * 2 if handler in logger.handlers else x
    then: logger.addHandler(handler)

filters of warnings
    import warnings
    step: return x * sum(f[0] == "error" for f in warnings.filters)
    then: warnings.simplefilter("error", FutureWarning)

a warning that becomes an error
    import warnings
    step:
        try:
            warnings.warn("careful", FutureWarning)
        except FutureWarning:
            return x * 2
        return x
    then: warnings.simplefilter("error", FutureWarning)

a generator advanced outside
    def numbers():
        yield from range(2, 99)
    source = numbers()
    step: return x * next(source)
    then: next(source)

an iterator of a list advanced outside
    source = iter([2.0, 3.0, 4.0, 5.0, 6.0])
    step: return x * next(source)
    then: next(source)

an iterator that ends
    source = iter([2.0, 3.0])
    step: return x * next(source, 1.0)
    then: pass

a zip that is advanced
    source = zip(range(9), range(1, 10))
    step:
        a, b = next(source)
        return x * a + b
    then: next(source)

a loop that takes the rest of an iterator
    source = iter([1.0, 2.0])
    step: return x * sum(source)
    then: source = iter([3.0])

a counter of itertools
    import itertools
    source = itertools.count()
    step: return x * next(source)
    then: next(source)

the two ends of a tee
    import itertools
    one, two = itertools.tee([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    step: return x * next(one)
    then: next(one)

a file that is read on
    from pathlib import Path
    Path("numbers").write_text("1\n2\n3\n4\n5\n6\n")
    file = open("numbers")
    afterwards(file.close)
    step: return x * float(file.readline())
    then: file.readline()

a file that is read by a loop
    from pathlib import Path
    Path("numbers").write_text("1\n2\n3\n4\n5\n6\n")
    file = open("numbers")
    afterwards(file.close)
    step:
        for line in file:
            return x * float(line)
    then: file.readline()

the text of a file
    from pathlib import Path
    Path("number").write_text("2")
    step: return x * float(Path("number").read_text())
    then: Path("number").write_text("3")

the text of a file by open
    from pathlib import Path
    Path("number").write_text("2")
    step:
        with open("number") as file:
            return x * float(file.read())
    then: Path("number").write_text("3")

a file of settings in JSON
    import json
    from pathlib import Path
    Path("settings").write_text('{"n": 2}')
    step:
        with open("settings") as file:
            return x * json.load(file)["n"]
    then: Path("settings").write_text('{"n": 3}')

a file of NumPy's
    import numpy as np
    np.save("w.npy", np.float32([2.0, 3.0]))
    step: return x * torch.from_numpy(np.load("w.npy"))
    then: np.save("w.npy", np.float32([4.0, 5.0]))

a file of tensors
    torch.save(torch.ones(2), "w.pt")
    step: return x * torch.load("w.pt")
    then: torch.save(torch.zeros(2), "w.pt")

whether a file exists
    from pathlib import Path
    step: return x * 2 if Path("done").exists() else x
    then: Path("done").touch()

whether a file exists, by os.path
    import os
    from pathlib import Path
    step: return x * 2 if os.path.exists("done") else x
    then: Path("done").touch()

the size of a file
    import os
    from pathlib import Path
    Path("number").write_text("2")
    step: return x * os.stat("number").st_size
    then: Path("number").write_text("345")

the files of a folder
    import os
    from pathlib import Path
    step: return x * len(os.listdir())
    then: Path("done").touch()

the files that match
    from pathlib import Path
    step: return x * len(list(Path().glob("*.txt")))
    then: Path("done.txt").touch()

the folder that the process is in
    import os
    os.mkdir("inner")
    step: return x, os.path.basename(os.getcwd())
    then: patch.chdir("inner")

the answer of a process
    import subprocess
    from pathlib import Path
    Path("number").write_text("2")
    step: return x * float(subprocess.check_output(["cat", "number"]))
    then: Path("number").write_text("3")

a row of a data base
    import sqlite3
    base = sqlite3.connect(":memory:")
    afterwards(base.close)
    base.execute("create table t (n)")
    base.execute("insert into t values (2)")
    step: return x * base.execute("select n from t").fetchone()[0]
    then: base.execute("update t set n = 3")

what a socket receives
    import socket
    one, two = socket.socketpair()
    afterwards(one.close), afterwards(two.close)
    one.send(b"123456")
    step: return x * float(two.recv(1))
    then: two.recv(1)

what a queue gives
    import queue
    held = queue.Queue()
    for i in range(9): held.put(i)
    step: return x * held.get()
    then: held.get()

a random number of Python
    import random
    step: return x, random.random()
    whole: len(set(r[1] for r in results))

a random choice
    import random
    names = range(10**9)
    step: return x, random.choice(names)
    whole: len(set(r[1] for r in results))

a random number of a generator made inside
    import random
    step: return x, random.Random().random()
    whole: len(set(r[1] for r in results))

a random number of the system
    import random
    step: return x, random.SystemRandom().random()
    whole: len(set(r[1] for r in results))

a random number of NumPy
    import numpy as np
    step: return x, float(np.random.rand())
    whole: len(set(r[1] for r in results))

a random number of a NumPy generator made inside
    import numpy as np
    step: return x, float(np.random.default_rng().random())
    whole: len(set(r[1] for r in results))

a random number of a NumPy generator from outside
    import numpy as np
    source = np.random.default_rng(0)
    step: return x, float(source.random())
    then: source.random()

a random array of NumPy as a tensor
    import numpy as np
    source = np.random.default_rng(0)
    step: return x * torch.from_numpy(source.random(2))
    then: source.random()

a generator of Python's that is seeded outside
    import random
    source = random.Random(0)
    step: return x, source.random()
    then: source.seed(7)

random numbers that are seeded outside
    import random
    afterwards(random.setstate, random.getstate())
    random.seed(0)
    step: return x, random.random()
    then: random.seed(7)

a seed in a global, and random numbers inside
    import random
    seed = 0
    step: return x * random.Random(seed).random()
    then: seed = 1

a seed in a global, and NumPy's numbers inside
    import numpy as np
    seed = 0
    step: return x * float(np.random.default_rng(seed).random())
    then: seed = 1

random bytes
    import os, secrets
    step: return x, os.urandom(8), secrets.token_hex()
    whole: len(set(str(r) for r in results))

a new id
    import uuid
    step: return x, uuid.uuid4().hex
    whole: len(set(r[1] for r in results))

the name of a new file
    import tempfile
    step: return x, tempfile.mktemp()
    whole: len(set(r[1] for r in results))

the time
    import time
    step: return x, time.time_ns()
    whole: len(set(r[1] for r in results))

the time under another name
    from time import perf_counter_ns as clock
    step: return x, clock()
    whole: len(set(r[1] for r in results))

the time of day
    import datetime
    step: return x, str(datetime.datetime.now())
    whole: len(set(r[1] for r in results))

the time by a function in a dict
    import time
    held = {"clock": time.monotonic_ns}
    step: return x, held["clock"]()
    whole: len(set(r[1] for r in results))

the time by map
    import time
    step: return x, list(map(time.clock_gettime_ns, [time.CLOCK_MONOTONIC]))[0]
    whole: len(set(r[1] for r in results))
"""
