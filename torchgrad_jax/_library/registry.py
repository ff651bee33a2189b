"""Which operators users have defined, by namespace, name and overload."""

from __future__ import annotations

from typing import Any

# namespace -> name -> overload ("" is the default one) -> operator
OPERATORS: dict[str, dict[str, dict[str, Any]]] = {}


def find(qualname: str) -> Any | None:
    """The operator called ``namespace::name`` or ``namespace::name.overload``."""
    namespace, name, overload = parts(qualname)
    return OPERATORS.get(namespace, {}).get(name, {}).get(overload)


def parts(qualname: str) -> tuple[str, str, str]:
    """Namespace, name and overload."""
    pieces = qualname.split("::")
    if len(pieces) != 2:
        raise ValueError(
            f'Expected `qualname` to be of the form "namespace::name", but got {qualname}. The qualname passed to the '
            "torch.library APIs must consist of a namespace and a name, e.g. aten::sin"
        )
    name, _, overload = pieces[1].partition(".")
    return pieces[0], name, "" if overload == "default" else overload


def add(operator: Any, qualname: str) -> None:
    """Make an operator known under its name."""
    namespace, name, overload = parts(qualname)
    OPERATORS.setdefault(namespace, {}).setdefault(name, {})[overload] = operator


def remove(qualname: str, operator: Any) -> None:
    """Forget it, unless the name has been given to another one."""
    namespace, name, overload = parts(qualname)
    overloads = OPERATORS.get(namespace, {}).get(name, {})
    if overloads.get(overload) is operator:
        del overloads[overload]
        if not overloads:
            del OPERATORS[namespace][name]
