"""Train a small network as a PyTorch user would, then check its gradients against `jax.grad`.

The network tells the arms of a spiral apart. Apart from the name in the import, the training is
ordinary PyTorch code; `jax_loss` is the same function written in jax.numpy. The program exits with
status 1 when the two sets of gradients disagree.

    python examples/train_mlp.py [--steps 400] [--hidden 32] [--seed 0]
"""

import argparse
import itertools
import math
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import torchgrad_jax as torch

ARMS, POINTS = 3, 100
NAMES = ("w1", "b1", "w2", "b2", "w3", "b3")
# Of the largest gradient of the network: both sides compute in float32, each in its own order.
TOLERANCE = 1e-4


def spiral(noise=0.25):
    """Points of ARMS interleaved spiral arms, and the arm that each point belongs to."""
    radius = torch.linspace(0.1, 1.0, POINTS)
    arms = []
    for arm in range(ARMS):
        angle = 5.0 * radius + 2.0 * math.pi * arm / ARMS + noise * torch.randn(POINTS)
        arms.append(torch.stack([radius * torch.cos(angle), radius * torch.sin(angle)], dim=1))
    return torch.cat(arms), torch.arange(ARMS).repeat_interleave(POINTS)


def make_parameters(hidden, device="cpu"):
    sizes = [2, hidden, hidden, ARMS]
    parameters = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        weight = torch.randn(fan_in, fan_out) / math.sqrt(fan_in)
        bias = torch.zeros(fan_out, device=device, requires_grad=True)
        parameters += [weight.to(device).requires_grad_(), bias]
    return parameters


def forward(parameters, x):
    w1, b1, w2, b2, w3, b3 = parameters
    h = torch.tanh(x @ w1 + b1)
    h = torch.relu(h @ w2 + b2)
    return h @ w3 + b3


def cross_entropy(logits, y):
    log_p = torch.log_softmax(logits, dim=1)
    return -log_p.gather(1, y.unsqueeze(1)).mean()


def train(parameters, x, y, steps, lr=0.05, momentum=0.9):
    velocities = [torch.zeros_like(p) for p in parameters]
    losses = []
    for step in range(1, steps + 1):
        loss = cross_entropy(forward(parameters, x), y)
        loss.backward()
        with torch.no_grad():
            for p, v in zip(parameters, velocities):
                v.mul_(momentum).add_(p.grad)
                p -= lr * v
                p.grad = None
        losses.append(loss.item())
        show_progress(step, steps, losses[-1])
    return losses


def accuracy(parameters, x, y):
    with torch.no_grad():
        return (forward(parameters, x).argmax(dim=1) == y).float().mean().item()


def jax_loss(parameters, x, y):
    """The loss of `train`, for JAX."""
    w1, b1, w2, b2, w3, b3 = parameters
    h = jnp.tanh(x @ w1 + b1)
    h = jax.nn.relu(h @ w2 + b2)
    log_p = jax.nn.log_softmax(h @ w3 + b3, axis=1)
    return -jnp.take_along_axis(log_p, y[:, None], axis=1).mean()


def report_gradients(parameters, x, y):
    """Print the gradients of `backward()` next to those of `jax.grad`; True where they agree."""
    cross_entropy(forward(parameters, x), y).backward()
    got = [p.grad.cpu().numpy() for p in parameters]
    arrays = [jnp.asarray(p.detach()) for p in parameters]
    with jax.default_matmul_precision("highest"):  # of a GPU, whose products are less exact unless told
        want = jax.grad(jax_loss)(arrays, jnp.asarray(x), jnp.asarray(y))
    bound = TOLERANCE * max(np.abs(w).max() for w in want)

    columns = ("parameter", "shape", "max |backward()|", "max |jax.grad|", "max |difference|")
    print("  ".join(f"{column:>16}" for column in columns))
    agree = True
    for name, p, g, w in zip(NAMES, parameters, got, want):
        difference = np.abs(g - w).max()
        agree &= bool(difference <= bound)  # False for a NaN too
        shape = "x".join(str(n) for n in p.shape)
        sizes = f"{np.abs(g).max():16.7f}  {np.abs(w).max():16.7f}  {difference:16.1e}"
        print(f"{name:>16}  {shape:>16}  {sizes}{'' if difference <= bound else '  differs'}")
        p.grad = None
    return agree


def show_progress(step, steps, loss, width=30):
    """One line, redrawn on a terminal; ten lines where the output goes to a file."""
    terminal = sys.stdout.isatty()
    if not terminal and step % max(1, steps // 10) and step != steps:
        return
    done = width * step // steps
    line = f"step {step:>{len(str(steps))}}/{steps} [{'#' * done:<{width}}] loss {loss:.4f}"
    print(f"\r{line}" if terminal else line, end="" if terminal and step < steps else "\n", flush=True)


def loss_curve(losses, width=60, height=10):
    """The losses as text: a column shows the mean of its share of the steps."""
    columns = [float(part.mean()) for part in np.array_split(losses, min(width, len(losses)))]
    top = max(columns)
    rows = [round((height - 1) * (1.0 - value / top)) for value in columns]
    lines = []
    for row in range(height):
        label = f"{top * (1.0 - row / (height - 1)):7.3f}"
        lines.append(f"{label} |" + "".join("*" if r == row else " " for r in rows).rstrip())
    lines.append(" " * 8 + "+" + "-" * len(columns))
    lines.append(" " * 9 + "1" + f"step {len(losses)}".rjust(len(columns) - 1))
    return "\n".join(lines)


def main(argv=None):
    parser = argparse.ArgumentParser(description="Train a small network and check its gradients.")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(argv)

    torch.manual_seed(arguments.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, y = (t.to(device) for t in spiral())
    parameters = make_parameters(arguments.hidden, device)

    print("Before training: gradients of backward() and of jax.grad of the same function")
    agree = report_gradients(parameters, x, y)

    print(f"\nTraining on {len(x)} points of {ARMS} spiral arms")
    start = time.perf_counter()
    losses = train(parameters, x, y, arguments.steps)
    milliseconds = 1e3 * (time.perf_counter() - start) / arguments.steps
    print(f"\n{loss_curve(losses)}\n")
    print(f"accuracy {accuracy(parameters, x, y):.3f}, {milliseconds:.2f} ms per step")

    print("\nAfter training: gradients of backward() and of jax.grad of the same function")
    agree &= report_gradients(parameters, x, y)
    print("\nThe gradients agree." if agree else "\nThe gradients do not agree.")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
