"""Who says what is right."""
