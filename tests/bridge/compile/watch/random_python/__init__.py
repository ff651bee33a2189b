"""Random steps of plain Python: compiled, each call has to do what the step as it is written does."""
