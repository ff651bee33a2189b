"""torch.distributed.algorithms: what processes agree on besides single collectives."""
