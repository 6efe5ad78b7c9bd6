"""A project as lines of JSON: what a file of them must be. Pure.

The first line says what it is, each further one holds a row of a table, the last one how many lines
there were and their hash. Rows follow their tables in the order of TABLES, so that none comes
before what it belongs to.
"""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from lastro.errors import InvalidInput

FORMAT = "lastro project"
VERSION = 1
# A line holds a row: a chunk of some kilobytes, or a run of thousands of questions.
MAX_LINE_BYTES = 256 * 2**20
# halfvec_send: the number of dimensions and two unused bytes, before the numbers.
_VECTOR_HEAD_BYTES = 4
_CAPITAL = re.compile(r"[A-Z]")


@dataclass(frozen=True, slots=True)
class Table:
    """A table of projects' rows; ordered by its key, equal projects give equal files."""

    name: str
    order: tuple[str, ...]
    left_out: frozenset[str] = frozenset()


TABLES: Mapping[str, Table] = {
    # that a run works on it is no longer true elsewhere
    "source": Table("sources", ("name",), frozenset({"run_started_at"})),
    "session": Table("sessions", ("id",)),
    "event": Table("events", ("session_id", "seq")),
    "document": Table("documents", ("id",)),
    "chunk": Table("chunks", ("document_id", "ordinal")),
    "goldenSet": Table("golden_sets", ("name", "version")),
    "profile": Table("profiles", ("name", "version")),
    "adoption": Table("profile_adoptions", ("name", "step")),
    "rule": Table("rules", ("name",)),
    "word": Table("words", ("key",)),
    "gap": Table("gaps", ("id",)),
    "vectorScale": Table("vector_scale", ()),
    "selfCheck": Table("self_checks", ()),
    "run": Table("evaluation_runs", ("number",)),
}
# Counted from the rows again, by whoever takes them in.
COUNTED = frozenset({"lexeme_stats", "corpus_stats"})
# What was paid for the rows here is not paid again there, what is to be done is done here, who may
# read here is nobody there, and what was asked here was asked of this database.
LEFT_BEHIND = frozenset(
    {"api_keys", "embedding_usage", "embedding_spend", "jobs", "search_log", "search_log_keys"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vectors:
    """Whose vectors a file holds."""

    id: str
    version: str
    dimension: int
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The first line: which project, and whose vectors; None where it holds none."""

    project: str
    vectors: Vectors | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of a file; ``line`` counts from 1, of ``size_bytes``."""

    line: int
    kind: str
    values: dict[str, Any]
    size_bytes: int


class Digest:
    """Counts and hashes lines, as they are written or read."""

    def __init__(self) -> None:
        self.lines = 0
        self._hash = hashlib.sha256()

    def add(self, line: bytes) -> bytes:
        """Take in a line, with its end."""
        self.lines += 1
        self._hash.update(line)
        return line

    def end(self) -> dict[str, Any]:
        """What the last line says of those before it."""
        return {"lines": self.lines, "sha256": self._hash.hexdigest()}


def header_line(header: Header) -> bytes:
    """The first line of a file."""
    vectors = header.vectors
    said = {
        "format": FORMAT,
        "version": VERSION,
        "project": header.project,
        "vectors": None
        if vectors is None
        else {
            "id": vectors.id,
            "version": vectors.version,
            "dimension": vectors.dimension,
            "fingerprint": vectors.fingerprint,
        },
    }
    return to_line(said)


def to_line(value: object) -> bytes:
    """A JSON value as a line."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8") + b"\n"


def read_header(stream: BinaryIO, digest: Digest) -> Header:
    """The first line of a file. Errors: InvalidInput."""
    said = _object(digest.add(_line(stream, 1)), 1)
    if said.get("format") != FORMAT:
        raise InvalidInput(
            "line 1: this is no exported project", remedy="give a file that `lastro export` wrote"
        )
    if said.get("version") != VERSION:
        raise InvalidInput(
            f"line 1: the file has the form {said.get('version')!r}, and this release reads "
            f"{VERSION}",
            remedy="use the release that wrote it, or a newer one",
        )
    try:
        vectors = said["vectors"]
        return Header(
            project=str(said["project"]),
            vectors=None
            if vectors is None
            else Vectors(
                id=str(vectors["id"]),
                version=str(vectors["version"]),
                dimension=int(vectors["dimension"]),
                fingerprint=str(vectors["fingerprint"]),
            ),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise bad_line(1, f"the head lacks a part ({error})") from error


def read_rows(stream: BinaryIO, digest: Digest) -> Iterator[Row]:
    """The rows after the first line, and at the end the check that all of them came.

    Errors: InvalidInput, which names the line.
    """
    kinds = list(TABLES)
    reached = 0
    while True:
        number = digest.lines + 1
        line = _line(stream, number)
        said = _object(line, number)
        kind, values = _only_entry(said, number)
        if kind == "end":
            _check_end(values, digest, number)
            if stream.read(1):
                raise bad_line(number + 1, "the file goes on after its end")
            return
        digest.add(line)
        if kind not in TABLES or kinds.index(kind) < reached:
            raise bad_line(number, f"{kind!r} is unknown, or in the wrong place")
        reached = kinds.index(kind)
        yield Row(
            line=number,
            kind=kind,
            values={_snake(key): values[key] for key in values},
            size_bytes=len(line),
        )


def vector_of(text: object) -> NDArray[np.float16]:
    """The numbers of a vector as a line says it: halfvec_send in base64. Errors: ValueError."""
    try:
        data = base64.b64decode(str(text), validate=True)
    except binascii.Error as error:
        raise ValueError("a vector is not base64") from error
    return np.frombuffer(data[_VECTOR_HEAD_BYTES:], dtype=">f2").astype(np.float16)


def bad_line(number: int, what: str) -> InvalidInput:
    """The error of a line that nobody exported so."""
    return InvalidInput(
        f"line {number}: {what}", remedy="export the project again, or copy the file whole"
    )


def _line(stream: BinaryIO, number: int) -> bytes:
    line = stream.readline(MAX_LINE_BYTES + 1)
    if len(line) > MAX_LINE_BYTES:
        raise bad_line(number, f"it is longer than {MAX_LINE_BYTES} bytes")
    if not line.endswith(b"\n"):
        raise bad_line(number, "the file ends before its end; it was cut")
    return line


def _object(line: bytes, number: int) -> dict[str, Any]:
    try:
        said = json.loads(line)
    except ValueError as error:
        raise bad_line(number, f"it is not JSON: {error}") from error
    if not isinstance(said, dict):
        raise bad_line(number, "it is no JSON object")
    return cast("dict[str, Any]", said)


def _only_entry(said: dict[str, Any], number: int) -> tuple[str, dict[str, Any]]:
    if len(said) != 1:
        raise bad_line(number, "it holds not one row")
    ((kind, values),) = said.items()
    if not isinstance(values, dict):
        raise bad_line(number, f"{kind!r} is no JSON object")
    return kind, cast("dict[str, Any]", values)


def _check_end(values: dict[str, Any], digest: Digest, number: int) -> None:
    if values != digest.end():
        raise InvalidInput(
            f"line {number}: the lines before are not those that were exported",
            remedy="copy the file again; who edits an exported file must not keep its last line",
        )


def _snake(name: str) -> str:
    return _CAPITAL.sub(lambda match: f"_{match[0].lower()}", name)
