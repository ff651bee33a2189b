"""Layer 2: the eager tensor, its graph and the backward pass. See README.md in this folder."""
