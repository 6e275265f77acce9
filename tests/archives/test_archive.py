"""Archives are read within bounds: what they say of themselves is not believed (`archives`)."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import tracemalloc
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnc_func.archives.archive import Archive, write_archive
from nnc_func.archives.npy import array_bytes, array_header
from nnc_func.archives.plain import fields, json_bytes, json_cost, json_value, rows
from nnc_func.errors import FileFormatError, GraphError

MEBIBYTE = 1 << 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some.graph"


def zipped(path: Path, *members: tuple[str, bytes], packing: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", packing) as file:
        for name, content in members:
            file.writestr(name, content)
    return path


def read(path: Any, name: str, **bounds: Any) -> Any:
    with Archive.open(path, "graph", **bounds) as archive:
        return archive.array(name) if name.endswith(".npy") else archive.json(name)


# --- what comes back ----------------------------------------------------------------------------------------


ARRAYS = [
    np.arange(6, dtype="float32").reshape(2, 3), np.zeros((0, 4)), np.array(True), np.array(1 + 2j, "complex64"),
    np.arange(3, dtype=">i2"), np.ones((MEBIBYTE + 7,), "uint8"), np.asfortranarray(np.arange(6.0).reshape(2, 3)),
]  # fmt: skip


@pytest.mark.parametrize("packing", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{a.shape}")
def test_arrays_come_back_to_the_bit_and_are_the_callers_own(path: Path, array: Any, packing: int) -> None:
    zipped(path, ("a.npy", array_bytes(array)), packing=packing)
    found = read(path, "a.npy")
    assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert found.flags.owndata
    assert found.flags.writeable
    with Archive.open(path, "graph") as archive:
        header = archive.header("a.npy")
    assert (header.dtype, header.shape, header.nbytes) == (array.dtype, array.shape, array.nbytes)


def test_what_numpy_wrote_is_read(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, one=np.ones(3), two=np.zeros((2, 2), "int8"))
    with Archive.open(path, "state") as archive:
        assert archive.names() == ["one.npy", "two.npy"]
        assert archive.array("one.npy").tolist() == [1.0, 1.0, 1.0]
    with path.open("rb") as file, Archive.open(file, "state") as archive:
        assert archive.array("two.npy").shape == (2, 2)
    assert np.load(path)["one"].tolist() == [1.0, 1.0, 1.0]


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inside: st.lists(inside) | st.dictionaries(st.text(st.characters(codec="utf-8")), inside),
)  # fmt: skip


@given(PLAIN, st.booleans())
def test_plain_data_come_back(value: Any, ascii_only: bool) -> None:
    content = json.dumps(value).encode() if ascii_only else json_bytes(value)
    json_cost(content)
    assert json_value(content) == value


def test_a_text_that_packs_too_well_is_stored_and_read(path: Path) -> None:
    value = ["the same text again and again"] * 10_000
    write_archive(path, [("a.json", json_bytes(value))])
    assert path.stat().st_size > 10_000
    assert read(path, "a.json") == value


def test_more_text_than_is_read_is_not_written(path: Path) -> None:
    with pytest.raises(GraphError, match=r"a\.json would take 67108865 bytes: a file holds texts of up to 67108864"):
        write_archive(path, [("a.json", bytes((1 << 26) + 1))])
    assert not list(path.parent.iterdir())


# --- what is refused ----------------------------------------------------------------------------------------


def test_a_file_that_unpacks_to_lists_takes_no_memory(path: Path) -> None:
    """59 kB that unpacked to 20 million empty lists, and took 1.6 GB."""
    zipped(path, ("a.json", b"[" + b"[]," * 20_000_000 + b"0]"))
    assert path.stat().st_size < 60_000
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match=r"some\.graph: a\.json unpacks to 60000003 bytes, more than 50 "):
            read(path, "a.json")
        assert tracemalloc.get_traced_memory()[1] < MEBIBYTE
    finally:
        tracemalloc.stop()


def test_what_values_take_is_counted_before_they_are_there(path: Path) -> None:
    zipped(path, ("a.json", b"[" + b"[]," * 1_000_000 + b"0]"), packing=zipfile.ZIP_STORED)
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match=r"a\.json would take \d+ bytes .*, more than max_bytes=50000000"):
            read(path, "a.json", max_bytes=50_000_000)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


WIDE = [
    "[],", "[[]],", '{"":0},', '{"":{}},', "{},", "0.1,", "999,", '"ab",', '"a\\"b",', "[1,2],", "[[[]]],", '"é",',
    '{"a":1,"b":2},', "null,", "-1,", '"[[",', '"\U0001f600",',
]  # fmt: skip


KEYED = "{" + "".join(f'"{at}":{at},' for at in range(20_000)) + '"a":0}'


@pytest.mark.parametrize("text", [*("[" + part * 20_000 + "0]" for part in WIDE), KEYED], ids=lambda text: text[:20])
def test_values_take_no_more_than_was_counted(text: str) -> None:
    content = text.encode()
    cost = json_cost(content)
    tracemalloc.start()
    try:
        json_value(content)
        assert tracemalloc.get_traced_memory()[1] <= cost
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[" * 65 + b"]" * 65, "more than 64 brackets inside each other"),
        (b'["\\\\"' + b",[" * 100_000, "more than 64 brackets inside each other"),
        (b'{"a":' * 100_000, "more than 64 brackets inside each other"),
        (b'{"a": 1, "b": 2, "a": 3}', "an object has the key 'a' twice"),
        (b"[NaN]", "NaN is no finite number"),
        (b"[-Infinity]", "-Infinity is no finite number"),
        (b"[1e999]", "1e999 is no finite number"),
        (b"[" + b"9" * 5000 + b"]", "9{30} is larger than any number in our files"),
        (b"[18446744073709551616]", "18446744073709551616 is larger than any number"),
        (b"[1", "it is no JSON"),
        (b"\xff", "it is no JSON"),
        (b'["\\ud800"]', "it is no JSON: 'utf-8' codec can't encode"),
    ],
)
def test_json_that_is_refused(path: Path, content: bytes, words: str) -> None:
    zipped(path, ("a.json", content), packing=zipfile.ZIP_STORED)
    with pytest.raises(FileFormatError, match=rf"some\.graph is damaged: a\.json: {words}"):
        read(path, "a.json")


def test_brackets_in_strings_are_none() -> None:
    value = ["[" * 100, '"' + "[" * 100, "\\" + "{" * 100, "\\\\" + '"[' * 100, {'["' * 70: []}]
    assert json_value(json_bytes(value)) == value
    assert json_cost(json_bytes(value)) < 10_000


def npy(header: bytes, elements: bytes = b"", version: bytes = b"\1\0", length: int | None = None) -> bytes:
    header += b" " * (-len(header) % 64) + b"\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(header) if length is None else length) + header + elements


def described(shape: str, descr: str = "'<f4'", columns: str = "False") -> bytes:
    return f"{{'descr': {descr}, 'fortran_order': {columns}, 'shape': {shape}, }}".encode()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not of NumPy's format"),
        (b"\x93NUMPY\1\0", "not of NumPy's format"),
        (npy(described("(2,)"), bytes(8), b"\2\0"), "not of NumPy's format, version 1.0"),
        (npy(described("(2,)"), bytes(8), length=60_000), "its header is none"),
        (npy(described("(2,)"), bytes(7)), r"float32\[2\] has not 7 bytes"),
        (npy(described("(-1,)"), bytes(8)), "its header is none"),
        (npy(described("(2.0,)"), bytes(8)), "its header is none"),
        (npy(described("(True,)"), bytes(8)), "its header is none"),
        (npy(described("2"), bytes(8)), "its header is none"),
        (npy(described("(2, 2)", columns="True"), bytes(16)), "column by column"),
        (npy(described("(1,)", "'|O'"), bytes(8)), "tensors hold numbers and booleans, given dtype object"),
        (npy(described("(1,)", "'<U4'"), bytes(16)), "given dtype <U4"),
        (npy(described("(1,)", "'<M8'"), bytes(8)), "given dtype datetime64"),
        (npy(described("(1,)", "'|V8'"), bytes(8)), r"given dtype \|V8"),
        (npy(described("(1,)", "'<f3'"), bytes(8)), "'<f3' is no dtype"),
        (npy(described("(1,)", "[('a', '<f4')]"), bytes(4)), "its header is none"),
        (npy(described("(" + "1, " * 65 + ")"), bytes(4)), "it has 65 axes, more than 64"),
        (npy(described("(4611686018427387904,)")), r"float32\[4611686018427387904\] is larger than any array"),
        (npy(described("(0, 9999999999999999999)")), "is larger than any array"),
        (npy(described("(4294967296, 4294967296, 16)")), "is larger than any array"),
        (npy(described("(9" + "0" * 4000 + ",)")), "its header is none"),
        (npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)"), "its header is none"),
        (npy(b"((((" * 200), "its header is none"),
        (npy(b"(\x00'"), "its header is none"),
    ],
)
def test_arrays_that_are_refused(path: Path, content: bytes, words: str) -> None:
    zipped(path, ("a.npy", content))
    for look in (Archive.header, Archive.array):
        with (
            pytest.raises(FileFormatError, match=rf"graph is damaged: a\.npy is no array of numbers: .*{words}"),
            Archive.open(path, "graph") as archive,
        ):
            look(archive, "a.npy")


@given(st.binary(max_size=200) | st.from_regex(rb"\x93NUMPY\x01\x00.{2}\{'descr': '<f4.*", fullmatch=True))
def test_any_header_is_read_or_refused(content: bytes) -> None:
    try:
        found = array_header(content)
    except FileFormatError:
        return
    assert found.nbytes >= 0


def test_an_array_that_is_not_there_is_not_allocated(path: Path) -> None:
    """Headers and the directory agree on a gigabyte; the elements are not there."""
    whole = npy(described("(268435456,)"))
    zipped(path, ("a.npy", whole))
    content = bytearray(path.read_bytes())
    entry = content.index(b"PK\1\2")
    struct.pack_into("<L", content, entry + 24, len(whole) + (1 << 30))
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match="which are not 107374"):
            read(path, "a.npy")
        assert tracemalloc.get_traced_memory()[1] < MEBIBYTE
    finally:
        tracemalloc.stop()


def test_more_than_is_allowed_is_not_unpacked(path: Path) -> None:
    zipped(path, ("a.npy", array_bytes(np.zeros(10_000_000))), ("b.json", b"[]"))
    words = r"some\.graph: its members would take 80000130 bytes, more than max_bytes=1000000: give a larger one"
    with pytest.raises(FileFormatError, match=words):
        read(path, "b.json", max_bytes=1_000_000)
    assert read(path, "a.npy", max_bytes=81_000_000).size == 10_000_000


def test_one_member_is_counted_as_often_as_it_is_read(path: Path) -> None:
    zipped(path, ("a.npy", array_bytes(np.zeros(1000))))
    with Archive.open(path, "graph", max_bytes=20_000) as archive:
        archive.array("a.npy")
        archive.array("a.npy")
        with pytest.raises(FileFormatError, match=r"a\.npy would take 8000 bytes beside 16000 others, more than max"):
            archive.array("a.npy")


@pytest.mark.parametrize("bound", [-1, 1.0, True, None, "4"])
def test_bounds_that_are_none(path: Path, bound: Any) -> None:
    with pytest.raises(FileFormatError, match="max_bytes is a number of bytes, given"):
        read(zipped(path, ("b.json", b"[]")), "b.json", max_bytes=bound)


# --- the whole file -----------------------------------------------------------------------------------------


def test_the_digest_of_the_file_is_checked(path: Path) -> None:
    zipped(path, ("b.json", b"[1]"))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert read(path, "b.json", sha256=digest) == read(path, "b.json", sha256=digest.upper()) == [1]
    with pytest.raises(FileFormatError, match=rf"some\.graph has the SHA-256 {digest}, wanted 0+: it is another file"):
        read(path, "b.json", sha256="0" * 64)
    with pytest.raises(FileFormatError, match="sha256 is 64 hexadecimal digits, given 'abc'"):
        read(path, "b.json", sha256="abc")
    with pytest.raises(FileFormatError, match="the file would take 115 bytes, more than max_bytes=100"):
        read(path, "b.json", sha256=digest, max_bytes=100)


def test_what_was_digested_is_what_is_read(path: Path) -> None:
    zipped(path, ("b.json", b"[1]"))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    with Archive.open(path, "graph", sha256=digest) as archive:
        zipped(path, ("b.json", b"[2]"))
        assert archive.json("b.json") == [1]


def test_too_many_members(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for at in range(3):
            file.writestr(str(at), b"")
    content = bytearray(path.read_bytes())
    struct.pack_into("<2H", content, len(content) - 14, 2, 2)
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match="bytes more than its 2 members"):
        read(path, "0")
    entry = b"PK\1\2" + bytes(42)
    count = 100_001
    end = b"PK\6\6" + struct.pack("<Q2H2L4Q", 44, 45, 45, 0, 0, count, count, len(entry) * count, 0)
    locator = b"PK\6\7" + struct.pack("<LQL", 0, len(entry) * count, 1)
    last = b"PK\5\6" + struct.pack("<4H2LH", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    path.write_bytes(entry * count + end + locator + last)
    with pytest.raises(FileFormatError, match=r"is no graph, .*: it has 100001 members, more than 100000"):
        read(path, "0")


def test_two_members_of_one_name(path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        zipped(path, ("b.json", b"[1]"), ("b.json", b"[2]"))
    with pytest.raises(FileFormatError, match=r"two of its members have the name 'b\.json'"):
        read(path, "b.json")


def test_large_files_have_numbers_of_64_bits(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for at in range(70_000):
            file.writestr(f"{at}.json", b"7")
    with Archive.open(path, "graph") as archive:
        assert len(archive.names()) == 70_000
        assert archive.json("69999.json") == 7


@pytest.mark.parametrize("packing", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_any_changed_byte_is_refused_or_harmless(path: Path, packing: int) -> None:
    value, array = {"a": list(range(100))}, np.arange(50)
    zipped(path, ("a.json", json_bytes(value)), ("b.npy", array_bytes(array)), packing=packing)
    content = path.read_bytes()
    for at in range(len(content)):
        for change in (0x01, 0x80, 0xFF):
            changed = io.BytesIO(content[:at] + bytes([content[at] ^ change]) + content[at + 1 :])
            with suppress(FileFormatError), Archive.open(changed, "graph") as archive:
                assert archive.json("a.json") == value
                assert archive.array("b.npy").tolist() == array.tolist()


def test_any_cut_is_refused(path: Path) -> None:
    zipped(path, ("a.json", b"[1, 2]"), ("b.npy", array_bytes(np.ones(2))))
    content = path.read_bytes()
    for at in range(len(content)):
        with (
            pytest.raises(FileFormatError, match="is no graph, or is damaged or cut short"),
            Archive.open(io.BytesIO(content[:at]), "graph"),
        ):
            pass


def test_what_is_packed_otherwise_is_refused(path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"b\.json is encrypted, or packed in a way that is not read"):
        read(zipped(path, ("b.json", b"[1]"), packing=zipfile.ZIP_BZIP2), "b.json")


def test_a_name_leads_nowhere(path: Path) -> None:
    zipped(path, ("../../b.json", b"[1]"))
    before = sorted(p.name for p in path.parent.iterdir())
    assert read(path, "../../b.json") == [1]
    assert sorted(p.name for p in path.parent.iterdir()) == before


@pytest.mark.parametrize("error", [KeyError, TypeError, ValueError, MemoryError, RuntimeError])
def test_a_fault_of_a_reader_is_no_damage(path: Path, error: type[Exception]) -> None:
    """What a file may have wrong is looked for; any other error is somebody's mistake, and stays what it is."""
    zipped(path, ("b.json", b"[1]"))

    def mistaken() -> None:
        with Archive.open(path, "graph"):
            raise error("a mistake")

    with pytest.raises(error, match="a mistake"):
        mistaken()


@given(PLAIN)
def test_fields_and_rows_are_those_or_refused(value: Any) -> None:
    for look, kind in ((fields, dict), (rows, list), (lambda v: rows(v, 2), list)):
        with suppress(FileFormatError):
            found = look(value)
            assert found == value
            assert isinstance(found, kind)
    if isinstance(value, dict):
        with pytest.raises(FileFormatError, match="'no key of it' is missing"):
            fields(value)["no key of it"]
