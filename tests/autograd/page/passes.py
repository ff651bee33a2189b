"""Rows of torch.autograd: passes, modes, anomaly mode, forward mode, and what tensors do in them."""

from tests.autograd.page.rows import Rows, leaf, text_of_error

AUTOGRAD, MODES, FORWARD, TENSORS = Rows(), Rows(), Rows(), Rows()


# --- passes ---------------------------------------------------------------------------------------


@AUTOGRAD("backward(tensors, grad_tensors)")
def backward(m):
    x = leaf(m, 1, 2)
    m.autograd.backward(tensors=[x * 3, x.sum()], grad_tensors=[m.tensor([1.0, 10.0]), None])
    return x.grad


@AUTOGRAD("backward(grad_variables)")
def backward_old_name(m):
    x = leaf(m, 1, 2)
    m.autograd.backward(x * 3, grad_variables=m.tensor([1.0, 10.0]))
    return x.grad


@AUTOGRAD("backward(retain_graph)")
def backward_twice(m):
    x = leaf(m, 1, 2)
    y = x.exp().sum()
    m.autograd.backward(y, retain_graph=True)
    m.autograd.backward(y, retain_graph=False)
    return x.grad, text_of_error(lambda: m.autograd.backward(y))


@AUTOGRAD("backward(create_graph)")
def backward_recorded(m):
    x = leaf(m, 1, 2)
    m.autograd.backward(x.pow(3).sum(), create_graph=True)
    recorded, x.grad = x.grad, None
    return recorded.requires_grad, m.autograd.grad(recorded.sum(), x)


@AUTOGRAD("backward(inputs)")
def backward_into_some(m):
    x, y = leaf(m, 1), leaf(m, 2)
    z = x * y
    m.autograd.backward(z * z, inputs=[y, z])
    return x.grad, y.grad, z.grad


@AUTOGRAD("grad(outputs, inputs)")
def grad(m):
    x, y = leaf(m, 1, 2), leaf(m, 3)
    z = (x * y).sum()
    named = m.autograd.grad(outputs=x * y, inputs={"y": y}, grad_outputs=m.ones(2))
    return m.autograd.grad(outputs=[z, x.sum()], inputs=[x, y]), named, x.grad


@AUTOGRAD("grad(grad_outputs)")
def grad_outputs(m):
    x = leaf(m, 1, 2)
    return m.autograd.grad(x * 3, x, grad_outputs=m.tensor([1.0, 10.0]))


@AUTOGRAD("grad(retain_graph)")
def grad_twice(m):
    x = leaf(m, 1, 2)
    y = x.exp().sum()
    first = m.autograd.grad(y, x, retain_graph=True)
    return first, m.autograd.grad(y, x), text_of_error(lambda: m.autograd.grad(y, x))


@AUTOGRAD("grad(create_graph)")
def grad_recorded(m):
    x = leaf(m, 1, 2)
    (g,) = m.autograd.grad(x.pow(3).sum(), x, create_graph=True)
    return g.requires_grad, m.autograd.grad(g.sum(), x)


@AUTOGRAD("grad(only_inputs)")
def grad_of_inputs_alone(m):
    x = leaf(m, 1)
    return m.autograd.grad(x * 2, x, only_inputs=False), x.grad


@AUTOGRAD("grad(allow_unused, materialize_grads)")
def grad_of_unused(m):
    x, y = leaf(m, 1), leaf(m, 2)
    return (
        m.autograd.grad(x * 2, [x, y], allow_unused=True),
        m.autograd.grad(x * 2, [x, y], materialize_grads=True),
        text_of_error(lambda: m.autograd.grad(x * 2, [x, y], allow_unused=False)),
        text_of_error(lambda: m.autograd.grad(x * 2, [x, y], allow_unused=False, materialize_grads=True)),
    )


@AUTOGRAD("grad(is_grads_batched)")
def grad_of_batch(m):
    x = leaf(m, 1, 2)
    return m.autograd.grad(x * x, x, grad_outputs=m.eye(2), is_grads_batched=True)


@AUTOGRAD("Variable")
def variable(m):
    x = m.autograd.Variable(m.ones(2), requires_grad=True)
    return isinstance(x, m.autograd.Variable), type(x) is m.Tensor, x


AUTOGRAD["variable"] = lambda m: text_of_error(lambda: m.autograd.variable(1))
AUTOGRAD["grad_mode"] = lambda m: m.autograd.grad_mode.no_grad is m.autograd.no_grad is m.no_grad


# --- anomaly mode ---------------------------------------------------------------------------------


def failing(m):
    class Fails(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            raise RuntimeError("Some error in backward")

    return Fails


def first_texts(m, begin):
    """What anomaly mode warns of begins with the node's name; the lines of the program follow."""
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with begin():
            raised = text_of_error(failing(m).apply(m.ones(2, requires_grad=True)).sum().backward)
    return raised, [str(w.message).partition(".")[0] for w in caught]


AUTOGRAD["detect_anomaly: example"] = lambda m: first_texts(m, lambda: m.autograd.detect_anomaly())
AUTOGRAD["set_detect_anomaly(mode)"] = lambda m: [
    first_texts(m, lambda mode=mode: m.autograd.set_detect_anomaly(mode=mode)) for mode in (True, False)
]


def nan_in_backward(m, mode):
    import warnings

    x = leaf(m, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with mode:
            return text_of_error(lambda: m.autograd.grad((x.sqrt() * 0).sum(), x))


AUTOGRAD["detect_anomaly(check_nan)"] = lambda m: [
    nan_in_backward(m, m.autograd.detect_anomaly(check_nan=check)) for check in (True, False)
]
AUTOGRAD["set_detect_anomaly(check_nan)"] = lambda m: [
    nan_in_backward(m, m.autograd.set_detect_anomaly(True, check_nan=check)) for check in (True, False)
]


# --- modes ----------------------------------------------------------------------------------------


@MODES("no_grad: example")
def no_grad(m):
    x = leaf(m, 1)
    with m.no_grad():
        y = x * 2
        p = m.nn.Parameter(m.ones(2))
    called, bare = m.no_grad()(lambda t: t * 2)(x), m.no_grad(lambda t: t * 3)(x)
    return y, called, bare, p.requires_grad


@MODES("enable_grad: example")
def enable_grad(m):
    x = leaf(m, 1)
    with m.no_grad():
        with m.enable_grad():
            y = x * 2
        called = m.enable_grad()(lambda t: t * 2)(x)
    y.backward()
    return y, x.grad, called


@MODES("enable_grad(orig_func)")
def enable_grad_of_a_function(m):
    x = leaf(m, 1)
    with m.no_grad():
        return m.enable_grad(orig_func=lambda t: t * 3)(x)


@MODES("set_grad_enabled: example")
def set_grad_enabled(m):
    x = leaf(m, 1)
    with m.set_grad_enabled(False):
        y = x * 2
    seen = [y.requires_grad]
    for mode in (False, True):
        m.set_grad_enabled(mode)
        seen.append((x * 2).requires_grad)
    return seen


MODES["set_grad_enabled(mode)"] = lambda m: m.set_grad_enabled(mode=False)(lambda t: (t * 2).requires_grad)(leaf(m, 1))


@MODES("inference_mode: example")
def inference_mode(m):
    x = m.ones(1, 2, 3, requires_grad=True)
    with m.inference_mode():
        y = x * x
    called, bare = m.inference_mode()(lambda t: t * t)(x), m.inference_mode(lambda t: t * t)(x)
    return y.requires_grad, text_of_error(lambda: y._version), called.requires_grad, bare.is_inference()


@MODES("inference_mode(mode)")
def inference_mode_off(m):
    with m.inference_mode(), m.inference_mode(mode=False):
        return m.is_inference_mode_enabled(), (leaf(m, 1) * 2).requires_grad


@MODES("set_multithreading_enabled(mode)")
def set_multithreading_enabled(m):
    seen = []
    for mode in (False, True):
        with m.autograd.set_multithreading_enabled(mode=mode):
            x = leaf(m, 1, 2)
            (x * x).sum().backward()
            seen += [m.autograd.is_multithreading_enabled(), x.grad]
    return seen


@MODES("enforce_grad_layout_policy: example")
def enforce_grad_layout_policy(m):
    p = m.zeros(2, 3, 4).permute(2, 0, 1).requires_grad_()
    with m.autograd.enforce_grad_layout_policy(False):
        (p * 2).sum().backward()
    return p.grad


@MODES("enforce_grad_layout_policy(enable)")
def enforce_grad_layout(m):
    p = m.zeros(2, 3).t().requires_grad_()
    with m.autograd.enforce_grad_layout_policy(enable=True):
        (p * 2).sum().backward()
    return p.grad, p.grad.stride()


@MODES("set_grad_enabled.clone")
def modes_are_cloned(m):
    x = leaf(m, 1)
    at_once = m.autograd.set_multithreading_enabled, m.autograd.enforce_grad_layout_policy, m.set_grad_enabled
    seen = []
    for make in (
        m.no_grad, m.enable_grad, lambda: m.inference_mode(False), m.autograd.forward_ad.dual_level,
        lambda: m.autograd.set_multithreading_enabled(False), lambda: m.autograd.enforce_grad_layout_policy(False),
        lambda: m.set_grad_enabled(False),
    ):  # fmt: skip
        mode = make()
        copy = mode.clone()
        with copy:
            seen.append((type(copy).__name__, copy is mode, (x * 2).requires_grad))
        if isinstance(mode, at_once):  # it is on from when it was made
            mode.__exit__(None, None, None)
    return seen


# --- forward mode ---------------------------------------------------------------------------------


@FORWARD("dual_level: example")
def dual_level(m):
    fw = m.autograd.forward_ad
    with fw.dual_level():
        out = fw.make_dual(m.tensor([1.0, 2.0]), m.tensor([1.0, 10.0])).exp()
        inside = fw.unpack_dual(out).tangent
    return inside, fw.unpack_dual(out).tangent


@FORWARD("make_dual: example")
def make_dual(m):
    fw = m.autograd.forward_ad
    with fw.dual_level():
        y, jvp = fw.unpack_dual(fw.make_dual(m.tensor([2.0]), m.tensor([3.0])) ** 2)
    return y, jvp


@FORWARD("make_dual(tensor, tangent, level)")
def make_dual_of_level(m):
    fw = m.autograd.forward_ad
    with fw.dual_level() as level:
        x = fw.make_dual(tensor=m.tensor([2.0]), tangent=m.tensor([3.0]), level=level)
        bad = text_of_error(lambda: fw.make_dual(m.tensor([1]), m.tensor([1])))
        return level, fw.unpack_dual(x), bad


@FORWARD("unpack_dual: example")
def unpack_dual(m):
    fw = m.autograd.forward_ad
    with fw.dual_level():
        out = fw.make_dual(m.tensor([2.0]), m.tensor([3.0])).sin()
        y, jvp = fw.unpack_dual(out)
        return y, jvp, fw.unpack_dual(out).tangent, fw.unpack_dual(m.ones(1))


@FORWARD("unpack_dual(tensor, level)")
def unpack_dual_of_level(m):
    fw = m.autograd.forward_ad
    with fw.dual_level() as level:
        return fw.unpack_dual(tensor=fw.make_dual(m.tensor([2.0]), m.tensor([3.0])), level=level)


@FORWARD("exit_dual_level(level), enter_dual_level")
def levels_by_hand(m):
    fw = m.autograd.forward_ad
    level = fw.enter_dual_level()
    x = fw.make_dual(m.tensor([2.0]), m.tensor([3.0]))
    inside = fw.unpack_dual(x).tangent
    fw.exit_dual_level(level=level)
    return level, inside, fw.unpack_dual(x).tangent, text_of_error(fw.exit_dual_level)


@FORWARD("UnpackedDualTensor(primal, tangent), UnpackedDualTensor.primal, UnpackedDualTensor.tangent")
def unpacked(m):
    pair = m.autograd.forward_ad.UnpackedDualTensor(primal=m.ones(1), tangent=None)
    return pair.primal, pair.tangent, pair._fields


# --- what tensors do ------------------------------------------------------------------------------


@TENSORS("Tensor.grad, Tensor.requires_grad, Tensor.is_leaf")
def attributes(m):
    x = leaf(m, 1, 2)
    before, y = x.grad, x * 2
    y.sum().backward()
    return before, x.grad, (x.requires_grad, y.requires_grad), (x.is_leaf, y.is_leaf)


@TENSORS("Tensor.backward(gradient, retain_graph, create_graph, inputs)")
def tensor_backward(m):
    x, w = leaf(m, 1, 2), leaf(m, 3, 4)
    y = x * x * w
    y.backward(gradient=m.tensor([1.0, 10.0]), retain_graph=True, inputs=[x])
    y.backward(gradient=m.ones(2), create_graph=True, inputs=[w])
    return x.grad, w.grad.detach(), w.grad.requires_grad


@TENSORS("Tensor.detach, Tensor.detach_")
def detach(m):
    x = leaf(m, 1, 2)
    y = x * 2
    d = y.detach()
    d.add_(1)
    return d, y, y.detach_(), y.is_leaf


@TENSORS("Tensor.register_hook, Tensor.retain_grad, Tensor.register_post_accumulate_grad_hook")
def tensor_hooks(m):
    x, seen = leaf(m, 1, 2), []
    y = x * 2
    y.retain_grad()
    handle = y.register_hook(lambda g: g * 10)
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    y.sum().backward(retain_graph=True)
    handle.remove()
    y.sum().backward()
    return x.grad, y.grad, seen
