"""torch.distributed.elastic: what scripts of launched processes name; `torch.distributed.run` launches them."""
