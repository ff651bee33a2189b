"""Forward mode: tangents that ride along on tensors."""
