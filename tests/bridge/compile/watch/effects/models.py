"""Steps that change tensors, models and optimizers."""

ROWS = r"""
a tensor written in place
    w = torch.zeros(2)
    step: w.add_(1); return x * 2
    look: w

a tensor replaced in an attribute
    class Own: w = torch.zeros(2)
    own = Own()
    step: own.w = own.w + x; return x * 2
    look: own.w

an attribute of a tensor that is counted
    w = torch.zeros(2)
    w.n = 0
    step: w.n += 1; return x * w
    look: w.n

a gradient that grows
    w = torch.ones(2, requires_grad=True)
    step: (w * x).sum().backward(); return x * 2
    look: w.grad

requires_grad_ inside
    w = torch.ones(2)
    each: w.requires_grad_(False)
    step: w.requires_grad_(True); return x * 2
    look: w.requires_grad

a buffer that a module replaces
    net = nn.Module()
    net.register_buffer("n", torch.zeros(2))
    step: net.n = net.n + 1; return x * 2
    look: net.n

a module that is put into eval
    net = nn.Module()
    each: net.train()
    step: net.eval(); return x * 2
    look: net.training

a hook that a step registers
    net = nn.ReLU()
    step: net.register_forward_hook(lambda net, args, out: out + 1); return net(x)

a module that a step adds
    net = nn.ModuleList()
    step: net.append(nn.ReLU()); return x * 2
    look: len(net)

a running mean
    net = nn.BatchNorm1d(1, affine=False)
    step: return net(x[:, None])
    look: [net.running_mean, net.num_batches_tracked]

a step of an optimizer and of its schedule
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5, momentum=0.5)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    step:
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        schedule.step()
        return x * 2
    look: [w, schedule.get_last_lr(), schedule.last_epoch]

lr that a step sets
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)
    step: optimizer.param_groups[0]["lr"] *= 0.5; return x * 2
    look: optimizer.param_groups[0]["lr"]

a group that a step adds
    optimizer = torch.optim.SGD([torch.ones(2, requires_grad=True)], lr=0.5)
    step: optimizer.add_param_group({"params": [torch.ones(2, requires_grad=True)]}); return x * 2
    look: len(optimizer.param_groups)
"""
