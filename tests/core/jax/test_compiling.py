"""The messages about compiling: a line on the terminal meanwhile, and a list of kernels for users who ask for it."""

import io
import os
import pty
import re
import subprocess
import sys

import jax
import pytest

from torchgrad_jax._core.jax import compiling
from torchgrad_jax._core.jax.private import options_of_xla

COMPILED = "/jax/core/compile/backend_compile_duration"
TRACED = "/jax/core/compile/jaxpr_trace_duration"


class Watched:
    """A line about compiling with a clock that the test moves."""

    def __init__(self):
        self.now, self.stream = 0.0, io.StringIO()
        self.progress = compiling.Progress(self.stream, clock=lambda: self.now)
        self.progress._tick = lambda: None

    def stage(self, seconds, event=COMPILED, name="jit(mul)"):
        self.progress.begin(name)
        self.now += seconds
        self.progress.end(event)

    @property
    def screen(self):
        """What stands in the line now."""
        return self.stream.getvalue().replace("\x1b[K", "").split("\r")[-1]


def test_short_work_says_nothing():
    watched = Watched()
    for _ in range(20):
        watched.stage(0.09)
        watched.now += 0.1
    assert not watched.stream.getvalue()


def test_the_line_is_there_while_kernels_are_made_and_gone_afterwards():
    watched = Watched()
    for _ in range(5):
        watched.stage(0.5)
    watched.progress.begin("jit(conv2d)")
    assert "compiling conv2d, 5 kernels in 2 s so far" in watched.screen
    watched.progress.end(COMPILED)
    assert not watched.screen


def test_a_stage_inside_of_another_is_counted_once():
    watched = Watched()
    watched.progress.begin("outer")
    for _ in range(4):
        watched.stage(0.4, TRACED)
    watched.progress.end(TRACED)
    watched.progress.begin("jit(outer)")
    assert not watched.screen  # 1.6 seconds and not 3.2
    watched.now += 1
    watched.progress.begin("inner")
    assert "compiling inner, 0 kernels in 3 s so far" in watched.screen


def test_long_ago_does_not_count():
    watched = Watched()
    watched.stage(10)
    watched.now += 60
    watched.stage(0.1)
    watched.progress.begin("jit(mul)")
    assert not watched.screen


def test_one_kernel_that_takes_long_is_told_while_it_runs():
    watched = Watched()
    watched.progress.begin("jit(step)")
    watched.now += 2.5
    watched.progress._update()  # what a thread does four times a second
    assert "compiling step, 0 kernels in 2 s so far" in watched.screen


@pytest.mark.parametrize("folder, text", [("/x", "the next run finds them"), (None, "TORCHGRAD_JAX_CACHE keeps them")])
def test_the_line_says_how_kernels_are_kept(folder, text, monkeypatch):
    monkeypatch.setattr(compiling, "folder_of_kernels", lambda: folder)
    monkeypatch.setenv("COLUMNS", "200")
    watched = Watched()
    watched.stage(2.5)
    watched.progress.begin("jit(mul)")
    assert watched.screen.endswith(text)


def test_a_terminal_that_is_gone_stops_nothing():
    watched = Watched()
    watched.stage(3)
    watched.stream.close()
    watched.stage(3)
    watched.stage(3)


WATCHED = "import torchgrad_jax; from jax._src import monitoring as m; print(len(m.get_scalar_listeners()))"


def _listeners(terminal, **variables):
    """How many listeners a program has that may show a line, with a terminal or a file as its standard error."""
    env = {**os.environ, "TERM": "xterm", **variables}
    ours, theirs = pty.openpty() if terminal else os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-c", WATCHED], env=env, stdout=subprocess.PIPE, stderr=theirs, check=True
        )
    finally:
        os.close(ours)
        os.close(theirs)
    return int(done.stdout)


@pytest.mark.parametrize(
    "terminal, variables, shows",
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"TORCHGRAD_JAX_PROGRESS": "0"}, False),
        (True, {"TERM": "dumb"}, False),
    ],
    ids=["terminal", "pipe", "switched off", "a terminal without control codes"],
)
def test_only_a_terminal_shows_it(terminal, variables, shows):
    assert bool(_listeners(terminal, **variables)) is shows


PROGRAM = """
import torchgrad_jax as torch
x = torch.ones(400, 500)
y = torch.sin(x)
"""


def test_a_list_of_kernels(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    env = {**os.environ, "TORCHGRAD_JAX_LOGS": "kernels,recompiles", "TORCHGRAD_JAX_CACHE": "0"}
    env.pop("JAX_COMPILATION_CACHE_DIR", None)
    done = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True, check=True)
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("[kernels] sin")]
    assert re.fullmatch(rf"\[kernels\] sin\(float32\[400,500\]\): compiled in \d+ ms, for {script}:4", line)
    # JAX's own output is nowhere among it.
    assert all(line.startswith("[kernels]") for line in done.stderr.splitlines())


def test_an_option_that_xla_does_not_have_is_left_out():
    """Newer versions drop some, and end with an error where one is given."""
    known = ("xla_backend_optimization_level", 1)
    assert options_of_xla(("xla_that_nobody_has", True), known) == dict([known])
    assert jax.jit(lambda x: x * 2, compiler_options=options_of_xla(known))(3) == 6
