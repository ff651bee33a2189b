"""torch._jit_internal, and what packages look up in tensors under private names."""

import importlib

from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


def internal(m):
    return importlib.import_module(m.__name__ + "._jit_internal")


@program
def a_wrapper_that_scripts_copy_is_the_function(m):
    def f(x):
        return x + 1

    marks = internal(m)
    return marks._copy_to_script_wrapper(f) is f


@program
def what_a_tensor_is_underneath(m):
    x = m.zeros(2)
    same = [x._cdata == x._cdata, x._cdata == m.nn.Parameter(x)._cdata, x._cdata == x.detach()._cdata]
    kept = {"x": x}
    return [type(x._cdata).__name__, same, kept["x"]._cdata == x._cdata]


@program
def a_storage_of_elements_without_a_warning(m):
    s = m.arange(3)._typed_storage()
    return [type(s).__name__, str(s.dtype), s._untyped_storage.nbytes()]
