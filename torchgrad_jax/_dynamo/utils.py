"""What packages ask about torch.compile."""


def is_compile_supported(device_type: str) -> bool:
    """True: torch.compile works on every device that there is."""
    return True
