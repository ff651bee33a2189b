"""Functional Jacobians, levels of forward mode, versions that are preserved, and a few names and positions."""

import warnings

from tests.autograd.programs import attempt, leaf
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


# --- torch.autograd.functional --------------------------------------------------------------------


@program
def products_know_their_directions(m):
    """With create_graph, results depend on the given v as well."""
    out = []
    for name in ("vjp", "jvp", "hvp", "vhp"):
        for create in (False, True):
            x, v = leaf(m, 1.0, 2.0), leaf(m, 3.0, 4.0)
            cube = (lambda x: x**3) if name in ("vjp", "jvp") else (lambda x: (x**3).sum())
            found = getattr(m.autograd.functional, name)(cube, x, v, create_graph=create)[1]
            out.append(found.detach())
            out.append(attempt(m.autograd.grad, found.sum(), [x, v], allow_unused=True))
    return out


@program
def strictness_is_checked_input_by_input(m):
    x, out = m.ones(2), []
    for name in ("vjp", "jvp", "hvp", "vhp", "hessian", "jacobian"):
        fn = getattr(m.autograd.functional, name)
        given = () if name in ("hessian", "jacobian") else (m.tensor(1.0),)
        given = ((x, x),) if name in ("jvp", "hvp", "vhp") else given
        functions = (lambda a, b: a.sum(), lambda a, b: b.sum(), lambda a, b: (a * a).sum(), lambda a, b: (a * b).sum())
        out += [attempt(fn, f, (x, x), *given, strict=True)[0] for f in functions]
    return out


@program
def outputs_of_forward_mode_jacobians(m):
    jacobian, x = m.autograd.functional.jacobian, m.ones(2)
    options = {"vectorize": True, "strategy": "forward-mode"}
    return [attempt(jacobian, f, x, **options) for f in (lambda x: 3, lambda x: (x, 3))]


@program
def unit_vectors(m):
    basis = m.autograd.functional._construct_standard_basis_for
    kinds = m.ones(2, dtype=m.double), m.ones(1)
    return basis((m.ones(2), m.ones(3)), (2, 3)), basis((m.ones(()),), (1,)), basis(kinds, (2, 1))


@program
def arguments_and_results_of_jacobians_of_others(m):
    f = m.autograd.functional
    x, y = m.ones(2, requires_grad=True) * 2, m.ones(1)
    out = [attempt(f._as_tuple, given, "outputs", "f") for given in (x, (x, y), [x], (x, 3), 3)]
    out += [f._as_tuple(given) for given in (x, (x,), [x], 3)]
    out += [f._as_tuple_nocheck(given) for given in (3, [3], (3,))]
    kinds = (True, False, (True, True), (True, False), (False, True), (False, False))
    out += [f._tuple_postprocess(((1, 2), (3, 4)), kind) for kind in kinds]
    for given in ((x, y), ((x, y), (y, x))):
        out += [f._grad_postprocess(given, create) for create in (True, False)]
    return out


# --- forward mode ---------------------------------------------------------------------------------


@program
def detaching_in_place_drops_the_tangent(m):
    f = m.autograd.forward_ad
    with f.dual_level():
        dual = f.make_dual(m.ones(2), m.ones(2))
        a = m.ones(2)
        a.copy_(dual)
        b = dual.clone()
        out = [f.unpack_dual(a), f.unpack_dual(b)]
        return [*out, f.unpack_dual(a.detach_()), f.unpack_dual(b.detach_()), f.unpack_dual(dual)]


@program
def levels_that_are_not_open(m):
    f = m.autograd.forward_ad
    with f.dual_level():
        dual = f.make_dual(m.ones(1), m.ones(1))
        return [
            attempt(f.unpack_dual, dual, level=1),
            attempt(f.unpack_dual, m.ones(1), level=1),
            attempt(f.make_dual, m.ones(1), m.ones(1), level=1),
            attempt(f.unpack_dual, dual, level=0),
        ]


# --- names ----------------------------------------------------------------------------------------


@program
def versions_are_preserved(m):
    x, y = m.ones(2), m.ones(2)
    with m.autograd._unsafe_preserve_version_counter(x):
        x.add_(1)
    first = x._version
    with m.autograd._unsafe_preserve_version_counter((x, y)):
        x.add_(1)
        y.add_(1)
    y.add_(1)
    return (first, x._version, y._version, x, attempt(m.autograd._unsafe_preserve_version_counter, 3))


@program
def the_function_and_module_called_variable(m):
    made = m.autograd.variable.Variable(m.ones(1))
    return (made, m.autograd.variable.Variable is m.autograd.Variable, attempt(m.autograd.variable, 1))


@program
def old_comparisons(m):
    close, x = m.testing.assert_allclose, m.ones(2)
    pairs = [
        (x, [1, 1]),
        (x, 1.0),
        (x, x.double()),
        (x, x + 1),
        (x, x + 5e-5),
        (x.double(), x.double() + 1.2e-5),
        (x.half(), x.half() + 3e-3),
        (x, m.ones(3)),
        (float("nan"), float("nan")),
        (x.int(), x.int() + 1),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = [attempt(close, *pair)[0] for pair in pairs]
        out += [
            attempt(close, x, x + 1, msg="said")[0],
            attempt(close, x, x + 0.1, rtol=0.2)[0],
            attempt(close, x, x + 0.1, rtol=0.2, atol=0)[0],
            attempt(close, m.tensor([float("nan")]), m.tensor([float("nan")]), equal_nan=False)[0],
        ]
    return out, attempt(close, x, x)


# --- vmap -----------------------------------------------------------------------------------------


@program
def positions_of_the_batch(m):
    x, out = m.arange(6.0).view(2, 3), []
    for where in (-3, -2, -1, 0, 1, 2, 3):
        out.append(attempt(m.func.vmap(lambda x: x * 2, out_dims=where), x))
        out.append(attempt(m.func.vmap(lambda x: x.sum(), out_dims=where), x))
        if where in (0, 1):  # elsewhere torch crashes
            out.append(attempt(m.func.vmap(lambda x: m.ones(2), out_dims=where), x))
    return out


@program
def one_hot_of_a_batch(m):
    x = m.tensor([[0, 2], [1, 0]])
    one_hot = m.nn.functional.one_hot
    return m.func.vmap(lambda x: one_hot(x, 3))(x), attempt(one_hot, x, 2), one_hot(x)


# --- attributes -----------------------------------------------------------------------------------


@program
def attributes_that_stay(m):
    """In the same words; torch crashes on a few that are left out."""
    out = []
    names = "shape dtype device ndim layout itemsize nbytes grad_fn is_leaf output_nr _version _base is_cpu"
    for name in [*names.split(), "retains_grad", "is_meta"]:
        out.append(attempt(setattr, leaf(m, 1.0), name, 3))
        out.append(attempt(delattr, leaf(m, 1.0), name))
    kept = ("requires_grad", "data", "_backward_hooks")
    out += [attempt(delattr, leaf(m, 1.0), name) for name in kept]
    for name in ("grad", "_grad"):
        x = leaf(m, 1.0)
        x.sum().backward()
        out += [attempt(delattr, x, name), x.grad]
    return out


@program
def indices_of_text(m):
    x = m.ones(3)
    given = ("a", "", (0, "a"), b"a", 1j, {}, 1.5)
    return [(attempt(x.__getitem__, i)[0], attempt(x.__setitem__, i, 1)[0]) for i in given]
