"""The recorded graph: what a call leaves behind for the backward pass.

Lives here: `record.py`, which runs a plan, wraps its results and adds a node; `node.py` and `hooks.py`, nodes and who
watches them; `grad_plan.py`, what a node saves, and `formula.py`, what it computes, both derived from the plan;
`saved.py`, saved values;
`history.py`, to which node a tensor belongs; `views.py`, `inplace.py` and `resize.py`, calls that make views of
memory or write to it.

May import: `memory/` and `run/`.

Begin with `record.apply`, then `grad_plan.py` and `node.py`.
"""
