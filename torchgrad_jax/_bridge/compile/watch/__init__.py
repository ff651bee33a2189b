"""What the Python code of a compiled function is given, looks at and does.

Lives here: `python_guards.py`, values that are compared before a program runs again; `places.py`, where such values
are; `code_names.py`, `array_contents.py`, `hidden_state.py` and `libraries.py`, which find them; `effects.py`, what a
program cannot repeat; `number_log.py` and the files named after arguments, Python's numbers as inputs; `keys.py` and
`quick_look.py`, which compare two calls; `stance.py` and `explain.py`, the switches and the words for people.

May import: `_engine` and `_functions`.

Begin with `places.py`, then `python_guards.py`.
"""
