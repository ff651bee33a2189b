"""Strides of first gradients: the order of operands in torch's formulas, where no tensor is row-major."""

from tests.expressions import Expressions

_SETUP = (
    "n = lambda count: torch.arange(1.0, 1 + count, dtype=torch.float64).mul(0.37).sin().abs(); "
    "s = lambda *shape: n(math.prod(shape)).mul(0.8).add(0.1).reshape(shape); "
    "c = s(2, 3, 4).requires_grad_(); p = s(3, 4, 2).permute(2, 0, 1).requires_grad_(); "
    "q = s(2, 4, 3).permute(0, 2, 1).requires_grad_(); k = s(2, 1, 4).requires_grad_(); "
    "gs = {'c': s(2, 3, 4), 'p': s(3, 4, 2).permute(2, 0, 1), 'e': s(2, 3, 1).expand(2, 3, 4)}; "
    "look = lambda f, xs, g: [[t.stride(), t._version] for t in torch.autograd.grad((y := f(*xs)), xs, "
    "gs[g] if y.shape == (2, 3, 4) else torch.ones_like(y))]; "
)
_UNARY = (
    "torch.atanh", "torch.erf", "torch.erfinv", "torch.reciprocal", "torch.rsqrt", "torch.sgn", "torch.sinc",
    "torch.angle", "torch.special.ndtri", "torch.special.log_ndtr", "torch.special.erfcx", "torch.relu",
    "torch.bernoulli", "torch.nn.functional.leaky_relu", "torch.nn.functional.rrelu", "torch.nn.functional.logsigmoid",
    "lambda x: torch.clamp(x, 0.2, 0.6)", "lambda x: torch.clamp_min(x, 0.2)", "lambda x: torch.pow(x, 0)",
    "lambda x: torch.threshold(x, 0.3, 0.0)", "lambda x: torch.mvlgamma(x + 3, 2)",
    "lambda x: torch.renorm(x, 2, 0, 0.5)", "lambda x: torch.nn.functional.normalize(x, dim=1)",
)  # fmt: skip
_REDUCING = (
    "lambda x: x.amax(1)", "lambda x: x.prod(1)", "lambda x: x.var(1)", "lambda x: x.std(2)",
    "lambda x: x.logsumexp(1)", "lambda x: x.nansum(1)", "lambda x: x.norm(2, 1)", "lambda x: x.norm(3, 1)",
    "lambda x: x.amax((0, 2), True)", "lambda x: x.aminmax(dim=1)[0]", "lambda x: x.amin()",
)  # fmt: skip
_BINARY = (
    "torch.maximum", "torch.fmax", "torch.xlogy", "torch.special.xlog1py", "torch.pow", "torch.mul", "torch.div",
    "torch.atan2", "torch.hypot", "torch.copysign", "torch.nextafter", "torch.logaddexp", "torch.logaddexp2",
    "torch.fmod", "torch.dist", "lambda x, y: torch.where(x > 0.3, x, y)", "lambda x, y: torch.clamp(x, y, y + 0.2)",
    "lambda x, y: torch.lerp(x, y, x)", "lambda x, y: torch.addcdiv(y, x, y)",
    "lambda x, y: torch.nn.functional.mse_loss(x, y, reduction='none')",
    "lambda x, y: torch.nn.functional.smooth_l1_loss(x, y, reduction='none')",
)  # fmt: skip
_ROWS = [
    *(f"look({f}, [{x}], '{g}')" for f in _UNARY for x, g in ("cp", "pc", "qe")),
    *(f"look({f}, [{x}], 'c')" for f in _REDUCING for x in "pq"),
    *(f"look({f}, [{x}, {y}], '{g}')" for f in _BINARY for x, y, g in ("ccp", "pcc", "qpe", "qke")),
]

test_as_torch_does = Expressions(__file__).test("\n".join(_SETUP + row for row in _ROWS))
