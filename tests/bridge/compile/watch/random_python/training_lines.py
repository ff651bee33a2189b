"""What random training steps compute, what follows the backward pass, and what is done between their calls.

Each line is run beside `training_state.py`. `V` stands for a number.
"""

LOSSES = """
F.cross_entropy(net(x), y, label_smoothing=cfg["smooth"])
(net(x) - F.one_hot(y, 2)).square().mean() * cfg["scale"]
F.cross_entropy(net(x), y) + (net.blocks[0](net.first(x)).abs().mean() if cfg["aux"] else 0.0)
F.cross_entropy(net(x) + extra, y)
F.cross_entropy(net(x), y) + cfg["decay"] * sum(p.square().sum() for p in net.parameters()) * 0.01
sum(F.cross_entropy(net.heads[k](net.first(x)), y) for k in cfg["names"])
F.cross_entropy(torch.func.functional_call(net, {"temp": net.temp * 2}, (x,)), y)
F.cross_entropy(net(x), y) + F.mse_loss(net.first(x), ema.first(x).detach())
""".strip().splitlines()
AFTER = """
torch.nn.utils.clip_grad_norm_(net.parameters(), cfg["clip"])
torch.nn.utils.clip_grad_value_(net.parameters(), cfg["clip"])
[p.grad.mul_(cfg["scale"]) for p in net.parameters() if p.grad is not None]
stats.add_(loss.detach())
net.bn.running_mean.mul_(cfg["decay"])
extra.grad.zero_() if extra.grad is not None else None
history.append(count) if len(history) < 3 else None
""".strip().splitlines()
UPDATES = """
opt.step(); opt.zero_grad()
opt.step(); opt.zero_grad(set_to_none=False)
(opt.step(), opt.zero_grad()) if count % cfg["every"] == 0 else None
opt.step(); sched.step(); opt.zero_grad()
opt.step(); opt.zero_grad(); follow()
[p.data.add_(p.grad, alpha=-cfg["scale"] * 0.1) for p in net.parameters() if p.grad is not None]; net.zero_grad()
""".strip().splitlines()
CHANGES = """
cfg.__setitem__("clip", V)
cfg.__setitem__("every", int(V) % 3 + 1)
cfg.__setitem__("scale", V)
cfg.__setitem__("decay", V / 10)
cfg.__setitem__("smooth", V / 20)
cfg.__setitem__("aux", not cfg["aux"])
cfg["names"].pop() if len(cfg["names"]) > 1 else cfg["names"].append("b")
net.train(not net.training)
net.eval()
net.blocks[0].eval()
net.bn.train(not net.bn.training)
setattr(net, "head", "b" if net.head == "a" else "a")
setattr(net, "depth", 3 - net.depth)
setattr(net, "act", torch.tanh if net.act is torch.relu else torch.relu)
setattr(net.blocks[1], "scale", V)
setattr(Block, "gain", V)
setattr(net.drop, "p", 0.5 if net.drop.p == 0 else 0.0)
net.blocks[0].opts.__setitem__("skip", not net.blocks[0].opts["skip"])
net.blocks.append(Block(4)) if len(net.blocks) < 3 else None
net.blocks.__setitem__(1, Block(4))
net.heads.__setitem__("b", nn.Linear(4, 2))
net.first.weight.requires_grad_(not net.first.weight.requires_grad)
net.blocks[0].requires_grad_(False)
net.requires_grad_(True)
net.temp.data.fill_(V)
setattr(net, "temp", nn.Parameter(torch.tensor(V)))
setattr(net.first, "weight", nn.Parameter(torch.ones(4, 3) * V / 10))
setattr(net.blocks[1].lin, "weight", net.blocks[0].lin.weight)
setattr(net.heads["b"], "weight", net.heads["a"].weight)
opt.param_groups[0].__setitem__("lr", V / 20)
opt.param_groups[0].__setitem__("momentum", V / 10)
opt.param_groups[0].__setitem__("weight_decay", V / 100)
opt.param_groups[0].__setitem__("nesterov", True)
opt.add_param_group({"params": [extra], "lr": 0.05}) if len(opt.param_groups) < 2 else None
globals().__setitem__("opt", torch.optim.Adam(net.parameters(), lr=0.01, eps=1e-3))
globals().__setitem__("opt", torch.optim.AdamW(net.parameters(), lr=0.01, amsgrad=True, eps=1e-3))
globals().__setitem__("opt", torch.optim.SGD(two_groups(), lr=0.1))
opt.state.clear()
opt.load_state_dict(copy.deepcopy(opt.state_dict()))
opt.zero_grad()
net.load_state_dict({k: v * 0.9 if v.is_floating_point() else v for k, v in net.state_dict().items()})
ema.load_state_dict(net.state_dict()) if len(list(ema.parameters())) == len(list(net.parameters())) else None
net.first.register_forward_hook(lambda m, a, o: o * V)
net.register_forward_pre_hook(lambda m, a: (a[0] + V,))
net.temp.register_hook(lambda g: g * V)
net.first.weight.register_hook(lambda g: g.clamp(-V, V))
net.bn.register_full_backward_hook(lambda m, gi, go: None)
net.bn.reset_running_stats()
setattr(net.bn, "momentum", V / 10)
setattr(net.blocks[0].norm, "eps", V / 100)
torch.nn.init.constant_(net.heads["a"].bias, V)
stats.fill_(V)
globals().__setitem__("count", int(V))
setattr(net, "forward", lambda x: net.heads["a"](net.first(x)))
delattr(net, "forward") if "forward" in vars(net) else None
setattr(net, "first", nn.Linear(3, 4, bias=False))
net.double()
sched.step()
sched.base_lrs.__setitem__(0, V / 10)
globals().__setitem__("extra", nn.Parameter(torch.tensor([V, 1.0])))
globals().__setitem__("net", copy.deepcopy(net))
torch.nn.utils.parametrizations.weight_norm(net.first) if not hasattr(net.first, "parametrizations") else None
net.blocks[0].lin.weight.grad.zero_() if net.blocks[0].lin.weight.grad is not None else None
""".strip().splitlines()
