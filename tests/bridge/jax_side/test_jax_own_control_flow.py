"""Control flow of JAX's own over tensors: it works where no gradient is lost, and an error says what to import else."""

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as torch
from torchgrad_jax import interop

ROWS = torch.tensor([1.0, -2.0, 3.0])

# By the name of the function: a call with a tensor `x`, whose function closes over a tensor `w`.
CALLS: dict[str, Any] = {
    "scan": lambda of, x, w: of.scan(lambda c, r: (c * r * w, c), x.sum(), ROWS)[0],
    "scan's rows": lambda of, x, w: of.scan(lambda c, r: (c, c * r * w), torch.tensor(2.0), x)[1].sum(),
    "map": lambda of, x, w: of.map(lambda r: r * w, x).sum(),
    "fori_loop": lambda of, x, w: of.fori_loop(0, 3, lambda i, c: c * w, x).sum(),
    "while_loop": lambda of, x, w: of.while_loop(
        lambda c: jnp.asarray(c.detach().abs().sum() < 50), lambda c: c * w, x
    ).sum(),
    "cond": lambda of, x, w: of.cond(True, lambda c: c * w, lambda c: c * w * w, x).sum(),
    "cond without arguments": lambda of, x, w: of.cond(True, lambda: (x * w).sum(), lambda: (x * w * w).sum()),
    "switch": lambda of, x, w: of.switch(1, [lambda c: c * w * w, lambda c: c * w], x).sum(),
    "associative_scan": lambda of, x, w: of.associative_scan(lambda a, b: a * b * w, x).sum(),
    "checkpoint": lambda of, x, w: (jax if of is jax.lax else of).checkpoint(lambda c: c * w)(x).sum(),
}

names = pytest.mark.parametrize("name", CALLS)


def inputs(of_x: bool, of_w: bool) -> Any:
    return torch.tensor([0.5, 1.5, 1.0], requires_grad=of_x), torch.tensor(1.5, requires_grad=of_w)


@pytest.mark.parametrize("way", [lambda f: f, torch.compile], ids=["eager", "compiled"])
@pytest.mark.parametrize("wanted", [(True, False), (False, True)], ids=["argument", "closure"])
@names
def test_a_gradient_that_would_be_lost_is_refused(name, wanted, way):
    """Of a leaf and of a tensor with a graph; the function that the error names gives the gradient."""
    call, given = CALLS[name], inputs(*wanted)
    imported = name.split()[0].removesuffix("'s")
    for x, w in (given, [t * 1 for t in given]):
        with pytest.raises(RuntimeError, match=f"Import {imported} from torchgrad_jax.interop"):
            way(lambda x, w=w: call(jax.lax, x, w))(x)
    x, w = given
    call(interop, x, w).backward()
    assert (x if wanted[0] else w).grad is not None


TRANSFORMS = {
    "func.grad": lambda f, x: torch.func.grad(f)(x),
    "func.jvp": lambda f, x: torch.func.jvp(f, (x,), (x,)),
    "dual tensors": lambda f, x: torch.func.jacfwd(f)(x),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@names
def test_it_is_refused_inside_of_transforms(name, transform):
    x, w = inputs(False, False)
    for f in (lambda x: CALLS[name](jax.lax, x, w), lambda w: CALLS[name](jax.lax, x, w)):
        with pytest.raises(RuntimeError, match=r"from torchgrad_jax\.interop|cut off from the graph"):
            TRANSFORMS[transform](f, x if f.__code__.co_varnames == ("x",) else w)


@names
def test_jax_computes_where_no_gradient_is_wanted(name):
    x, w = inputs(False, False)
    want = CALLS[name](interop, x, w)
    with torch.no_grad():
        learned = CALLS[name](jax.lax, *inputs(True, True))
    compiled = torch.compile(lambda x: CALLS[name](jax.lax, x, w))
    for got in (CALLS[name](jax.lax, x, w), learned, compiled(x), jax.jit(lambda x: CALLS[name](jax.lax, x, w))(x)):
        assert isinstance(got, torch.Tensor)
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("transform", ["jax.grad", "jax.grad of leaves", "to_jax", "from_jax", "vmap"])
@pytest.mark.parametrize("name", [name for name in CALLS if name != "while_loop"])  # JAX has no gradient of it
def test_jax_differentiates_its_own(name, transform):
    x, w = inputs(True, True)
    want = torch.autograd.grad(CALLS[name](interop, x, w), (x, w))

    def f(x, w):
        return CALLS[name](jax.lax, x, w)

    if transform == "to_jax":
        got = jax.grad(torch.to_jax(f), (0, 1))(*(jnp.asarray(t.detach()) for t in (x, w)))
    elif transform == "from_jax":
        got = torch.autograd.grad(torch.from_jax(f)(x, w), (x, w))
    elif transform == "vmap":
        got = torch.autograd.grad(torch.func.vmap(f)(x[None], w[None]).sum(), (x, w))
    else:
        got = jax.grad(f, (0, 1))(*inputs("leaves" in transform, "leaves" in transform))
    for a, b in zip(jax.tree.leaves(got), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_a_condition_that_gives_a_tensor_is_explained():
    with pytest.raises(TypeError, match=r"import while_loop from torchgrad_jax\.interop"):
        jax.lax.while_loop(lambda c: c.sum() < 9, lambda c: c * 2, torch.ones(2))
    assert jax.lax.while_loop(lambda c: jnp.asarray(c.sum() < 9), lambda c: c * 2, torch.ones(2)).tolist() == [8.0, 8.0]


def test_what_jax_reads_of_a_tensor_in_a_step_is_refused():
    w = torch.tensor(2.0, requires_grad=True)
    reads: list[Any] = [jnp.sin, jnp.asarray, lambda w: jnp.ones(()) * w]
    for read in reads:
        with pytest.raises(RuntimeError, match=r"cut off from the graph|from torchgrad_jax\.interop"):
            jax.lax.scan(lambda c, _, read=read: (c, read(w)), 0.0, None, 2)


FUNCTIONS = ("associative_scan", "cond", "fori_loop", "map", "scan", "switch", "while_loop")


def test_each_function_of_jax_has_one_of_the_same_name_and_arguments():
    for name in FUNCTIONS:
        ours, theirs = getattr(interop, name), getattr(jax.lax, name)
        assert ours is not theirs
        assert theirs.__module__.startswith("jax.")
        for parameter in inspect.signature(ours).parameters.values():
            if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL) and name not in (
                "cond",
                "switch",
            ):
                assert parameter.name in inspect.signature(theirs).parameters
    assert interop.checkpoint is not jax.checkpoint
    assert jax.checkpoint.__module__.startswith("jax.")
