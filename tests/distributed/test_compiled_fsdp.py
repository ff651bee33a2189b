"""Steps of FSDP over two processes as one program: the numbers are those of torch, which runs them as written.

Each program says how often its step ran eagerly nevertheless: in calls in which the processes would need
different programs.
"""

from .processes import Together
from .spanning import parts, whole

together = Together(2)
test_same_as_torch = together.test()


def network(m, *more):
    m.manual_seed(0)
    layers = [m.nn.Linear(4, 8), *more, m.nn.Tanh(), m.nn.Linear(8, 8), m.nn.Linear(8, 4)]
    return m.nn.Sequential(*layers)


def sharded(m, d, model, **options):
    meshes, _, fsdp, *_ = parts(m)
    mesh = meshes.init_device_mesh("cpu", (d.get_world_size(),))
    for layer in model:
        if isinstance(layer, m.nn.Linear):
            fsdp.fully_shard(layer, mesh=mesh, **options)
    return fsdp.fully_shard(model, mesh=mesh, **options)


def batch(m, d, number, rows=4):
    m.manual_seed(10 * number + d.get_rank())
    return m.randn(rows, 4), m.randint(4, (rows,))


def run(m, d, model, step, after=lambda number: None, rows=(), as_written=0):
    """What four calls of a step return, and the parameters and buffers then."""
    compiled = m.compile(step) if m.__name__ == "torchgrad_jax" else step
    found = []
    for number in range(4):
        found.append(compiled(*batch(m, d, number, dict(rows).get(number, 4))))
        after(number)
    if m.__name__ == "torchgrad_jax":
        assert compiled.counts["eager"] == as_written, (compiled.counts, compiled.reasons)
    return found, {name: whole(x).detach().clone() for name, x in model.state_dict().items()}


def step_of(m, model, optimizer, change=lambda x, loss: loss):
    def step(x, y):
        optimizer.zero_grad()
        loss = change(x, m.nn.functional.cross_entropy(model(x), y))
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


@together
def a_scheduler_beside_the_step(m, d):
    model = sharded(m, d, network(m))
    optimizer = m.optim.Adam(model.parameters(), lr=0.1, weight_decay=0.01)
    scheduler = m.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    return run(m, d, model, step_of(m, model, optimizer), lambda number: scheduler.step())


@together
def state_that_each_process_has_of_its_own(m, d):
    """Step sizes of Rprop: tensors of each process, equal in all of them. torch has no Rprop for split tensors."""
    if m.__name__ == "torch":
        return True
    found = []
    for as_written in (False, True):
        model = sharded(m, d, network(m))
        step = step_of(m, model, m.optim.Rprop(model.parameters(), lr=0.01))
        with m.compiler.set_stance("force_eager" if as_written else "default"):
            losses, state = run(m, d, model, step, as_written=4 * as_written)
        found.append([*losses, *state.values()])
    return all(m.allclose(x, y) for x, y in zip(*found, strict=True))


@together
def buffers_are_each_process_s_own(m, d):
    model = sharded(m, d, network(m, m.nn.BatchNorm1d(8)))
    optimizer = m.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return run(m, d, model, step_of(m, model, optimizer))


@together
def a_batch_that_is_smaller_in_one_process(m, d):
    """That call runs eagerly, whether it is the first one or a later one."""
    found = []
    for smaller in (0, 2):
        model = sharded(m, d, network(m))
        optimizer = m.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        rows = {smaller: 3 + d.get_rank()}
        step = step_of(m, model, optimizer)
        found.append(run(m, d, model, step, rows=rows, as_written=1))
    return found


@together
def a_learning_rate_that_differs_once(m, d):
    model = sharded(m, d, network(m))
    optimizer = m.optim.SGD(model.parameters(), lr=0.1)

    def after(number):
        optimizer.param_groups[0]["lr"] = 0.1 * (2 + d.get_rank()) if number == 0 else 0.05

    return run(m, d, model, step_of(m, model, optimizer), after, as_written=1)


@together
def branches_that_differ(m, d):
    model = sharded(m, d, network(m))
    optimizer = m.optim.SGD(model.parameters(), lr=0.1)

    def change(x, loss):
        return loss * 2 if d.get_rank() == 0 else loss

    return run(m, d, model, step_of(m, model, optimizer, change), as_written=4)


@together
def values_of_a_process_in_arguments(m, d):
    """Numbers that differ are no hindrance where they decide about values of this process alone."""
    model = sharded(m, d, network(m))
    optimizer = m.optim.SGD(model.parameters(), lr=0.1)
    weight, total = m.tensor(1.0 + d.get_rank()), m.zeros(())

    def step(x, y):
        optimizer.zero_grad()
        loss = m.nn.functional.cross_entropy(model(x * weight), y) * weight
        loss.backward()
        optimizer.step()
        total.add_(loss.detach())
        return loss.detach(), x * weight

    return run(m, d, model, step), total


@together
def norms_sums_and_accumulation(m, d):
    model = sharded(m, d, network(m))
    optimizer = m.optim.AdamW(model.parameters(), lr=0.1)

    def step(x, y):
        for rows in (slice(0, 2), slice(2, 4)):
            loss = m.nn.functional.cross_entropy(model(x[rows]), y[rows]) / 2
            loss.backward()
        norm = m.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach().clone()
        d.all_reduce(mean, op=d.ReduceOp.AVG)
        return loss.detach(), mean, whole(norm)

    return run(m, d, model, step)


@together
def gradients_of_inputs_and_of_parameters(m, d):
    model = sharded(m, d, network(m))
    frozen = model[0].bias.requires_grad_(False)

    def step(x, y):
        x = x.clone().requires_grad_()
        m.nn.functional.cross_entropy(model(x), y).backward()
        return x.grad

    found = run(m, d, model, step)
    slopes = [p.grad for p in model.parameters() if p is not frozen]
    return found, [whole(g) for g in slopes], [g.to_local() for g in slopes]


@together
def evaluation(m, d):
    model = sharded(m, d, network(m))

    def step(x, y):
        with m.no_grad():
            return model(x).softmax(-1), y

    return run(m, d, model, step)


@together
def a_scale_that_is_found(m, d):
    model = sharded(m, d, network(m))
    optimizer = m.optim.SGD(model.parameters(), lr=0.1)
    scaler = m.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    if m.__name__ == "torch":  # whose scaler has no kernel for split gradients on the CPU
        scaler = m.amp.GradScaler("cpu", enabled=False)

    def step(x, y):
        optimizer.zero_grad()
        loss = m.nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    return run(m, d, model, step)


@together
def many_steps_in_one_call(m, d):
    model = sharded(m, d, network(m))
    optimizer = m.optim.SGD(model.parameters(), lr=0.1)
    step = step_of(m, model, optimizer)
    batches = [batch(m, d, number) for number in range(3)]
    if m.__name__ == "torch":
        return m.stack([step(*b) for b in batches])
    xs, ys = (m.stack(column) for column in zip(*batches, strict=True))
    return m.compile(step).many(xs, ys)


@together
def a_compiled_model(m, d):
    """The backward pass comes from outside of the program; once, one process has a smaller batch."""
    model = sharded(m, d, network(m, m.nn.BatchNorm1d(8)))
    optimizer = m.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    compiled = m.compile(model) if m.__name__ == "torchgrad_jax" else model
    found = []
    for number in range(4):
        x, y = batch(m, d, number, 3 + d.get_rank() if number == 2 else 4)
        x.requires_grad_()
        loss = m.nn.functional.cross_entropy(compiled(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append((loss.detach(), x.grad))
    if m.__name__ == "torchgrad_jax":
        assert compiled.counts["eager"] == 1, (compiled.counts, compiled.reasons)
    return found, {name: whole(x).detach().clone() for name, x in model.state_dict().items()}


@together
def passes_from_some_of_the_results(m, d):
    model = sharded(m, d, network(m))

    def forward(x):
        h = model(x)
        return h, model(x * 2).sum(), h.detach().exp()

    compiled = m.compile(forward) if m.__name__ == "torchgrad_jax" else forward
    found = []
    for which in ((0,), (1,), (0, 1)):
        results = compiled(batch(m, d, 0)[0])
        sum(results[k].square().sum() for k in which).backward()
        found.append(([whole(p.grad).clone() for p in model.parameters()], results[2]))
    if m.__name__ == "torchgrad_jax":
        assert compiled.counts["eager"] == 0, (compiled.counts, compiled.reasons)
    return found
