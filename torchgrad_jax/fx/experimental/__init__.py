"""The part of torch.fx.experimental that works on graphs of public functions, or that packages ask for."""
