"""Pieces of pictures: SVG elements as text, escaped, and colours. What is drawn with them is not known here."""

from __future__ import annotations

import colorsys
from html import escape
from typing import Any

MONOSPACE = "'DejaVu Sans Mono', Menlo, Consolas, ui-monospace, monospace"
ADVANCE = 0.64  # width of a character of a monospaced font, in units of its size: 0.6, and some to spare for rounding
INK, FAINT = "#1f2328", "#656d76"


def escaped(text: Any) -> str:
    """Text as XML has it; what XML cannot hold becomes a replacement character.

    Examples
    --------
    >>> escaped("a < b & '\\x00'")
    'a &lt; b &amp; &#x27;\ufffd&#x27;'
    """
    return escape("".join(c if _legal(c) else "\ufffd" for c in str(text)))


def _legal(c: str) -> bool:
    return c in "\t\n\r" or " " <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c > "\uffff"


def element(tag: str, *inside: str, **attributes: Any) -> str:
    """An element; `inside` is markup already, attributes are escaped. A trailing underscore is dropped."""
    said = "".join(f' {k.rstrip("_").replace("_", "-")}="{escaped(_short(v))}"' for k, v in attributes.items())
    return f"<{tag}{said}>{''.join(inside)}</{tag}>" if inside else f"<{tag}{said}/>"


def _short(value: Any) -> Any:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else value


def text(words: Any, x: float, y: float, size: float = 11, **attributes: Any) -> str:
    """Words at a place: their baseline starts there, unless `text_anchor` says otherwise."""
    return element("text", escaped(words), x=float(x), y=float(y), font_size=size, **attributes)


def title(words: Any) -> str:
    """What is told while the mouse is over the element around it."""
    return element("title", escaped(words))


def width_of(words: str, size: float = 11) -> float:
    """How wide words are, in a monospaced font."""
    return len(words) * size * ADVANCE


def clipped(words: str, most: int) -> str:
    """At most so many characters, the last one an ellipsis where some are left out."""
    return words if len(words) <= most else words[: most - 1] + "…"


def hue(number: int, lightness: float = 0.86, saturation: float = 0.62) -> str:
    """A colour for a number: light, and far from those of the numbers beside it.

    Examples
    --------
    >>> hue(0), hue(1)
    ('#f1c5c5', '#e5c5f1')
    """
    red, green, blue = colorsys.hls_to_rgb(number * 283 % 360 / 360, lightness, saturation)
    return "#" + "".join(f"{round(255 * c):02x}" for c in (red, green, blue))


def document(width: float, height: float, *inside: str, label: str = "") -> str:
    """A whole picture, on white."""
    paper = element("rect", width="100%", height="100%", fill="#ffffff")
    return element(
        "svg",
        *([title(label)] if label else []),
        paper,
        *inside,
        xmlns="http://www.w3.org/2000/svg",
        width=round(width),
        height=round(height),
        viewBox=f"0 0 {round(width)} {round(height)}",
        font_family=MONOSPACE,
        fill=INK,
        role="img",
    )


def sized(nbytes: float) -> str:
    """Bytes as one reads them.

    Examples
    --------
    >>> sized(0), sized(1536), sized(3 * 2**20)
    ('0 B', '1.5 KiB', '3 MiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(nbytes) < 1024 or unit == "TiB":
            break
        nbytes /= 1024
    return f"{nbytes:.3g} {unit}" if abs(nbytes) < 999.5 else f"{nbytes:.0f} {unit}"


def page(heading: str, *body: str, style: str = "") -> str:
    """A self-contained page of HTML.

    Examples
    --------
    >>> page("Graph", element("p", "empty")).startswith("<!doctype html>")
    True
    """
    head = ('<meta charset="utf-8">', element("title", escaped(heading)), element("style", _PAGE + style))
    inside = element("head", *head) + element("body", element("h1", escaped(heading)), *body)
    return "<!doctype html>\n" + element("html", inside, lang="en")


_PAGE = """
body { font: 14px/1.5 system-ui, sans-serif; color: #1f2328; max-width: 1020px; margin: 2em auto; padding: 0 1em; }
figure { margin: 0; overflow-x: auto; } h1 { font-size: 1.4em; } h2 { font-size: 1.1em; margin-top: 2em; }
pre { font-size: 12px; overflow-x: auto; }
"""
