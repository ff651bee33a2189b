"""`nn.utils`: clipping, vectors, parametrizations, norms, fusion; compared with torch."""

import copy
import pickle

import pytest

from tests.programs import Programs

from .programs import attempt, gradients, numbers, quietly, weighted

program = Programs()
test_same_as_torch = program.test()


def with_gradients(m):
    ps = [m.nn.Parameter(m.ones(2, 3)), m.nn.Parameter(m.ones(4)), m.nn.Parameter(m.ones(1))]
    ps[0].grad, ps[1].grad = m.arange(6.0).reshape(2, 3) - 2, m.arange(4.0)
    return ps


@program
def clipped_norms(m):
    seen = []
    for kind in (2, 1, float("inf"), 3.0, 0, -float("inf"), "inf"):
        ps = with_gradients(m)
        total = m.nn.utils.clip_grad_norm_(ps, 1.0, kind)
        seen += [total, ps[0].grad, ps[1].grad, ps[2].grad, ps[0].grad._version, ps[0].grad.requires_grad]
    ps = with_gradients(m)
    seen += [m.nn.utils.clip_grad_norm_(ps, 100.0), ps[0].grad, m.nn.utils.clip_grad_norm_(ps[0], 1.0, foreach=False)]
    return (seen, m.nn.utils.clip_grad_norm_([], 1.0), m.nn.utils.get_total_norm([m.ones(2).double(), m.ones(3)]))


@program
def clipped_gradients_that_share_memory(m):
    """Views of one tensor, one transposed tensor twice, and a half beside a float."""
    ps = [m.nn.Parameter(m.ones(2, 3)) for _ in range(4)]
    flat = m.arange(12.0)
    ps[0].grad, ps[1].grad = flat[:6].view(2, 3), flat[6:].view(2, 3)
    ps[2].grad = m.arange(6.0).reshape(3, 2).t()
    ps[3].grad = ps[2].grad
    total = m.nn.utils.clip_grad_norm_(ps, 1.0)
    half = m.nn.Parameter(m.ones(3, dtype=m.float16))
    half.grad = m.arange(3.0).half()
    both = m.nn.utils.clip_grad_norm_([half, ps[0]], 0.5)
    return total, flat, flat._version, [p.grad for p in ps], ps[2].grad.stride(), half.grad, both


@program
def versions_of_clipped_gradients(m):
    ps = with_gradients(m)[:2]
    m.nn.utils.clip_grad_norm_(ps, 1.0)
    return [p.grad._version for p in ps]


@program
def clipping_nothing(m):
    return m.nn.utils.clip_grad_norm_((p for p in []), 1.0), m.nn.utils.clip_grad_norm([], 1.0)


@program
def norms_that_are_not_finite(m):
    ps = with_gradients(m)
    ps[0].grad[0, 0] = float("nan")
    return attempt(lambda: m.nn.utils.clip_grad_norm_(ps, 1.0, error_if_nonfinite=True)), m.nn.utils.clip_grad_norm_(
        ps, 1.0
    )


@program
def clipped_values(m):
    ps = with_gradients(m)
    m.nn.utils.clip_grad_value_(ps, 1.5)
    m.nn.utils.clip_grads_with_norm_(ps, 1.0, m.tensor(4.0))
    return [p.grad for p in ps]


@program
def vectors(m):
    ps = with_gradients(m)
    v = m.nn.utils.parameters_to_vector(ps)
    m.nn.utils.vector_to_parameters(v.detach() * m.arange(11.0), ps)
    return v.shape, list(ps), attempt(lambda: m.nn.utils.vector_to_parameters(3, ps))


# --- parametrizations -----------------------------------------------------------------------------


def symmetric(m):
    class Symmetric(m.nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).T

        def right_inverse(self, a):
            return a.triu()

    return Symmetric()


@program
def tensors_behind_a_parametrization(m):
    class Product(m.nn.Module):
        def forward(self, a, b):
            return a * b

        def right_inverse(self, x):
            return x.abs(), x.sign()

    class Double(m.nn.Module):
        def forward(self, a):
            return a * 2

    layers = [m.nn.Linear(2, 2), m.nn.Linear(2, 2)]
    for layer, made in zip(layers, (Product(), Double())):
        m.nn.utils.parametrize.register_parametrization(layer, "weight", made, unsafe=True)
    held = [layer.parametrizations.weight for layer in layers]
    return [[p.ntensors, p.is_tensor, [name for name, _ in p.named_parameters()]] for p in held]


@program
def parametrized(m):
    p = m.nn.utils.parametrize
    m.manual_seed(0)
    layer = m.nn.Linear(3, 3)
    weight = layer.weight
    p.register_parametrization(layer, "weight", symmetric(m))
    p.register_parametrization(layer, "bias", m.nn.Tanh())
    seen = [
        layer.weight.detach(),
        layer.parametrizations.weight.original is weight,
        repr(layer),
        list(layer.state_dict()),
    ]
    with p.cached():
        seen.append(layer.weight is layer.weight)
    layer.weight = m.ones(3, 3)
    seen += [layer.weight.detach(), attempt(lambda: setattr(layer, "bias", m.ones(3)))]
    layer(m.ones(1, 3)).sum().backward()
    seen += [
        gradients(layer),
        p.is_parametrized(layer),
        p.is_parametrized(layer, "x"),
        p.type_before_parametrizations(layer).__name__,
    ]
    other = copy.deepcopy(layer)
    seen += [other.weight.detach(), type(other).__name__, attempt(lambda: pickle.dumps(layer))]
    p.remove_parametrizations(layer, "weight")
    p.remove_parametrizations(layer, "bias", leave_parametrized=False)
    return (
        seen,
        layer.weight is weight,
        layer.weight.detach(),
        layer.bias.detach(),
        layer.weight.requires_grad,
        type(layer).__name__,
        repr(layer),
    )


@program
def parametrized_by_several(m):
    class Product(m.nn.Module):
        def forward(self, a, b):
            return a[:, None] * b

        def right_inverse(self, w):
            return w[:, 0].clone(), w[0].clone()

    p = m.nn.utils.parametrize
    layer = m.nn.Linear(2, 3)
    with m.no_grad():
        layer.weight.fill_(1.0)
    p.register_parametrization(layer, "weight", Product())
    seen = [list(layer.state_dict()), layer.weight.detach()]
    layer.weight = m.ones(3, 2) * 2
    seen += [
        layer.weight.detach(),
        attempt(lambda: p.remove_parametrizations(layer, "weight", leave_parametrized=False)),
    ]
    target = m.nn.Linear(2, 3)
    p.transfer_parametrizations_and_params(layer, target)
    seen += [target.weight.detach(), list(target.state_dict())]
    p.remove_parametrizations(layer, "weight")
    return seen, type(layer.weight).__name__, layer.weight


@program
def refused_parametrizations(m):
    p = m.nn.utils.parametrize

    def giving(result):
        class Bad(m.nn.Module):
            def forward(self, x):
                return result(x)

        return Bad()

    def inverse(result):
        class Bad(m.nn.Identity):
            def right_inverse(self, x):
                return result(x)

        return Bad()

    bad = [
        giving(lambda x: x[:2]),
        giving(lambda x: x.double()),
        giving(lambda x: 3),
        inverse(lambda x: 3),
        inverse(lambda x: x.double()),
        inverse(lambda x: [3]),
    ]
    seen = []
    for first in (True, False):
        for b in bad:
            layer = m.nn.Linear(3, 3)
            if not first:
                p.register_parametrization(layer, "weight", m.nn.Identity())
            seen.append(attempt(lambda layer=layer, b=b: bool(p.register_parametrization(layer, "weight", b))))
    layer = m.nn.Linear(1, 1)
    return (
        seen,
        attempt(lambda: p.register_parametrization(layer, "x", m.nn.Identity())),
        attempt(lambda: p.remove_parametrizations(layer, "bias")),
        attempt(lambda: p.ParametrizationList([], layer.weight)),
    )


@pytest.mark.parametrize("kind", [None, "matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2)])
def test_orthogonal(kind, shape, same):
    def program(m):
        m.manual_seed(0)
        layer = m.nn.Linear(*shape).double()
        m.nn.utils.parametrizations.orthogonal(layer, orthogonal_map=kind)
        weighted(layer(numbers(m, 2, shape[0]))).backward()
        return layer.weight.detach(), gradients(layer), list(layer.state_dict()), repr(layer)

    same(program, f"orthogonal-{kind}-{shape}")


@program
def orthogonal_without_trivialization(m):
    make = m.nn.utils.parametrizations.orthogonal
    m.manual_seed(0)
    layer = make(m.nn.Linear(3, 3).double(), orthogonal_map="householder", use_trivialization=False)
    skew = make(m.nn.Linear(3, 3).double(), orthogonal_map="cayley", use_trivialization=False)
    return (
        layer.weight.detach(),
        skew.weight.detach(),
        attempt(lambda: setattr(skew, "weight", m.eye(3).double())),
        attempt(lambda: make(m.nn.Linear(2, 2), "x")),
        attempt(lambda: make(m.nn.Linear(2, 2), "bias")),
        attempt(lambda: make(m.nn.Linear(2, 2), orthogonal_map="x")),
    )


@program
def weight_norms(m):
    make = m.nn.utils.parametrizations.weight_norm
    seen = []
    for dim in (0, 1, None):
        m.manual_seed(0)
        layer = make(m.nn.Linear(3, 4).double(), dim=dim)
        weighted(layer(numbers(m, 2, 3))).backward()
        seen += [layer.weight.detach(), gradients(layer), [v.shape for v in layer.state_dict().values()]]
    old = {"bias": m.zeros(4), "weight_g": m.ones(4, 1), "weight_v": m.ones(4, 3)}
    layer = make(m.nn.Linear(3, 4))
    layer.load_state_dict(old)
    return seen, layer.weight.detach()


@program
def older_weight_norms(m):
    m.manual_seed(0)
    u = m.nn.utils
    layer = u.weight_norm(m.nn.Linear(3, 4))
    weighted(layer(m.ones(2, 3))).backward()
    seen = [
        list(layer.state_dict()),
        gradients(layer),
        layer.weight.detach(),
        attempt(lambda: quietly(lambda: u.weight_norm(layer))),
    ]
    u.remove_weight_norm(layer)
    return (seen, list(layer.state_dict()), layer.weight, attempt(lambda: u.remove_weight_norm(layer)))


@program
def spectral_norms(m):
    make = m.nn.utils.parametrizations.spectral_norm
    m.manual_seed(0)
    layer = make(m.nn.Linear(3, 4).double(), n_power_iterations=2)
    seen = [list(layer.state_dict().items())]
    for _ in range(2):
        weighted(layer(numbers(m, 2, 3))).backward()
    seen += [gradients(layer), layer.eval().weight.detach()]
    flat = make(m.nn.LayerNorm(3))
    conv = make(m.nn.ConvTranspose1d(2, 3, 2))
    return (
        seen,
        flat.weight.detach(),
        conv.parametrizations.weight[0]._u.shape,
        conv.parametrizations.weight[0].dim,
        attempt(lambda: make(m.nn.Linear(1, 1), dim=3)),
        attempt(lambda: make(m.nn.Linear(1, 1), n_power_iterations=0)),
        attempt(lambda: make(m.nn.Linear(1, 1), "x")),
    )


@program
def older_spectral_norms(m):
    u = m.nn.utils
    m.manual_seed(0)
    layer = u.spectral_norm(m.nn.Conv1d(2, 3, 2).double())
    out = layer(numbers(m, 1, 2, 3))
    weighted(out).backward()
    state = layer.state_dict()
    seen = [out.detach(), list(state.items()), dict(state._metadata[""]), gradients(layer)]
    again = u.spectral_norm(m.nn.Conv1d(2, 3, 2).double())
    seen.append(again.load_state_dict(state))
    seen.append(attempt(lambda: u.spectral_norm(layer)))
    u.remove_spectral_norm(layer)
    return seen, list(layer.state_dict()), attempt(lambda: u.remove_spectral_norm(layer))


# --- the rest -------------------------------------------------------------------------------------


@program
def fused(m):
    m.manual_seed(0)
    u = m.nn.utils
    conv, norm = (m.nn.Conv2d(2, 3, 2, bias=False).double().eval(), m.nn.BatchNorm2d(3).double().eval())
    norm.running_mean.fill_(0.3)
    norm.running_var.fill_(2.0)
    back = m.nn.ConvTranspose2d(2, 3, 2).double().eval()
    linear, flat = m.nn.Linear(2, 3).double().eval(), m.nn.BatchNorm1d(3).double().eval()
    x = numbers(m, 1, 2, 3, 3)
    return (
        u.fuse_conv_bn_eval(conv, norm)(x).detach(),
        u.fuse_conv_bn_eval(back, norm, True)(x).detach(),
        u.fuse_linear_bn_eval(linear, flat)(numbers(m, 2, 2)).detach(),
        attempt(lambda: u.fuse_conv_bn_eval(conv.train(), norm)),
        attempt(lambda: u.fuse_linear_bn_eval(m.nn.Linear(2, 2).eval(), flat)),
    )


@program
def memory_formats(m):
    net = m.nn.Sequential(m.nn.Conv2d(2, 3, 2), m.nn.Conv3d(1, 2, 2))
    m.nn.utils.convert_conv2d_weight_memory_format(net, m.channels_last)
    return net[0].weight.stride(), net[1].weight.stride()


@program
def called_with_other_parameters(m):
    layer = m.nn.Linear(2, 2)
    weights = {"weight": m.eye(2), "bias": m.ones(2)}
    out = quietly(lambda: m.nn.utils.stateless.functional_call(layer, weights, m.ones(1, 2)))
    return out, layer.weight is not weights["weight"]
