"""Layers: modules made from the module below, as functors are in ML.

A layer is a frozen attrs class whose first field is the layer below it. What a layer may stand on is said once,
in `@layer(on=...)`, in terms of roles: a role is the discriminating member of every signature in
``nnc_func/layer_protocols.py``, so whatever plays the role is accepted, a user's own class included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, ClassVar, Literal, TypeVar, dataclass_transform

import attrs
from attrs import field, frozen

from nnc_func.errors import LayerError

C = TypeVar("C", bound=type)
L = TypeVar("L")


class Layer:
    """A module built from the module below it."""

    __slots__ = ("__weakref__",)
    __attrs_attrs__: ClassVar[Any]
    stands_on: ClassVar[tuple[str, ...]] = ()
    needs: ClassVar[tuple[str, ...]] = ()

    def __attrs_pre_init__(self, *given: object, **named: object) -> None:
        """Say at once, in the stack's own words, that a layer stands on the wrong one."""
        cls = type(self)
        if not cls.stands_on:
            return
        first = next(f.alias for f in cls.__attrs_attrs__ if f.init)
        lower = given[0] if given else named.get(first)
        found = getattr(lower, "role", None)
        wanted = " or ".join(map(_with_article, cls.stands_on))
        if found not in cls.stands_on:
            raise LayerError(f"{cls.__name__} is built on {wanted}, not on {lower!r}")
        missing = [name for name in cls.needs if not hasattr(lower, name)]
        if missing:
            raise LayerError(
                f"{cls.__name__} is built on {wanted}; {lower!r} plays that role but lacks {', '.join(missing)}"
            )

    def dispatch(self) -> Any | None:
        """The way from operators on device arrays to kernels, where no layer from this one down looks at each call.

        One that has a `bind` of its own does, by default.
        """
        definer = defines(self, "bind")
        if changes(self, "bind") or (definer is not None and isinstance(vars(definer)["bind"], FunctionType)):
            return None
        return dispatch_of(below(self))

    def __reduce__(self) -> tuple[Any, ...]:  # a layer pickles as its recipe; what it computed stays behind
        return type(self), tuple(getattr(self, f.name) for f in init_fields(self))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # Hypothesis prints with this
        printer.text(repr(self))


def dispatch_of(layer: object) -> Any | None:
    """The `dispatch` of a layer; None where it has none, being no `Layer`."""
    found = getattr(layer, "dispatch", None)
    return None if found is None else found()


def _titled(role: str) -> str:
    return {"nn": "NN"}.get(role, role.capitalize())


def _with_article(role: str) -> str:
    return f"{'an' if role[0] in 'aeiou' or role == 'nn' else 'a'} {_titled(role)}"


def init_fields(layer: object) -> tuple[attrs.Attribute[Any], ...]:
    """The fields that make up the recipe of a layer, the layer below first."""
    return tuple(f for f in getattr(type(layer), "__attrs_attrs__", ()) if f.init)


def below(layer: object) -> Any | None:
    """The layer on which this one stands; None for a device.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> below(nnc.eager().type)
    NumPy()
    """
    if not getattr(type(layer), "stands_on", ()):
        return None
    fields = init_fields(layer)
    return getattr(layer, fields[0].name) if fields else None


def chain(layer: object) -> Iterator[Any]:
    """The layer and all those under it, from the top."""
    at: Any | None = layer
    while at is not None:
        yield at
        at = below(at)


def find(layer: object, role: str) -> Any:
    """The nearest layer that plays the role, looking down from `layer` (itself included).

    Raises
    ------
    LayerError
        None does.
    """
    for each in chain(layer):
        if getattr(each, "role", None) == role:
            return each
    raise LayerError(f"there is no {_titled(role)} layer in {layer!r}")


def defines(layer: object, name: str) -> type | None:
    """The class, of a layer's own and those it derives from, that has the member of that name; None where none has.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> defines(nnc.eager().engine, "bind").__name__, defines(nnc.eager().engine, "nothing")
    ('Eager', None)
    """
    return next((cls for cls in type(layer).__mro__ if name in vars(cls)), None)


def changes(layer: object, *names: str) -> bool:
    """Whether a class of a user's own has one of these members, so that the layer does otherwise than this library's.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> changes(nnc.eager().engine, "bind")
    False
    """
    definers = [defines(layer, name) for name in names]
    return any(cls is not None and not _of_library(cls) for cls in definers)


def _of_library(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == __name__.partition(".")[0]


def is_ours(layer: object) -> bool:
    """Whether what the layer says is what this library says: its class is one of ours, or passes everything on.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> is_ours(nnc.eager().type)
    True
    """
    cls = type(layer)
    if _of_library(cls):
        return True
    if not isinstance(layer, PassThrough):
        return False
    said = {init_fields(layer)[0].name, "stands_on", "needs"}
    own = [name for each in cls.__mro__ if not _of_library(each) and each is not object for name in vars(each)]
    return all(name in said or name.startswith(("__", "_attrs_")) for name in own)


def opens(path: str, *, init: Literal[False] = False) -> Any:
    """A field that is a layer further down, bound once: ``open Shape.Type.Device`` of ML.

    The path names the roles on the way; layers of a user's own in between are looked through.
    """

    def look(self: Any) -> Any:
        at: Any = below(self)
        for role in path.split("."):
            at = find(at, role)
        return at

    return field(init=False, eq=False, repr=False, default=attrs.Factory(look, takes_self=True))


def forwards(name: str = "bind", *, init: Literal[False] = False) -> Any:
    """A field that is the member of that name of the layer below: passing it on costs nothing."""
    return field(
        init=False,
        eq=False,
        repr=False,
        default=attrs.Factory(lambda self: getattr(below(self), name), takes_self=True),
    )


@dataclass_transform(frozen_default=True, field_specifiers=(attrs.field, opens, forwards))
def layer(*, on: str | tuple[str, ...] = (), needs: type | tuple[str, ...] = ()) -> Callable[[C], C]:
    """Make a class a layer that stands on whatever plays one of the roles `on` and has the members of a signature.

    Parameters
    ----------
    on
        The roles.
    needs
        What this layer asks of the one below: a Protocol, of ``nnc_func/layer_protocols.py`` or of one's own, or names.

    Examples
    --------
    A layer of one's own, that counts what passes through it and slots in above any engine:

    >>> import nnc_func as nnc
    >>> from typing import Any, ClassVar
    >>> @layer(on="engine")
    ... class Transparent(PassThrough):
    ...     engine: Any
    >>> stack = nnc.eager().insert(Transparent)
    >>> stack.ops.add(1.0, 2.0).item()
    3.0
    """

    def decorate(cls: C) -> C:
        fields = {f.name for base in cls.__mro__[1:] for f in getattr(base, "__attrs_attrs__", ())}
        for name in fields & {n for n, found in vars(cls).items() if isinstance(found, FunctionType)}:
            raise LayerError(
                f"{cls.__name__} has a {name} of its own, where its base passes on that of the layer below as it is; "
                f"insert a layer with that {name} above it: a PassThrough"
            )
        layer: Any = cls
        layer.stands_on = (on,) if isinstance(on, str) else on
        layer.needs = members(needs) if isinstance(needs, type) else needs
        return frozen(cls, cache_hash=True, weakref_slot=False, repr=cls.__dict__.get("__repr__") is None)

    return decorate


def members(signature: type) -> tuple[str, ...]:
    """The names that a Protocol asks for, in its order, but for the role.

    Examples
    --------
    >>> from nnc_func.layer_protocols import DeviceSignature
    >>> members(DeviceSignature)
    ('bind', 'asarray', 'aval')
    """
    own = [vars(each) for each in reversed(signature.__mro__) if getattr(each, "_is_protocol", False)]
    return tuple(dict.fromkeys(n for found in own for n in found if not n.startswith("_") and n != "role"))


class PassThrough(Layer):
    """Base for a layer of one's own that stands between two others: it plays the role of the one below.

    What the subclass does not define is looked up there; override `bind` (or anything else) to change it.
    """

    __slots__ = ()

    @property
    def role(self) -> str:
        """That of the layer below."""
        return str(below(self).role)  # type: ignore[union-attr]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        lower = object.__getattribute__(self, init_fields(self)[0].name)
        return getattr(lower, name)


def evolved(layer: L, **fields: Any) -> L:
    """The layer with some of its own fields changed."""
    return attrs.evolve(layer, **fields)  # type: ignore[misc]


def swap(top: L, **layers: Any) -> L:
    """The same composition with some layers exchanged: everything above them is made anew.

    Parameters
    ----------
    top
        The topmost layer.
    **layers
        Role to a layer, or to a function from the layer below it to a layer. A given layer keeps its own
        fields; what it stands on is taken from it only where nothing below it is exchanged too. Layers of a
        user's own that play the role of the one below them stay on top of the new one.

    Raises
    ------
    LayerError
        No layer plays one of the roles, or what is given for one plays another, so that layers would be gone.
    """
    roles = [each.role for each in chain(top)]
    unknown = [name for name in layers if name not in roles]
    if unknown:
        raise LayerError(f"there is no layer {', '.join(unknown)} to swap; this stack has: {', '.join(roles)}")
    found = _swapped(top, dict(layers))
    left = {each.role for each in chain(found)}
    gone = [role for role in roles if role not in left]
    if gone:
        name = next(name for name in layers if name in gone)
        raise LayerError(
            f"swap({name}=...) wants {_with_article(name)}, given {layers[name]!r}: the stack would be left without "
            f"{', '.join(gone)}; a shorter stack is composed from its layers, NN(Autodiff(NumPy()))"
        )
    return found  # type: ignore[no-any-return]


def inserted(top: L, at: object, make: Callable[[Any], Any]) -> L:
    """The same composition with ``make(at)`` in the place of the layer `at`."""
    return make(top) if top is at else _on(top, inserted(below(top), at, make))  # type: ignore[no-any-return]


def _swapped(layer: Any, layers: dict[str, Any]) -> Any:
    if not layers:
        return layer
    lower = below(layer)
    if layer.role in layers and getattr(lower, "role", None) == layer.role:  # a layer of a user's own stays on top
        return _on(layer, _swapped(lower, layers))
    given = layers.pop(layer.role, None)
    if given is None:
        return _on(layer, _swapped(lower, layers))
    if (callable(given) and not hasattr(given, "role")) or isinstance(given, type):
        return given(_swapped(lower, layers))
    if lower is None or not layers:
        return given
    return _on(given, _swapped(below(given), layers))


def _on(layer: Any, lower: Any) -> Any:
    first = str(init_fields(layer)[0].alias)
    return attrs.evolve(layer, **{first: lower})
