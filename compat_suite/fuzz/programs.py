"""Random programs: made on torch line by line, played on any library, compared after each line."""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..libs import Lib
from . import lines as lines, observe, prelude
from .maker import RULES, SUBJECTS, Maker
from .precision import Precision

MODES = ("no_grad", "no_grad", "no_grad", "enable_grad", "inference_mode")
ASSIGNMENT = re.compile(r"(with [^:]*: )?v\d+(, v\d+)*,? = (?!.*(apply|forward)\()[^;]*")
"""A line that changes nothing when it fails: it only gives a name to a result."""
BUG = re.compile(
    "INTERNAL ASSERT FAILED|ZeroTensors are immutable|DispatchKey Negative|"
    "derivative for (?:aten::|')\\w+_backward'? is not implemented"
)
"""What torch says where it trips over itself: over its asserts, over lazily negated tensors (`new_tensor`), and over
the gradients of `sgn`, which it makes without memory and then adds to; and where it lacks a second derivative that this
library has (of `cdist` or `hardsigmoid`, say)."""
# Messages that users match on: their text has to be torch's, not only their type.
KNOWN = re.compile(
    "leaf Variable that requires grad|modified by an inplace operation|backward through the graph a second time|"
    "does not require grad|implicitly created only for scalar|not have been used in the graph|is a view and|"
    "A view was created in|more than one element of the written-to|Dimension out of range|"
    "must match the size of tensor|is invalid for input of size|view size is not compatible|"
    "cannot register a hook|can't retain_grad|detach views in-place|can't be cast to|doesn't match the broadcast|"
    "Inference tensors? |inference tensor|only change requires_grad|can require gradients|"
    "Mismatch in shape: grad_output|backward hook|out of bounds|out of range|mat1 and mat2|Trying to backward"
)


@dataclass(frozen=True)
class Program:
    """Lines of source over `torch` and the names of the prelude."""

    lines: tuple[str, ...]
    functions: bool = False
    watched: bool = True
    """Whether tensors are looked at after each line, or only after the last: reading an attribute
    such as `grad_fn` can bring a tensor up to date, so that a program nobody watches is another."""

    way: str = "lines"
    """How it is run here: one of `omitted.WAYS`."""

    @property
    def recorded(self) -> bool:
        """Whether gradients of gradients take part: a recorded gradient is one node here, with the
        name of the last step of torch's formula, and all of its steps there."""
        return any("create_graph" in line for line in self.lines)

    @property
    def inference(self) -> bool:
        """Whether inference tensors take part: torch's kernels count writes to their own fresh
        results there, and only there, so that versions say nothing about the program."""
        return any("inference_mode" in line for line in self.lines)

    def source(self, package: str = "torchgrad_jax") -> str:
        """The program as a file to run; the libraries differ in the first line only."""
        text = "\n".join(self.lines)
        return f"import {package} as torch\n{prelude.used(text)}\n{text}\n"


@dataclass(frozen=True)
class Outcome:
    """What was seen after one line."""

    error: tuple[str, str] | None
    state: dict[str, Any] | None


class Session:
    """One library running a program."""

    def __init__(self, lib: Lib, functions: bool) -> None:
        self.lib = lib
        self.env: dict[str, Any] = {"torch": lib.module}
        exec(prelude.HOOKS, self.env)
        if functions:
            exec(prelude.FUNCTIONS, self.env)
        if lib.has("manual_seed"):
            lib.module.manual_seed(0)

    def run(self, line: str) -> tuple[str, str] | None:
        """Run a line; the type and text of what it raised."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                exec(compile(line, "<program>", "exec"), self.env)
            except Exception as error:
                return type(error).__name__, str(error)
        return None

    def state(self, deep: bool) -> dict[str, Any]:
        """What the tensors show now."""
        return observe.state(self.lib, self.env, deep)


@dataclass(frozen=True)
class Kind:
    """Which lines programs are made of, and how they are run."""

    rarity: int = 0
    """Lines of this rarity and below."""
    subjects: frozenset[str] = frozenset(SUBJECTS)
    """Lines about these; tensors are always made."""
    swarm: int | None = None
    """With the few choices that the programs of this number share."""
    way: str = "lines"
    """One of `ways.WAYS`."""


PLAIN = Kind()


def make(rng: random.Random, torch: Lib, available: Lib, length: int, kind: Kind = PLAIN) -> Program:
    """A random program of about `length` lines, most of which do not raise."""
    functions = available.has("autograd.Function")
    session = Session(torch, functions)
    known: dict[str, bool] = {}

    def has(path: str) -> bool:
        if path not in known:
            known[path] = torch.has(path) and available.has(path)
        return known[path]

    maker = Maker(rng, torch.module, has, kind.swarm)
    maker.env = session.env
    kinds = [r for r in RULES if r.rarity <= kind.rarity and (r.subject in kind.subjects or r.name == "create")]
    rules = [r for r in kinds if all(has(n) for n in r.needs)]
    first = next(r for r in rules if r.name == "create")  # whichever module was imported first
    modes = [mode for mode in MODES if has(mode)]
    lines: list[str] = []
    watched = rng.random() < 0.7
    for _ in range(length * 4):
        if len(lines) >= length:
            break
        creating = len(maker.live()) < 2 and rng.random() < 0.9
        pick = first if creating else rng.choices(rules, [r.weight for r in rules])[0]
        try:
            line = pick.line(maker)
        except RuntimeError:  # an attribute of some view that torch refuses to tell
            continue
        if not line:
            continue
        if modes and rng.random() < 0.06 and not line.startswith("with "):
            mode = modes[rng.randrange(len(modes))]
            # Inference tensors that require grad are recorded where torch's kernels happen to
            # make an ordinary tensor first.
            # What a pass leaves in `.grad` in that mode depends on the formulas in the same way.
            delicate = any(
                text in line
                for text in (
                    "requires_grad",
                    ".data = ",
                    "deepcopy",
                    "backward(",
                    "grads(",
                    "func.",
                    "functional.",
                    "vmap(",
                )
            )
            if not (mode == "inference_mode" and delicate):
                line = f"with torch.{mode}(): {line}"
        error = session.run(line)
        if error is not None and BUG.search(error[1]):
            break  # a bug of torch; what it left behind is anybody's guess
        if error is not None and ASSIGNMENT.fullmatch(line) and rng.random() < 0.6:
            continue  # keep fewer failing lines than turn up; these left no state behind
        lines.append(line)
    return Program(tuple(lines), functions, watched, kind.way)


@dataclass(frozen=True)
class Mismatch:
    """The first difference between two runs of a program."""

    line: int
    attribute: str
    text: str

    @property
    def kind(self) -> str:
        """What has to stay the same while a program is made smaller."""
        return re.sub(r"v\d+|\[\d+\]", "*", self.attribute)


Look = Callable[[Session, str], list[tuple[str, str]]]
"""What else is to be seen of our session after a line: attributes and descriptions of what is wrong."""


def compare(
    program: Program,
    got: Lib,
    want: Lib | list[Outcome],
    names: tuple[dict[str, Any], dict[str, Any]] = ({}, {}),
    also: Look = lambda session, line: [],
) -> Mismatch | None:
    """Run a program on both libraries side by side, or against a recording, up to the first difference.

    Args:
        names: what else programs may name, here and there.
    """
    mine = Session(got, program.functions)
    theirs = Session(want, program.functions) if isinstance(want, Lib) else None
    for session, more in zip((mine, theirs), names):
        if session is not None:
            session.env.update(more)
    outcomes = [] if isinstance(want, Lib) else want
    last = len(program.lines) - 1
    precision = Precision()
    for i, line in enumerate(program.lines):
        look = program.watched or i == last
        if theirs is not None:
            error = theirs.run(line)
            try:
                state = theirs.state(i == last) if look else None
            except RuntimeError as e:  # torch let something out that cannot be read, a batched gradient say
                raise InvalidProgram(line) from e
        else:
            error, state = outcomes[i].error, outcomes[i].state
        if error is not None and (error[0] == "NameError" or BUG.search(error[1])):
            raise InvalidProgram(line)
        precision.after(line, state)
        mine_error = mine.run(line)
        if mine_error != error and _reduced_apart(mine_error, program.lines[:i]):
            raise InvalidProgram(line)
        if mine_error is None and _tells_of_gradients(error, program, i):
            raise InvalidProgram(line)
        if found := compare_errors(mine_error, error, texts=not program.inference):
            return Mismatch(i, "exception", found)
        if look:
            found = observe.differences(mine.state(i == last), state, precision)
            if program.inference:
                found = [d for d in found if not d[0].endswith("version")]
            if program.recorded:
                found = [d for d in found if not d[0].endswith("graph")]
            gradients = made_of_gradients(program.lines[: i + 1])
            found = [d for d in found if not is_incidental(d[0], gradients)]
            found += also(mine, line)
            if found:
                attribute, text = found[0]
                return Mismatch(i, attribute, f"{attribute}: {text}")
    return None


NOT_PROMISED = re.compile(
    "modified by an inplace operation|view size is not compatible|more than one element of the written-to"
)
"""What torch complains of because of what a recorded gradient saved, or how a gradient is laid out."""
_GRADIENT = re.compile(r"(?<![a-z_])grad\b|grads\(|vjp|jacobian|jacrev|hessian|hvp")


def made_of_gradients(lines: tuple[str, ...], line: str = "") -> set[str]:
    """The variables that hold gradients or what is made of them; with a line, those of them that it names."""
    found: set[str] = set()
    for each in lines:
        left, equals, right = each.rpartition(" = ")
        if equals and (_GRADIENT.search(right) or found & {*re.findall(r"v\d+", right)}):
            found.update(re.findall(r"v\d+", left))
    return found & {*re.findall(r"v\d+", line)} if line else found


def _tells_of_gradients(error: tuple[str, str] | None, program: Program, i: int) -> bool:
    """Whether torch complains in a line of what it alone saved of gradients, or of how it laid them out."""
    if error is None or not NOT_PROMISED.search(error[1]):
        return False
    return program.recorded or bool(made_of_gradients(program.lines[: i + 1], program.lines[i]))


def is_incidental(attribute: str, gradients: set[str]) -> bool:
    """Whether a difference is one in what is not promised of gradients."""
    name, _, which = attribute.partition("[")[0].partition(".")
    return name in gradients and which in observe.INCIDENTAL


def _reduced_apart(error: tuple[str, str] | None, lines: tuple[str, ...]) -> bool:
    """Whether a gradient does not fit a tensor that got another shape in place without a record.

    torch reduces what was broadcast to the shape that the tensor had before; here each node reduces its own.
    """
    turned = re.compile(r"no_grad\(\): (?:v\d+\.(?:t|transpose|swapaxes|squeeze|unsqueeze)_\(|.*, out=)")
    return bool(
        error and "returned an invalid gradient at index" in error[1] and any(turned.search(line) for line in lines)
    )


class InvalidProgram(Exception):
    """A line refers to a variable that does not exist, or trips over a bug of torch."""


def compare_errors(got: tuple[str, str] | None, want: tuple[str, str] | None, texts: bool = True) -> str | None:
    """Why two exceptions (or their absence) do not agree.

    Where inference tensors take part, which of several errors comes first is not compared: torch
    complains about writing to them after, and about saving them before, anything else is looked at.
    """
    if got is None and want is None:
        return None
    if got and want and not texts and "Inference tensors cannot be saved" in want[1]:
        return None
    if got is None or want is None or got[0] != want[0]:
        return f"got {_brief(got)}, want {_brief(want)}"
    if texts and KNOWN.search(want[1]) and _text(got[1]).lower() != _text(want[1]).lower():
        return f"text: got {_text(got[1])!r}, want {_text(want[1])!r}"
    return None


def _text(message: str) -> str:
    message = message.partition("\nException raised from")[0]
    # Indices that were transposed in place after they were saved: torch says what they look like now.
    message = re.sub(r"LongTensor \[[\d, ]*\]", "LongTensor", message)
    return re.sub(r"0x[0-9a-f]+", "0x", re.sub(r"\s+", " ", message)).strip()


def _brief(error: tuple[str, str] | None) -> str:
    return "no exception" if error is None else f"{error[0]}({_text(error[1])[:200]!r})"
