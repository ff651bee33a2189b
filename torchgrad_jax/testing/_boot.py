"""Start a watched program: `python _boot.py settings.json`.

This file is run by its path, so that a process for torch imports nothing of torchgrad_jax and no JAX.
"""

import importlib.util
import os
import sys

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_observer")
_NAME = "torchgrad_jax_observer"


def observer():
    """The package of the observer, under a name of its own."""
    spec = importlib.util.spec_from_file_location(
        _NAME, os.path.join(_FOLDER, "__init__.py"), submodule_search_locations=[_FOLDER]
    )
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[_NAME] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    del sys.path[0]  # this folder, in which a program would find modules that it does not mean
    observer()
    from torchgrad_jax_observer.program import main

    sys.exit(main(sys.argv[1]))
