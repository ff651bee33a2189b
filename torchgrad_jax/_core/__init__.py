"""Layer 0: facts about dtypes, devices, shapes, modes and errors; no Tensor and no ops."""
