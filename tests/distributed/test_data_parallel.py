"""DistributedDataParallel of two processes, step by step as torch's with gloo."""

import copy
import importlib
import pickle
import warnings

from . import pipelines
from .processes import Together, complaint

together = Together(2)
test_same_as_torch = together.test()


def model(m, d, seed=0):
    """Three layers, with other numbers in each process."""
    m.manual_seed(seed)
    net = m.nn.Sequential(m.nn.Linear(3, 4), m.nn.BatchNorm1d(4), m.nn.Tanh(), m.nn.Linear(4, 2))
    with m.no_grad():
        for i, t in enumerate([*net.parameters(), net[1].running_mean]):
            n = t.numel()
            t.copy_(((m.arange(n) * 7 + i) % 5 - 2.0).reshape(t.shape) / 3 + d.get_rank())
    return net


def batch(m, d, step=0):
    return ((m.arange(12) * (3 + step) + 5 * d.get_rank()) % 7 - 3.0).reshape(4, 3) / 3


def wrap(m, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return m.nn.parallel.DistributedDataParallel(*args, **kwargs)


def branches(m, d):
    class Branches(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = (m.nn.Linear(2, 2) for _ in range(3))

        def forward(self, x, which):
            return sum(getattr(self, name)(x) for name in which)

    net = Branches()
    with m.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(m.arange(p.numel()).reshape(p.shape) / 4.0 + i)
    return net


def gradients(net):
    return [p.grad if p.grad is None else p.grad.clone() for p in net.parameters()]


OPTIONS = {
    "plain": {},
    "small buckets": {"bucket_cap_mb": 1e-6},
    "views": {"gradient_as_bucket_view": True},
    "static": {"static_graph": True},
    "unused": {"find_unused_parameters": True},
    "own buffers": {"broadcast_buffers": False},
    "buffers at first": {"forward_sync_buffers": False},
}


@together
def training_step_by_step(m, d):
    found = {}
    for name, options in OPTIONS.items():
        options = dict(options)
        if name == "small buckets" and m.__name__ == "torch":
            options["bucket_cap_mb"] = 1  # torch's are whole numbers
        net = model(m, d)
        ddp = wrap(m, net, **options)
        optimizer = m.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
        steps = [[t.clone() for t in net.state_dict().values()]]
        for step in range(3):
            optimizer.zero_grad(set_to_none=step != 1)
            loss = (ddp(batch(m, d, step)) ** 2).mean()
            loss.backward()
            optimizer.step()
            steps.append([loss.detach(), gradients(net), [t.clone() for t in net.state_dict().values()]])
        found[name] = steps
    return found


@together
def gradients_that_add_up_in_one_process(m, d):
    net = model(m, d)
    ddp = wrap(m, net)
    found = []
    with ddp.no_sync():
        ddp(batch(m, d)).sum().backward()
        found.append(gradients(net))
    ddp(batch(m, d, 1)).sum().backward()
    found.append(gradients(net))
    ddp(batch(m, d, 2)).sum().backward()
    found.append(gradients(net))
    ddp.eval()
    with m.no_grad():
        found.append(ddp(batch(m, d)))
    x = ddp(batch(m, d)).sum() + ddp(batch(m, d, 1)).sum()
    x.backward()
    return found, gradients(net), ddp.require_backward_grad_sync, sorted(ddp.state_dict())


@together
def parameters_without_a_gradient(m, d):
    found = {}
    x = m.ones(1, 2) * (d.get_rank() + 1)
    uses = (["ab", "a"], ["b", "b"], ["abc", "abc"], ["a", "c"])
    for views in (False, True):
        net = branches(m, d)
        ddp = wrap(m, net, find_unused_parameters=True, gradient_as_bucket_view=views)
        for use in uses:
            ddp(x, use[d.get_rank()]).sum().backward()
            found[views, str(use)] = gradients(net)
    return found


@together
def a_graph_that_stays_the_same(m, d):
    net = branches(m, d)
    ddp = wrap(m, net, static_graph=True)
    found = []
    for _ in range(2):
        ddp(m.ones(1, 2) * (d.get_rank() + 1), "ac").sum().backward()
        found.append(gradients(net))
    more = complaint(lambda: ddp(m.ones(1, 2), "abc").sum().backward())
    other = wrap(m, branches(m, d), static_graph=True)
    other(m.ones(1, 2), "ac").sum().backward()
    other(m.ones(1, 2), "a").sum().backward()
    return found, more, complaint(lambda: other(m.ones(1, 2), "a"))


@together
def an_unused_parameter_is_an_error(m, d):
    net = branches(m, d)
    ddp = wrap(m, net)
    ddp(m.ones(1, 2) * (d.get_rank() + 1), "ab").sum().backward()
    return gradients(net), complaint(lambda: ddp(m.ones(1, 2), "ab"))


@together
def a_hook_reduces(m, d):
    net = model(m, d).eval()
    ddp = wrap(m, net)
    seen = []

    def halved(state, bucket):
        seen.append(
            [
                state,
                bucket.index(),
                bucket.is_last(),
                bucket.buffer().numel(),
                sorted(p.numel() for p in bucket.parameters()),
                sorted(round(float(g.sum()), 3) for g in bucket.gradients()),
            ]
        )
        work = d.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda f: f.value()[0] / 4)

    ddp.register_comm_hook("state", halved)
    for step in range(2):
        ddp(batch(m, d, step)).sum().backward()
    twice = complaint(lambda: ddp.register_comm_hook(None, halved))
    wrong = complaint(lambda: ddp.register_comm_hook(None, 3))
    return seen, gradients(net), twice, wrong


def hooks_of(m, name=""):
    return importlib.import_module(f"{m.__name__}.distributed.algorithms.ddp_comm_hooks{name}")


def trained(m, d, hook, state=None, steps=4):
    """The parameters after some steps of a model whose gradients a hook reduces."""
    net = model(m, d).eval()
    ddp = wrap(m, net)
    ddp.register_comm_hook(state, hook)
    optimizer = m.optim.SGD(net.parameters(), 0.1)
    for step in range(steps):
        optimizer.zero_grad()
        ddp(batch(m, d, step)).square().mean().backward()
        optimizer.step()
    return [p.detach().clone() for p in net.parameters()]


@together
def hooks_that_are_there(m, d):
    default = hooks_of(m, ".default_hooks")
    plain = {
        "average": default.allreduce_hook,
        "half": default.fp16_compress_hook,
        "wrapped": default.fp16_compress_wrapper(default.allreduce_hook),
        "none": hooks_of(m, ".debugging_hooks").noop_hook,
    }
    return {name: trained(m, d, hook) for name, hook in plain.items()}


@together
def hooks_that_have_a_number(m, d):
    found = []
    for kind in (m.distributed.BuiltinCommHookType.ALLREDUCE, m.distributed.BuiltinCommHookType.FP16_COMPRESS):
        net = model(m, d).eval()
        ddp = wrap(m, net)
        ddp._register_builtin_comm_hook(kind)
        ddp(batch(m, d)).square().mean().backward()
        found.append(gradients(net))
    return found


@together
def what_packages_read(m, d):
    """Lightning asks which backend a device has and what a wrapped module was told; accelerate imports options."""
    fsdp = importlib.import_module(f"{m.__name__}.distributed.fsdp")
    beside = importlib.import_module(f"{m.__name__}.distributed.fsdp.fully_sharded_data_parallel")
    options = [n for n in vars(fsdp) if n.endswith(("Config", "Settings", "Strategy", "Prefetch", "Type"))]
    told = wrap(m, model(m, d), static_graph=True)._get_ddp_logging_data()
    names = ("world_size", "rank", "module_name", "backend_name", "static_graph", "find_unused_parameters")
    same = all(getattr(beside, n) is getattr(fsdp, n) for n in options)
    backends = [d.Backend.default_device_backend_map[kind] for kind in ("cpu", "cuda", "mps")]
    told = [told[name] if isinstance(told[name], str) else int(told[name]) for name in names]
    return backends, same, told


LOW_RANKS = {
    "rank 1": {},
    "rank 3": {"matrix_approximation_rank": 3},
    "forgetful": {"use_error_feedback": False},
    "cold": {"warm_start": False},
    "careful": {"orthogonalization_epsilon": 1e-4},
    "together": {"batch_tensors_with_same_shape": True},
    "seldom worth it": {"min_compression_rate": 2},
}


@together
def gradients_of_low_rank(m, d):
    power = hooks_of(m, ".powerSGD_hook")
    found = {}
    for name, options in LOW_RANKS.items():
        options = {"start_powerSGD_iter": 2, "min_compression_rate": 0.1, **options}
        state = power.PowerSGDState(None, **options)
        after = trained(m, d, power.powerSGD_hook, state)
        again = pickle.loads(pickle.dumps(state))
        found[name] = after, again.iter, again.process_group is d.group.WORLD
    named = callable(power.batched_powerSGD_hook)  # accelerate reads it, whichever hook it registers
    return found, named, complaint(lambda: power.PowerSGDState(None, start_powerSGD_iter=1))


@together
def averages_of_parameters(m, d):
    name = f"{m.__name__}.distributed"
    averagers = importlib.import_module(name + ".algorithms.model_averaging.averagers")
    post = hooks_of(m, ".post_localSGD_hook")
    alone, _ = d.new_subgroups(1)
    net = model(m, d).eval()
    ddp = wrap(m, net)
    ddp.register_comm_hook(post.PostLocalSGDState(None, alone, 1), post.post_localSGD_hook)
    averager = averagers.PeriodicModelAverager(period=2, warmup_steps=1)
    optimizer = importlib.import_module(name + ".optim").PostLocalSGDOptimizer(
        m.optim.SGD(net.parameters(), 0.1), averager
    )
    found = []
    for step in range(4):
        optimizer.zero_grad()
        ddp(batch(m, d, step)).square().mean().backward()
        optimizer.step()
        found.append([p.detach().clone() for p in net.parameters()])
    kept = optimizer.state_dict()
    averager.step = 0
    optimizer.load_state_dict(kept)
    wrong = [
        complaint(lambda: averagers.PeriodicModelAverager(period=0)),
        complaint(lambda: averagers.PeriodicModelAverager(period=2, warmup_steps=-1)),
    ]
    return found, kept["step"], averager.step, wrong


@together
def some_are_left_out(m, d):
    net = model(m, d)
    net._ddp_params_and_buffers_to_ignore = ["0.weight", "1.running_mean"]
    net[3].bias.requires_grad_(False)
    ddp = wrap(m, net)
    ddp(batch(m, d)).sum().backward()
    return list(net.state_dict().values()), gradients(net)


@together
def other_dtypes(m, d):
    found = []
    for dtype in (m.float64, m.bfloat16, m.complex64):
        layer = m.nn.Linear(2, 2, dtype=dtype)
        with m.no_grad():
            for p in layer.parameters():
                p.copy_(m.arange(p.numel()).reshape(p.shape) + d.get_rank())
        ddp = wrap(m, layer)
        x = (m.arange(4.0).reshape(2, 2) + d.get_rank()).to(dtype)
        ddp(x).abs().sum().backward()
        found += [*layer.state_dict().values(), *gradients(layer)]
    return found


@together
def copies(m, d):
    """A copy, as of `AveragedModel`, averages its own gradients, also after the original has run; so does a pickle."""
    utils, ddp = m.optim.swa_utils, wrap(m, model(m, d))
    ddp(batch(m, d)).sum().backward()
    averaged = utils.AveragedModel(ddp, multi_avg_fn=utils.get_ema_multi_avg_fn(0.5))
    averaged.update_parameters(ddp)
    with m.no_grad():
        ddp.module[0].weight.add_(1.0)
    averaged.update_parameters(ddp)
    found = [copy.deepcopy(ddp), pickle.loads(pickle.dumps(ddp)), averaged.module]
    for each in found:
        each.zero_grad()
        each(batch(m, d, 1)).sum().backward()
    apart = wrap(m, model(m, d), process_group=d.new_group([0, 1]))
    refused = complaint(lambda: copy.deepcopy(apart))
    return [gradients(each) for each in found], averaged.module.module[0].weight, refused


@together
def groups_of_processes(m, d):
    alone = [d.new_group([r]) for r in range(2)][d.get_rank()]
    net = model(m, d)
    ddp = wrap(m, net, process_group=alone)
    ddp(batch(m, d)).sum().backward()
    return gradients(net), list(net.state_dict().values())


@together
def samples_of_each_process(m, d):
    sampler = m.utils.data.DistributedSampler
    found = []
    for options in ({}, {"drop_last": True}, {"shuffle": False}, {"seed": 3}):
        mine = sampler(range(7), **options)
        mine.set_epoch(2)
        loader = m.utils.data.DataLoader(m.arange(7.0), batch_size=2, sampler=mine)
        found.append([list(mine), len(mine), list(loader)])
    return found


@together
def warnings_of_old_options(m, d):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        m.nn.parallel.DistributedDataParallel(m.nn.Linear(1, 1), broadcast_buffers=True, check_reduction=True)
    return [[w.category.__name__, str(w.message)] for w in seen]


@together
def devices_of_the_arguments(m, d):
    ddp, cpu = wrap(m, model(m, d)), m.device("cpu")
    names = ("device_ids", "output_device", "device_type", "is_multi_device_module", "bucket_bytes_cap")
    other = [{"device_ids": [0]}, {"output_device": 0}, {"device_ids": [cpu], "output_device": cpu}]
    refused = [complaint(lambda more=more: wrap(m, model(m, d), **more))[0] for more in other]
    allowed = wrap(m, model(m, d), device_ids=[]).device_ids
    net = model(m, d)
    type(ddp)._set_params_and_buffers_to_ignore_for_model(net, ["0.weight"])
    return [getattr(ddp, n) for n in names], refused, allowed, wrap(m, net).module[0].weight


@together
def models_of_other_shapes_are_refused(m, d):
    if m.__name__ == "torch":  # where rank 0 goes on, and waits
        return True
    text = complaint(lambda: wrap(m, m.nn.Linear(2, 2 + d.get_rank())))[1]
    fewer = complaint(lambda: wrap(m, m.nn.Linear(2, 2, bias=not d.get_rank())))[1]
    return "params[0]" in text and "sizes [3, 2] appears not to match" in text and "2 params" in fewer


@together
def pipelines_of_processes(m, d):
    return pipelines.stages_of_processes(m, d)


@together
def pipelines_of_several_tensors(m, d):
    return pipelines.results_of_several_tensors(m, d)


@together
def what_is_asked_of_a_group(m, d):
    return d.get_backend_config(), d.get_debug_level().name
