"""Steps whose values are subclasses with attributes, keys that are tensors, and switches that libraries read."""

ROWS = r"""
an integer's subclass with an attribute
    class Size(int):
        pass
    size = Size(2)
    size.gain = 2.0
    step: return x * size.gain
    then: size.gain = 7.0

a text's subclass with an attribute
    class Name(str):
        pass
    name = Name("a")
    name.gain = 2.0
    step: return x * name.gain
    then: name.gain = 7.0

a tuple's subclass with an attribute
    class Stages(tuple):
        pass
    stages = Stages([1.0])
    stages.gain = 2.0
    step: return x * stages.gain
    then: stages.gain = 7.0

a dict's subclass with an attribute
    class Config(dict):
        pass
    config = Config(a=1.0)
    config.gain = 2.0
    step: return x * config.gain
    then: config.gain = 7.0

a float's subclass with an attribute that holds a dict
    class Rate(float):
        pass
    rate = Rate(2.0)
    rate.held = ({"gain": 2.0},)
    step: return x * rate.held[0]["gain"]
    then: rate.held[0]["gain"] = 7.0

a text's subclass as a key, with an attribute
    class Name(str):
        pass
    name = Name("a")
    name.gain = 2.0
    held = {name: 1.0}
    step:
        for key in held:
            x = x * key.gain
        return x
    then: name.gain = 7.0

a frozenset's subclass with an attribute
    class Names(frozenset):
        pass
    names = Names(["a"])
    names.gain = 2.0
    step: return x * names.gain
    then: names.gain = 7.0

an array's subclass with an attribute
    import numpy as np
    class Named(np.ndarray):
        pass
    held = np.ones(2).view(Named)
    held.gain = 2.0
    step: return x * held.gain
    then: held.gain = 7.0

a dict whose keys are tensors
    key = torch.ones(2)
    held = {key: 2.0}
    step: return x * held[key]
    then: held[key] = 7.0

a dict whose keys are tensors, in a loop
    first, second = torch.ones(2), torch.zeros(2)
    held = {first: 2.0}
    step:
        for key, gain in held.items():
            x = x * gain
        return x
    then: held[second] = 7.0

the values of a tensor that is a key
    key = torch.ones(2)
    held = {key: 2.0}
    step:
        for key in held:
            x = x * key
        return x
    then: key.mul_(3.0)
    kind: input

a set of tensors
    held = {torch.ones(2)}
    more = torch.full((2,), 5.0)
    step: return x * len(held)
    then: held.add(more)

a tuple of a tensor as a key
    key = (torch.ones(2), 1)
    held = {key: 2.0}
    step: return x * held[key]
    then: held[key] = 7.0

a matrix where an array was
    import numpy as np
    held = {"m": np.ones((2, 2))}
    step: return x * float((held["m"] * held["m"]).sum())
    then: held["m"] = np.ones((2, 2)).view(np.matrix)

an array whose class is changed
    import numpy as np
    class Doubled(np.ndarray):
        def __getitem__(self, i):
            return 2 * super().__getitem__(i)
    held = [np.ones(2)]
    step: return x * float(held[0][0])
    then: held[0] = held[0].view(Doubled)

the level of a logger
    import logging
    logger = logging.getLogger("a.logger.of.paths")
    afterwards(logger.setLevel, logging.NOTSET)
    step: return x * (2.0 if logger.isEnabledFor(logging.INFO) else 3.0)
    then: logger.setLevel(logging.INFO)

the level of a logger above
    import logging
    above, logger = logging.getLogger("a.logger"), logging.getLogger("a.logger.of.paths")
    afterwards(above.setLevel, logging.NOTSET)
    step: return x * logger.getEffectiveLevel()
    then: above.setLevel(logging.ERROR)

the level of a handler
    import logging
    handler = logging.NullHandler()
    step: return x * (handler.level + 1)
    then: handler.setLevel(logging.INFO)

whether logging is disabled
    import logging
    logger = logging.getLogger("a.logger.of.paths")
    afterwards(logger.setLevel, logging.NOTSET)
    afterwards(logging.disable, logging.NOTSET)
    logger.setLevel(logging.INFO)
    step: return x * (2.0 if logger.isEnabledFor(logging.INFO) else 3.0)
    then: logging.disable(logging.CRITICAL)

the level of a logger that a helper asks
    import logging
    logger = logging.getLogger("a.logger.of.paths")
    afterwards(logger.setLevel, logging.NOTSET)
    def inner_one():
        return logger.isEnabledFor(logging.DEBUG)
    step: return x * (2.0 if inner_one() else 3.0)
    then: logger.setLevel(logging.DEBUG)

a line that a logger writes from now on
    import io
    import logging
    stream = io.StringIO()
    logger = logging.getLogger("a.logger.of.paths")
    afterwards(logger.setLevel, logging.NOTSET)
    handler = logging.StreamHandler(stream)
    logger.addHandler(handler)
    afterwards(logger.removeHandler, handler)
    step:
        logger.debug("a line")
        return x * 2
    then: logger.setLevel(logging.DEBUG)
    look: stream.getvalue()
    whole: len(results)

a line that a handler writes from now on
    import io
    import logging
    stream = io.StringIO()
    logger = logging.getLogger("a.logger.of.paths")
    afterwards(logger.setLevel, logging.NOTSET)
    logger.setLevel(logging.INFO)
    handler = logging.StreamHandler(stream)
    handler.setLevel(logging.ERROR)
    logger.addHandler(handler)
    afterwards(logger.removeHandler, handler)
    step:
        logger.warning("a line")
        return x * 2
    then: handler.setLevel(logging.INFO)
    look: stream.getvalue()
    whole: len(results)

whether distributions check their arguments
    from torchgrad_jax.distributions import Distribution, Normal
    afterwards(Distribution.set_default_validate_args, True)
    step: return x * (2.0 if Normal(0.0, 1.0)._validate_args else 3.0)
    then: Distribution.set_default_validate_args(False)

whether distributions check the values of their arguments
    from torchgrad_jax.distributions import Distribution, Normal
    afterwards(Distribution.set_default_validate_args, True)
    Distribution.set_default_validate_args(False)
    step: return Normal(0.0, -x.detach()).scale * 1.0
    then: Distribution.set_default_validate_args(True)
    whole: [str(result)[0] for result in results]
"""
