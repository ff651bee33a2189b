"""Eight faults, each planted in a library and found by every check that claims to find it.

The judge is this package itself, so that nothing here needs torch, but for the two checks that play torch's own tables.
`CLAIMS` is the whole claim: what is not in a check's row, that check does not look at.
"""

import subprocess
import sys
import types
from argparse import Namespace

import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax
from compat_suite import modules
from compat_suite.fuzz import small, ways
from compat_suite.fuzz.programs import Program, compare
from compat_suite.libs import Lib, live_torch
from compat_suite.modules import player
from compat_suite.opinfo import runner, table
from torchgrad_jax.testing import assert_matches_jax, assert_matches_torch

right = torchgrad_jax


class FrozenRate(right.optim.lr_scheduler.StepLR):
    """A schedule whose optimizer keeps its learning rate."""

    def step(self, epoch=None):
        rates = [g["lr"] for g in self.optimizer.param_groups]
        super().step(epoch)
        for group, rate in zip(self.optimizer.param_groups, rates):
            group["lr"] = rate


def clamped(x, dim, index):
    return right.index_select(x, dim, index.clamp(0, x.shape[dim] - 1))


def no_gradient(x):
    return right.sin(x.detach())


def changed(module, **wrong):
    """A module with other things under some names."""
    copy = types.ModuleType(module.__name__)
    copy.__dict__.update({k: getattr(module, k) for k in dir(module)})
    copy.__dict__.update(wrong)
    return copy


FAULTS = {
    "sign": {"sin": lambda x: -right.sin(x)},
    "dtype": {"sin": lambda x: right.sin(x).float()},
    "missing gradient": {"sin": no_gradient},
    "stale view": {"t": lambda x: right.t(x).clone()},
    "off-by-one version": {"neg_": lambda x: right.neg_(x).mul_(1.0)},
    "frozen learning rate": {
        "optim": changed(right.optim, lr_scheduler=changed(right.optim.lr_scheduler, StepLR=FrozenRate))
    },
    "clamped index": {"index_select": clamped},
}
SEEN = ("sign", "dtype", "missing gradient", "stale view")
CLAIMS = {
    "fuzz": (*SEEN, "off-by-one version", "clamped index"),
    "fuzz --way compile": SEEN,  # versions: see ledger/omitted.toml
    "fuzz --way vmap": ("sign", "dtype"),
    "small": (*SEEN, "off-by-one version", "clamped index"),
    "assert_matches_torch": (*SEEN, "frozen learning rate", "clamped index"),
    "assert_matches_jax": ("sign", "dtype", "missing gradient", "frozen learning rate"),
}


def library(fault):
    """This package with one fault, or without."""
    return Lib("torchgrad_jax", changed(right, **FAULTS.get(fault, {})))


LINES = (
    "v0 = torch.tensor([[1.25, -2.0], [0.5, 0.75]], dtype=torch.float64, requires_grad=True)",
    "v1 = torch.tensor([[0.5, -1.5], [2.5, 0.25]], dtype=torch.float64)",
    "v2 = torch.sin(v0)",
    "v3 = torch.t(v1)",
    "torch.neg_(v1)",
)
OUTSIDE = "v4 = torch.index_select(v1, 0, torch.tensor([2]))"


def by_fuzz(fault):
    return compare(Program((*LINES, OUTSIDE)), library(fault), right_library())


def by_fuzz_compiled(fault):
    return ways.compare_compiled(Program(LINES, way="compile"), library(fault), right_library())


def by_fuzz_mapped(fault):
    return ways.compare_rows(Program(LINES[:3], way="vmap"), library(fault), right_library())


def right_library():
    return library(None)


def by_small(fault):
    lines = (
        "v0 = torch.sin(x)",
        "v1 = torch.t(z)",
        "torch.neg_(z)",
        "v2 = torch.index_select(z, 0, torch.tensor([2]))",
    )
    (want, got) = (small.Player(lib) for lib in (right_library(), library(fault)))
    return [d for line in lines for d in small.apart(got.play(line), want.play(line))]


def trained(torch, x):
    """Two steps of an optimizer under a schedule."""
    p = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([p], lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    for _ in range(2):
        optimizer.zero_grad()
        (p * p).sum().backward()
        optimizer.step()
        schedule.step()
    return x * p.detach()


PROGRAMS = {
    "stale view": lambda torch, x: (y := x * 1, torch.t(y)),
    "frozen learning rate": trained,
    "clamped index": lambda torch, x: torch.index_select(x, 0, torch.tensor([2])),
}


def failure(check, *args, **kwargs):
    try:
        check(*args, **kwargs)
    except AssertionError as error:
        return error
    return None


def by_assert_matches_torch(fault):
    """The judge runs under the name of another module."""
    name, module = "library_that_judges", library(fault).module
    module.__spec__ = types.SimpleNamespace(name=name)
    sys.modules[name] = module
    try:
        raises = IndexError if fault == "clamped index" else None
        programs = [PROGRAMS.get(fault, lambda torch, x: torch.sin(x))] if fault else PROGRAMS.values()
        expected = [IndexError if p is PROGRAMS["clamped index"] else raises for p in programs]
        found = [
            failure(assert_matches_torch, p, [np.array([[0.5, -1.0], [2.0, 0.25]])], oracle=name, raises=e)
            for p, e in zip(programs, expected)
        ]
    finally:
        del sys.modules[name]
    return any(found)


def by_assert_matches_jax(fault):
    lib = library(fault).module
    if fault == "frozen learning rate":
        return failure(assert_matches_jax, lambda x: trained(lib, x), lambda x: x * jnp.asarray(STEPPED, x.dtype), X)
    return failure(assert_matches_jax, lambda x: lib.sin(x), jnp.sin, X, dtypes=["float64"])


X = [np.array([[0.5, -1.0], [2.0, 0.25]])]
STEPPED = 1 * (1 - 0.2) * (1 - 0.1)
CHECKS = {
    "fuzz": by_fuzz,
    "fuzz --way compile": by_fuzz_compiled,
    "fuzz --way vmap": by_fuzz_mapped,
    "small": by_small,
    "assert_matches_torch": by_assert_matches_torch,
    "assert_matches_jax": by_assert_matches_jax,
}


@pytest.mark.parametrize("check", CHECKS)
def test_the_right_library_passes(check):
    assert not CHECKS[check](None)


@pytest.mark.parametrize(("check", "fault"), [(c, f) for c, claimed in CLAIMS.items() for f in claimed])
def test_the_fault_is_found(check, fault):
    assert CHECKS[check](fault)


OPINFO = {
    "sign": ("sin", "forward"),
    "dtype": ("sin", "forward"),
    "missing gradient": ("sin", "grad"),
    "stale view": ("t", "layout"),
    "off-by-one version": ("neg", "inplace"),
    "clamped index": ("index_select", "errors"),
}
"""The operator in torch's table, and the check that has to see the fault."""


def wrong_samples(fault, monkeypatch):
    """How many samples of torch's table differ where a fault should show."""
    name, check = OPINFO[fault]
    (info,) = [row for row in table() if row.name == name]
    checks = ("forward", check) if check == "layout" else (check,)
    return runner.Runner(2, 0, checks).run(info)[check].failed


@pytest.mark.oracle
@pytest.mark.parametrize("fault", OPINFO)
def test_the_fault_is_found_by_opinfo(fault, monkeypatch):
    assert not wrong_samples(fault, monkeypatch)
    faulty = library(fault)
    monkeypatch.setattr(runner, "ours", lambda: faulty)
    if fault == "off-by-one version":
        monkeypatch.setattr(right.Tensor, "neg_", FAULTS[fault]["neg_"])
    assert wrong_samples(fault, monkeypatch)


MODULES = {
    "sign": ("Sigmoid", "forward"),
    "dtype": ("Sigmoid", "forward"),
    "missing gradient": ("Sigmoid", "grad"),
    "frozen learning rate": ("SGD", "schedule"),
}


def wrong_plays(fault):
    name, check = MODULES[fault]
    (job,) = modules.chosen(Namespace(only=None, name=[name], samples=1, seed=0))
    return modules.judge(job[1])[check].failed


@pytest.mark.oracle
@pytest.mark.parametrize("fault", MODULES)
def test_the_fault_is_found_by_modules(fault, monkeypatch):
    assert not wrong_plays(fault)
    faulty = library(fault)
    if fault == "frozen learning rate":
        monkeypatch.setattr(player, "ours", lambda: faulty)
    else:
        function = FAULTS[fault]["sin"]  # a layer computes this in place of its own function
        monkeypatch.setattr(right.nn.Sigmoid, "forward", lambda self, x: function(x))
        monkeypatch.setattr(torch_module().nn.Sigmoid, "forward", lambda self, x: x.sin())
    assert wrong_plays(fault)


def torch_module():
    return live_torch().module


DEVICES = """
from compat_suite.fuzz.ways import compare_on_devices, two_devices
two_devices()
from compat_suite.fuzz.programs import Program
from compat_suite.selftest.test_eight_faults import LINES, library
import torchgrad_jax

def moved_away(x):
    with torchgrad_jax.no_grad():
        x.data = torchgrad_jax.tensor(x.tolist(), dtype=x.dtype)
    return torchgrad_jax.neg_(x)

def found(**wrong):
    lib = library(None)
    lib.module.__dict__.update(wrong)
    difference = compare_on_devices(Program((*LINES[:3], LINES[4]), way="devices"), lib, library(None))
    return difference and difference.attribute

print(found(), found(sin=lambda x: -torchgrad_jax.sin(x)), found(neg_=moved_away))
"""


def test_faults_over_two_devices():
    """A wrong sign, and an operator in place whose tensor lies on one device afterwards."""
    run = subprocess.run([sys.executable, "-c", DEVICES], capture_output=True, text=True, check=False)
    assert run.stdout.split() == ["None", "v2.grad_fn", "v1.sharding"], run.stdout + run.stderr
