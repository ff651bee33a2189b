"""What optimizers written after torch's import from `torch.optim.optimizer`."""

import importlib

from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


def helpers(m):
    return importlib.import_module(m.__name__ + ".optim.optimizer")


@program
def numbers_and_views(m):
    o, x = helpers(m), m.tensor([3.0])
    params = [m.ones(2, dtype=m.complex64), m.ones(2)]
    grads = [m.zeros(2, dtype=m.complex64), m.zeros(2)]
    o._view_as_real(params, grads)
    scalars = o._to_scalar(x), o._to_scalar(0.5), o._to_scalar(x[0])
    pair = m.stack(list(o._stack_if_compiling([x, x])))
    return x + o._get_value(x), o._get_value(2), scalars, params, grads, pair


@program
def choices(m):
    o = helpers(m)
    params = [m.ones(2), None, m.ones(1, dtype=m.float64)]
    asked = [(params, False), (params, True), (params, False, True), ([m.ones(1, dtype=m.int64)], False, True)]
    dtypes = [str(o._get_scalar_dtype(fused)) for fused in (None, True)]
    devices = o._get_capturable_supported_devices(), o._get_capturable_supported_devices(supports_xla=False)
    return [o._default_to_fused_or_foreach(*a) for a in asked], dtypes, devices


@program
def an_optimizer_of_ones_own(m):
    o = helpers(m)

    @o._disable_dynamo_if_unsupported()
    def stepped(params, grads, lr):
        for p, g in zip(params, grads):
            p.add_(g, alpha=-o._get_value(lr))

    class Plain(m.optim.Optimizer):
        __doc__ = (
            f"Args:\n    {o._params_doc}\n    {o._maximize_doc}\n    {o._differentiable_doc}\n    {o._foreach_doc}"
        )

        @o._use_grad_for_differentiable
        def step(self):
            for group in self.param_groups:
                stepped(group["params"], [p.grad for p in group["params"]], group["lr"])

    w = m.ones(2, requires_grad=True)
    plain = Plain([w], {"lr": 0.5, "differentiable": False})
    (w * w).sum().backward()
    plain.step()
    return w, all("(bool, optional)" in getattr(o, f"_{n}_doc") for n in ("fused", "capturable"))
