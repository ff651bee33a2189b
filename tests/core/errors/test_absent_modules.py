"""Modules of torch that are out of scope: they can be imported, answer what programs ask first, and refuse the rest."""

import importlib
import operator
import subprocess
import sys

import pytest

import torchgrad_jax as tg
from torchgrad_jax._core.errors.absent import MODULES


@pytest.mark.parametrize("name", MODULES)
def test_each_module_is_imported_and_refuses(name):
    module = importlib.import_module(f"torchgrad_jax.{name}")
    row = MODULES[name]
    assert module is operator.attrgetter(name)(tg)
    assert row.reason in str(module.__doc__)
    assert module.__all__ == sorted([*row.refused.split(), *row.answers, *row.works, *row.constants])
    for refused in row.refused.split():
        with pytest.raises((RuntimeError, AssertionError), match=rf"{name}.{refused}\(\)|not compiled"):
            getattr(module, refused)()
    for answering, value in row.answers.items():
        assert getattr(module, answering)("anything") is value
    with pytest.raises(AttributeError, match=rf"torch.{name}.surely_not_there"):
        module.surely_not_there


UNDER_THE_ALIAS = """
import torchgrad_jax as tg

tg.install_as_torch()
import torch.ao.quantization
import torch.onnx.operators
import torch.sparse as sparse
from torch.onnx.symbolic_helper import parse_args

assert sparse is tg.sparse
assert torch.onnx.operators.shape_as_tensor(torch.ones(2, 3)).tolist() == [2, 3]
assert parse_args("v", "i")(len) is len
from torch.ao.quantization import FakeQuantizeBase, ObserverBase
from torch.distributed.rpc import RRef
from torch.utils.data.datapipes.iter.combinatorics import ShufflerIterDataPipe

kinds = FakeQuantizeBase, ObserverBase, RRef, ShufflerIterDataPipe, torch._C.Graph, torch._C.Value
for kind in kinds:
    assert not isinstance(torch.nn.Linear(2, 2), kind)
    derived = type("Derived", (kind,), {})
    try:
        derived()
    except NotImplementedError as error:
        assert kind.__name__ in str(error)
    else:
        raise AssertionError(kind)
for missing in ("from torch.ao import surely_not_there", "import torch.onnx.surely_not_there"):
    try:
        exec(missing)
    except ImportError as error:
        assert "surely_not_there" in str(error)
    else:
        raise AssertionError(missing)
"""


def test_they_are_the_same_modules_under_the_alias():
    """In a process of its own: here torch itself may be imported."""
    subprocess.run([sys.executable, "-c", UNDER_THE_ALIAS], check=True)


def test_what_a_pass_returned_is_read_by_name():
    found = importlib.import_module("torchgrad_jax.fx.passes.infra.pass_base").PassResult("module", modified=True)
    assert found == ("module", True)
    assert (found.graph_module, found.modified) == ("module", True)


def test_tensors_that_carry_their_mask_are_refused():
    x = tg.ones(2)
    for name in ("MaskedTensor", "as_masked_tensor", "masked_tensor"):
        with pytest.raises(NotImplementedError, match=f"torch.masked.{name}"):
            getattr(tg.masked, name)(x, x > 0)
    assert not tg.masked.is_masked_tensor(x)
    assert not isinstance(x, vars(tg.masked)["MaskedTensor"])
