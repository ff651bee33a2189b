"""Torch's table of layers: construction, results, states, gradients and errors."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
from typing import Any

from ..libs import Lib, dtype_name
from ..opinfo.results import attempt, tensors
from ..opinfo.runner import expect_exception
from ..opinfo.translate import Untranslatable, cotangent
from .player import Player

CHECKS = ("construct", "forward", "layout", "node", "grad", "gradgrad", "copy", "errors", "messages")
FACTORS = {
    "BCELoss": 4.0,  # second derivatives are inverse cubes of how far inputs are from 0 and 1
    "CTCLoss": 4.0,  # torch sums its float32 probabilities with an error of 3e-5, here of 4e-6
    "TransformerEncoderLayer": 4.0,  # gradients through two normalizations cancel to 1e-5
}
"""How much wider than the default a layer is judged, and why."""
DTYPES = ("float32", "float64", "complex128")


class Layers(Player):
    """Plays rows of `module_db`."""

    checks = CHECKS

    def play(self, info: Any) -> None:
        self.info = info
        self.compare.factor = FACTORS.get(info.name.removeprefix("nn."), 1.0)
        supported = [d for d in DTYPES if self.torch.dtype(d) in info.dtypes]
        modes = (True, False) if info.train_and_eval_differ else (True,)
        for dtype in supported:
            for training in modes:
                self.mode(dtype, training)
        if info.module_error_inputs_func is not None:
            self.failures()

    def arguments(self, dtype: str, training: bool) -> list[Any]:
        """Torch's samples for one dtype and mode."""
        self.torch.module.manual_seed(self.seed)
        made = self.info.module_inputs_func(
            self.info, device="cpu", dtype=self.torch.dtype(dtype), requires_grad=True, training=training
        )
        return list(made)

    def mode(self, dtype: str, training: bool) -> None:
        for i, sample in self.spread(self.arguments(dtype, training)):
            mode = "train" if training else "eval"
            label = f"{dtype} {mode} #{i} {sample.desc}".strip()
            self.translate.forget()
            built = self.one("construct", label, lambda s=sample: self.construct(s, dtype, training))
            if built is None or sample.forward_input is None:
                continue
            ran = self.one("forward", label, lambda s=sample, b=built: self.forward(s, *b))
            if ran is None:
                continue
            self.one("layout", label, lambda r=ran: self.layout(*r[:2]))
            self.one("node", label, lambda r=ran: self.node(*r[:2]))
            grads = self.one("grad", label, lambda r=ran, b=built: self.gradients(*r, *b))
            if self.info.supports_gradgrad and dtype != "float32" and grads is not None:
                self.one("gradgrad", label, lambda g=grads: self.second(*g))
            self.one("copy", label, lambda s=sample, b=built: self.copied(s, *b))

    # --- construction -------------------------------------------------------------------------

    def construct(self, sample: Any, dtype: str, training: bool) -> tuple[Any, Any]:
        """Both modules, from the same seed."""
        given = sample.constructor_input
        dt = {} if not self.takes_dtype() else {"dtype": self.torch.dtype(dtype)}
        want = self.seeded(self.torch, lambda: self.info.module_cls(*given.args, **given.kwargs, **dt))
        if isinstance(want, Exception):
            raise Untranslatable("torch does not build it")
        args, kwargs = self.translate.value(given.args), self.translate.value(given.kwargs)
        cls = self.translate.type(self.info.module_cls)
        dt = self.translate.value(dt)
        got = self.seeded(self.mine, lambda: cls(*args, **kwargs, **dt))
        if isinstance(got, Exception):
            raise got
        for lib, m in ((self.torch, want), (self.mine, got)):
            m.to(lib.dtype(dtype)).train(training)
        self.same(repr(got), repr(want), "repr")
        if not self.info.is_lazy:
            self.states(got, want)
        return got, want

    def takes_dtype(self) -> bool:
        """Whether the constructor has ``dtype=``."""
        return "dtype" in inspect.signature(self.info.module_cls).parameters

    def states(self, got: Any, want: Any) -> None:
        """Parameters and buffers, their order and which require gradients."""
        self.state(dict(got.state_dict()), dict(want.state_dict()), "state")
        for kind in ("named_parameters", "named_buffers"):
            mine, theirs = ([(n, t.requires_grad) for n, t in getattr(m, kind)()] for m in (got, want))
            self.same(mine, theirs, kind)

    # --- calls --------------------------------------------------------------------------------

    def call(self, lib: Lib, module: Any, args: Any, kwargs: Any) -> Any:
        return self.seeded(lib, lambda: module(*args, **kwargs))

    def forward(self, sample: Any, mine: Any, theirs: Any) -> tuple[Any, Any, Any, Any]:
        """Results, and the module's state afterwards."""
        given = sample.forward_input
        args, kwargs = self.translate.value(given.args), self.translate.value(given.kwargs)
        want = self.call(self.torch, theirs, given.args, given.kwargs)
        got = self.call(self.mine, mine, args, kwargs)
        if isinstance(want, Exception):
            expect_exception(got, want)
            raise Untranslatable("both raise")
        if isinstance(got, Exception):
            raise got
        self.compare.equal(_plain(got), _plain(want))
        self.states(mine, theirs)
        return got, want, (args, kwargs), (given.args, given.kwargs)

    def layout(self, got: Any, want: Any) -> None:
        """Strides and offsets."""
        for g, w in zip(tensors(self.mine, _plain(got)), tensors(self.torch, _plain(want))):
            mine, theirs = ((tuple(t.stride()), t.storage_offset()) for t in (g, w))
            self.same(mine, theirs, f"stride and offset of shape {tuple(w.shape)}")

    def node(self, got: Any, want: Any) -> None:
        """Names of the nodes that results come from."""
        for g, w in zip(tensors(self.mine, _plain(got)), tensors(self.torch, _plain(want))):
            mine, theirs = ((t.requires_grad, t.grad_fn and t.grad_fn.name()) for t in (g, w))
            self.same(mine, theirs, "node")

    # --- gradients ----------------------------------------------------------------------------

    def gradients(self, got: Any, want: Any, my_in: Any, their_in: Any, mine: Any, theirs: Any) -> Any:
        """Gradients of parameters and inputs, recorded for the next ones."""
        outs = [
            (g, w)
            for g, w in zip(tensors(self.mine, _plain(got)), tensors(self.torch, _plain(want)))
            if w.requires_grad
        ]
        leaves = [
            (g, w)
            for g, w in zip(
                [*mine.parameters(), *tensors(self.mine, _plain(my_in))],
                [*theirs.parameters(), *tensors(self.torch, _plain(their_in))],
            )
            if w.requires_grad
        ]
        if not outs or not leaves:
            raise Untranslatable("nothing to differentiate")
        found = []
        for side, lib in ((0, self.mine), (1, self.torch)):
            o, i = ([pair[side] for pair in pairs] for pairs in (outs, leaves))
            cts = [cotangent(tuple(t.shape), dtype_name(t), n) for n, t in enumerate(o)]
            cts = [lib.from_array(c.astype(dtype_name(t))) for c, t in zip(cts, o)]
            found.append((attempt(functools.partial(_grad, lib, o, i, cts)), i))
        self.agree(found[0][0], found[1][0], False)
        if isinstance(found[1][0], Exception):
            raise Untranslatable("torch raises")
        return found

    def second(self, mine: Any, theirs: Any) -> None:
        """Gradients of gradients."""
        results = []
        for lib, (grads, leaves) in ((self.mine, mine), (self.torch, theirs)):
            roots = [(n, g) for n, g in enumerate(grads) if g is not None and g.requires_grad]
            if not roots:
                results.append(())
                continue
            cts = [cotangent(tuple(g.shape), dtype_name(g), 50 + n) for n, g in roots]
            cts = [lib.from_array(c.astype(dtype_name(g))) for c, (_, g) in zip(cts, roots)]
            again = functools.partial(_grad, lib, [g for _, g in roots], leaves, cts, False)
            results.append(attempt(again))
        self.agree(results[0], results[1], True)

    # --- copies -------------------------------------------------------------------------------

    def copied(self, sample: Any, mine: Any, theirs: Any) -> None:
        """A pickled and a deep copy work as the original does."""
        given = sample.forward_input
        args, kwargs = self.translate.value(given.args), self.translate.value(given.kwargs)
        want = self.call(self.torch, theirs, given.args, given.kwargs)
        for how in (copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))):
            theirs_too = attempt(lambda h=how: h(theirs))
            twin = attempt(lambda h=how: h(mine))
            if isinstance(theirs_too, Exception):
                expect_exception(twin, theirs_too)
                continue
            if isinstance(twin, Exception):
                raise twin
            self.same(repr(twin), repr(mine), "repr of a copy")
            got = self.call(self.mine, twin, args, kwargs)
            if isinstance(got, Exception):
                raise got
            if theirs.training and list(theirs.buffers()):
                continue  # statistics have moved on
            self.compare.equal(_plain(got), _plain(want))

    # --- errors -------------------------------------------------------------------------------

    def failures(self) -> None:
        """Wrong constructions and wrong calls."""
        for training in (True, False):
            made = self.info.module_error_inputs_func(
                self.info, device="cpu", dtype=self.torch.module.float64, requires_grad=False, training=training
            )
            for i, case in enumerate(made):
                self.translate.forget()
                self.one("errors", f"error {i}", lambda c=case: self.failure(c, False))
                self.one("messages", f"error {i}", lambda c=case: self.failure(c, True))

    def failure(self, case: Any, message: bool) -> None:
        sample = case.module_error_input
        made, fed = sample.constructor_input, sample.forward_input

        def there() -> Any:
            module = self.info.module_cls(*made.args, **made.kwargs)
            return module(*fed.args, **fed.kwargs) if fed is not None else module

        def here() -> Any:
            value = self.translate.value
            cls = self.translate.type(self.info.module_cls)
            module = cls(*value(made.args), **value(made.kwargs))
            return module(*value(fed.args), **value(fed.kwargs)) if fed is not None else module

        want, got = self.seeded(self.torch, there), self.seeded(self.mine, here)
        self.refused(got, want, case, message)


def _grad(lib: Lib, outs: Any, leaves: Any, cts: Any, create: bool = True) -> Any:
    return lib.module.autograd.grad(outs, leaves, cts, create_graph=create, allow_unused=True)


def _plain(x: Any) -> Any:
    """Named tuples as tuples, so that their parts are looked at."""
    if isinstance(x, tuple | list):
        return type(x)(map(_plain, x)) if type(x) in (tuple, list) else tuple(map(_plain, x))
    return x
