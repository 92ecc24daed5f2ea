"""What has been found out about functions, kept as long as they live and do not change."""

import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Memory:
    """Notes on one function, by any key. `function` gets the function without keeping it alive."""

    function: Callable[[], Any]
    surroundings: list
    notes: dict[Any, Any] = field(default_factory=dict)

    def note(self, key: Any, make: Callable[[], Any]) -> Any:
        """The note under a key, made if there is none yet."""
        if key not in self.notes:
            self.notes[key] = make()
        return self.notes[key]


class _Kept(NamedTuple):
    """Memories of one object and its methods."""

    reference: Any
    memories: dict[Any, Memory]


_kept: dict[int, _Kept] = {}  # by identity: equal functions need not be the same


def memory_of(f: Callable) -> Memory:
    """The memory of f: a new one when a variable that f refers to is bound to something else."""
    anchor = f.__self__ if isinstance(f, types.MethodType) else f
    part = f.__func__ if isinstance(f, types.MethodType) else None
    key, surroundings = id(anchor), _surroundings(f)
    kept = _kept.get(key)
    if kept is None or kept.reference() is not anchor:
        try:
            reference: Any = weakref.ref(anchor, lambda dead: _forget(key, dead))
        except TypeError:  # cannot be referred to weakly, so nothing is kept
            return Memory(lambda: f, surroundings)
        kept = _kept[key] = _Kept(reference, {})
    memory = kept.memories.get(part)
    if memory is None or not _same(memory.surroundings, surroundings):
        reference = kept.reference
        get = reference if part is None else (lambda: types.MethodType(part, reference()))
        memory = kept.memories[part] = Memory(get, surroundings)
    return memory


def _forget(key: int, dead: Any) -> None:
    if key in _kept and _kept[key].reference is dead:
        del _kept[key]


def _surroundings(f: Callable) -> list:
    """What f refers to: globals, enclosing variables, attributes of the object it belongs to."""
    found: list = []
    if isinstance(f, types.MethodType):
        found += getattr(f.__self__, "__dict__", {}).values()
        f = f.__func__
    if isinstance(f, types.FunctionType):
        found += [f.__globals__.get(name) for name in _names(f.__code__)]
        found += [_content(cell) for cell in f.__closure__ or ()]
        found += f.__defaults__ or ()
    else:
        found += getattr(f, "__dict__", {}).values()
    return [_reference(value) for value in found]


def _names(code: types.CodeType) -> list[str]:
    """Names in a function and in those within it."""
    inner = [part for part in code.co_consts if isinstance(part, types.CodeType)]
    return [*code.co_names, *(name for part in inner for name in _names(part))]


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return None


def _reference(value: Any) -> Any:
    if isinstance(value, (int, float, complex, str, bytes, type(None))):
        return value
    try:
        return weakref.ref(value)
    except TypeError:
        return id(value)


def _same(one: list, other: list) -> bool:
    """Whether two lists of references mean the same things."""
    return len(one) == len(other) and all(map(_same_reference, one, other))


def _same_reference(a: Any, b: Any) -> bool:
    if isinstance(a, weakref.ref) and isinstance(b, weakref.ref):
        return a() is b() is not None
    return type(a) is type(b) and (a == b or a is b)
