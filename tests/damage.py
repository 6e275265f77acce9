"""What is done to files: archives, JSON, arrays, texts and bytes changed at random, by a generator that is given."""

from __future__ import annotations

import io
import json
import os
import re
import struct
import warnings
import zipfile
from collections.abc import Iterable
from random import Random
from typing import Any

NUMBERS = [
    0, 1, -1, 2, 3, 63, 64, 65, 127, 128, 255, 256, 2**15, 2**16, 2**31 - 1, 2**31, -(2**31), 2**32, 2**53, 2**61,
    2**62, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30, -(10**400),
]  # fmt: skip
VALUES: list[Any] = [
    *NUMBERS, 0.5, -0.0, 1e308, True, False, None, "", "a", "0", "é\0", "x" * 5000, [], {}, [[]], [0], {"a": 1},
]  # fmt: skip
RAW = [
    b"NaN", b"Infinity", b"-Infinity", b"1e999", b"[" * 3000, b'{"a":' * 3000, b"[" + b"[]," * 200_000 + b"0]", b"",
    b"'", b"\xff",
]  # fmt: skip
SHAPES = [
    "()", "(1,)", "(0,)", "(-1,)", "(3, -2)", "(2,)", "(4611686018427387904,)", "(0, 9223372036854775808)",
    "(65536, 65536, 65536, 65536)", "(1.0,)", "(True,)", "3", "None", "(" * 50, "(1, " * 70, "(" + "1, " * 70 + ")",
    "(" + "9" * 3000 + ",)", "(3L,)", "__import__('os')",
]  # fmt: skip
DTYPES = [
    "'<f4'", "'>f4'", "'<f8'", "'|b1'", "'|O'", "'<U3'", "'|V2'", "'<V2'", "'|V8'", "'<M8'", "'<c16'", "'<f16'",
    "'<f3'", "''", "'i'", "[('a', '<f4')]", "('<f4', (2,))", "None", "'<f4', 'descr': '|O'", "'|S0'", "'<i9999'",
]  # fmt: skip
WORDS = re.compile(r'"(?:[^"\\]|\\.)*"|`[^`]*`|%\d+|-?\d+(?:\.\d+)?|\w+|<-|//|[^\s\w]')
TOKENS = [
    "%0", "%1", "%7", "%99999", "(", ")", "[", "]", "{", "}", ",", ":", "=", "+", "-", "*", "//", "<-", ".", '"', '"a"',
    "`", "`b`", "#", "0x", "0xff", "?0", "n", "None", "True", "nan", "inf", "complex", "complex(1, 2)", "constant",
    "held", "variable", "update", "return", "effects", "flat", "graph", "float32", "int8", "complex64", "bool",
    "bfloat16", "float128", "object", "on", "sha256:" + "0" * 64, "(" * 200, "-" * 2000, "[" * 3000, "9" * 5000,
    "1e999", "n*" * 300 + "n", "(n//2)//3", "\0", "é", "\n", "\r", "\x85", " ",
]  # fmt: skip


def damaged(original: bytes, random: Random) -> tuple[str, bytes]:
    """A zip archive that was changed in one to three ways, most of them inside of its members."""
    members = unzipped(original)
    done, packing = [], random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        at = _member(members, random)
        if not members or random.random() < 0.12:
            done.append(_shuffled(members, random))
            continue
        name, content = members[at]
        how = next((change for suffix, change in CHANGES.items() if name.endswith(suffix)), changed_bytes)
        what, content = how(content, random) if random.random() < 0.9 else changed_bytes(content, random)
        members[at] = (name, content)
        done.append(f"{name}: {what}")
    made = zipped(members, packing)
    if random.random() < 0.15:
        what, made = changed_bytes(made, random)
        done.append(f"file: {what}")
    elif random.random() < 0.1:
        what, made = _changed_directory(made, random)
        done.append(f"directory: {what}")
    return "; ".join(done), made


def _member(members: list[tuple[str, bytes]], random: Random) -> int:
    """One of the members, of any kind as likely: there are many arrays, and one text."""
    kinds = sorted({os.path.splitext(name)[1] for name, _ in members})
    kind = random.choice(kinds) if kinds else ""
    return random.choice([at for at, (name, _) in enumerate(members) if name.endswith(kind)] or [0])


def unzipped(content: bytes) -> list[tuple[str, bytes]]:
    """The members of an archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return [(name, file.read(name)) for name in file.namelist()]


def zipped(members: Iterable[tuple[str, bytes]], packing: int = zipfile.ZIP_STORED) -> bytes:
    """An archive of these members, whatever their names."""
    into = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of two of one name
        with zipfile.ZipFile(into, "w", packing) as file:
            for name, content in members:
                file.writestr(zipfile.ZipInfo(name or "_"), content, packing)
    return into.getvalue()


def _shuffled(members: list[tuple[str, bytes]], random: Random) -> str:
    """Members removed, twice, renamed, exchanged, or added."""
    if not members:
        return "empty"
    at, other = random.randrange(len(members)), random.randrange(len(members))
    name, content = members[at]
    match random.randrange(6):
        case 0:
            del members[at]
            return f"without {name}"
        case 1:
            members.append((name, random.choice(members)[1]))
            return f"{name} twice"
        case 2:
            renamed = random.choice(
                ["", "../x", "/etc/x", name.upper(), name + "/", members[other][0], "constants/x.npy", "a" * 300]
            )
            members[at] = (renamed, content)
            return f"{name} is {renamed[:30]}"
        case 3:
            members[at], members[other] = (name, members[other][1]), (members[other][0], content)
            return f"{name} and {members[other][0]} exchanged"
        case 4:
            members.insert(at, (random.choice(["constants/0.npy", "variables/99.npy", "plans/7.json", "x"]), content))
            return "one more"
        case _:
            members[:] = members[: at + 1]
            return f"nothing after {name}"


def _changed_directory(content: bytes, random: Random) -> tuple[str, bytes]:
    """A field of the directory, of a member's own header or of the end record has another value."""
    changed = bytearray(content)
    sign = random.choice((b"PK\1\2", b"PK\3\4", b"PK\5\6"))
    places = [m.start() for m in re.finditer(re.escape(sign), content)]
    at = random.choice(places) + random.randrange(4, 22 if sign == b"PK\5\6" else 44)
    form = random.choice(("B", "<H", "<L"))
    value = random.choice((0, 1, 0x7F, 0xFF, 0xFFFF, 0xFFFFFFFF, 1 << 31)) & (256 ** struct.calcsize(form) - 1)
    if at + struct.calcsize(form) <= len(changed):
        struct.pack_into(form, changed, at, value)
    return f"byte {at} {form} {value}", bytes(changed)


def changed_bytes(content: bytes, random: Random) -> tuple[str, bytes]:
    """Bytes flipped, cut off, repeated, put in or taken out."""
    at = random.randrange(len(content) + 1)
    match random.randrange(5):
        case 0:
            changed = bytearray(content)
            for _ in range(random.choice((1, 1, 4, 30))):
                if changed:
                    changed[random.randrange(len(changed))] = random.randrange(256)
            return "bytes exchanged", bytes(changed)
        case 1:
            return f"cut at {at}", content[:at]
        case 2:
            length = random.randrange(1, 200)
            return f"{length} bytes less at {at}", content[:at] + content[at + length :]
        case 3:
            return f"bytes more at {at}", content[:at] + random.randbytes(random.randrange(1, 40)) + content[at:]
        case _:
            return f"twice from {at}", content + content[at:]


def changed_json(content: bytes, random: Random) -> tuple[str, bytes]:
    """One place of the data has another value, is missing, is there twice, or is no JSON."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return changed_bytes(content, random)
    marker = "marker of the place"
    where = random.choice([*places(value)])
    if random.random() < 0.15 and where:
        done, new = _keyed(value, where, random)
        return done, json.dumps(new).encode()
    new = random.choice(VALUES)
    old = at_place(value, where)
    if type(old) is int and random.random() < 0.5:
        new = random.choice(
            (old + 1, old - 1, -old, old * 2, old + 2**32, old + 2**62, float(f"{old}e0"), str(old), [old], old != 0)
        )
    elif isinstance(old, (list, dict, str)) and old and random.random() < 0.5:
        new = _less(old, random)
    raw = random.choice(RAW) if random.random() < 0.1 else json.dumps(new).encode()
    changed = json.dumps(replaced(value, where, marker)).encode()
    return f"{where} is {raw[:40]!r}", changed.replace(json.dumps(marker).encode(), raw, 1)


def _keyed(value: Any, where: tuple[Any, ...], random: Random) -> tuple[str, Any]:
    """A key or an item less, or an unknown one more."""
    above = at_place(value, where[:-1])
    if isinstance(above, dict):
        if random.random() < 0.6:
            return f"without {where}", replaced(value, where[:-1], {k: v for k, v in above.items() if k != where[-1]})
        return f"more in {where[:-1]}", replaced(value, where[:-1], above | {"more": 1})
    rest = [v for at, v in enumerate(above) if at != where[-1]]
    new = rest if random.random() < 0.5 else [*above, above[where[-1]]]
    return f"other length of {where[:-1]}", replaced(value, where[:-1], new)


def _less(old: Any, random: Random) -> Any:
    """The same, shorter, longer or in another order."""
    if isinstance(old, str):
        return random.choice(
            (old[:-1], old + "x", old * 2, old[::-1], re.sub(r"\d+", lambda _: str(random.choice(NUMBERS)), old))
        )
    if isinstance(old, dict):
        return random.choice(([*old], [*old.values()], {k.upper(): v for k, v in old.items()}))
    return random.choice((old[:-1], old[1:], old[::-1], old * 2, {str(n): v for n, v in enumerate(old)}))


def places(value: Any) -> Iterable[tuple[Any, ...]]:
    """The places of plain data, its own first."""
    yield ()
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inside:
        for rest in places(each):
            yield (key, *rest)


def at_place(value: Any, where: tuple[Any, ...]) -> Any:
    """What is at a place."""
    for key in where:
        value = value[key]
    return value


def replaced(value: Any, where: tuple[Any, ...], new: Any) -> Any:
    """The data with something else at a place."""
    if not where:
        return new
    changed = dict(value) if isinstance(value, dict) else list(value)
    changed[where[0]] = replaced(value[where[0]], where[1:], new)
    return changed


def _changed_array(content: bytes, random: Random) -> tuple[str, bytes]:
    """A header that says something else of the same elements, or other elements."""
    if content[:6] != b"\x93NUMPY" or random.random() < 0.15:
        return changed_bytes(content, random)
    length = int.from_bytes(content[8:10], "little")
    header, elements = content[10 : 10 + length].decode("latin1"), content[10 + length :]
    match random.randrange(6):
        case 0:
            header, done = re.sub(r"'shape': .*\)", "'shape': " + random.choice(SHAPES), header), "shape"
        case 1:
            header, done = re.sub(r"'descr': '[^']*'", "'descr': " + random.choice(DTYPES), header), "dtype"
        case 2:
            header, done = header.replace("False", random.choice(("True", "None", "0", "[]", "{}"))), "order"
        case 3:
            header, done = (
                random.choice(
                    ("", "(" * 1000, "{}", "[]", "None", "{'descr': '<f4'", "\0", '"""', "\\", "1" * 5000, header * 3)
                ),
                "header",
            )
        case 4:
            elements, done = random.choice((b"", elements[:-1], elements + b"\0", b"\xff" * len(elements))), "elements"
        case _:
            done = "length"
            length = random.choice((0, 1, 10, 63, 255, 4096, 65535))
            return done, content[:8] + length.to_bytes(2, "little") + content[10:]
    made = header.rstrip("\n ").encode("latin1", "replace")
    made += b" " * (-(len(made) + 11) % 64) + b"\n"
    return f"{done}: {made[:60]!r}", content[:8] + (len(made) & 0xFFFF).to_bytes(2, "little") + made + elements


def changed_text(content: bytes, random: Random) -> tuple[str, bytes]:
    """A word of one line is another, is missing or is there twice; or a line is."""
    text = content.decode("utf-8", "replace")
    lines = text.split("\n")
    at = random.randrange(len(lines))
    if random.random() < 0.2:
        other = random.randrange(len(lines))
        match random.randrange(3):
            case 0:
                lines[at], lines[other] = lines[other], lines[at]
            case 1:
                lines.insert(at, lines[other])
            case _:
                del lines[at]
        return f"line {at} and {other}", "\n".join(lines).encode()
    found = [m.span() for m in WORDS.finditer(lines[at])]
    if not found:
        return changed_bytes(content, random)
    start, stop = random.choice(found)
    word, others = lines[at][start:stop], [m.group() for m in WORDS.finditer(text)]
    new = random.choice((random.choice(TOKENS), random.choice(others), str(random.choice(NUMBERS)), "", word * 2))
    lines[at] = lines[at][:start] + new + lines[at][stop:]
    return f"line {at}: {word!r} is {new[:40]!r}", "\n".join(lines).encode()


CHANGES = {".json": changed_json, ".npy": _changed_array, ".txt": changed_text}
