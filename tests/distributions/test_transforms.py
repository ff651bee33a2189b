"""Transforms, constraints and the registries between them: as torch has them."""

import copy
import importlib
import pickle

import pytest

from tests.programs import attempt

TRANSFORMS = {
    "exp": lambda m, t: t.ExpTransform(),
    "sigmoid": lambda m, t: t.SigmoidTransform(),
    "tanh": lambda m, t: t.TanhTransform(),
    "softplus": lambda m, t: t.SoftplusTransform(),
    "abs": lambda m, t: t.AbsTransform(),
    "affine": lambda m, t: t.AffineTransform(1.0, -2.0),
    "affine_event": lambda m, t: t.AffineTransform(m.ones(3), m.tensor([1.0, 2.0, -1.0]), event_dim=1),
    "power": lambda m, t: t.PowerTransform(m.tensor([2.0, 3.0, 0.5])),
    "softmax": lambda m, t: t.SoftmaxTransform(),
    "sticks": lambda m, t: t.StickBreakingTransform(),
    "correlations": lambda m, t: t.CorrCholeskyTransform(),
    "reshape": lambda m, t: t.ReshapeTransform((3,), (1, 3)),
    "independent": lambda m, t: t.IndependentTransform(t.ExpTransform(), 1),
    "composed": lambda m, t: t.ComposeTransform([t.AffineTransform(0.0, 2.0), t.ExpTransform()]),
    "mixed": lambda m, t: t.ComposeTransform([t.ExpTransform(), t.IndependentTransform(t.TanhTransform(), 1)]),
    "nothing": lambda m, t: t.ComposeTransform([]),
    "cat": lambda m, t: t.CatTransform([t.ExpTransform(), t.AffineTransform(1.0, 2.0)], dim=1, lengths=[1, 2]),
    "stack": lambda m, t: t.StackTransform([t.ExpTransform(), t.AffineTransform(1.0, 2.0)]),
}


def modules(m):
    base = m.__name__ + ".distributions"
    return tuple(importlib.import_module(f"{base}.{n}") for n in ("transforms", "constraints"))


def applied(name):
    def run(m):
        transforms, _ = modules(m)
        t = TRANSFORMS[name](m, transforms)
        x = m.linspace(0.1, 1.3, 6, dtype=m.float64).view(2, 3)
        size = m.Size((2, 3))
        seen = [repr(t), t(x), repr(t.domain), repr(t.codomain), t.bijective, t.inv.inv is t]
        rest = (
            lambda: t.inv(t(x)),
            lambda: t.log_abs_det_jacobian(x, t(x)),
            lambda: t.inv.log_abs_det_jacobian(t(x), x),
            lambda: t.event_dim,
            lambda: t.sign,
            lambda: repr(t.inv),
            lambda: list(t.forward_shape(size)),
            lambda: list(t.inverse_shape(size)),
            lambda: t.with_cache(1)._cache_size,
            lambda: t == t,
            lambda: t == transforms.ExpTransform(),
            lambda: t(m.tensor(1.0)),
        )
        return [*seen, *map(attempt, rest)]

    run.__name__ = name
    return run


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name, same):
    same(applied(name))


def matrices(m):
    transforms, _ = modules(m)
    x = m.linspace(-1.0, 1.0, 9, dtype=m.float64).view(3, 3)
    out = []
    for t in (transforms.LowerCholeskyTransform(), transforms.PositiveDefiniteTransform()):
        out += [t(x), t.inv(t(x)), attempt(lambda t=t: t.log_abs_det_jacobian(x, t(x))), t.event_dim]
    return out


def kept(m):
    """A cache gives the argument itself back; pickles and copies work."""
    transforms, _ = modules(m)
    x = m.tensor([0.5, -0.25])
    t = transforms.TanhTransform(cache_size=1)
    y = t(x)
    chain = transforms.ComposeTransform([transforms.AffineTransform(0.0, 2.0), t])
    again = pickle.loads(pickle.dumps(chain))
    same_object = (t.inv(y) is x, t(x) is y)
    return (same_object, again(x), copy.deepcopy(chain)(x), attempt(lambda: transforms.ExpTransform(2)))


def shapes_that_do_not_fit(m):
    t, _ = modules(m)
    utils = importlib.import_module(m.__name__ + ".distributions.utils")
    one = m.tensor(1.0)
    return [
        attempt(f)
        for f in (
            lambda: t.ReshapeTransform((3,), (2,)),
            lambda: t.ReshapeTransform((3,), (1, 3)).forward_shape((2,)),
            lambda: t.CorrCholeskyTransform().forward_shape((5,)),
            lambda: t.CorrCholeskyTransform().inverse_shape((5, 4)),
            lambda: t.StickBreakingTransform().forward_shape(()),
            lambda: t.IndependentTransform(t.ExpTransform(), 1)(one),
            lambda: t.CatTransform([1]),
            lambda: t.CatTransform([t.ExpTransform()], lengths=[1, 2]),
            lambda: t.CatTransform([t.ExpTransform()])(m.ones(2)),
            lambda: t.CatTransform([t.ExpTransform()], dim=3)(m.ones(2)),
            lambda: t.StackTransform([t.ExpTransform()])(m.ones(2)),
            lambda: utils.vec_to_tril_matrix(m.ones(4)),
            lambda: utils.tril_matrix_to_vec(m.ones(3, 3), 5),
            lambda: utils.vec_to_tril_matrix(m.arange(3.0), -1),
            lambda: utils.tril_matrix_to_vec(m.arange(9.0).view(3, 3), 1),
        )
    ]


def constraints_checked(m):
    _, c = modules(m)
    value = m.tensor([[-1.0, 0.0, 0.5], [1.0, 2.0, float("nan")]])
    all_of_them = (
        c.boolean, c.real, c.positive, c.nonnegative, c.unit_interval, c.nonnegative_integer, c.simplex, c.one_hot,
        c.real_vector, c.greater_than(0.2), c.less_than(0.5), c.half_open_interval(0, 1), c.integer_interval(0, 2),
        c.multinomial(3), c.independent(c.real, 1), c.MixtureSameFamilyConstraint(c.real),
        c.cat([c.positive, c.real], 0, [1, 1]), c.stack([c.positive, c.real], 0), c.square, c.dependent,
        c.lower_triangular, c.lower_cholesky, c.corr_cholesky, c.symmetric, c.positive_definite,
        c.positive_semidefinite,
    )  # fmt: skip
    out = []
    for k in all_of_them:
        out += [repr(k), attempt(lambda k=k: k.check(value)), attempt(lambda k=k: k.check(m.eye(2)))]
        out += [attempt(lambda k=k: k.is_discrete), attempt(lambda k=k: k.event_dim), c.is_dependent(k)]
    return out, sorted(c.__all__)


def registries(m):
    _, c = modules(m)
    d = importlib.import_module(m.__name__ + ".distributions")
    x = m.linspace(-1.0, 1.0, 6, dtype=m.float64)
    ends = m.arange(1.0, 7.0, dtype=m.float64)
    all_of_them = (
        c.real,
        c.positive,
        c.greater_than(2.0),
        c.greater_than_eq(ends),
        c.less_than(3.0),
        c.interval(0.0, 1.0),
        c.interval(-2.0, 3.0),
        c.half_open_interval(0, 1),
        c.simplex,
        c.corr_cholesky,
        c.independent(c.positive, 1),
        c.cat([c.positive, c.real], 0, [2, 4]),
        c.stack([c.positive] * 6, 0),
        c.boolean,
        c.dependent,
    )
    out = []
    for k in all_of_them:
        for registry in (d.biject_to, d.transform_to):
            out += [attempt(lambda r=registry, k=k: repr(r(k))), attempt(lambda r=registry, k=k: r(k)(x))]
    return out, attempt(lambda: d.biject_to.register(3, 4))


@pytest.mark.parametrize(
    "program", [matrices, kept, shapes_that_do_not_fit, constraints_checked, registries], ids=lambda p: p.__name__
)
def test_as_torch(program, same):
    same(program)
