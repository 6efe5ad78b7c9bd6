"""What decision records say of themselves."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastro.adr import parse_adr
from lastro.markdown import parse_markdown
from lastro.types import Adr

PATH = "docs/adr/0007-queue.md"


def read(text: str, path: str = PATH) -> Adr:
    found = parse_adr(path, parse_markdown(text))
    assert found is not None
    return found


# --- whole records in the common formats -------------------------------------------------------

NYGARD = """\
# 7. Use a queue

Date: 2023-04-05

## Status

Superceded by [12. Use a log](0012-use-a-log.md)

## Context

Redis was replaced by something else in 2020. Rejected: files.
"""

MADR_FRONT_MATTER = """\
---
status: superseded by [ADR-0005](0005-other.md)
date: 2024-02-29
deciders: Ana, Rui
---

# Use a queue

## Context and Problem Statement
"""

MADR_BULLETS = """\
# Use a queue

* Status: accepted
* Deciders: Ana, Rui
* Date: 2021-12-31

Technical Story: none

## Context
"""

BOLD = """\
# ADR-0007: Use a queue

**Status:** Deprecated
**Date:** 2022-01-02

## Context
"""

TABLE = """\
# Use a queue

| Field  | Value      |
|--------|------------|
| Status | Proposed   |
| Date   | 2020-10-11 |

## Context
"""

TABLE_WITHOUT_HEADER_WORDS = """\
# Use a queue

| Status | Accepted |
|--------|----------|
| Date   | 2020-10-11 |
"""

TABLE_ACROSS = """\
# Use a queue

| Status   | Date       | Deciders |
|----------|------------|----------|
| Rejected | 2020-10-11 | Ana      |
"""

PORTUGUESE = """\
# ADR 0007 - Usar uma fila

Data: 05/04/2023

## Situação

Substituída pela [ADR-0012](0012-registro.md)

## Contexto
"""

CHINESE = """\
# 7. 使用队列

日期：2023年4月5日

## 状态

被 ADR-0012 取代

## 背景
"""


@pytest.mark.parametrize(
    ("text", "status", "date", "superseded_by"),
    [
        pytest.param(NYGARD, "superseded", "2023-04-05", "ADR-0012", id="nygard"),
        pytest.param(MADR_FRONT_MATTER, "superseded", "2024-02-29", "ADR-0005", id="madr"),
        pytest.param(MADR_BULLETS, "accepted", "2021-12-31", None, id="bullets"),
        pytest.param(BOLD, "deprecated", "2022-01-02", None, id="bold"),
        pytest.param(TABLE, "proposed", "2020-10-11", None, id="table"),
        pytest.param(TABLE_WITHOUT_HEADER_WORDS, "accepted", "2020-10-11", None, id="headless"),
        pytest.param(TABLE_ACROSS, "rejected", "2020-10-11", None, id="across"),
        pytest.param(PORTUGUESE, "superseded", "2023-04-05", "ADR-0012", id="portuguese"),
        pytest.param(CHINESE, "superseded", "2023-04-05", "ADR-0012", id="chinese"),
    ],
)
def test_a_record_is_read_in_each_common_format(
    text: str, status: str, date: str, superseded_by: str | None
) -> None:
    assert read(text) == Adr(number=7, status=status, date=date, superseded_by=superseded_by)


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
def test_line_ends_do_not_matter(newline: str) -> None:
    assert read(NYGARD.replace("\n", newline)) == read(NYGARD)


# --- number ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("docs/adr/0079-queue.md", 79),
        ("docs/adr/ADR-0079-queue.md", 79),
        ("docs/adr/adr_79.md", 79),
        ("docs/adr/adr0079.md", 79),
        ("docs/adr/0079.md", 79),
        ("docs/adr/079_queue.md", 79),
        ("docs/adr/shop-adr-0079-queue.md", 79),
        ("docs/adr/0079-queue/README.md", 79),
        ("docs/adr/0000-record-decisions.md", 0),
        ("docs/adr/2024-01-05-queue.md", None),
        ("docs/adr/queue.md", None),
        ("docs/adr/12factor.md", None),
    ],
)
def test_the_number_is_the_file_names(path: str, number: int | None) -> None:
    assert read("# Queue\n\nStatus: accepted\n", path).number == number


@pytest.mark.parametrize(
    ("title", "number"),
    [
        ("79. Queue", 79),
        ("ADR-0079: Queue", 79),
        ("ADR 79 Queue", 79),
        ("[ADR-0079] Queue", 79),
        ("79 - Queue", 79),
        ("0079: Queue", 79),
        ("Decisão 79: fila", 79),
        ("架构决策记录 79：队列", 79),
        ("2024: plans", None),
        ("3 ways to queue", None),
        ("1.5 is the version", None),
        ("Quadra-7 rules", None),
    ],
)
def test_without_a_number_in_the_file_name_it_is_the_titles(title: str, number: int | None) -> None:
    assert read(f"# {title}\n\nStatus: accepted\n", "docs/adr/queue.md").number == number


@pytest.mark.parametrize("line", ["id: ADR-0079", "number: 79", "adr: 79"])
def test_without_either_the_number_is_the_metadatas(line: str) -> None:
    assert read(f"---\n{line}\nstatus: accepted\n---\n# Queue\n", "docs/adr/q.md").number == 79


# --- status ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "status"),
    [
        ("Accepted", "accepted"),
        ("ACCEPTED (2024-01-02)", "accepted"),
        ("✅ Accepted by the team", "accepted"),
        ("**Accepted**", "accepted"),
        ("`accepted`", "accepted"),
        ("~~Proposed~~ Accepted", "accepted"),
        ("[Accepted](https://example.org/vote)", "accepted"),
        ("![Accepted](https://example.org/badge.svg)", "accepted"),
        ("Accepted <!-- or rejected -->", "accepted"),
        ("Aceito", "accepted"),
        ("Aceita", "accepted"),
        ("Proposto", "proposed"),
        ("Rejeitada", "rejected"),
        ("Obsoleto", "deprecated"),
        ("Substituído", "superseded"),
        ("已接受", "accepted"),
        ("提议", "proposed"),
        ("已拒绝", "rejected"),
        ("已废弃", "deprecated"),
        ("已取代", "superseded"),
        ("Draft", "draft"),
        ("On Hold, until May", "on hold"),
        ("Work in progress", "work in progress"),
        ("Não aceita", "não aceita"),
        ("Not accepted", "not accepted"),
        ("{proposed | accepted}", None),
        ("[proposed | rejected | accepted]", None),
        ("Proposed | Accepted", None),
        ("", None),
    ],
)
def test_a_known_status_is_one_of_five_words_and_others_stay_as_written(
    written: str, status: str | None
) -> None:
    assert read(f"# Queue\n\n## Status\n\n{written}\n").status == status


@pytest.mark.parametrize(
    "heading",
    ["Status", "1. Status", "Estado", "Situação", "Situac\u0327a\u0303o", "状态", "📌 Status"],
)
def test_the_status_heading_is_known_in_three_languages(heading: str) -> None:
    assert read(f"# Queue\n\n## {heading}\n\nDraft\n").status == "draft"


def test_the_status_may_stand_in_the_heading_itself() -> None:
    assert read("# Queue\n\n## Status: Accepted\n\nText.\n").status == "accepted"


def test_the_ticked_box_is_the_status() -> None:
    text = "# Queue\n\n## Status\n\n- [ ] Proposed\n- [x] Accepted\n- [ ] Rejected\n"
    assert read(text).status == "accepted"


def test_of_dated_statuses_the_latest_holds() -> None:
    text = "# Queue\n\n## Status\n\n2024-01-02: Proposed\n\n2024-03-04: Accepted\n"
    assert read(text).status == "accepted"


def test_metadata_goes_before_the_text() -> None:
    assert read("---\nstatus: rejected\n---\n# Queue\n\nStatus: accepted\n").status == "rejected"


def test_a_fence_and_a_comment_say_nothing() -> None:
    text = "# Queue\n\n```\nStatus: accepted\n```\n\n<!--\nStatus: rejected\n-->\n"
    assert read(text).status is None


def test_prose_further_down_says_nothing() -> None:
    assert read("# Queue\n\n## Context\n\nStatus: accepted\n").status is None


# --- supersession ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "superseded_by"),
    [
        ("Superseded by 12", "ADR-0012"),
        ("Superseded by ADR-012.", "ADR-0012"),
        ("Superseded by [ADR-0012](0012-log.md)", "ADR-0012"),
        ("Superseded by [Use a log](0012-log.md)", "ADR-0012"),
        ("Superseded by [12. Use a log](../adr/0012-log.md#status)", "ADR-0012"),
        ("Superseded by 0012-log.md", "ADR-0012"),
        ("Superseded by\n[ADR-0012](0012-log.md)", "ADR-0012"),
        ("Superseded on 2024-01-02, replaced by ADR-12", "ADR-0012"),
        ("Superseded by ADR-12 and ADR-13", "ADR-0012, ADR-0013"),
        ("Superseded by [12](12-a.md), [13](13-b.md)", "ADR-0012, ADR-0013"),
        ("Superseded by [12](12-a.md)\nAmended by [13](13-b.md)", "ADR-0012"),
        ("Accepted\n\nSuperseded by [12](12-a.md)", "ADR-0012"),
        ("Superseded by [12](12-a.md)\n\nSuperseded by [34](34-b.md)", "ADR-0012, ADR-0034"),
        ("**Superseded by [ADR-0012](0012-log.md). Nothing\nbelow holds.**", "ADR-0012"),
        ("Superseded by [ADR-0012](0012-log.md) (2026-05-14)", "ADR-0012"),
        ("Deprecated, superseded by ADR-0012", "ADR-0012"),
        ("Accepted, superseded by ADR-0012", "ADR-0012"),
        ("Obsoleto\n\nSubstituído por ADR-12 devido a custos", "ADR-0012"),
        ("Superseded by [Use a log](./log.md)", "log.md"),
        ("Superseded by the payments handbook", "the payments handbook"),
        ("Replaced by ADR-12", "ADR-0012"),
        ("Substituído por ADR-0012", "ADR-0012"),
        ("Superada pela ADR 12", "ADR-0012"),
        ("已被[ADR-0012](0012-log.md)取代", "ADR-0012"),
        ("由 ADR-0012 替代", "ADR-0012"),
        ("已取代，参见 ADR-0012", "ADR-0012"),
    ],
)
def test_a_superseded_record_names_its_successor(written: str, superseded_by: str) -> None:
    found = read(f"# Queue\n\n## Status\n\n{written}\n")
    assert (found.status, found.superseded_by) == ("superseded", superseded_by)


@pytest.mark.parametrize(
    "written",
    ["Accepted\n\nSupersedes [ADR-0003](0003-a.md)", "Accepted. Superseded by: none", "Aceita"],
)
def test_a_record_that_supersedes_another_is_not_superseded(written: str) -> None:
    found = read(f"# Queue\n\n## Status\n\n{written}\n")
    assert (found.status, found.superseded_by) == ("accepted", None)


@pytest.mark.parametrize(
    "written",
    [
        "Accepted, partially superseded by ADR-0012",
        "Accepted; the limit of 14 is superseded by [ADR-0012](0012-log.md)",
        "Aceita, parcialmente substituída por ADR-0012",
    ],
)
def test_a_record_superseded_in_part_keeps_its_status(written: str) -> None:
    found = read(f"# Queue\n\n## Status\n\n{written}\n")
    assert (found.status, found.superseded_by) == ("accepted", "ADR-0012")


@pytest.mark.parametrize(
    "written",
    [
        "Proposed | Accepted | Superseded by [ADR-0012](0012-title.md)",
        "[Proposto | Aceito | Substituído por ADR-0012]",
        "Superseded by ADR-NNNN",
        "{superseded by 12}",
    ],
)
def test_a_templates_choices_supersede_nothing(written: str) -> None:
    assert read(f"# Title\n\n## Status\n\n{written}\n").superseded_by is None


@pytest.mark.parametrize(
    "line",
    [
        "superseded-by: ADR-0012",
        "superseded_by: 12",
        "supersededBy: [ADR-0012]",
        "substituído-por: '[ADR-0012](0012-log.md)'",
    ],
)
def test_metadata_may_name_the_successor(line: str) -> None:
    found = read(f"---\nstatus: accepted\n{line}\n---\n# Queue\n")
    assert (found.status, found.superseded_by) == ("superseded", "ADR-0012")


@pytest.mark.parametrize(
    "note",
    [
        "> **Superseded by [ADR-0012](0012-log.md)**",
        "* Superseded by: ADR-0012",
        "This record has been superseded by ADR-0012.",
        "本决策已被 ADR-0012 取代。",
    ],
)
def test_a_note_under_the_title_marks_the_record(note: str) -> None:
    found = read(f"# Queue\n\n{note}\n\n## Status\n\nAccepted\n")
    assert (found.status, found.superseded_by) == ("superseded", "ADR-0012")


def test_prose_about_what_was_replaced_marks_nothing() -> None:
    text = (
        "# Queue\n\nThe table was superseded by a log, replaced by 2 files.\n\n## Status\n\nDraft\n"
    )
    assert read(text) == Adr(number=7, status="draft")


# --- date --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "date"),
    [
        ("Date: 2024-01-02", "2024-01-02"),
        ("Date: 2024/1/2", "2024-01-02"),
        ("Data: 02/01/2024", "2024-01-02"),
        ("Date: 02/01/2024", None),
        ("日期：2024年1月2日", "2024-01-02"),
        ("Date: 2024-13-02", None),
        ("Status: Accepted on 2024-01-02", "2024-01-02"),
    ],
)
def test_a_date_is_iso_and_never_guessed(head: str, date: str | None) -> None:
    assert read(f"# Queue\n\n{head}\n").date == date


# --- what is no record -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("docs/adr/template.md", "# Title\n\n* Status: {proposed | accepted}\n"),
        ("docs/adr/README.md", "# Records\n\nAll of them.\n"),
        (
            "docs/adr/index.md",
            "# Records\n\n| ADR | Title | Status |\n|--|--|--|\n| 1 | A | Accepted |\n",
        ),
        ("docs/adr/notes.md", ""),
    ],
)
def test_index_pages_and_templates_are_no_records(path: str, text: str) -> None:
    assert parse_adr(path, parse_markdown(text)) is None


WORDS = st.sampled_from(
    [
        *(
            "# 7. Queue",
            "## Status",
            "Superseded by",
            "[ADR-12](12.md)",
            "被",
            "取代",
            "|",
            "-",
            ":",
        ),
        *(
            "---",
            "status:",
            "Date: 2024-99-01",
            "{",
            "\0",
            "\n",
            "\n\n",
            "```",
            "Accepted",
            "x" * 90,
        ),
    ]
)


@given(st.lists(WORDS, max_size=12).map(" ".join), st.text(max_size=12))
@settings(derandomize=True, max_examples=150, deadline=None)
def test_any_text_is_read_and_gives_storable_words(text: str, name: str) -> None:
    found = parse_adr(f"docs/adr/{name}.md", parse_markdown(text))
    if found is not None:
        assert "\0" not in (found.status or "") + (found.superseded_by or "")
        assert found.status is None or found.status == found.status.lower().strip()
