"""Subclasses of distributions, as other packages write them."""

import importlib

from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


def dist(m):
    return importlib.import_module(m.__name__ + ".distributions")


def watched(cls, *names):
    """A class whose switch for checks reaches for other attributes when it is set."""

    def switch(self, value):
        self.__dict__["switch"] = [value, [name in vars(self) for name in names]]

    return type(cls.__name__, (cls,), {"_validate_args": property(lambda self: False, switch)})


@program
def attributes_are_there_when_an_expanded_copy_is_initialized(m):
    d, two = dist(m), m.tensor([0.5, 0.25])
    inner = d.Normal(two, 1.0)
    mixed = watched(d.MixtureSameFamily, "_component_distribution", "_mixture_distribution")
    made = [
        watched(d.Independent, "base_dist", "reinterpreted_batch_ndims")(inner, 1),
        watched(d.TransformedDistribution, "base_dist", "transforms")(inner, d.ExpTransform()),
        mixed(d.Categorical(m.ones(2)), inner),
        watched(d.Beta, "_dirichlet")(two, two),
        watched(d.FisherSnedecor, "_gamma1", "_gamma2")(two, two),
        watched(d.StudentT, "_chi2", "df")(two),
        watched(d.Multinomial, "_categorical", "total_count")(2, two),
        watched(d.OneHotCategorical, "_categorical")(two),
        watched(d.MultivariateNormal, "_unbroadcasted_scale_tril")(two, m.eye(2)),
        watched(d.Bernoulli, "_param")(two),
        watched(d.Binomial, "_param", "total_count")(2, two),
        watched(d.ContinuousBernoulli, "_param", "_lims")(two),
        watched(d.LKJCholesky, "dim", "_beta")(2, two),
    ]
    return [[type(p).__name__, p.expand((3, *p.batch_shape)).switch] for p in made]


@program
def a_subclass_with_an_initializer_of_its_own_must_say_how_it_expands(m):
    class Mine(dist(m).Independent):
        def __init__(self, x):
            super().__init__(dist(m).Normal(x, 1.0), 1)

    try:
        return Mine(m.zeros(2)).expand((3,))
    except NotImplementedError as e:
        return str(e)
