"""Steps that change files, folders and processes."""

ROWS = r"""
a file written by open
    step:
        with open("log", "a") as file:
            file.write("a")
        return x * 2

a file written by a handle from outside
    file = open("log", "w", buffering=1)
    afterwards(file.close)
    step: file.write("a\n"); return x * 2

a file written by print
    file = open("log", "w", buffering=1)
    afterwards(file.close)
    step: print("a", file=file); return x * 2

a file written by map
    file = open("log", "w", buffering=1)
    afterwards(file.close)
    step: list(map(file.write, ["a\n", "b\n"])); return x * 2

a file written by io.FileIO
    import io
    step:
        file = io.FileIO("log", "a")
        file.write(b"a")
        file.close()
        return x * 2

a file written by pathlib
    from pathlib import Path
    n = 0
    step:
        global n
        n += 1
        Path("log").write_text("a" * n)
        return x * 2

a file written by os.open
    import os
    step:
        file = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(file, b"a")
        os.close(file)
        return x * 2

a file written by np.savetxt
    import numpy as np
    import os
    each: [os.remove(name) for name in os.listdir()]
    step: np.savetxt("log", [1.0]); return x * 2

a file written by np.save
    import numpy as np
    import os
    each: [os.remove(name) for name in os.listdir()]
    step: np.save("log", np.ones(1)); return x * 2

a file written by tofile
    import numpy as np
    import os
    each: [os.remove(name) for name in os.listdir()]
    step: np.ones(1).tofile("log"); return x * 2

an array written through np.memmap
    import numpy as np
    n = 0
    step:
        global n
        n += 1
        held = np.memmap("log", "u1", "w+", shape=(1,))
        held[0] = n
        held.flush()
        return x * 2

a file written by json.dump
    import json, os
    each: [os.remove(name) for name in os.listdir()]
    step:
        with open("log", "w") as file:
            json.dump([1], file)
        return x * 2

a file written by pickle.dump
    import os, pickle
    each: [os.remove(name) for name in os.listdir()]
    step:
        with open("log", "wb") as file:
            pickle.dump([1], file)
        return x * 2

a file written by torch.save
    import os
    each: [os.remove(name) for name in os.listdir()]
    step: torch.save({"n": 1}, "log"); return x * 2
    look: os.listdir()

a file written by csv
    import csv
    step:
        with open("log", "a", newline="") as file:
            csv.writer(file).writerow([1, 2])
        return x * 2

a file of settings written by configparser
    import configparser, os
    held = configparser.ConfigParser()
    held.read_dict({"a": {"n": 2}})
    each: [os.remove(name) for name in os.listdir()]
    step:
        with open("log", "w") as file:
            held.write(file)
        return x * 2

a file copied
    import os, shutil
    from pathlib import Path
    Path("one").write_text("a")
    each: Path("two").unlink(missing_ok=True)
    step: shutil.copy("one", "two"); return x * 2

a file removed
    import os
    from pathlib import Path
    each: Path("one").write_text("a")
    step: os.remove("one"); return x * 2

a file renamed
    import os
    from pathlib import Path
    each: Path("one").write_text("a")
    step: os.replace("one", "two"); return x * 2
    look: sorted(os.listdir())

a file touched
    from pathlib import Path
    each: Path("one").unlink(missing_ok=True)
    step: Path("one").touch(); return x * 2

a folder made
    import os
    each: os.path.isdir("inner") and os.rmdir("inner")
    step: os.mkdir("inner"); return x * 2

a folder made by makedirs
    import os
    each: os.path.isdir("inner") and os.rmdir("inner")
    step: os.makedirs("inner", exist_ok=True); return x * 2

a temporary file
    import os, tempfile
    folder = os.path.dirname(__file__)
    step:
        handle, name = tempfile.mkstemp(dir=folder)
        os.close(handle)
        return x * 2
    look: len(os.listdir(folder))

a link
    import os
    from pathlib import Path
    each: Path("link").unlink(missing_ok=True)
    step: os.symlink("one", "link"); return x * 2
    look: os.path.islink("link")

an archive
    import os, zipfile
    each: [os.remove(name) for name in os.listdir()]
    step:
        with zipfile.ZipFile("log.zip", "w"):
            pass
        return x * 2

a process by subprocess.run
    import subprocess
    step: subprocess.run(["echo", "a"], check=True); return x * 2

a process by os.system
    import os
    step: os.system("echo a"); return x * 2

a process by Popen
    import subprocess
    step: subprocess.Popen(["sh", "-c", "echo a >> log"]).wait(); return x * 2
"""
