"""The part of torch.fx.experimental that packages ask whether they are being traced by it."""
