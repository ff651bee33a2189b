"""Two convolutional networks against each other: one draws discs, one tells. An ordinary PyTorch script."""

import argparse

import torch
from torch import nn


def discs(n, size):
    """Images with one bright disc each, values from -1 to 1."""
    grid = torch.linspace(-1, 1, size)
    center = torch.rand(n, 2, 1, 1) - 0.5
    distance = (grid[:, None] - center[:, 0]) ** 2 + (grid - center[:, 1]) ** 2
    return torch.tanh((0.15 - distance) * 20).unsqueeze(1)


def start(module):
    """The initial weights that such networks are known to need."""
    name = type(module).__name__
    if name.startswith("Conv"):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif name.startswith("BatchNorm"):
        nn.init.normal_(module.weight, 1.0, 0.02)
        nn.init.zeros_(module.bias)


def make_generator(noise, width):
    return nn.Sequential(
        nn.ConvTranspose2d(noise, 2 * width, 4, 1, 0, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(True),
        nn.ConvTranspose2d(2 * width, width, 4, 2, 1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(True),
        nn.ConvTranspose2d(width, 1, 4, 2, 1, bias=False),
        nn.Tanh(),
    ).apply(start)


def make_critic(width):
    return nn.Sequential(
        nn.Conv2d(1, width, 4, 2, 1, bias=False),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(width, 2 * width, 4, 2, 1, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(2 * width, 1, 4, 1, 0, bias=False),
        nn.Flatten(0),
    ).apply(start)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--noise", type=int, default=16)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--print-every", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    generator, critic = make_generator(args.noise, args.width), make_critic(args.width)
    judge = nn.BCEWithLogitsLoss()
    options = {"lr": 2e-4, "betas": (0.5, 0.999)}
    learn_generator = torch.optim.Adam(generator.parameters(), **options)
    learn_critic = torch.optim.Adam(critic.parameters(), **options)
    real, fake = torch.ones(args.batch_size), torch.zeros(args.batch_size)
    fixed = torch.randn(4, args.noise, 1, 1)

    for step in range(args.steps):
        images = discs(args.batch_size, 16)
        drawn = generator(torch.randn(args.batch_size, args.noise, 1, 1))

        critic.zero_grad()
        loss_real = judge(critic(images), real)
        loss_real.backward()
        loss_fake = judge(critic(drawn.detach()), fake)
        loss_fake.backward()
        learn_critic.step()

        generator.zero_grad()
        loss = judge(critic(drawn), real)
        loss.backward()
        learn_generator.step()

        if step % args.print_every == 0 or step == args.steps - 1:
            both = (loss_real + loss_fake).item()
            print(f"step {step}  critic {both:.4f}  generator {loss.item():.4f}")

    generator.eval()
    with torch.no_grad():
        picture = generator(fixed)[0, 0]
    shades = " .:-=+*#%@"
    for row in ((picture + 1) * 4.999).long()[::2].tolist():
        print("".join(shades[value] for value in row))


if __name__ == "__main__":
    main()
