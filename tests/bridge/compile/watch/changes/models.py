"""Steps that depend on models, hooks and patched functions of the package."""

ROWS = r"""
F.relu patched
    step: return F.relu(x - 1)
    then: patch.setattr(F, "relu", lambda x: x * 7)

F.relu patched below nn.ReLU
    net = nn.ReLU()
    step: return net(x)
    then: patch.setattr(F, "relu", lambda x, inplace=False: x * 7)

torch.relu patched
    step: return torch.relu(x)
    then: patch.setattr(torch, "relu", lambda x: x * 7)

a method of tensors patched
    step: return x.relu()
    then: patch.setattr(torch.Tensor, "relu", lambda x: x * 7)

an operator of tensors patched
    step: return x * 2
    then: patch.setattr(torch.Tensor, "__mul__", lambda x, y: x + y)

a method that tensors get
    step: return x.own() if hasattr(x, "own") else x
    then: patch.setattr(torch.Tensor, "own", lambda x: x * 7, raising=False)

nn.Linear.forward patched
    net = nn.Linear(2, 2)
    step: return net(x)
    then: patch.setattr(nn.Linear, "forward", lambda self, x: x * 7)

F.linear patched below nn.Linear
    net = nn.Linear(2, 2)
    step: return net(x)
    then: patch.setattr(F, "linear", lambda x, *others: x * 7)

nn.Module.__call__ patched
    net = nn.ReLU()
    step: return net(x)
    then: patch.setattr(nn.Module, "__call__", lambda self, x: x * 7)

forward of a library's class patched in a subclass
    class Own(nn.ReLU): pass
    net = Own()
    step: return net(x)
    then: Own.forward = lambda self, x: x * 7

forward of an instance patched
    net = nn.ReLU()
    step: return net(x)
    then: net.forward = lambda x: x * 7

forward of a block patched
    net = nn.Sequential(nn.ReLU(), nn.Sequential(nn.ReLU()))
    step: return net(x)
    then: net[1][0].forward = lambda x: x * 7

forward of the user's class replaced
    class Own(nn.Module):
        def forward(self, x): return x * 2
    net = Own()
    step: return net(x)
    then: Own.forward = lambda self, x: x * 3

a number in a module of the user's
    class Own(nn.Module):
        n = 2.0
        def forward(self, x): return x * self.n
    net = Own()
    step: return net(x)
    then: net.n = 3.0

a number in a module, through its __dict__
    class Own(nn.Module):
        n = 2.0
        def forward(self, x): return x * self.n
    net = Own()
    step: return net(x)
    then: net.__dict__["n"] = 3.0

a ModuleList that grows
    net = nn.ModuleList([nn.ReLU()])
    step:
        for block in net:
            x = block(x) + 1
        return x
    then: net.append(nn.ReLU())

a ModuleList that shrinks, by its length
    net = nn.ModuleList([nn.ReLU(), nn.Tanh()])
    step: return x * len(net)
    then: del net[1]

a module of a ModuleList replaced
    net = nn.ModuleList([nn.ReLU()])
    step: return net[0](x)
    then: net[0] = nn.Hardtanh()

a number of a block in a ModuleList
    class Block(nn.Module):
        n = 2.0
        def forward(self, x): return x * self.n
    net = nn.ModuleList([Block(), Block()])
    step:
        for block in net:
            x = block(x)
        return x
    then: net[1].n = 3.0

a module of a ModuleDict
    net = nn.ModuleDict({"a": nn.ReLU()})
    step: return net["a"](x)
    then: net["a"] = nn.Hardtanh()

a module of a ModuleDict that appears
    net = nn.ModuleDict({"a": nn.ReLU()})
    step: return x * len(list(net.items()))
    then: net["b"] = nn.ReLU()

a parameter of a ParameterList
    net = nn.ParameterList([torch.ones(2)])
    step: return x * sum(net)
    then: net.append(torch.ones(2))

a parameter of a ParameterDict
    net = nn.ParameterDict({"a": torch.ones(2)})
    step: return x * net["a"]
    then: net["a"] = torch.zeros(2)

a block of a Sequential replaced through _modules
    net = nn.Sequential(nn.ReLU())
    step: return net(x)
    then: net._modules["0"] = nn.Hardtanh()

a block of a Sequential replaced by its index
    net = nn.Sequential(nn.ReLU())
    step: return net(x)
    then: net[0] = nn.Hardtanh()

a block added to a Sequential
    net = nn.Sequential(nn.ReLU())
    step: return net(x)
    then: net.append(nn.Hardtanh())

a block deleted from a Sequential
    net = nn.Sequential(nn.ReLU(), nn.Hardtanh())
    step: return net(x)
    then: del net[1]

a module replaced through setattr
    net = nn.Sequential()
    net.act = nn.ReLU()
    step: return net.act(x)
    then: net.act = nn.Hardtanh()

a module that becomes None
    net = nn.Module()
    net.act = nn.Hardtanh()
    step: return x if net.act is None else net.act(x)
    then: net.act = None

a module added by add_module
    net = nn.Module()
    step: return x * len(list(net.children()))
    then: net.add_module("a", nn.ReLU())

a module by get_submodule
    net = nn.Sequential(nn.Sequential(nn.ReLU()))
    step: return net.get_submodule("0.0")(x)
    then: net[0][0] = nn.Hardtanh()

a parameter replaced
    net = nn.Linear(2, 2, bias=False)
    step: return net(x)
    then: net.weight = nn.Parameter(torch.ones(1, 2))

a parameter written in place
    net = nn.Linear(2, 1)
    step: return net(x)
    then: nn.init.ones_(net.weight); nn.init.ones_(net.bias)
    kind: input

a state dict loaded
    net = nn.Linear(2, 1)
    step: return net(x)
    then: net.load_state_dict({"weight": torch.full((1, 2), 7.0), "bias": torch.zeros(1)})
    kind: input

a state dict loaded by assignment
    net = nn.Linear(2, 1)
    step: return net(x)
    then: net.load_state_dict({"weight": torch.full((1, 2), 7.0), "bias": torch.zeros(1)}, assign=True)

a bias that is taken away
    net = nn.Linear(2, 1)
    nn.init.ones_(net.bias)
    nn.init.ones_(net.weight)
    step: return net(x)
    then: net.bias = None

a bias through register_parameter
    net = nn.Linear(2, 1, bias=False)
    nn.init.ones_(net.weight)
    step: return net(x)
    then: net.register_parameter("bias", nn.Parameter(torch.ones(1)))

a buffer replaced
    net = nn.Module()
    net.register_buffer("scale", torch.ones(2))
    step: return x * net.scale
    then: net.scale = torch.zeros(2)

a buffer replaced through _buffers
    net = nn.Module()
    net.register_buffer("scale", torch.ones(2))
    step: return x * net.scale
    then: net._buffers["scale"] = torch.zeros(2)

a buffer that appears
    net = nn.Module()
    net.register_buffer("scale", None)
    step: return x if net.scale is None else x * net.scale
    then: net.scale = torch.zeros(2)

requires_grad of a parameter
    net = nn.Linear(2, 1)
    step: return net(x).requires_grad
    then: net.requires_grad_(False)

gradients of a parameter that is frozen
    net = nn.Linear(2, 1, bias=False)
    step:
        net.weight.grad = None
        net(x.clone().requires_grad_()).sum().backward()
        return net.weight.grad
    then: net.weight.requires_grad_(False)

how many parameters are trained
    net = nn.Linear(2, 1)
    step: return x * sum(p.requires_grad for p in net.parameters())
    then: net.bias.requires_grad_(False)

.training of a module
    net = nn.Module()
    step: return x * 2 if net.training else x
    then: net.eval()

.training of a child
    net = nn.Sequential(nn.Dropout(0.999999))
    step: return (net(torch.ones(2)) > 1).sum() + (net(torch.ones(2)) == 1).sum()
    then: net.eval()

.training of the one child, by an attribute
    net = nn.Sequential(nn.Dropout(1.0), nn.ReLU())
    step: return net(x)
    then: net[0].training = False

the p of a dropout
    net = nn.Dropout(1.0)
    step: return net(x)
    then: net.p = 0.0

batch norm in eval
    net = nn.BatchNorm1d(1, affine=False)
    step: return net(x[:, None])
    then: net.eval()

the momentum of a batch norm
    net = nn.BatchNorm1d(1, affine=False)
    step:
        net.running_mean.zero_()
        net(x[:, None])
        return net.running_mean.clone()
    then: net.momentum = 0.5

the eps of a layer norm
    net = nn.LayerNorm(2)
    step: return net(x)
    then: net.eps = 1.0

the slope of a leaky relu
    net = nn.LeakyReLU(0.1)
    step: return net(-x)
    then: net.negative_slope = 0.5

the reduction of a loss
    loss = nn.MSELoss()
    step: return loss(x, x + 1)
    then: loss.reduction = "sum"

the class weights of a loss
    loss = nn.CrossEntropyLoss(weight=torch.ones(2))
    step: return loss(torch.stack([x, x]), torch.tensor([0, 1]))
    then: loss.weight = torch.tensor([1.0, 9.0])

the padding of a convolution
    net = nn.Conv1d(1, 1, 1)
    step: return net(x[None]).shape[-1]
    then: net.padding = (1,)

a forward hook that is registered
    net = nn.ReLU()
    step: return net(x)
    then: net.register_forward_hook(lambda net, args, out: out * 7)

a forward hook that is removed
    net = nn.ReLU()
    handle = net.register_forward_hook(lambda net, args, out: out * 7)
    step: return net(x)
    then: handle.remove()

a global that a hook reads
    factor = 2.0
    net = nn.ReLU()
    net.register_forward_hook(lambda net, args, out: out * factor)
    step: return net(x)
    then: factor = 3.0

a forward pre-hook that is registered
    net = nn.ReLU()
    step: return net(x)
    then: net.register_forward_pre_hook(lambda net, args: (args[0] * 7,))

a hook for all modules
    net = nn.ReLU()
    def larger(module, args, out): return out * 7 if module is net else None
    step: return net(x)
    then: afterwards(nn.modules.module.register_module_forward_hook(larger).remove)

a backward hook that is registered
    net = nn.ReLU()
    step:
        y = x.clone().requires_grad_()
        return torch.autograd.grad(net(y).sum(), y)
    then: net.register_full_backward_hook(lambda net, given, got: (given[0] * 7,))

a tensor hook that is registered
    w = torch.ones(2, requires_grad=True)
    step:
        w.grad = None
        (x * w).sum().backward()
        return w.grad
    then: w.register_hook(lambda g: g * 7)

a hook after accumulation
    w = torch.ones(2, requires_grad=True)
    step:
        w.grad = None
        (x * w).sum().backward()
        return w.grad
    then:
        def larger(w): w.grad.mul_(7)
        w.register_post_accumulate_grad_hook(larger)

a parametrization
    from torchgrad_jax.nn.utils import parametrize
    class Twice(nn.Module):
        def forward(self, w): return w * 2
    net = nn.Linear(2, 1, bias=False)
    nn.init.ones_(net.weight)
    step: return net(x)
    then: parametrize.register_parametrization(net, "weight", Twice())
"""
