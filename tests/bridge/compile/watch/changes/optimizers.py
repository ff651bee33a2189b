"""Steps that depend on optimizers, schedules and custom operators."""

ROWS = r"""
lr of a group
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)
    step:
        w.grad = torch.ones(2)
        before = w.detach().clone()
        optimizer.step()
        return before - w.detach()
    then: optimizer.param_groups[0]["lr"] = 0.25
    kind: input

momentum of a group
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)
    step:
        with torch.no_grad(): w.fill_(1.0)
        w.grad = torch.ones(2)
        optimizer.step()
        optimizer.step()
        return w.detach().clone()
    then: optimizer.param_groups[0]["momentum"] = 0.5

weight decay of a group
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)
    step:
        with torch.no_grad(): w.fill_(1.0)
        w.grad = torch.ones(2)
        optimizer.step()
        return w.detach().clone()
    then: optimizer.param_groups[0]["weight_decay"] = 0.5

maximize of a group
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)
    step:
        with torch.no_grad(): w.fill_(1.0)
        w.grad = torch.ones(2)
        optimizer.step()
        return w.detach().clone()
    then: optimizer.param_groups[0]["maximize"] = True

betas of a group
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.Adam([w], lr=0.25)
    step:
        optimizer.state.clear()
        with torch.no_grad(): w.fill_(1.0)
        for scale in (1.0, 3.0):
            w.grad = x * scale
            optimizer.step()
        return w.detach().clone()
    then: optimizer.param_groups[0]["betas"] = (0.1, 0.2)
    kind: input

a group that is added
    w, v = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)
    step:
        with torch.no_grad(): v.fill_(1.0)
        w.grad = v.grad = torch.ones(2)
        optimizer.step()
        return v.detach().clone()
    then: optimizer.add_param_group({"params": [v]})

a parameter added to a group
    w, v = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)
    step:
        with torch.no_grad(): v.fill_(1.0)
        w.grad = v.grad = torch.ones(2)
        optimizer.step()
        return v.detach().clone()
    then: optimizer.param_groups[0]["params"].append(v)

a hook of an optimizer
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)
    step:
        with torch.no_grad(): w.fill_(1.0)
        w.grad = torch.ones(2)
        optimizer.step()
        return w.detach().clone()
    then:
        def larger(optimizer, args, kwargs): w.grad.mul_(7)
        optimizer.register_step_pre_hook(larger)

a schedule that goes on outside
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    optimizer.step()
    step:
        with torch.no_grad(): w.fill_(1.0)
        w.grad = torch.ones(2)
        optimizer.step()
        return w.detach().clone()
    then: schedule.step()
    kind: input

what a schedule inside reads
    kind: input
    w = torch.ones(2, requires_grad=True)
    optimizer, factor = torch.optim.SGD([w], lr=0.5), 0.5
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: factor)
    step:
        with torch.no_grad(): w.fill_(1.0)
        w.grad = torch.ones(2)
        optimizer.step()
        schedule.step()
        return w.detach().clone(), schedule.get_last_lr()[0]
    then: factor = 0.25

the step of an optimizer patched
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)
    step:
        with torch.no_grad(): w.fill_(1.0)
        w.grad = torch.ones(2)
        optimizer.step()
        return w.detach().clone()
    then: patch.setattr(torch.optim.SGD, "step", lambda self, closure=None: None)

the body of a custom operator reads a global
    factor = 2.0
    @torch.library.custom_op("changes::scaled", mutates_args=())
    def scaled(x: torch.Tensor) -> torch.Tensor: return x * factor
    step: return scaled(x)
    then: factor = 3.0

the body of a custom operator, by torch.ops
    factor = 2.0
    @torch.library.custom_op("changes::scaled_too", mutates_args=())
    def scaled(x: torch.Tensor) -> torch.Tensor: return x * factor
    step: return torch.ops.changes.scaled_too(x)
    then: factor = 3.0

the body of a custom operator with a registered fake
    held = {"factor": 2.0}
    @torch.library.custom_op("changes::faked", mutates_args=())
    def scaled(x: torch.Tensor) -> torch.Tensor: return x * held["factor"]
    scaled.register_fake(torch.empty_like)
    step: return scaled(x)
    then: held["factor"] = 3.0

a custom operator that is defined again
    def define(factor):
        @torch.library.custom_op("changes::again", mutates_args=())
        def scaled(x: torch.Tensor) -> torch.Tensor: return x * factor
        return scaled
    scaled = define(2.0)
    step: return scaled(x)
    then: scaled = define(3.0)

a kernel that is registered for a custom operator
    @torch.library.custom_op("changes::kernel", mutates_args=())
    def scaled(x: torch.Tensor) -> torch.Tensor: return x * 2
    step: return scaled(x)
    then: scaled.register_kernel("cpu")(lambda x: x * 3)

the derivative of a custom operator
    @torch.library.custom_op("changes::derivative", mutates_args=())
    def scaled(x: torch.Tensor) -> torch.Tensor: return x * 2
    factor = 2.0
    scaled.register_autograd(lambda ctx, g: g * factor)
    step:
        y = x.clone().requires_grad_()
        return torch.autograd.grad(scaled(y).sum(), y)
    then: factor = 3.0

an initializer in a step
    factor = 2.0
    def init(w): return nn.init.constant_(w, factor)
    step: return x * init(torch.empty(2))
    then: factor = 3.0

a module made in a step
    width = 2
    step: return nn.Linear(2, width, bias=False)(x).shape[0]
    then: width = 3

functional_call with a dict from outside
    net = nn.Linear(2, 1, bias=False)
    held = {"weight": torch.ones(1, 2)}
    step: return torch.func.functional_call(net, held, x)
    then: held["weight"] = torch.zeros(1, 2)
"""
