"""Samplers that try until a trial is accepted, one number at a time, in torch's order of draws.

Each takes its uniform doubles in [0, 1) from a function `draw`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

Draw: TypeAlias = Callable[[], float]


def poisson(rate: float, draw: Draw) -> float:
    if rate == 0.0:
        return 0.0
    if rate >= 10.0:
        return _poisson_by_rejection(rate, draw)
    count, product, floor = 0, draw(), math.exp(-rate)
    while product > floor:
        count += 1
        product *= draw()
    return count


def _poisson_by_rejection(rate: float, draw: Draw) -> float:
    """PTRS of W. Hörmann, The transformed rejection method for Poisson variables (1993)."""
    root, log_rate = math.sqrt(rate), math.log(rate)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    log_alpha = math.log(1.1239 + 1.1328 / (b - 3.4))
    accept_at_once = 0.9277 - 3.6224 / (b - 2.0)
    while True:
        u, v = draw() - 0.5, draw()
        s = 0.5 - abs(u)
        k = _floor((2.0 * a / s + b) * u + rate + 0.43)
        if s >= 0.07 and v <= accept_at_once:
            return k
        if k < 0.0 or (s < 0.013 and v > s):
            continue
        height = math.log(v) + log_alpha - math.log(a / (s * s) + b)
        if height <= -rate + k * log_rate - math.lgamma(k + 1.0):
            return k


def binomial(count: float, prob: float, draw: Draw) -> float:
    if count != count or prob != prob:
        return math.nan
    if count <= 0.0 or prob <= 0.0:
        return 0.0
    if prob >= 1.0 or count == math.inf:
        return count
    rarer = min(prob, 1.0 - prob)
    sample = _binomial_by_rejection if count * rarer >= 10.0 else _binomial_by_waiting
    successes = sample(count, rarer, draw)
    return successes if prob <= 0.5 else count - successes


def _binomial_by_waiting(count: float, prob: float, draw: Draw) -> float:
    """Add up the trials that each success takes, geometric numbers, until there are too many."""
    log_failure = math.log1p(-prob)
    successes, trials = 0, 0.0
    while True:
        u = draw()
        trials += math.ceil(math.log(u) / log_failure) if u else math.inf
        if trials > count:
            return successes
        successes += 1


def _binomial_by_rejection(count: float, prob: float, draw: Draw) -> float:
    """BTRS of W. Hörmann, The generation of binomial random variates (1993)."""
    spread = math.sqrt(count * prob * (1.0 - prob))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * prob
    c = count * prob + 0.5
    accept_at_once = 0.92 - 4.2 / b
    odds = prob / (1.0 - prob)
    alpha = (2.83 + 5.1 / b) * spread
    mode = math.floor((count + 1.0) * prob)
    while True:
        u, v = draw() - 0.5, draw()
        s = 0.5 - abs(u)
        k = _floor((2.0 * a / s + b) * u + c)
        if s >= 0.07 and v <= accept_at_once:
            return k
        if k < 0.0 or k > count:
            continue
        bound = (
            (mode + 0.5) * math.log((mode + 1.0) / (odds * (count - mode + 1.0)))
            + (count + 1.0) * math.log((count - mode + 1.0) / (count - k + 1.0))
            + (k + 0.5) * math.log(odds * (count - k + 1.0) / (k + 1.0))
            + (_stirling_rest(mode) + _stirling_rest(count - mode))
            - (_stirling_rest(k) + _stirling_rest(count - k))
        )
        v *= alpha / (a / (s * s) + b)
        if v == 0.0 or math.log(v) <= bound:
            return k


def _floor(x: float) -> float:
    return math.floor(x) if math.isfinite(x) else x


_STIRLING_REST = tuple(
    math.lgamma(k + 1.0) - (k + 0.5) * math.log(k + 1.0) + k + 1.0 - 0.5 * math.log(2.0 * math.pi) for k in range(10)
)


def _stirling_rest(k: float) -> float:
    """log(k!) less Stirling's approximation to it."""
    if k <= 9 and k == int(k):
        return _STIRLING_REST[int(k)]
    square = (k + 1.0) * (k + 1.0)
    return (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / 1260.0 / square) / square) / (k + 1.0)


def gamma(d: float, power: float, draw: Draw, normal: Draw) -> float:
    """G. Marsaglia and W. W. Tsang, A simple method for generating gamma variables (2000).

    Args:
        d: the shape less 1/3; one more if the shape is below 1.
        power: 1 / shape if the shape is below 1, else 0.
        draw: gives uniform doubles.
        normal: gives standard normals.
    """
    if power == math.inf:
        return 0.0
    scale = 1.0
    if power:
        base = 1.0 - draw()
        scale = base**power if power > 0.0 else math.nan
    c = 1.0 / math.sqrt(9.0 * d) if d > 0.0 else math.nan
    while True:
        x = normal()
        y = 1.0 + c * x
        if y <= 0.0:
            continue
        v = y * y * y
        u = 1.0 - draw()
        xx = x * x
        if u >= 1.0 - 0.0331 * xx * xx and math.log(u) >= 0.5 * xx + d * (1.0 - v + math.log(v)):
            continue  # torch accepts NaN, for which neither comparison is true
        return scale * d * v
