from typing import Any
def gradcheck(*a: Any, **k: Any) -> bool: raise NotImplementedError
def gradgradcheck(*a: Any, **k: Any) -> bool: raise NotImplementedError
