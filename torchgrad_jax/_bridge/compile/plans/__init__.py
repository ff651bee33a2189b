"""What a compiled step needs on hardware that is not here: memory, work, exchanges, as the compiler for it says.

`chips.py` has what the makers say of each chip, `plan.py` the plan of a step, `page.py` its picture.
"""
