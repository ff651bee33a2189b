"""The gallery of the site: a page per program of examples/, made of its docstring, picture and code.

For example, `examples/flow.py` becomes `gallery/flow.md` while the site is built: what the first lines of the file say,
the curve `docs/gallery/flow.svg`, how to run it, what to change for a GPU or TPU, its time beside PyTorch and the whole
file. Only `GROUPS` below is written by hand, and a test holds it to the files. `python -m benchmarks.gallery` draws the
curves and measures the times; `python -m benchmarks.plans` draws the plans for hardware that is not here.
"""

import ast
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ANYWHERE = (
    "Nothing in the file: `JAX_DEFAULT_DEVICE=gpu` (or `tpu`) in the environment moves it. It is small, so an "
    "accelerator pays only with larger sizes and a [compiled step](../compile.md)."
)
ARRAYS = "Nothing: JAX puts its arrays, and with them the tensors, on the first GPU or TPU that it finds."


@dataclass(frozen=True)
class Program:
    """A program of examples/, and what its page says besides its own words."""

    file: str
    title: str
    device: str = ANYWHERE
    starts: str = "python -m torchgrad_jax"

    @property
    def page(self) -> str:
        """The page's name, below gallery/."""
        return self.file.removesuffix(".py").replace("/", "_") + ".md"


ALONE, PLANNED = "python", "python -m torchgrad_jax plan"
RUNS = "Nothing: without `plan` it trains on the accelerator that there is. `--on` names another target, see "
RUNS += "[accelerators](../accelerators.md#hardware-that-isnt-there)."
PAIR = (
    "Nothing in the file: `JAX_DEFAULT_DEVICE=gpu` (or `tpu`) in the environment moves both halves. Products of "
    "float32 are exact in both, see [accelerators](../accelerators.md)."
)
GROUPS: dict[str, tuple[Program, ...]] = {
    "Networks": (
        Program(
            "train_cnn.py",
            "A convolutional network, eager and compiled",
            "Nothing: it takes `cuda` where there is one. For a TPU write `torch.accelerator.current_accelerator()`.",
        ),
        Program(
            "gpt2.py",
            "A language model in the style of GPT-2",
            "Nothing: it takes `cuda` where there is one, and `--compile` makes its step a program. On a GPU also try "
            "`--width 256 --layers 8 --batch-size 64`.",
        ),
        Program("word_language_model.py", "Recurrent networks and a transformer on words"),
        Program("graph_attention.py", "Graph networks"),
        Program("dcgan.py", "Two networks against each other (DCGAN)"),
        Program("diffusion.py", "A diffusion model"),
        Program("flow.py", "A normalizing flow"),
        Program("neural_style.py", "An image in the style of another"),
        Program("reinforce.py", "Reinforcement learning: balance a pole"),
    ),
    "Derivatives": (
        Program("per_sample_gradients.py", "Wrong labels found by gradients of single examples"),
        Program("laplace.py", "Error bars by a Laplace approximation"),
        Program("maml.py", "Gradients through training (MAML)"),
        Program("neural_ode.py", "A neural ODE by the adjoint method"),
        Program("pinn.py", "A partial differential equation (PINN)"),
        Program("train_mlp.py", "Gradients checked against jax.grad", ARRAYS, ALONE),
    ),
    "With JAX": (
        Program("force_field.py", "A force field in torch under jax.jit and jax.vmap", ARRAYS, ALONE),
        Program("flax_in_a_torch_loop.py", "A flax module in a loop for PyTorch", ARRAYS, ALONE),
        Program("optax_beside_optim.py", "An optimizer of torch among optax's", ARRAYS, ALONE),
        Program("port_to_flax.py", "A module ported to flax, with its weights", ARRAYS, ALONE),
        Program("port_to_jax_tested.py", "A port to JAX, from the first difference to the last fix", ARRAYS, ALONE),
    ),
    "Many devices": (
        Program(
            "sharded_training.py",
            "One step over eight devices",
            "Set `XLA_FLAGS=` in the environment, so that no CPUs stand in; it takes an even number of devices.",
            ALONE,
        ),
        Program(
            "ddp.py",
            "Several processes: DDP and FSDP",
            'One process per GPU; write `init_device_mesh("cuda", ...)` for `--fsdp`. See '
            "[many processes](../distributed.md).",
            "torchgrad-jax-run --nproc-per-node 2",
        ),
    ),
    "Plans for hardware that isn't there": (
        Program("plan_gpt.py", "A language model on TPU v5e and v6e", RUNS, PLANNED),
        Program("plan_resnet.py", "ResNet-50 on an H100", RUNS, PLANNED),
        Program("plan_llama.py", "A llama of 6.7 billion parameters on 16 TPUs or 8 GPUs", RUNS, PLANNED),
        Program(
            "plan_for_a_tpu.py",
            "The plan of a step, asked for in the program",
            'Nothing: it needs none. Other targets are `"h100"`, `"v6e:4x4"` and [more](../accelerators.md).',
            ALONE,
        ),
    ),
    "Pairs: PyTorch beside JAX": tuple(
        Program(f"pairs/{name}.py", title, PAIR, ALONE)
        for name, title in {
            "mlp": "Layers, momentum, cross entropy",
            "cnn": "Convolution and pooling",
            "lstm": "nn.LSTM beside lax.scan",
            "transformer": "A transformer",
            "vae": "A variational autoencoder",
            "wgan_gp": "A loss that holds a gradient (WGAN-GP)",
            "maml": "A gradient through gradient descent",
            "neural_ode": "autograd.Function beside custom_vjp",
            "pinn": "Third derivatives by the input",
            "deep_equilibrium": "The gradient of a fixed point",
            "flow": "Invertible layers",
            "dp_sgd": "Private training: gradients of each example",
        }.items()
    ),
}
PROGRAMS = tuple(program for group in GROUPS.values() for program in group)


def on_config(config: Any) -> Any:
    """Put the gallery into the navigation, before the reference."""
    pages: list[Any] = ["gallery/index.md"]
    pages += [{name: [{p.title: f"gallery/{p.page}"} for p in group]} for name, group in GROUPS.items()]
    at = next(i for i, entry in enumerate(config.nav) if "Reference" in entry)
    config.nav.insert(at, {"Gallery": pages})
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages, and one that shows all pictures."""
    from mkdocs.structure.files import File  # needed only where the site is built

    files.append(File.generated(config, "gallery/index.md", content=index()))
    for program in PROGRAMS:
        files.append(File.generated(config, f"gallery/{program.page}", content=text(program)))
    return files


def measured() -> dict[str, Any]:
    """What `python -m benchmarks.gallery` wrote: CPU seconds by program, and on what they were measured."""
    return json.loads((ROOT / "docs" / "gallery" / "measured.json").read_text(encoding="utf-8"))


def planned(program: Program) -> dict[str, Any]:
    """What `python -m benchmarks.plans` wrote for a program: its plans, and what they took."""
    file = ROOT / "docs" / "gallery" / f"{Path(program.file).stem}.json"
    return json.loads(file.read_text(encoding="utf-8"))


def index() -> str:
    """The page that leads to the others: a card for each program, with its picture if it has one."""
    parts = [
        "# Gallery\n\nEach program runs as it stands here, in seconds on a CPU, and the tests run it. Most are "
        "ordinary PyTorch scripts: `python -m torchgrad_jax` runs them without PyTorch. Where there is a curve, it is "
        "drawn twice, under PyTorch and here, and one lies on the other.\n"
    ]
    for name, group in GROUPS.items():
        cards = []
        for program in group:
            picture = _picture(program)
            shown = f'<img src="{_above(picture)}" alt="" loading="lazy">' if picture else ""
            cards.append(f'<a class="card" href="{program.page[:-3]}.html">{shown}<span>{program.title}</span></a>')
        parts.append(f'## {name}\n\n<div class="cards">\n' + "\n".join(cards) + "\n</div>\n")
    return "\n".join(parts)


def text(program: Program) -> str:
    """The page of a program."""
    source = (ROOT / "examples" / program.file).read_text(encoding="utf-8")
    parts = [f"# {program.title}\n", _words(source)]
    if picture := _picture(program):
        parts.append(f"![{_shown(program)}]({picture})\n")
    parts.append("```sh\n" + "\n".join(_commands(program)) + "\n```\n")
    parts.append(f"**On a GPU or TPU:** {program.device}\n")
    parts.append(_plan(program) if program.starts == PLANNED else _times(program))
    parts.append(f"## The program\n\n[examples/{program.file}](../source/examples/{program.file}.txt)\n")
    parts.append(f"```python\n{_code(source)}```\n")
    return "\n".join(part for part in parts if part)


def _commands(program: Program) -> list[str]:
    """How to run it; an ordinary PyTorch script can be compared with its run under PyTorch, too."""
    if program.file.startswith("pairs/"):
        return [f"python examples/pairs {Path(program.file).stem}"]
    commands = [f"{program.starts} examples/{program.file}"]
    if program.starts == PLANNED:
        return [f"{commands[0]} {planned(program)['arguments']}"]
    if program.starts == Program.starts:
        commands.append(f"python -m torchgrad_jax compare examples/{program.file}")
    return commands


def _picture(program: Program) -> str | None:
    """The picture, seen from the page of the program."""
    stem = Path(program.file).stem
    where = f"pairs/{stem}.svg" if program.file.startswith("pairs/") else f"gallery/{stem}.svg"
    return f"../{where}" if (ROOT / "docs" / where).exists() else None


def _above(picture: str) -> str:
    return picture.removeprefix("../gallery/")


def _shown(program: Program) -> str:
    if program.file.startswith("pairs/"):
        return "Loss curves in PyTorch, here eager, here compiled and in JAX, which lie on one another"
    if program.starts == PLANNED:
        return "The memory that a step takes on each device, by what it is for, in a frame that is the device's memory"
    return "What the program prints in each step, under PyTorch and here: the curves lie on one another"


def _times(program: Program) -> str:
    """The CPU seconds of a run beside PyTorch's, or nothing."""
    all_of_them = measured()
    row = all_of_them["programs"].get(program.file)
    if row is None:
        return ""
    return (
        f"**Time:** {row['here']:.1f} CPU seconds for the whole program here, {row['torch']:.1f} under PyTorch (with "
        f"imports, kernels known from an earlier run; {all_of_them['on']}).\n"
    )


def _plan(program: Program) -> str:
    """The figures of a plan, and what they took."""
    from torchgrad_jax._bridge.compile.plans.plan import Plan, report  # takes a while

    found = planned(program)
    figures = "\n".join(report([Plan.from_json(json.dumps(plan)) for plan in found["plans"]]))
    return (
        f"## The plan\n\n```text\n{figures}\n```\n\nIt took {found['seconds'] / 60:.1f} minutes, "
        f"{found['processor_seconds'] / 60:.1f} of a processor, and {found['peak_gib']} GiB ({found['on']}).\n"
    )


def _words(source: str) -> str:
    """The docstring, less what every script says."""
    doc = (ast.get_docstring(ast.parse(source)) or "").replace(" An ordinary PyTorch script.", "")
    kept = [
        part for part in doc.split("\n\n") if not part.startswith(("    ", "python ")) and "Run it with" not in part
    ]
    return "\n\n".join(re.sub(r"([<>*])", r"\\\1", part) for part in kept) + "\n"


def _code(source: str) -> str:
    """The program below its docstring."""
    first = ast.parse(source).body[0]
    lines = source.splitlines(keepends=True)[first.end_lineno or 0 :]
    return "".join(lines).lstrip("\n")
