"""What an architecture decision record says of itself, in the common formats (pure).

Nygard (``## Status``), adr-tools, MADR (front matter or bullets), bold labels and tables; with
Portuguese and Chinese words.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from itertools import islice
from pathlib import PurePosixPath
from typing import Literal

from lastro.markdown import Block, MarkdownDocument, Section
from lastro.types import Adr

Field = Literal["status", "date", "superseded_by", "number"]

_LABELS: Mapping[Field, tuple[str, ...]] = {
    "status": (
        *("status", "decision status", "adr status", "estado", "situação", "situacao"),
        *("status da decisão", "estado da decisão", "状态", "狀態", "决策状态", "決策狀態", "现状"),
    ),
    "date": (
        *(
            "date",
            "decision date",
            "date decided",
            "date accepted",
            "date resolved",
            "decided",
            "data",
            "data da decisão",
            "decidido em",
        ),
        *("日期", "决策日期", "決策日期", "时间", "時間"),
    ),
    "superseded_by": (
        *("superseded by", "supersededby", "superceded by", "replaced by", "replacedby"),
        *("substituído por", "substituída por", "substituido por", "substituida por"),
        *("superado por", "superada por", "取代者", "替代者", "被取代", "被替代", "已被取代"),
    ),
    "number": ("number", "adr", "adr number", "id", "número", "numero", "编号", "編號"),
}
_FIELD_OF: Mapping[str, Field] = {
    label: name for name, labels in _LABELS.items() for label in labels
}

# The beginning of a status, in the words that the formats' own pages and translations use.
_STATUSES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(words, re.IGNORECASE))
    for name, words in (
        ("accepted", r"accepted\b|aceit[oa]s?\b|已?接受|已?采纳|已?採納|已通过|已通過|已批准"),
        ("proposed", r"proposed\b|propost[oa]s?\b|已?提议中?|已?提議中?|已?提案|建议中|建議中"),
        ("rejected", r"rejected\b|rejeitad[oa]s?\b|recusad[oa]s?\b|已?拒绝|已?拒絕|已?否[决決]"),
        (
            "superseded",
            (
                r"superseded\b|superceded\b|replaced\s+by\b|substitu[ií]d[oa]s?\b|superad[oa]s?\b"
                r"|已?被.*?(?:取代|替代|替换|替換|代替)|已(?:取代|替代|替换|替換)"
                r"|由.+?(?:取代|替代|代替)"
            ),
        ),
        (
            "deprecated",
            (
                r"deprecated\b|obsolete\b|obsolet[oa]s?\b|descontinuad[oa]s?\b|deprec(?:i?ad)[oa]s?\b"
                r"|revogad[oa]s?\b|已?废弃|已?廢棄|已?弃用|已?棄用|已?作废|已?作廢|已?过时"
            ),
        ),
    )
)
_NOTHING = frozenset(
    {"", "-", "–", "—", "none", "n/a", "na", "null", "nenhum", "nenhuma", "无", "無"}
)
_PARTIAL = re.compile(r"partial|partly|in part\b|parcial|em parte|部分", re.IGNORECASE)
# The Chinese form has what supersedes in its middle; the others end with it.
_SUPERSEDED_BY = re.compile(
    r"(?:superseded|superceded|replaced|obsoleted)(?:\s+in\s+part)?\s+(?:by|with)\b(?P<by>.*)"
    r"|(?:substitu[ií]d|superad)[oa]s?(?:\s+em\s+parte)?\s+(?:por|pel[oa])\b(?P<por>.*)"
    r"|[被由](?P<bei>.+?)(?:取代|替代|替换|替換|代替)"
    r"|已被?(?:取代|替代|替换|替換)\W*(?:参见|參見|见|見|by)\s*(?P<see>.*)",
    re.IGNORECASE,
)
# Prose replaces queues and words all the time; only these say it of a record.
_SAYS_SUPERSEDED = re.compile(r"super[sc]eded|substitu[ií]d|superad|取代|替代", re.IGNORECASE)

# Lists of choices and names such as ADR-NNNN stand in templates.
_CHOICES = re.compile(r"\s\|\s|\{|\badr[-_ ]?[xyzn?#]{2,}", re.IGNORECASE)

_REFERENCE = re.compile(
    r"[\s:：*_`\"'“(<]*(?:(?:the|o|a)\s+)?"
    r"(?:\[\[?(?P<text>[^\]]+)\]\]?(?:\(\s*<?(?P<target>[^)\s>]*)[^)]*\))?"
    r"|(?:adr|decis[aã]o|decision|record|决策|決策)[-_ #]*(?P<adr>\d{1,5})(?!\d)[-\w.]*"
    r"|#?(?P<number>\d{1,5})(?![\d年]|-\d\d-\d\d)(?:[-_][-\w.]*)?)",
    re.IGNORECASE,
)
_AND = re.compile(r"[\s*_`)\">]*(?:,|，|、|;|&|/|\+|\band\b|\be\b|和|与|與|及)+\s*", re.IGNORECASE)
_NAMED_RECORD = re.compile(
    r"\badr[-_ #]*(\d{1,5})(?!\d)|(?:^|[\s/(])(\d{1,5})[-_][^\s/]+\.md", re.I
)
_ADR_NUMBER = re.compile(r"(?<![A-Za-z])adr[-_ #:]*(\d{1,5})(?!\d)", re.IGNORECASE)
_TITLE_NUMBER = re.compile(
    r"\s*(?:(?:架构|架構)?(?:决策|決策)(?:记录|記錄)?|decis[aã]o|decision)\s*#?(\d{1,5})(?!\d)"
    # A bare number needs its mark, and a year is none: "2024: plans".
    r"|\s*#?(?!(?:19|20)\d\d\b)(\d{1,5})(?:[.:)：、]\s*(?=\D)|\s+[-–—]\s+\S)",
    re.IGNORECASE,
)
_FILE_NUMBER = re.compile(r"(?:decis[aã]o|decision)?[-_ .]*(\d{1,5})(?=[-_ .]|\Z)", re.IGNORECASE)
_INDEX_NAMES = frozenset({"readme", "index"})

_ISO_DATE = re.compile(r"(?<!\d)(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)")
_CHINESE_DATE = re.compile(r"(\d{4})\s*年\s*(\d{1,2})\s*月\s*(\d{1,2})\s*日")
# Day first, as Portuguese writes it; read only behind a Portuguese label.
_PORTUGUESE_DATE = re.compile(r"(?<!\d)(\d{1,2})[/.-](\d{1,2})[/.-](\d{4})(?!\d)")

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_TAG = re.compile(r"</?[A-Za-z][^>]*>")
_STRUCK = re.compile(r"~~.*?~~")
_LINK_TEXT = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_LINE_MARKS = re.compile(r"\s*(?:>\s*)*(?:(?:[-*+]|\d+[.)])\s+)?")
_CHECKBOX = re.compile(r"\[(?P<mark>[ xX])\]\s+")
_LABELLED = re.compile(r"[\s*_`]*(?P<label>[^:：|\[\](){}]{2,30}?)[\s*_`]*[:：](?P<value>.*)")
_HEADING_NUMBER = re.compile(r"\d+(?:\.\d+)*[.)]?\s+")
_BROKEN_BY = re.compile(r"\b(by|por|pelo|pela|with)[ \t]*(?:\r\n|\n|\r)[ \t>]*", re.IGNORECASE)
_CLAUSE_END = re.compile(r"[.;,(（。；，]|\s[-–—]\s|\s(?:by|on|since|por)\s|[:：]\s|\d{4}[-/年]")
_PAIR = 2
# Statuses are a word or two; what is longer is prose and is cut.
_MAX_STATUS_CHARS = 60
_MAX_REFERENCE_CHARS = 120
# Fields are short; the bounds keep hostile texts from costing the square of their length.
_MAX_FIELD_CHARS = 4_000
_MAX_LINE_CHARS = 500
_MAX_BLOCKS = 50


def parse_adr(path: str, document: MarkdownDocument) -> Adr | None:
    """Read number, status, date and supersession of the record at ``path``.

    None when it shows neither number nor status (an index page, a template). A known status is
    one of accepted, proposed, rejected, deprecated, superseded; others stay as written, in lower
    case. ``superseded_by`` is ``ADR-0012`` where a number is told, else the link's target or the
    words; several are joined with a comma.
    """
    if _is_index_page(path) and _file_number(path) is None:
        return None
    facts = list(_facts(document))
    number = _number(path, document, facts)
    supersession = _supersession(facts, document)
    status = _status(fact.text for fact in facts if fact.name == "status")
    if supersession is not None and not supersession.partial:
        status = "superseded"
    if number is None and status is None:
        return None
    return Adr(
        number=number,
        status=status,
        date=_date(facts),
        superseded_by=supersession.by if supersession is not None else None,
    )


# --- where records say things ------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fact:
    """A field's value as written; ``label`` is the word that announced it."""

    name: Field
    label: str
    text: str


def _facts(document: MarkdownDocument) -> Iterator[_Fact]:
    """All that is told, the most deliberate place first: metadata, the head, then sections."""
    for key, value in document.metadata.items():
        values = value if isinstance(value, list) else [value]
        text = ", ".join(str(one) for one in values if one is not None)
        yield from _fact(key, text)
    for section in _head(document):
        for block in _readable(section):
            yield from _block_facts(document.text, block)
    for section in document.sections:
        yield from _section_facts(document.text, section)


def _fact(label: str, text: str) -> Iterator[_Fact]:
    key = _label_key(label)
    name = _FIELD_OF.get(key)
    if name is not None and text.strip():
        yield _Fact(name=name, label=key, text=text[:_MAX_FIELD_CHARS])


def _label_key(label: str) -> str:
    plain = re.sub(r"[\s*_`-]+", " ", unicodedata.normalize("NFC", label))
    return plain.strip().casefold()


def _head(document: MarkdownDocument) -> tuple[Section, ...]:
    """What stands before the second heading."""
    first = document.sections[:2]
    return first if first and not first[0].heading_path else first[:1]


def _readable(section: Section) -> Iterator[Block]:
    """The first blocks that can tell something; a record's fields stand at the top."""
    mute = ("heading", "fence", "code", "html")
    return islice((block for block in section.blocks if block.kind not in mute), _MAX_BLOCKS)


def _block_facts(text: str, block: Block) -> Iterator[_Fact]:
    written = text[block.start : block.end]
    if block.kind == "table":
        yield from _table_facts(written)
        return
    for line in _lines(written):
        if found := _LABELLED.match(line):
            yield from _fact(found["label"], found["value"].strip(" *_"))


def _table_facts(table: str) -> Iterator[_Fact]:
    """Pairs of a table that has its labels in the first column, or in its header."""
    rows = [[_plain(cell) for cell in line.strip().strip("|").split("|")] for line in _lines(table)]
    header, body = rows[0], rows[2:]
    across = [label for label in header if _label_key(label) in _FIELD_OF]
    is_index = len(body) > 1 and len(header) > _PAIR
    if is_index:
        return
    if body and (len(across) > 1 or len(header) != _PAIR):
        for label, value in zip(header, body[0], strict=False):
            yield from _fact(label, value)
        return
    for row in (header, *body):
        is_pair = len(row) > 1 and (row is not header or _known_status(row[1]) is not None)
        if is_pair:
            yield from _fact(row[0], row[1])


def _section_facts(text: str, section: Section) -> Iterator[_Fact]:
    if not section.heading_path:
        return
    heading = _HEADING_NUMBER.sub("", section.heading_path[-1], count=1)
    told = _LABELLED.match(heading)
    if told is not None:
        yield from _fact(told["label"], told["value"])
    plain = re.sub(r"^\W+|\W+$", "", heading)
    if _label_key(plain) not in _FIELD_OF:
        return
    written: list[str] = []
    for block in _readable(section):
        if block.kind == "table":
            yield from _table_facts(text[block.start : block.end])
        else:
            written.append(text[block.start : block.end])
    yield from _fact(plain, "\n\n".join(written))


def _lines(written: str) -> list[str]:
    """Lines without quote and list marks; a box that is not ticked is not said."""
    told = written[:_MAX_FIELD_CHARS]
    text = _BROKEN_BY.sub(r"\1 ", _STRUCK.sub("", _COMMENT.sub("", told)))
    cut = (line[:_MAX_LINE_CHARS] for line in re.split(r"\r\n|\n|\r", text))
    lines = (_LINE_MARKS.sub("", line, count=1) for line in cut)
    return [
        _CHECKBOX.sub("", line, count=1)
        for line in lines
        if line.strip() and not ((box := _CHECKBOX.match(line)) and box["mark"] == " ")
    ]


def _plain(text: str) -> str:
    """Text without markup, ornaments at its start and impossible characters."""
    shown = _LINK_TEXT.sub(r"\1", _TAG.sub("", _STRUCK.sub("", _COMMENT.sub("", text))))
    words = " ".join(re.sub(r"[*_`\0]+", " ", unicodedata.normalize("NFC", shown)).split())
    return re.sub(r"^[^\w{\[<|]+", "", words).strip()


# --- status ------------------------------------------------------------------------------------


def _status(texts: Iterable[str]) -> str | None:
    """Status of the first text that has one; where lines are dated, the latest line's."""
    for text in texts:
        lines = [(line, status) for line in _lines(text) if (status := _line_status(line))]
        if not lines:
            continue
        dated = [(found, status) for line, status in lines if (found := _first_date(line))]
        if len(dated) > 1:
            return max(dated)[1]
        known = (status for line, status in lines if _known_status(_plain(line)))
        return next(known, lines[0][1])
    return None


def _line_status(line: str) -> str | None:
    plain = _plain(line)
    date_first = re.sub(r"^[\d年月日/.-]{8,}\s*[:：,-]?\s*", "", plain)
    labelled = _LABELLED.match(date_first)
    if labelled is not None and (name := _FIELD_OF.get(_label_key(labelled["label"]))):
        if name != "status":
            return None
        date_first = labelled["value"].strip()
    return _known_status(date_first) or _written_status(date_first)


def _known_status(plain: str) -> str | None:
    # A template's list of choices is no choice.
    if "|" in plain or "{" in plain:
        return None
    return next((name for name, words in _STATUSES if words.match(plain)), None)


def _written_status(plain: str) -> str | None:
    if "|" in plain or plain.startswith(("{", "[", "<")):
        return None
    clause = _CLAUSE_END.split(plain, maxsplit=1)[0].strip().lower()
    if len(clause) > _MAX_STATUS_CHARS:
        clause = clause[:_MAX_STATUS_CHARS].rsplit(" ", 1)[0]
    return None if clause in _NOTHING else clause


# --- supersession ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Supersession:
    by: str
    partial: bool


def _supersession(facts: Iterable[_Fact], document: MarkdownDocument) -> _Supersession | None:
    for fact in facts:
        if fact.name == "superseded_by" and (by := _references(fact.text[:_MAX_LINE_CHARS])):
            return _Supersession(by=by, partial=False)
        if fact.name == "status":
            told = [one for line in _lines(fact.text) if (one := _read_supersession(line))]
            if told:
                names = dict.fromkeys(one.by for one in told)
                return _Supersession(by=", ".join(names), partial=all(x.partial for x in told))
    return next(_head_supersessions(document), None)


def _head_supersessions(document: MarkdownDocument) -> Iterator[_Supersession]:
    """Notes such as "Superseded by ADR-0012" under the title; they must name a record."""
    for section in _head(document):
        for block in _readable(section):
            for line in _lines(document.text[block.start : block.end]):
                found = _read_supersession(line)
                if found and found.by.startswith("ADR-") and _SAYS_SUPERSEDED.search(line):
                    yield found


def _read_supersession(line: str) -> _Supersession | None:
    found = _SUPERSEDED_BY.search(line)
    if found is None or _CHOICES.search(line):
        return None
    by = _references(next(part for part in found.groups() if part is not None))
    if by is None:
        return None
    before = _plain(line[: found.start()])
    # "Accepted; the second part is superseded by ADR-0012" leaves the record in force.
    in_force = _known_status(before) in ("accepted", "proposed") and len(before.split()) > 1
    return _Supersession(by=by, partial=in_force or _PARTIAL.search(line) is not None)


def _references(text: str) -> str | None:
    """Names of the records that ``text`` begins with, or of those it holds, or its words."""
    names: list[str] = []
    position = 0
    while found := _REFERENCE.match(text, position):
        names.append(_reference_name(found))
        following = _AND.match(text, found.end())
        if following is None:
            break
        position = following.end()
    if not names:
        named = (one[1] or one[2] for one in _NAMED_RECORD.finditer(text))
        names = [_record_name(int(number)) for number in named]
    if names:
        return ", ".join(dict.fromkeys(names))
    plain = _plain(text).strip(" .:：。")[:_MAX_REFERENCE_CHARS]
    says_nothing = plain.casefold() in _NOTHING or re.search(r"\w", plain) is None
    return None if says_nothing or "{" in plain else plain


def _reference_name(found: re.Match[str]) -> str:
    number = found["adr"] or found["number"]
    if number is not None:
        return _record_name(int(number))
    text, target = found["text"], found["target"] or ""
    told = _title_number(text) or _file_number(text) or _file_number(target.partition("#")[0])
    if told is not None:
        return _record_name(told)
    return target.partition("#")[0].removeprefix("./") or text.strip()


def _record_name(number: int) -> str:
    return f"ADR-{number:04d}"


# --- number and date ---------------------------------------------------------------------------


def _number(path: str, document: MarkdownDocument, facts: Iterable[_Fact]) -> int | None:
    """Number by file name, else title, else metadata: YAML reads ``0012`` as octal 10."""
    found = _file_number(path)
    if found is None and document.title is not None:
        found = _title_number(document.title)
    if found is None:
        told = (fact.text for fact in facts if fact.name == "number")
        digits = (re.fullmatch(r"\s*(?:adr[-_ #]*)?(\d{1,5})\s*", one, re.I) for one in told)
        found = next((int(one[1]) for one in digits if one is not None), None)
    return found


def _is_index_page(path: str) -> bool:
    return PurePosixPath(path).stem.lower() in _INDEX_NAMES


def _file_number(path: str) -> int | None:
    place = PurePosixPath(path)
    stem = place.parent.name if _is_index_page(path) else place.stem
    if named := _ADR_NUMBER.search(stem):
        return int(named[1])
    # A date at the start of a name is no number.
    if _ISO_DATE.match(stem):
        return None
    counted = _FILE_NUMBER.match(stem)
    return int(counted[1]) if counted else None


def _title_number(title: str) -> int | None:
    if named := _ADR_NUMBER.match(title.lstrip(" [(#")):
        return int(named[1])
    counted = _TITLE_NUMBER.match(title)
    return int(counted[1] or counted[2]) if counted else None


def _date(facts: Iterable[_Fact]) -> str | None:
    """Date of a date field, else the one behind the status."""
    told = list(facts)
    for fact in told:
        if fact.name == "date" and (found := _first_date(fact.text)):
            return found
        if fact.name == "date" and fact.label.startswith(("data", "decidido")):
            written = _PORTUGUESE_DATE.search(fact.text)
            if written and (found := _iso(written[3], written[2], written[1])):
                return found
    behind = (_first_date(fact.text) for fact in told if fact.name == "status")
    return next((found for found in behind if found), None)


def _first_date(text: str) -> str | None:
    found = _ISO_DATE.search(text) or _CHINESE_DATE.search(text)
    return _iso(*found.groups()) if found else None


def _iso(year: str, month: str, day: str) -> str | None:
    try:
        return date(int(year), int(month), int(day)).isoformat()
    except ValueError:
        return None
