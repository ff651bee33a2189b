"""torch.distributed.elastic: what scripts of launched processes name; nothing launches any."""
