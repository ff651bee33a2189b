"""A program in which `import torch` means torchgrad_jax for some packages only."""

import torchgrad_jax

with torchgrad_jax.install_as_torch(["of_some"]):
    import of_some

    for _ in range(2):
        print([b.tolist() for b in of_some.torch.utils.data.DataLoader(of_some.Ones(), 2, num_workers=2)])
