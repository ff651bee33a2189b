"""Operators that users register: their schemas, and what calling one does."""
