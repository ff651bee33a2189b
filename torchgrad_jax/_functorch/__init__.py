"""torch._functorch: where torch.func came from, under the names that older programs import."""
