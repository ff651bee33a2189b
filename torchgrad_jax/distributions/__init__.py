"""torch.distributions: densities, samples, gradients through samples, divergences.

Those that need draws from the gamma distribution (Gamma, Beta, Dirichlet, StudentT and their kin) are not there yet.
"""

from __future__ import annotations

from typing import Any

from .._core.errors import no_such_name as _no_such_name
from . import (
    constraints as constraints,
    distribution as distribution,
    kl as kl,
    transforms as transforms,
)
from .continuous import (
    Cauchy as Cauchy,
    Exponential as Exponential,
    Gumbel as Gumbel,
    HalfCauchy as HalfCauchy,
    HalfNormal as HalfNormal,
    Laplace as Laplace,
    Normal as Normal,
    Uniform as Uniform,
)
from .discrete import (
    Bernoulli as Bernoulli,
    Binomial as Binomial,
    Categorical as Categorical,
    Geometric as Geometric,
    Multinomial as Multinomial,
    OneHotCategorical as OneHotCategorical,
    OneHotCategoricalStraightThrough as OneHotCategoricalStraightThrough,
    Poisson as Poisson,
)
from .distribution import Distribution as Distribution
from .kl import kl_divergence as kl_divergence, register_kl as register_kl
from .multivariate import (
    Independent as Independent,
    MixtureSameFamily as MixtureSameFamily,
    MultivariateNormal as MultivariateNormal,
)
from .transforms import (
    AbsTransform as AbsTransform,
    AffineTransform as AffineTransform,
    ComposeTransform as ComposeTransform,
    ExpTransform as ExpTransform,
    LogNormal as LogNormal,
    PowerTransform as PowerTransform,
    SigmoidTransform as SigmoidTransform,
    SoftplusTransform as SoftplusTransform,
    TanhTransform as TanhTransform,
    Transform as Transform,
    TransformedDistribution as TransformedDistribution,
    identity_transform as identity_transform,
)


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.distributions.{name}"))
