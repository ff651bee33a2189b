"""From tensor code to JAX functions and back: what transforms stand on."""
