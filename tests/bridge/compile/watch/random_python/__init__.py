"""Random steps of plain Python: compiled, each call has to do what the eager step does."""
