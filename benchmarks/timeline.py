"""``python -m benchmarks.timeline``: profile one training step and draw it as docs/profile.svg."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import torchgrad_jax as torch
from torchgrad_jax.profiler import profile, record_function

_WIDTH, _ROW, _TOP = 1000, 24, 34
_COLOURS = {"stretch": "#dfe5ee", "operator": "#8fb8de", "engine": "#f1d9a7", "node": "#e6a45c"}


def step(w1: Any, b1: Any, w2: Any, b2: Any, x: Any, y: Any) -> None:
    """One step of a small classifier."""
    functional = torch.nn.functional
    with record_function("forward"):
        hidden = functional.relu(functional.linear(x, w1, b1))
        loss = functional.cross_entropy(functional.linear(hidden, w2, b2), y)
    with record_function("backward"):
        loss.backward()
    with record_function("update"), torch.no_grad():
        for p in (w1, b1, w2, b2):
            p.sub_(p.grad * 0.1)
            p.grad = None


def profiled() -> Any:
    """A profile of the step, once everything is compiled."""
    torch.manual_seed(0)
    shapes = ((256, 784), (256,), (10, 256), (10,))
    arguments = [torch.randn(*s).mul_(0.05).requires_grad_() for s in shapes]
    arguments += [torch.randn(512, 784), torch.randint(0, 10, (512,))]
    for _ in range(3):
        with profile() as warm:  # the walk under a profiler has kernels of its own
            step(*arguments)
    del warm
    with profile(record_shapes=True) as prof:
        step(*arguments)
    return prof


def kind_of(event: Any) -> str:
    """Which colour an event has."""
    if event.is_user_annotation:
        return "stretch"
    if event.name.startswith("autograd::engine"):
        return "engine"
    return "node" if event.scope == 1 else "operator"


def drawing(events: list[Any]) -> str:
    """Events as bars, those that ran in another below it."""
    start = min(e.time_range.start for e in events)
    end = max(e.time_range.end for e in events)
    scale = _WIDTH / (end - start)
    depths = [_depth(e) for e in events]
    height = _TOP + (max(depths) + 1) * _ROW + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH + 20} {height}" '
        'font-family="sans-serif" font-size="11">',
        *_legend(),
    ]
    for event, depth in zip(events, depths):
        parts += _bar(event, depth, start, scale)
    parts.append(f'<text x="10" y="{height - 8}" fill="#808890">{(end - start) / 1000:.2f} ms</text></svg>\n')
    return "\n".join(parts)


def _depth(event: Any) -> int:
    return 0 if event.cpu_parent is None else 1 + _depth(event.cpu_parent)


def _legend() -> Iterator[str]:
    for i, (name, colour) in enumerate(_COLOURS.items()):
        x = 10 + 110 * i
        yield f'<rect x="{x}" y="8" width="12" height="12" fill="{colour}"/>'
        yield f'<text x="{x + 17}" y="18" fill="#808890">{name}</text>'


def _bar(event: Any, depth: int, start: float, scale: float) -> Iterator[str]:
    x = 10 + (event.time_range.start - start) * scale
    y = _TOP + depth * _ROW
    width = max(event.time_range.elapsed_us() * scale, 0.6)
    colour = _COLOURS[kind_of(event)]
    label = event.name.removeprefix("autograd::engine::evaluate_function: ")
    title = f"{event.name}: {event.cpu_time_total_str}"
    yield (
        f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_ROW - 3}" fill="{colour}" stroke="#fff" '
        f'stroke-width="0.5"><title>{escape(title)}</title></rect>'
    )
    fits = int((width - 6) / 6.8)
    if fits >= 3:
        text = label if len(label) <= fits else label[: fits - 1] + "\N{HORIZONTAL ELLIPSIS}"
        yield f'<text x="{x + 3:.1f}" y="{y + 15}" fill="#222">{escape(text)}</text>'


def main() -> None:
    """Write the picture and print the table beside it."""
    prof = profiled()
    path = Path(__file__).resolve().parent.parent / "docs" / "profile.svg"
    path.write_text(drawing(list(prof.events())))
    print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=8))


if __name__ == "__main__":
    main()
