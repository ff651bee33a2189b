"""torch.distributed.algorithms.model_averaging: bring the parameters of all processes together from time to time."""
