"""State dictionaries by parameter name, of models and of optimizers, and models inside of DataParallel."""

import importlib

from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()


def by_name(m):
    return importlib.import_module(m.__name__ + ".distributed.checkpoint.state_dict")


def model(m):
    m.manual_seed(0)
    net = m.nn.Sequential(m.nn.Linear(2, 3), m.nn.BatchNorm1d(3), m.nn.Linear(3, 1))
    net[0].bias.requires_grad_(False)
    return net


def compiled(m, net):
    net[0] = m.compile(net[0], backend="eager") if m.__name__ == "torch" else m.compile(net[0])
    return net


def stepped(m, net, kind="Adam", **options):
    optim = getattr(m.optim, kind)(net.parameters(), 0.1, **options)
    net.eval()
    net(m.ones(4, 2) * m.arange(4.0)[:, None]).square().sum().backward()
    optim.step()
    return optim


def seen(state):
    return [(k, v.requires_grad, v) for k, v in state.items()]


@program
def of_a_model(m):
    net = model(m)
    state = by_name(m).get_model_state_dict(net)
    return (seen(state), state["0.weight"].data_ptr() == net[0].weight.data_ptr(), hasattr(state, "_metadata"))


@program
def of_a_model_with_a_compiled_layer(m):
    net = compiled(m, model(m))
    return list(net.state_dict()), list(by_name(m).get_model_state_dict(net))


@program
def without_frozen_parameters(m):
    options = by_name(m).StateDictOptions(ignore_frozen_params=True)
    return list(by_name(m).get_model_state_dict(model(m), options=options))


@program
def whole_and_on_the_cpu(m):
    options = by_name(m).StateDictOptions(full_state_dict=True, cpu_offload=True)
    state = by_name(m).get_model_state_dict(model(m), options=options)
    return type(state).__name__, hasattr(state, "_metadata"), list(state)


@program
def read_back(m):
    net, other = model(m), model(m)
    for p in net.parameters():
        p.data.mul_(2)
    found = by_name(m).set_model_state_dict(other, by_name(m).get_model_state_dict(net))
    return list(found), seen(other.state_dict())


@program
def read_into_a_compiled_layer(m):
    net, other = model(m), compiled(m, model(m))
    state = net.state_dict()
    state["0.weight"] = state["0.weight"] * 2
    by_name(m).set_model_state_dict(other, state)
    return list(state), other[0].weight


@program
def missing_names(m):
    sd = by_name(m)
    one = {"0.weight": m.ones(3, 2)}
    loose = sd.set_model_state_dict(model(m), dict(one), options=sd.StateDictOptions(strict=False))
    full, net = dict(one), model(m)
    filled = sd.set_model_state_dict(net, full, options=sd.StateDictOptions(full_state_dict=True))
    return (
        list(loose),
        list(filled),
        list(full),
        net[0].weight,
        complaint(lambda: sd.set_model_state_dict(model(m), one)),
    )


@program
def read_into_a_layer_without_memory(m):
    sd, net = by_name(m), model(m)
    other = model(m)
    other[2] = m.nn.Linear(3, 1, device="meta")
    sd.set_model_state_dict(other, net.state_dict(), options=sd.StateDictOptions(full_state_dict=True))
    return [str(p.device) for p in other.parameters()], other(m.ones(2, 2))


@program
def rank_0_alone(m):
    options = by_name(m).StateDictOptions(broadcast_from_rank0=True)
    return complaint(lambda: by_name(m).get_model_state_dict(model(m), options=options))


@program
def of_an_optimizer(m):
    net = model(m)
    optim = stepped(m, net)
    return by_name(m).get_optimizer_state_dict(net, optim)


@program
def of_an_optimizer_that_made_no_step(m):
    net = model(m)
    optim = m.optim.Adam(net.parameters(), 0.1)
    state = by_name(m).get_optimizer_state_dict(net, optim)
    return state, optim.param_groups[0]["lr"], net[0].weight, net[0].weight.grad


@program
def flat(m):
    sd, net = by_name(m), model(m)
    optim = stepped(m, net, "SGD", momentum=0.9)
    options = sd.StateDictOptions(flatten_optimizer_state_dict=True)
    state = sd.get_optimizer_state_dict(net, optim, options=options)
    other = m.optim.SGD(model(m).parameters(), 0.5, momentum=0.5)
    net2 = model(m)
    other = m.optim.SGD(net2.parameters(), 0.5, momentum=0.5)
    sd.set_optimizer_state_dict(net2, other, state, options=options)
    return state, other.state_dict()


@program
def two_optimizers(m):
    sd, net = by_name(m), model(m)
    first = m.optim.Adam(net[0].parameters(), 0.1)
    second = m.optim.SGD([{"params": net[1].parameters()}, {"params": net[2].parameters(), "lr": 3.0}], 0.2)
    net(m.ones(4, 2) * m.arange(4.0)[:, None]).square().sum().backward()
    first.step()
    second.step()
    both = sd.get_optimizer_state_dict(net, [first, second])
    other = model(m)
    again = m.optim.Adam([other[0].bias, other[0].weight], 0.7)
    sd.set_optimizer_state_dict(other, again, both)
    return both, again.state_dict()


@program
def shared_parameters(m):
    sd = by_name(m)
    m.manual_seed(0)
    net = m.nn.Sequential(m.nn.Linear(2, 2), m.nn.Linear(2, 2))
    net[1].weight = net[0].weight
    optim = stepped(m, net)
    state = sd.get_optimizer_state_dict(net, optim)
    other = m.optim.Adam(net.parameters(), 0.5)
    sd.set_optimizer_state_dict(net, other, state)
    return list(state["state"]), state["param_groups"][0]["params"], other.state_dict()


@program
def states_that_are_missing(m):
    sd, net = by_name(m), model(m)
    state = sd.get_optimizer_state_dict(net, stepped(m, net))
    state["state"].pop("2.bias")
    other = model(m)
    optim = m.optim.Adam(other.parameters(), 0.5)
    strict = complaint(lambda: sd.set_optimizer_state_dict(other, optim, state))
    sd.set_optimizer_state_dict(other, optim, state, options=sd.StateDictOptions(strict=False))
    loose = optim.state_dict()["state"]
    optim = m.optim.Adam(other.parameters(), 0.5)
    options = sd.StateDictOptions(strict=False, full_state_dict=True)
    sd.set_optimizer_state_dict(other, optim, state, options=options)
    return strict, sorted(loose), optim.state_dict()


@program
def both_at_once(m):
    sd, net = by_name(m), model(m)
    optim = stepped(m, net)
    a, b = sd.get_state_dict(net, optim)
    other = model(m)
    again = m.optim.Adam(other.parameters(), 0.5)
    found = sd.set_state_dict(other, again, model_state_dict=a, optim_state_dict=b)
    return list(found), seen(other.state_dict()), again.state_dict()


@program
def nothing_given(m):
    sd = by_name(m)
    return (sd.get_state_dict(model(m), [])[1], complaint(lambda: sd.get_optimizer_state_dict(model(m), [])))


@program
def data_parallel(m):
    net = m.nn.DataParallel(model(m))
    out = net(m.ones(4, 2))
    out.sum().backward()
    subscripted = isinstance(net, m.nn.DataParallel[m.nn.Linear].__origin__)
    return (repr(net), list(net.state_dict()), net.device_ids, out, net.module[2].bias.grad, subscripted)


@program
def data_parallel_by_name(m):
    class Two(m.nn.Module):
        def forward(self, x, *, scale=1):
            return {"x": x * scale}

    return m.nn.DataParallel(Two(), dim=1)(m.ones(2), scale=3), complaint(
        lambda: m.nn.parallel.data_parallel(Two(), m.ones(2))
    )


@program
def of_a_module_in_one_process(m):
    sd, d = by_name(m), m.distributed
    d.init_process_group("gloo", rank=0, world_size=1, store=d.HashStore())
    try:
        net = m.nn.parallel.DistributedDataParallel(model(m))
        optim = m.optim.SGD(net.parameters(), 0.1, momentum=0.9)
        state, of_optim = sd.get_state_dict(net, optim)
        names = list(state)
        state["2.bias"] = state["2.bias"] + 1
        found = sd.set_state_dict(net, optim, model_state_dict=state, optim_state_dict=of_optim)
        return (
            names,
            list(state),
            list(found),
            of_optim["param_groups"],
            net.module[2].bias.tolist(),
            list(net.state_dict()),
        )
    finally:
        d.destroy_process_group()
