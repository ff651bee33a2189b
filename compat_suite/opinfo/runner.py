"""Runs torch's own samples of an operator on both libraries and scores how they end."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..compare import UNIMPLEMENTED
from ..libs import Lib, dtype_name, live_torch, ours
from .results import Comparison, Different, attempt, brief, tensors, where
from .translate import Translator, Untranslatable, cotangent

CHECKS = ("forward", "layout", "node", "grad", "gradgrad", "jvp", "vmap", "inplace", "out", "errors", "messages")
FORWARD_DTYPES = ("float32", "float64", "int64", "bool", "complex64", "complex128", "bfloat16", "float16", "uint8")
GRAD_DTYPES = ("float64", "complex128")
UNORDERED = ("sort", "argsort", "topk", "kthvalue")
"""Operators that leave the order of equal elements open."""
UNINITIALISED = ("empty", "empty_like", "empty_permuted", "new_empty", "empty_strided", "new_empty_strided")
POOL = 200
"""Samples of an operator and dtype among which some are chosen."""


@dataclass
class Score:
    """Counts of one check of one operator."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    first: str = ""
    reasons: dict[str, int] = field(default_factory=dict)

    def fail(self, text: str) -> None:
        """Count a failure; the first one is kept."""
        self.failed += 1
        self.first = self.first or text
        head = text.partition(" | ")[2][:160]
        self.reasons[head] = self.reasons.get(head, 0) + 1

    def count(self, label: str, action: Callable[[], Any], skips: Sequence[str] = ()) -> Any:
        """Run a check and count how it ended; its result, or None. Errors of the classes `skips` are no failures."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                out = action()
            except Untranslatable as reason:
                self.skipped += 1
                self.reasons.setdefault(f"skipped: {reason}", 0)
            except Different as reason:
                self.fail(f"{label} | {reason}")
            except Exception as error:
                if type(error).__name__ in skips:
                    self.skipped += 1
                    return None
                self.fail(f"{label} | {type(error).__name__}: {str(error)[:300]} [{where(error)}]")
            else:
                self.passed += 1
                return out
        return None


def call(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Nothing around the operator."""
    return op(*args, **kwargs)


def expect_exception(got: Any, want: Exception) -> None:
    """An exception of the same type; a LinAlgError is a _LinAlgError in torch."""
    if type(got).__name__.lstrip("_") == type(want).__name__.lstrip("_"):
        return
    said = f"{type(got).__name__}({str(got)[:120]})" if isinstance(got, Exception) else "no exception"
    raise Different(f"got {said}, want {type(want).__name__}({str(want)[:160]})")


class Gradients:
    """Compares gradients of two libraries: `mine`, and `torch`, whose answers are right."""

    mine: Lib
    torch: Lib
    compare: Comparison

    def agree(self, got: Any, want: Any, lenient: bool = False) -> None:
        """Gradients, or the exception in their place.

        Whether a second gradient that is 0 everywhere comes as zeros or as None depends on the
        formula that a library differentiates, so `lenient` takes the two as equal.
        """
        if isinstance(want, Exception):
            if lenient and UNIMPLEMENTED.search(str(want)):
                raise Untranslatable("torch has no such derivative")
            expect_exception(got, want)
            return
        if isinstance(got, Exception):
            raise got
        for i, (g, w) in enumerate(zip(got, want)):
            if (g is None) != (w is None):
                zero = not self.torch.array(w).any() if g is None else not self.mine.array(g).any()
                if zero and lenient:
                    continue
                raise Different(
                    f"gradient {i}: {'None' if g is None else 'a tensor'} here, not in torch" + " (zeros)" * zero
                )
            if w is not None and g is not None:
                self.compare.equal(g, w, what=f"gradient {i}: ")


class Same:
    """Says torch's samples to torch itself."""

    def value(self, x: Any) -> Any:
        """The argument."""
        return x

    callable = value

    def tensor(self, x: Any) -> Any:
        """The tensor."""
        return x


class Runner(Gradients):
    """Runs one operator's samples on both libraries."""

    def __init__(self, samples: int, seed: int = 0, checks: tuple[str, ...] = CHECKS) -> None:
        self.torch, self.mine = live_torch(), ours()
        self.translate = Translator(self.torch, self.mine)
        self.samples, self.seed, self.checks = samples, seed, checks
        self.mapped = "vmap" in checks and self.mine.has("func.vmap")

    def run(self, info: Any) -> dict[str, Score]:
        """All checks of one operator variant."""
        self.info = info
        self.compare = Comparison(self.torch, self.mine, info.name)
        self.scores = {c: Score() for c in self.checks}
        supported = {dtype_name(d) for d in info.supported_dtypes("cpu")}
        differentiable = {dtype_name(d) for d in info.supported_backward_dtypes("cpu")}
        for dtype in FORWARD_DTYPES:
            if dtype in supported:
                count = self.samples if dtype in ("float32", "float64") else max(2, self.samples // 2)
                for label, sample in self.chosen(dtype, False, count):
                    self.one("forward", label, lambda s=sample: self.forward(s))
                    if info.inplace_variant is not None and dtype in ("float64", "int64"):
                        self.one("inplace", label, lambda s=sample: self.inplace(s))
                    if info.supports_out and dtype in ("float64", "int64"):
                        for how in ("like", "resized", "integer"):
                            self.one("out", label, lambda s=sample, h=how: self.out(s, h))
                    if self.mapped and dtype == "float64":
                        for which in ("input", "all"):
                            self.one("vmap", label, lambda s=sample, w=which: self.vmap(s, w))
        if info.supports_autograd:
            for dtype in GRAD_DTYPES:
                if dtype in differentiable:
                    self.derivatives(dtype, self.samples if dtype == "float64" else max(1, self.samples // 2))
        if info.error_inputs_func is not None and "errors" in self.checks:
            for i, case in enumerate(itertools.islice(self.info.error_inputs("cpu"), 40)):
                self.one("errors", f"error {i}", lambda c=case: self.error(c))
                self.one("messages", f"error {i}", lambda c=case: self.message(c))
        return self.scores

    def chosen(self, dtype: str, requires_grad: bool, count: int) -> list[tuple[str, Any]]:
        """Samples spread evenly over those that torch offers, the first among them."""
        self.torch.module.manual_seed(self.seed)
        np.random.seed(self.seed)  # noqa: NPY002 - torch's sample functions draw from it
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stream = self.info.sample_inputs("cpu", self.torch.dtype(dtype), requires_grad=requires_grad)
            pool = list(itertools.islice(stream, POOL))
        step = max(1, len(pool) // count)
        numbers = list(range(0, len(pool), step))[:count]
        return [(f"{dtype} #{i}", pool[i]) for i in numbers]

    def one(self, check: str, label: str, action: Callable[[], None]) -> None:
        """Run a check and count how it ended; sparse layouts are named in docs/non_goals.md."""
        if check not in self.checks:
            return
        self.translate.forget()
        self.scores[check].count(label, action, skips=("UnsupportedLayoutError",))

    # --- calls --------------------------------------------------------------------------------

    def both(self, fn: Any, sample: Any, differentiated: bool = False) -> tuple[Any, Any, list[Any], list[Any]]:
        """Results and tensor arguments on torch and here; torch's exceptions come first.

        Where derivatives are asked for, torch's table may wrap the operator: a matrix that is read
        as Hermitian, for example, is made so inside of the graph.
        """
        values = (sample.input, sample.args, sample.kwargs)
        want = want_error = None
        wrapper = self.info.gradcheck_wrapper if differentiated else call
        try:
            want = wrapper(fn, values[0], *values[1], **values[2])
        except Exception as error:
            want_error = error
        x, args, kwargs = (self.translate.value(v) for v in values)
        try:
            mine = self.translate.callable(fn)
            got = self.translate.callable(wrapper)(mine, x, *args, **kwargs)
        except Exception as error:
            if want_error is not None and type(error).__name__ == type(want_error).__name__:
                raise Untranslatable("both raise") from None
            raise
        if want_error is not None:
            raise Different(f"torch raises {type(want_error).__name__}: {want_error}")
        return got, want, tensors(self.mine, (x, args, kwargs)), tensors(self.torch, values)

    def forward(self, sample: Any) -> None:
        """Values, dtypes and shapes; layout is scored apart."""
        got, want, _, _ = self.both(self.info.op, sample)
        name = self.info.name
        process = sample.output_process_fn_grad
        unique = process.__qualname__.startswith("SampleInput.")  # the identity: results are unique
        self.compare.equal(got, want, unique and name not in (*UNINITIALISED, *UNORDERED))
        if name in UNORDERED:
            self.ordered(got, want, sample)
        elif not unique:
            self.compare.equal(self.translate.callable(process)(got), process(want))
        if "layout" in self.checks:
            self.one("layout", brief(sample), lambda: self.layout(got, want))

    def ordered(self, got: Any, want: Any, sample: Any) -> None:
        """Sorted values always; indices where no ties leave their order open."""
        values = self.torch.array(sample.input)
        ties = np.unique(values).size < values.size and not sample.kwargs.get("stable")
        pairs = zip(tensors(self.mine, got), tensors(self.torch, want))
        for n, (g, w) in enumerate(pairs):
            if not ties or (n == 0 and self.info.name != "argsort"):
                self.compare.equal(g, w)

    def layout(self, got: Any, want: Any) -> None:
        for g, w in zip(tensors(self.mine, got), tensors(self.torch, want)):
            for attribute, read in (
                ("stride", lambda t: tuple(t.stride())),
                ("offset", lambda t: t.storage_offset()),
                ("is_view", lambda t: t._is_view()),
            ):
                if read(g) != read(w):
                    raise Different(f"{attribute}: got {read(g)}, want {read(w)} of shape {tuple(w.shape)}")

    def inplace(self, sample: Any) -> None:
        """The in-place form: what it writes, that it returns its input, how often it says it wrote."""
        if not isinstance(sample.input, self.torch.tensor_type):
            raise Untranslatable("not a tensor")
        theirs = sample.input.detach().clone()
        mine = self.translate.value(theirs)
        args, kwargs = (self.translate.value(v) for v in (sample.args, sample.kwargs))
        write = self.info.inplace_variant
        want = self.attempt(self.torch, lambda: write(theirs, *sample.args, **sample.kwargs))
        here = self.translate.callable(write)
        got = self.attempt(self.mine, lambda: here(mine, *args, **kwargs))
        if isinstance(want, Exception):
            expect_exception(got, want)
            return
        if isinstance(got, Exception):
            raise got
        if got is not mine:
            raise Different("does not return its input")
        self.compare.equal(got, want)
        if got._version != want._version:
            raise Different(f"_version {got._version}, want {want._version}")

    def attempt(self, lib: Lib, action: Callable[[], Any]) -> Any:
        """A result or an exception, with the library's random numbers at their start."""
        lib.module.manual_seed(self.seed)
        return attempt(action)

    def refusals(self, case: Any) -> tuple[Any, Any]:
        """What a bad call gives or raises, here and in torch."""
        sample = case.sample_input
        values = (sample.input, sample.args, sample.kwargs)
        x, args, kwargs = (self.translate.value(v) for v in values)
        mine = self.translate.callable(self.info.op)
        want = attempt(lambda: self.info.op(values[0], *values[1], **values[2]))
        return attempt(lambda: mine(x, *args, **kwargs)), want

    def error(self, case: Any) -> None:
        """The type of the exception that a bad call raises."""
        got, want = self.refusals(case)
        if not isinstance(want, Exception):
            raise Untranslatable("torch does not raise")
        expect_exception(got, want)

    def message(self, case: Any) -> None:
        """The text of that exception, by the regular expression that torch's own tests use."""
        got, want = self.refusals(case)
        if not isinstance(want, Exception) or not re.search(case.error_regex, str(want)):
            raise Untranslatable("torch says something else")
        if not isinstance(got, Exception):
            raise Different("no exception")
        if not re.search(case.error_regex, str(got)):
            raise Different(f"got {str(got)[:160]!r}, want {case.error_regex!r}")

    def unique(self, sample: Any) -> bool:
        """Whether values can be compared as they are; else a sample says what is unique of them."""
        plain = sample.output_process_fn_grad.__qualname__.startswith("SampleInput.")
        return plain and self.info.name not in (*UNINITIALISED, *UNORDERED)

    # --- out= and vmap ------------------------------------------------------------------------

    def out(self, sample: Any, how: str) -> None:
        """``out=``: into tensors like the results, into empty ones, and into those of a wrong dtype."""
        torch = self.torch.module
        like = attempt(lambda: self.info.op(sample.input, *sample.args, **sample.kwargs))
        if isinstance(like, Exception):
            raise Untranslatable("torch raises")
        results = tensors(self.torch, like)
        if how == "like":
            theirs = [torch.full_like(t, 3 if t.dtype is not torch.bool else True) for t in results]
        elif how == "resized":
            theirs = [t.new_empty((0,)) for t in results]
        else:
            theirs = [torch.ones(t.shape, dtype=torch.int32) for t in results]
        # `numpy()` would pin torch's storage.
        mine = [self.translate.value(t.clone()) for t in theirs]

        def given(found: list[Any]) -> Any:
            return found[0] if isinstance(like, torch.Tensor) else type(like)(found)

        want = self.attempt(
            self.torch, lambda: self.info.op(sample.input, *sample.args, **sample.kwargs, out=given(theirs))
        )
        x, args, kwargs = map(self.translate.value, (sample.input, sample.args, sample.kwargs))
        op = self.translate.callable(self.info.op)
        target = mine[0] if isinstance(like, torch.Tensor) else tuple(mine)
        got = self.attempt(self.mine, lambda: op(x, *args, **kwargs, out=target))
        if isinstance(want, Exception):
            expect_exception(got, want)
            return
        if isinstance(got, Exception):
            raise got
        if any(g is not m for g, m in zip(tensors(self.mine, got), mine)):
            raise Different("does not return its out= tensors")
        unique = self.unique(sample)
        for m, t in zip(mine, theirs):
            self.compare.equal(m, t, unique)
            if tuple(m.stride()) != tuple(t.stride()):
                raise Different(f"stride of out: got {m.stride()}, want {t.stride()}")

    def vmap(self, sample: Any, which: str) -> None:
        """The operator over a batch: of its first argument, or of all of its tensors."""
        torch = self.torch.module
        values = (sample.input, sample.args, sample.kwargs)

        def batch(x: Any) -> Any:
            if isinstance(x, torch.Tensor) and x.layout is torch.strided:
                x = x.detach()
                return torch.stack([x, x.flip(0) if x.dim() else x])
            if type(x) in (list, tuple):
                return type(x)(map(batch, x))
            return x

        def dims(x: Any) -> Any:
            if isinstance(x, torch.Tensor):
                return 0
            return type(x)(map(dims, x)) if type(x) in (list, tuple) else None

        flat = values[0], *values[1]
        several = sum(len(tensors(self.torch, v)) for v in flat) > 1
        if which == "all" and not several:
            raise Untranslatable("one tensor only")
        args = tuple(batch(v) if i == 0 or which == "all" else v for i, v in enumerate(flat))
        in_dims = tuple(dims(v) if i == 0 or which == "all" else None for i, v in enumerate(flat))
        if not tensors(self.torch, flat[0] if which == "input" else flat):
            raise Untranslatable("nothing to batch")
        op = self.info.op
        want = self.attempt(
            self.torch, lambda: torch.func.vmap(lambda *a: op(*a, **values[2]), in_dims, randomness="same")(*args)
        )
        if isinstance(want, Exception):
            raise Untranslatable("torch has no such vmap")
        here, kwargs = self.translate.callable(op), self.translate.value(values[2])
        mine = tuple(self.translate.value(a) for a in args)
        got = self.mine.module.func.vmap(lambda *a: here(*a, **kwargs), in_dims, randomness="same")(*mine)
        self.compare.equal(got, want, self.unique(sample))

    # --- derivatives --------------------------------------------------------------------------

    def derivatives(self, dtype: str, count: int) -> None:
        for label, sample in self.chosen(dtype, True, count):
            self.one("grad", label, lambda s=sample: self.gradient(s, False))
            if self.info.supports_gradgrad:
                self.one("gradgrad", label, lambda s=sample: self.gradient(s, True))
            if self.info.supports_forward_ad:
                self.one("jvp", label, lambda s=sample: self.jvp(s))

    def gradient(self, sample: Any, second: bool) -> None:
        got, want, my_inputs, inputs = self.both(self.info.op, sample, differentiated=True)
        if not second and "node" in self.checks:
            self.one_plain("node", brief(sample), lambda: self.node(got, want))
        process = sample.output_process_fn_grad
        got, want = self.translate.callable(process)(got), process(want)
        outs = [(g, w) for g, w in zip(tensors(self.mine, got), tensors(self.torch, want)) if w.requires_grad]
        pairs = [(g, w) for g, w in zip(my_inputs, inputs) if w.requires_grad]
        if not outs or not pairs:
            return
        mine, theirs = zip(*outs)
        g_in, w_in = zip(*pairs)
        cts = [cotangent(tuple(t.shape), dtype_name(t), i) for i, t in enumerate(theirs)]
        cts = [c.astype(dtype_name(t)) for c, t in zip(cts, theirs)]
        first = [
            attempt(lambda lib=lib, o=o, i=i: self.grads(lib, o, i, cts, second))
            for lib, o, i in ((self.mine, mine, g_in), (self.torch, theirs, w_in))
        ]
        self.agree(*(f if isinstance(f, Exception) else f[0] for f in first))
        if isinstance(first[1], Exception) or not second:
            return
        both = []
        for lib, (found, given), args in ((self.mine, first[0], g_in), (self.torch, first[1], w_in)):
            both.append(attempt(lambda lib=lib, f=found, gv=given, a=args: self.second(lib, f, gv, a)))
        self.agree(*both, lenient=True)

    def one_plain(self, check: str, label: str, action: Callable[[], None]) -> None:
        """`one`, within a sample that is under way."""
        score = self.scores[check]
        try:
            action()
        except Different as reason:
            score.fail(f"{label} | {reason}")
        else:
            score.passed += 1

    def node(self, got: Any, want: Any) -> None:
        for g, w in zip(tensors(self.mine, got), tensors(self.torch, want)):
            mine, theirs = ((t.requires_grad, t.grad_fn and t.grad_fn.name()) for t in (g, w))
            if mine != theirs:
                raise Different(f"got {mine}, want {theirs}")

    def grads(self, lib: Lib, outs: Any, inputs: Any, cts: list[np.ndarray], create: bool) -> Any:
        given = [lib.from_array(c).requires_grad_(create) for c in cts]
        found = lib.module.autograd.grad(outs, inputs, given, create_graph=create, allow_unused=True)
        return found, given

    def second(self, lib: Lib, found: Any, given: Any, inputs: Any) -> Any:
        roots = [(i, g) for i, g in enumerate(found) if g is not None and g.requires_grad]
        if not roots:
            return [None]
        cts = [cotangent(tuple(g.shape), dtype_name(g), 50 + i).astype(dtype_name(g)) for i, g in roots]
        cts = [lib.from_array(c) for c in cts]
        return lib.module.autograd.grad([g for _, g in roots], [*inputs, *given], cts, allow_unused=True)

    def jvp(self, sample: Any) -> None:
        """Tangents of the results."""
        want = attempt(lambda: self.tangents(self.torch, Same(), sample))
        got = attempt(lambda: self.tangents(self.mine, self.translate, sample))
        self.agree(got, want, lenient=True)

    def tangents(self, lib: Lib, say: Same | Translator, sample: Any) -> list[Any]:
        """Forward mode, with a tangent for every tensor that requires a gradient."""
        ad = lib.module.autograd.forward_ad
        number = itertools.count(80)

        def dual(x: Any) -> Any:
            if isinstance(x, self.torch.tensor_type) and x.requires_grad:
                values = cotangent(tuple(x.shape), dtype_name(x), next(number))
                tangent = lib.from_array(values.astype(dtype_name(x)))
                return ad.make_dual(say.tensor(x.detach()), tangent)
            if type(x) in (list, tuple):
                return type(x)(map(dual, x))
            return {k: dual(v) for k, v in x.items()} if isinstance(x, dict) else say.value(x)

        with ad.dual_level():
            args, kwargs = dual((sample.input, *sample.args)), dual(sample.kwargs)
            wrapper, op = say.callable(self.info.gradcheck_wrapper), say.callable(self.info.op)
            out = say.callable(sample.output_process_fn_grad)(wrapper(op, *args, **kwargs))
            return [ad.unpack_dual(t).tangent for t in tensors(lib, out)]
