"""Rows of torch.autograd.graph: nodes, edges, hooks and saved tensors."""

from tests.autograd.page.rows import Rows, leaf, text_of_error

GRAPH = Rows()


@GRAPH("Node.name: example")
def name(m):
    b = leaf(m, 0, 0, 0).clone()
    return isinstance(b.grad_fn, m.autograd.graph.Node), b.grad_fn.name()


@GRAPH("Node.register_hook(fn): example")
def register_hook(m):
    a = leaf(m, 0, 0, 0)
    b = a.clone()
    fn = lambda gI, gO: (gO[0] * 2,)  # noqa: E731
    handle = b.grad_fn.register_hook(fn)
    b.sum().backward(retain_graph=True)
    first, a.grad = a.grad, None
    handle.remove()
    b.sum().backward(retain_graph=True)
    return first, a.grad


@GRAPH("Node.register_prehook(fn): example")
def register_prehook(m):
    a = leaf(m, 0, 0, 0)
    b = a.clone()
    fn = lambda gI: (gI[0] * 2,)  # noqa: E731
    handle = b.grad_fn.register_prehook(fn)
    b.sum().backward(retain_graph=True)
    first, a.grad = a.grad, None
    handle.remove()
    b.sum().backward(retain_graph=True)
    return first, a.grad


@GRAPH("Node.metadata, Node.next_functions")
def node(m):
    y = leaf(m, 1) * leaf(m, 2)
    y.grad_fn.metadata["key"] = 3
    return y.grad_fn.metadata, [(n.name(), i) for n, i in y.grad_fn.next_functions]


@GRAPH(
    "GradientEdge(node, output_nr, ownership_token), GradientEdge.node, GradientEdge.output_nr, "
    "GradientEdge.ownership_token, get_gradient_edge(tensor)"
)
def edges(m):
    x = leaf(m, 1, 2)
    y = x * 3
    edge = m.autograd.graph.get_gradient_edge(tensor=y)
    made = m.autograd.graph.GradientEdge(node=y.grad_fn, output_nr=0, ownership_token=None)
    refused = text_of_error(lambda: m.autograd.graph.get_gradient_edge(m.ones(1)))
    gradients = m.autograd.grad((y**2).sum(), [edge, made, m.autograd.graph.get_gradient_edge(x)])
    return edge.node is y.grad_fn, edge.output_nr, edge.ownership_token is None, gradients, refused


@GRAPH("saved_tensors_hooks: example")
def saved_tensors_hooks(m):
    seen = []
    a, b = m.ones(5, requires_grad=True), m.ones(5, requires_grad=True) * 2

    def pack(x):
        seen.append(("Packing", x.detach()))
        return x.detach()

    def unpack(x):
        seen.append(("Unpacking", x))
        return x

    with m.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = a * b
    y.sum().backward()
    return seen, a.grad


@GRAPH("saved_tensors_hooks(pack_hook, unpack_hook)")
def saved_tensors_hooks_by_name(m):
    a = leaf(m, 1, 2)
    with m.autograd.graph.saved_tensors_hooks(pack_hook=lambda x: x.tolist(), unpack_hook=m.tensor):
        y = a.exp()
    y.sum().backward()
    return a.grad


@GRAPH("save_on_cpu: example")
def save_on_cpu(m):
    a, b, c = leaf(m, 1, 2), leaf(m, 3, 4), leaf(m, 5, 6)
    prod_1 = a * b
    with m.autograd.graph.save_on_cpu():
        prod_2 = prod_1 * c
    (prod_2 * a).sum().backward()
    return a.grad, b.grad, c.grad


@GRAPH("save_on_cpu(pin_memory, device_type)")
def save_on_cpu_options(m):
    a = leaf(m, 1, 2)
    with m.autograd.graph.save_on_cpu(pin_memory=False, device_type="cuda"):
        y = a.exp()
    y.sum().backward()
    return a.grad


@GRAPH("disable_saved_tensors_hooks(error_message): example")
def disable_saved_tensors_hooks(m):
    graph, message = m.autograd.graph, "saved tensors default hooks are disabled"

    def enter():
        with graph.disable_saved_tensors_hooks(error_message=message), graph.save_on_cpu():
            pass

    return text_of_error(enter)


@GRAPH("allow_mutation_on_saved_tensors: example")
def allow_mutation_on_saved_tensors(m):
    with m.autograd.graph.allow_mutation_on_saved_tensors():
        a = m.ones(2, 3, requires_grad=True)
        b = a.clone()
        out = (b**2).sum()
        b.sin_()
        out.sum().backward()
    return b, a.grad


@GRAPH("register_multi_grad_hook(tensors, fn): example")
def register_multi_grad_hook(m):
    a, b, seen = leaf(m, 1, 2), leaf(m, 3, 4), []
    c, d = a * b, a * b

    def hook(grads):
        seen.append([g is not None for g in grads])

    handle = m.autograd.graph.register_multi_grad_hook(tensors=(a, b, c, d), fn=hook)
    c.sum().backward(retain_graph=True)
    c.sum().backward(inputs=(a,), retain_graph=True)
    handle.remove()
    c.sum().backward()
    return seen


@GRAPH("register_multi_grad_hook(mode)")
def register_multi_grad_hook_any(m):
    a, b, seen = leaf(m, 1, 2), leaf(m, 3, 4), []
    m.autograd.graph.register_multi_grad_hook((a, b), seen.append, mode="any")
    (a * 1).sum().backward()
    return seen, text_of_error(lambda: m.autograd.graph.register_multi_grad_hook((a,), print, mode="some"))


@GRAPH("increment_version(tensor)")
def increment_version(m):
    a, b = m.ones(2), m.ones(3)
    m.autograd.graph.increment_version(tensor=a)
    m.autograd.graph.increment_version([a, b])
    x = leaf(m, 1)
    y = x * 1
    z = y.exp()
    m.autograd.graph.increment_version(z)
    return a._version, b._version, text_of_error(z.backward)


@GRAPH("region_activation_memory_budget(budget): example")
def region_activation_memory_budget(m):
    """Outside of a compiled function torch refuses it."""
    region = m.autograd.graph.region_activation_memory_budget
    return [text_of_error(lambda b=b: region(budget=b).__enter__()) for b in (0.0, 2.0)]


@GRAPH("set_override_stale_capture_stream(enabled), set_warn_on_accumulate_grad_stream_mismatch(enabled)")
def streams(m):
    graph = m.autograd.graph
    seen = [graph.set_override_stale_capture_stream(enabled=False)]
    seen += [graph.set_warn_on_accumulate_grad_stream_mismatch(enabled=flag) for flag in (False, True)]
    return seen
