"""Names and signatures of torch.optim, compared with torch's."""

import importlib
import inspect

import pytest

from tests.engine.helpers import program

OPTIMIZERS = [
    "SGD",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "RAdam",
    "Adagrad",
    "Adadelta",
    "RMSprop",
    "Rprop",
    "ASGD",
    "LBFGS",
    "Adafactor",
    "Muon",
    "SparseAdam",
    "Optimizer",
]
FUNCTIONS = {
    "sgd": "sgd",
    "adam": "adam",
    "adamw": "adamw",
    "adamax": "adamax",
    "nadam": "nadam",
    "radam": "radam",
    "adagrad": "adagrad",
    "adadelta": "adadelta",
    "rmsprop": "rmsprop",
    "rprop": "rprop",
    "asgd": "asgd",
    "_adafactor": "adafactor",
    "_muon": "muon",
}
METHODS = [
    "step",
    "zero_grad",
    "state_dict",
    "load_state_dict",
    "add_param_group",
    "register_step_pre_hook",
    "register_step_post_hook",
    "register_state_dict_pre_hook",
    "register_state_dict_post_hook",
    "register_load_state_dict_pre_hook",
    "register_load_state_dict_post_hook",
]


LATER = {"LBFGS": ["maximize"]}
"""Arguments that torch has since 2.14."""


def shape(fn):
    """Names, kinds and defaults of the arguments."""
    rows = inspect.signature(fn).parameters.values()
    return [[p.name, str(p.kind), "-" if p.default is p.empty else repr(p.default)] for p in rows]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(name, same):
    def run(m):
        return [row for row in shape(getattr(m.optim, name).__init__) if row[0] not in LATER.get(name, [])]

    same(run, f"init-{name}")


@pytest.mark.parametrize("name", METHODS)
def test_method(name, same):
    same(program(f"method-{name}", lambda m: shape(getattr(m.optim.Optimizer, name))))


@pytest.mark.parametrize("module", FUNCTIONS)
def test_function(module, same):
    def run(m):
        found = importlib.import_module(f"{m.__name__}.optim.{module}")
        return shape(getattr(found, FUNCTIONS[module]))

    same(run, f"function-{module}")


def test_schedules(same):
    def run(m):
        space = m.optim.lr_scheduler
        return {n: shape(getattr(space, n).__init__) for n in sorted(space.__all__)}

    same(run, "schedules")


def test_averages(same):
    def run(m):
        space = m.optim.swa_utils
        return {n: shape(getattr(space, n)) for n in sorted(space.__all__) if n != "AveragedModel"}

    same(run, "averages")


def test_names(same):
    same(program("names", lambda m: [n for n in sorted(m.optim.__all__) if hasattr(m.optim, n)]))
