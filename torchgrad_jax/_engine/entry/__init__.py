"""The way in: from a public name and its arguments to a call. README.md beside this file shows one call on its way.

Lives here: `bind.py`, which makes every public function from the table of operators; `generate.py`, the code of these
functions; `finish.py`, how that code ends; `enter.py`, the way in for what that code does not answer; `rows.py` and
`composite.py`, the two forms of functions; `binding.py`, `arguments.py` and `parser.py`, which read arguments;
`compared.py`, which reads them twice for tests; `out.py` for `out=`; `signatures.txt`, torch's signatures;
`published.py`, which functions are builtin functions.

May import: `overrides/`, `modes/`, `graph/`, `memory/` and `run/`.

Begin with `bind.py`; the code of one function is made by `generate.py`.
"""
