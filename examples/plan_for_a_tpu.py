"""Does a training step fit into a TPU that one doesn't have, and how long would it take at least?

    pip install "torchgrad-jax[plan]"    # the compilers for TPUs and NVIDIA's GPUs
    python examples/plan_for_a_tpu.py

XLA's compiler for the TPU runs on any machine, and says what the program needs. Nothing is computed: tensors on the
target's devices are shapes.
"""

import torchgrad_jax as torch
from torchgrad_jax import nn

TARGET, VOCABULARY, WIDTH, LENGTH, BATCH = "v5e:2x2", 1024, 128, 64, 32


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.read = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], device=tokens.device)
        return self.read(self.layers(self.embed(tokens), mask=mask, is_causal=True))


def main():
    try:
        target = torch.interop.target(TARGET)
    except RuntimeError as error:
        print(f"no compiler for {TARGET} is installed: {error}")
        return
    with target:
        model = Model().to("tpu")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        @torch.compile
        def step(tokens):
            optimizer.zero_grad()
            scores = model(tokens[:, :-1])
            loss = nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            return loss

        plan = step.plan(torch.zeros(BATCH, LENGTH + 1, dtype=torch.long, device="tpu"))
    print(plan)
    print(f"{BATCH} texts of {LENGTH} tokens fit into {TARGET}:", plan.fits)


if __name__ == "__main__":
    main()
