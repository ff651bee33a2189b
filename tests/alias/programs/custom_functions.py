"""autograd.Function, hooks, gradcheck, higher derivatives."""

import torch
from torch.autograd import Function, gradcheck, Variable

torch.manual_seed(6)


class LinearF(Function):
    @staticmethod
    def forward(ctx, input, weight, bias=None):
        ctx.save_for_backward(input, weight, bias)
        out = input.mm(weight.t())
        return out + bias.unsqueeze(0).expand_as(out) if bias is not None else out

    @staticmethod
    def backward(ctx, g):
        input, weight, bias = ctx.saved_tensors
        gi = gw = gb = None
        if ctx.needs_input_grad[0]:
            gi = g.mm(weight)
        if ctx.needs_input_grad[1]:
            gw = g.t().mm(input)
        if bias is not None and ctx.needs_input_grad[2]:
            gb = g.sum(0)
        return gi, gw, gb


class STE(Function):
    @staticmethod
    def forward(ctx, x):
        return x.sign()

    @staticmethod
    def backward(ctx, g):
        return g.clamp(-1, 1)


class L(torch.nn.Module):
    def __init__(s, i, o):
        super().__init__()
        s.weight = torch.nn.Parameter(torch.empty(o, i))
        s.bias = torch.nn.Parameter(torch.empty(o))
        torch.nn.init.uniform_(s.weight, -0.1, 0.1)
        torch.nn.init.uniform_(s.bias, -0.1, 0.1)

    def forward(s, x):
        return LinearF.apply(x, s.weight, s.bias)

    def extra_repr(s):
        return f"in={s.weight.shape[1]}"


print(
    gradcheck(
        LinearF.apply,
        (
            torch.randn(4, 3, dtype=torch.double, requires_grad=True),
            torch.randn(2, 3, dtype=torch.double, requires_grad=True),
            torch.randn(2, dtype=torch.double, requires_grad=True),
        ),
    )
)
m = torch.nn.Sequential(L(3, 8), torch.nn.Tanh(), L(8, 1))
print(m)
opt = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, nesterov=True)
x = torch.randn(32, 3)
y = STE.apply(x.sum(1, keepdim=True))
hooks = []
h = m[0].register_full_backward_hook(lambda mod, gi, go: hooks.append(go[0].norm().item()))
for i in range(10):
    opt.zero_grad()
    loss = torch.nn.functional.mse_loss(m(x), y)
    loss.backward()
    opt.step()
    print(i, f"{loss.item():.6f} {hooks[-1]:.6f}")
h.remove()
v = Variable(torch.ones(2), requires_grad=True)
STE.apply(v).sum().backward()
print(v.grad)
(g,) = torch.autograd.grad((v**3).sum(), v, create_graph=True)
print(torch.autograd.grad(g.sum(), v))
print(torch.autograd.functional.hessian(lambda t: (t**3).sum(), torch.tensor([1.0, 2.0])))
