"""Draws faults at random: as many in each part of the package as it has lines, the same ones for the same seed.

A comparison is turned, a statement dropped, a number is off by one, an argument left out, a branch taken always.
"""

from __future__ import annotations

import ast
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from .listed import PACKAGE, Fault, functions, is_python

NOT_DRAWN = ("_codegen", "_names", "testing")
"""Parts that write files of the package, or that belong to the tests."""
FOR_TYPES = ("TypeVar", "cast", "ParamSpec")
"""Functions whose calls mean something to a checker of types alone."""

_TURNED: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Is: (" is ", " is not "),
    ast.IsNot: (" is not ", " is "),
    ast.In: (" in ", " not in "),
    ast.NotIn: (" not in ", " in "),
}


def draw(n: int, seed: int = 0) -> list[Fault]:
    """Choose `n` faults."""
    parts: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        part = path.relative_to(PACKAGE).parts[0]
        if part not in NOT_DRAWN:
            parts[part].append(path)
    lines = {part: sum(len(p.read_text().splitlines()) for p in paths) for part, paths in parts.items()}
    chance, out = random.Random(seed), {}
    while len(out) < n:
        part = chance.choices(list(lines), list(lines.values()))[0]
        path = chance.choices(parts[part], [len(p.read_text().splitlines()) for p in parts[part]])[0]
        sites = faults_of(path)
        if sites:
            kind = chance.choice(sorted({kind for kind, _ in sites}))
            fault = chance.choice([f for k, f in sites if k == kind])
            out[fault.path, fault.function, fault.line, fault.nth] = fault  # one of each line
    return list(out.values())


def faults_of(path: Path, package: Path = PACKAGE) -> list[tuple[str, Fault]]:
    """All faults that could be planted in a file, with their kinds."""
    source = path.read_text()
    tree, lines = ast.parse(source), source.splitlines()
    around = _function_of_line(tree)
    seen: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, line in enumerate(lines, 1):
        seen[around.get(number, ""), line.strip()].append(number)
    out = []
    for kind, number, start, end, text in _edits(tree, lines):
        line = lines[number - 1]
        wrong = line[:start] + text + line[end:]
        function = around.get(number, "")
        same = seen[function, line.strip()]
        if wrong != line and is_python("\n".join([*lines[: number - 1], wrong, *lines[number:]])):
            place = str(path.relative_to(package))
            out.append((kind, Fault(place, function, line.strip(), wrong.strip(), same.index(number) + 1)))
    return out


def _function_of_line(tree: ast.AST) -> dict[int, str]:
    """The innermost function around each line, where its qualified name leads to that one."""
    out: dict[int, str] = {}
    for name, node in sorted(functions(tree).items(), key=lambda item: item[0].count(".")):
        if isinstance(node, ast.stmt):
            out.update(dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), name))
    return out


def _edits(tree: ast.AST, lines: list[str]) -> Iterator[tuple[str, int, int, int, str]]:
    """Kind, line, first and last column and new text of each change."""
    for node in _nodes_that_run(tree):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            old, new = _TURNED[type(node.ops[0])]
            left, right = node.left, node.comparators[0]
            if left.end_lineno == right.lineno:
                between = lines[right.lineno - 1][left.end_col_offset : right.col_offset]
                yield ("turned", right.lineno, left.end_col_offset or 0, right.col_offset, between.replace(old, new))
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            yield "number", node.lineno, node.col_offset, node.end_col_offset or 0, str(node.value + 1)
        elif isinstance(node, ast.If | ast.IfExp) and node.test.lineno == node.test.end_lineno:
            test = node.test
            for taken in ("True", "False"):
                yield "branch", test.lineno, test.col_offset, test.end_col_offset or 0, taken
        elif isinstance(node, ast.Call) and ast.unparse(node.func) not in FOR_TYPES:
            yield from _left_out(node, lines)
        elif _may_be_dropped(node):
            yield "dropped", node.lineno, node.col_offset, node.end_col_offset or 0, "pass"


def _nodes_that_run(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those of annotations."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for name, value in ast.iter_fields(node):
            if name not in ("annotation", "returns", "type_params", "decorator_list"):
                parts = value if isinstance(value, list) else [value]
                waiting.extend(part for part in parts if isinstance(part, ast.AST))


def _may_be_dropped(node: ast.AST) -> bool:
    """Whether it is a statement on one line that does something, other than to give a name a value."""
    if not isinstance(node, ast.Expr | ast.Assign | ast.AugAssign | ast.Raise | ast.Delete):
        return False
    if node.lineno != node.end_lineno:
        return False
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call)
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
    return True


def _left_out(call: ast.Call, lines: list[str]) -> Iterator[tuple[str, int, int, int, str]]:
    """Arguments by name that stand behind another argument on one line, left out."""
    parts = sorted([*call.args, *(k.value for k in call.keywords)], key=lambda part: (part.lineno, part.col_offset))
    for keyword in call.keywords:
        before = [
            part for part in parts if (part.end_lineno, part.end_col_offset) <= (keyword.lineno, keyword.col_offset)
        ]
        if keyword.arg and before and before[-1].end_lineno == keyword.end_lineno == keyword.lineno:
            yield "left out", keyword.lineno, before[-1].end_col_offset or 0, keyword.end_col_offset or 0, ""
