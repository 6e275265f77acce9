"""A stack as a picture: a box a layer, the topmost first; a stack that is the device of another stands within it."""

from __future__ import annotations

import inspect
from typing import Any

from attrs import NOTHING

from nnc_func.graph.pictures.svg import FAINT, clipped, document, element, hue, text
from nnc_func.layer import chain, init_fields

WIDTH, MARGIN, INSET = 880.0, 16.0, 24.0  # pixels: of it all, around it, of a stack within another
BOX, GAP, ASIDE = 44.0, 6.0, 150.0  # pixels: a layer's height, between two, its name's width
CHARACTER = 7.1  # pixels that one of the words takes


def svg(top: Any) -> str:
    """The layers from the topmost one down: role and class, what each adds, and what was chosen for it.

    Parameters
    ----------
    top
        The topmost layer.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> svg(nnc.eager().top).count("<g>")
    10
    """
    boxes, end = _boxes(top, MARGIN, MARGIN)
    return document(WIDTH, end + MARGIN, *boxes, label="a stack, its topmost layer first")


def _boxes(top: Any, left: float, at: float) -> tuple[list[str], float]:
    """The boxes of a stack from a height on, and where they end."""
    found = []
    for number, layer in enumerate(chain(top)):
        inner = getattr(layer, "top", None)  # a whole stack that is a device
        if inner is None:
            found.append(_box(layer, number, left, at))
            at += BOX + GAP
            continue
        boxes, end = _boxes(inner, left + INSET, at + BOX)
        frame = {"fill": "none", "stroke": FAINT, "stroke_dasharray": "4 2", "rx": 6}
        found.append(element("rect", x=left, y=at, width=WIDTH - 2 * left, height=end + GAP - at, **frame))
        found.append(
            _words(layer.role.capitalize(), "Stack", "A whole stack, as the device of the one above.", left, at)
        )
        found += boxes
        at = end + 2 * GAP
    return found, at - GAP


def _box(layer: Any, number: int, left: float, at: float) -> str:
    role, name = getattr(layer, "role", ""), type(layer).__name__
    words = (inspect.getdoc(type(layer)) or "").split("\n")[0]
    frame = element("rect", x=left, y=at, width=WIDTH - 2 * left, height=BOX, fill=hue(number), rx=6)
    label = "" if name.lower() == role else name
    settings = text(clipped(_settings(layer), _room(left)), left + ASIDE, at + 35, 11, fill=FAINT)
    return element("g", frame, _words("NN" if role == "nn" else role.capitalize(), label, words, left, at), settings)


def _words(role: str, name: str, words: str, left: float, at: float) -> str:
    lines = [text(role, left + 12, at + 19, 13, font_weight="bold"), text(name, left + 12, at + 35, 11)]
    return "".join([*lines[: 1 + bool(name)], text(clipped(words, _room(left)), left + ASIDE, at + 19, 11)])


def _room(left: float) -> int:
    """How many characters fit beside a layer's name."""
    return int((WIDTH - 2 * left - ASIDE - 8) / CHARACTER)


def _settings(layer: Any) -> str:
    """What was given to the layer beside the one below it; first what is not as usual."""
    own = init_fields(layer)[1:] if getattr(type(layer), "stands_on", ()) else init_fields(layer)
    given = sorted(own, key=lambda each: _is_usual(each, getattr(layer, each.name)))
    return ", ".join(f"{each.name}: {_short(getattr(layer, each.name))}" for each in given)


def _is_usual(field: Any, value: Any) -> bool:
    default = field.default
    if hasattr(default, "factory"):
        default = value if default.takes_self else default.factory()
    return default is not NOTHING and repr(default) == repr(value)


def _short(value: Any) -> str:
    if isinstance(value, tuple) and value and all(hasattr(each, "rules") for each in value):
        return f"{sum(len(each.rules) for each in value)} rules in {len(value)} phases"
    return str(value)
