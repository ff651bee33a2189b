"""The optimizers and schedules that tests of compiled training steps go over."""

OPTIMIZERS = {
    "momentum": ("SGD", {"momentum": 0.9}),
    "nesterov": ("SGD", {"momentum": 0.9, "nesterov": True, "foreach": True}),
    "dampening": ("SGD", {"momentum": 0.9, "dampening": 0.1}),
    "amsgrad": ("AdamW", {"amsgrad": True}),
    "fused": ("Adam", {"fused": True}),
    "centered": ("RMSprop", {"momentum": 0.1, "eps": 0.01, "centered": True}),
    **{
        name: (name, {})
        for name in (
            "SGD",
            "Adadelta",
            "Adafactor",
            "Adagrad",
            "Adam",
            "Adamax",
            "ASGD",
            "Muon",
            "NAdam",
            "RAdam",
            "RMSprop",
            "Rprop",
        )
    },
}
"""Kinds, and their arguments beside parameters and learning rate."""


def cycled(o):
    """Whether the optimizer has a momentum that a schedule can change."""
    return {"cycle_momentum": "momentum" in o.defaults or "betas" in o.defaults}


class ByHand:
    """No `LRScheduler`: the numbers of the groups are changed in place."""

    def __init__(self, o):
        self.optimizer = o

    def step(self):
        for group in self.optimizer.param_groups:
            group["lr"] *= 0.5


class Plateau:
    """`ReduceLROnPlateau` with a measure that gets no better."""

    def __init__(self, inner):
        self.inner = inner
        self.state_dict = inner.state_dict

    def step(self):
        self.inner.step(1.0)


SCHEDULES = {
    "lambda": lambda s, o: s.LambdaLR(o, [lambda n: 1 / (n + 1), lambda n: 0.9**n]),
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda n: 0.8 if n % 2 else 1.1),
    "step": lambda s, o: s.StepLR(o, 2, 0.5),
    "multistep": lambda s, o: s.MultiStepLR(o, [2, 3, 3], 0.5),
    "constant": lambda s, o: s.ConstantLR(o, 0.3, 3),
    "linear": lambda s, o: s.LinearLR(o, 0.3, total_iters=4),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.9),
    "polynomial": lambda s, o: s.PolynomialLR(o, 5, 2.0),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, 5),
    "restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 2, 2),
    "cyclic": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 2, mode="exp_range", **cycled(o)),
    "one cycle": lambda s, o: s.OneCycleLR(o, 0.3, total_steps=9, **cycled(o)),
    "chained": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9)]),
    "sequential": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, total_iters=2), s.ExponentialLR(o, 0.9), s.StepLR(o, 1)], [2, 4]
    ),
    "plateau": lambda s, o: Plateau(s.ReduceLROnPlateau(o, patience=0)),
    "by hand": lambda s, o: ByHand(o),
}
"""Made of the library's `lr_scheduler` and an optimizer of two groups."""
