"""Seeded faults: a library with one fault is found by each check that claims to look at it.

The library is this package with one function replaced, and torch's recorded results are the judge, so that
nothing here needs torch.
"""

import sys
import types

import pytest

import torchgrad_jax
from compat_suite import judge as judging, libs
from compat_suite.cases import CASES
from compat_suite.cli import main
from compat_suite.execute import Result
from compat_suite.explain import answer, matching
from compat_suite.jobs import all_jobs
from compat_suite.libs import Lib
from compat_suite.oracles.torch_recorded import RecordedTorch


class Scaled(torchgrad_jax.autograd.Function):
    """The sine with a derivative of one's own; `slope` and `second` say what the derivatives are multiplied by."""

    slope = second = tangent = 1.0

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x.sin()

    @classmethod
    def backward(cls, ctx, g):
        x = ctx.saved_tensors[0]
        fixed = x.cos().detach()
        return cls.slope * g * (fixed + cls.second * (x.cos() - fixed))

    @classmethod
    def jvp(cls, ctx, t):
        return cls.tangent * t * ctx.saved_tensors[0].cos()


def derivative(**wrong):
    return type("Wrong", (Scaled,), wrong).apply


def no_gradient(x):
    return x.sin().detach().requires_grad_(x.requires_grad)


def into_nothing(x, out=None):
    return x.sin() if out is None else out


def clamped(x, dim, index):
    return torchgrad_jax.index_select(x, dim % x.dim(), index.clamp(0, x.shape[dim % x.dim()] - 1))


FAULTS = {
    "sign": ("sin", lambda x: -x.sin(), "value"),
    "dtype": ("sin", lambda x: x.sin().double(), "value"),
    "shape": ("sin", lambda x: x.sin()[None], "value"),
    "rounding too coarse": ("sin", lambda x: x.sin() * (1 + 1e-3), "value"),
    "stale view": ("transpose", lambda x, a, b: x.transpose(a, b).clone(), "value"),
    "out= ignored": ("sin", into_nothing, "out"),
    "missing gradient": ("sin", no_gradient, "grad"),
    "wrong gradient": ("sin", derivative(slope=1.001), "grad"),
    "wrong second gradient": ("sin", derivative(second=0.5), "second"),
    "wrong tangent": ("sin", derivative(tangent=-1.0), "jvp"),
    "clamped index": ("index_select", clamped, "error"),
}


def library(name, function):
    """This package with one function replaced."""
    module = types.ModuleType("faulty")
    module.__getattr__ = lambda attribute: getattr(torchgrad_jax, attribute)
    setattr(module, name, function)
    return Lib("faulty", module)


def verdicts(name, check):
    jobs = [j for j in all_jobs(CASES) if j.check == check and j.case.op == f"torch.{name}"]
    assert jobs, f"no case looks at {check} of {name}"
    return [judging.judge(job, RecordedTorch()) for job in jobs]


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_found(fault, monkeypatch):
    name, function, check = FAULTS[fault]
    assert not any(v.bad for v in verdicts(name, check)), "the right library passes"
    faulty = library(name, function)
    monkeypatch.setattr(judging, "ours", lambda: faulty)
    assert any(v.status == "failed" for v in verdicts(name, check))


def test_explain(capsys):
    (job,) = [j for j in matching("grad torch.sin(") if j.id.endswith(")")][:1]
    assert main(["explain", job.id, "--oracle", "recorded"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{job.id}: passed")
    assert "import torchgrad_jax as torch" in text
    assert "sin" in text.partition("jaxpr of the call:")[2]
    assert "cos" not in text.partition("jaxpr of the call:")[2]
    assert text.count("gradient 0:") == 2
    assert main(["explain", "sin("]) == 2
    assert "cases have this" in capsys.readouterr().err
    assert answer(None) == "has nothing to say of this"
    assert answer(Result(error=("ValueError", "no"))) == "ValueError: no"


def test_another_library_is_judged(monkeypatch, capsys):
    """`--library` takes any module that can be imported; the choice ends with the test."""
    monkeypatch.setattr(libs, "_JUDGED", ["torchgrad_jax"])
    monkeypatch.setitem(sys.modules, "faulty", library("sin", lambda x: -x.sin()).module)
    arguments = ["run", "--op", "torch.sin", "--checks", "value", "--oracle", "recorded"]
    assert main(arguments) == 0
    assert main([*arguments, "--library", "faulty"]) == 1
    assert libs.ours().name == "faulty"
    assert "differs from" in capsys.readouterr().out
