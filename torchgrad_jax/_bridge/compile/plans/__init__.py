"""What a compiled step needs on hardware that is not here: memory, work, exchanges, as the compiler for it says.

Lives here: `chips.py`, what the makers say of each chip; `plan.py`, the plan of a step; `convolutions.py`, their
arithmetic on GPUs; `batches.py`, the largest batch; `layers.py`, plans of models with many equal layers; `page.py`, the
picture of a plan.

May import: `../inspection.py`, and `../trace/` for the lines of steps.

Begin with `plan.py`.
"""
