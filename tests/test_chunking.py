"""Chunks: exact places, nothing lost, nothing torn that fits, always an end."""

import re
import time
from itertools import pairwise

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lastro.chunk_settings import ChunkSettings
from lastro.chunking import Chunk, ChunkedText, chunk_markdown, chunk_text
from lastro.errors import InvalidInput
from lastro.graphemes import GraphemeIndex
from lastro.markdown import MarkdownDocument, parse_markdown

FAMILY = "👩🏽‍💻"  # four code points, one character
SENTENCE = "Cada linha do contrato tem um dono. "  # 36 characters

PIECES = st.sampled_from(
    [
        "", "", "uma frase curta. Outra frase, mais longa, que segue até o fim da linha!",
        "palavras e mais palavras sem ponto algum nesta linha comprida do texto",
        "# Um", "## Dois", "### Três", "título\n===", "- item", "- item com texto\n  que segue",
        "> citado\n> em duas linhas", "```py\nx = 1\n\ny = 2\n```", "~~~\nsó\n~~~", "```\naberta",
        "    recuado\n    mais", "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n| 5 | 6 |",
        "- x\n  ```\n  dentro\n  ```", "<!-- nota -->", "[r]: /u", "한국어 문장",
        "决定使用数据库。索引很快，", FAMILY * 3, "🇧🇷🇵🇹" * 2, "cafe\u0301 e\u0301",
        "a" + "\u0301" * 9, " \u0301x", "\u0600 1", "x" * 70, " " * 40, "\t",
        "\u00a0", "\u2028", "fim.",
    ]
)  # fmt: skip
BREAKS = st.sampled_from(["\n", "\n\n", "\r\n", "\r\n\r\n", "\r", "\r\r"])


@st.composite
def texts(draw: st.DrawFn) -> str:
    pieces = draw(st.lists(st.tuples(PIECES, BREAKS), max_size=14))
    start = draw(st.sampled_from(["", "", "\ufeff", "---\ntitle: T\n---\n", "\r\n"]))
    return start + "".join(piece + end for piece, end in pieces)


@st.composite
def sizes(draw: st.DrawFn) -> ChunkSettings:
    target = draw(st.sampled_from([1, 2, 3, 7, 20, 40, 60, 150, 1200]))
    return ChunkSettings(
        target_chars=target,
        overlap_chars=draw(st.integers(min_value=0, max_value=target // 2)),
        window_chars=draw(st.sampled_from([0, 1, 5, 30, 200])),
    )


def boundaries(text: str) -> set[int]:
    return {0, *(cluster.end() for cluster in regex.finditer(r"\X", text))}


def lines_of(text: str) -> list[int]:
    """Line of each character: a break belongs to the line it ends."""
    lines = text.replace("\r\n", "\0\n").replace("\r", "\n").replace("\0", "\r").split("\n")
    return [number for number, line in enumerate(lines, 1) for _ in line + "\n"]


def chunks_of(text: str, **sizes: int) -> tuple[Chunk, ...]:
    return chunk_markdown(parse_markdown(text), ChunkSettings(**sizes)).chunks


def contents(text: str, **sizes: int) -> list[str]:
    return [chunk.content for chunk in chunks_of(text, **sizes)]


def assert_sound(document: MarkdownDocument, chunked: ChunkedText, settings: ChunkSettings) -> None:
    text, chunks, lines = document.text, chunked.chunks, lines_of(document.text)
    assert [chunk.ordinal for chunk in chunks] == list(range(len(chunks)))
    assert len(chunks) <= len(text)
    for chunk in chunks:
        assert text[chunk.start : chunk.end] == chunk.content
        assert 0 < len(chunk.content) <= settings.target_chars + settings.window_chars
        assert chunk.content.strip()
        assert chunk.line_start == lines[chunk.start]
        assert chunk.line_end == lines[chunk.end - 1]
    for before, after in pairwise(chunks):
        assert before.start < after.start
        assert before.end < after.end


class TestInvariants:
    @given(texts(), sizes())
    @settings(max_examples=150)
    @example("a" + "\u0301" * 9, ChunkSettings(target_chars=3, overlap_chars=1, window_chars=0))
    @example("x " * 40 + "```\nx\n```\n", ChunkSettings(target_chars=20, overlap_chars=10))
    def test_chunks_are_exact_bounded_and_move_forward(
        self, text: str, settings: ChunkSettings
    ) -> None:
        document = parse_markdown(text)

        assert_sound(document, chunk_markdown(document, settings), settings)

    @given(texts(), sizes())
    @settings(max_examples=80)
    def test_every_character_of_the_body_is_in_a_chunk(
        self, text: str, settings: ChunkSettings
    ) -> None:
        document = parse_markdown(text)
        covered: set[int] = set()
        for chunk in chunk_markdown(document, settings).chunks:
            covered.update(range(chunk.start, chunk.end))

        body = range(document.body_start, len(text))
        assert [text[at] for at in body if at not in covered and not text[at].isspace()] == []
        assert min(covered, default=document.body_start) >= document.body_start

    @given(texts(), sizes())
    @settings(max_examples=80)
    def test_a_chunk_lies_in_one_section_but_for_bare_headings_above_it(
        self, text: str, settings: ChunkSettings
    ) -> None:
        document = parse_markdown(text)
        for chunk in chunk_markdown(document, settings).chunks:
            touched = [s for s in document.sections if s.start < chunk.end and chunk.start < s.end]
            *bare, home = touched
            assert len(chunk.heading_path) >= len(home.heading_path)
            for above in bare:
                assert {block.kind for block in above.blocks} == {"heading"}
                assert home.heading_path[: len(above.heading_path)] == above.heading_path

    @given(texts())
    @settings(max_examples=80)
    def test_a_chunk_names_the_section_of_its_text(self, text: str) -> None:
        document = parse_markdown(text)
        for chunk in chunk_markdown(document).chunks:
            home = [s for s in document.sections if s.start < chunk.end][-1]
            assert (chunk.heading_path, chunk.anchor) == (home.heading_path, home.anchor)

    @given(texts(), sizes())
    @settings(max_examples=80)
    def test_no_character_that_fits_is_split(self, text: str, settings: ChunkSettings) -> None:
        document = parse_markdown(text)
        chunked = chunk_markdown(document, settings)
        cuts = {edge for chunk in chunked.chunks for edge in (chunk.start, chunk.end)}

        edges = sorted(boundaries(text))
        split = [
            text[start:end]
            for start, end in pairwise(edges)
            if any(start < cut < end for cut in cuts)
        ]
        assert all(len(cluster) > settings.limit_chars for cluster in split)
        assert len(chunked.warnings) == len(split)

    @given(texts(), sizes())
    @settings(max_examples=80)
    def test_no_chunk_starts_or_ends_with_a_blank(self, text: str, settings: ChunkSettings) -> None:
        edges = boundaries(text)
        for chunk in chunk_markdown(parse_markdown(text), settings).chunks:
            # A blank may carry a mark, or be carried; then it is no blank of its own.
            assert not chunk.content[0].isspace() or chunk.start + 1 not in edges
            assert not chunk.content[-1].isspace() or chunk.end - 1 not in edges

    @given(texts(), sizes())
    @settings(max_examples=80)
    def test_code_that_fits_is_whole_in_one_chunk_and_in_no_other(
        self, text: str, settings: ChunkSettings
    ) -> None:
        document = parse_markdown(text)
        chunks = chunk_markdown(document, settings).chunks
        edges = boundaries(text)
        for start, end in whole_spans(document):
            if end - start <= settings.limit_chars and {start, end} <= edges:
                touching = [c for c in chunks if c.start < end and start < c.end]
                assert all(c.start <= start and end <= c.end for c in touching)

    @given(texts(), sizes())
    @example("Um. Dois " + " " * 40 + "três", ChunkSettings(target_chars=9, overlap_chars=3))
    def test_plain_text_keeps_the_same_promises(self, text: str, settings: ChunkSettings) -> None:
        chunked = chunk_text(text, settings)
        covered: set[int] = set()
        for chunk in chunked.chunks:
            covered.update(range(chunk.start, chunk.end))
            assert text[chunk.start : chunk.end] == chunk.content
            assert len(chunk.content) <= settings.limit_chars
            assert (chunk.heading_path, chunk.anchor, chunk.context) == ((), None, "")

        left = [char for at, char in enumerate(text) if at not in covered and not char.isspace()]
        assert "".join(left).strip("\ufeff") == ""

    @given(texts(), sizes())
    def test_chunking_twice_gives_the_same(self, text: str, settings: ChunkSettings) -> None:
        once = chunk_markdown(parse_markdown(text), settings)

        assert once == chunk_markdown(parse_markdown(text), settings)


def whole_spans(document: MarkdownDocument) -> list[tuple[int, int]]:
    """Code blocks, and rows of tables, without the blanks around them."""
    spans: list[tuple[int, int]] = []
    for section in document.sections:
        for block in (*section.blocks, *section.nested):
            inside = document.text[block.start : block.end]
            rows = re.finditer(r"[^\r\n]+", inside)
            if block.kind in {"fence", "code"}:
                spans.append(trimmed(document.text, block.start, block.end))
            elif block.kind == "table":
                places = [(block.start + row.start(), block.start + row.end()) for row in rows]
                spans.extend(trimmed(document.text, start, end) for start, end in places)
    return spans


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    inside = text[start:end]
    return end - len(inside.lstrip()), start + len(inside.rstrip())


class TestSettings:
    def test_the_decided_sizes_are_the_default(self) -> None:
        assert (ChunkSettings().target_chars, ChunkSettings().overlap_chars) == (1200, 150)
        assert ChunkSettings().limit_chars == 1200 + 200

    @pytest.mark.parametrize(
        ("target", "overlap", "window"),
        [
            (300, 300, 0),
            (300, 301, 0),
            (300, 151, 0),
            (0, 0, 0),
            (-1, 0, 0),
            (8, -2, 0),
            (8, 0, -1),
        ],
    )
    def test_sizes_that_cannot_move_forward_are_refused(
        self, target: int, overlap: int, window: int
    ) -> None:
        with pytest.raises(InvalidInput, match=r"_chars is -?\d+"):
            ChunkSettings(target_chars=target, overlap_chars=overlap, window_chars=window)

    @pytest.mark.parametrize("target", [1, 2, 5, 60, 512, 1000])
    @pytest.mark.parametrize("window", [0, 200, 10**9])
    def test_every_accepted_size_ends_and_covers_short_lines(
        self, target: int, window: int
    ) -> None:
        text = "um\n" * 400
        settings = ChunkSettings(
            target_chars=target, overlap_chars=target // 2, window_chars=window
        )
        document = parse_markdown(text)
        started = time.process_time()
        chunked = chunk_markdown(document, settings)

        assert_sound(document, chunked, settings)
        assert "".join(c.content for c in chunked.chunks).count("um") >= 400 * (target > 1)
        assert time.process_time() - started < 5


class TestBreaks:
    def test_a_short_section_is_one_chunk(self) -> None:
        assert contents("# a\n\nt\n\n- b\n\n# c\n\nd\n") == ["# a\n\nt\n\n- b", "# c\n\nd"]

    def test_a_bare_heading_begins_the_chunk_of_the_section_below_it(self) -> None:
        chunks = chunks_of("# a\n\n## b\n\ntexto\n\n## c\n\n# d\n")

        assert [(chunk.content, chunk.anchor) for chunk in chunks] == [
            ("# a\n\n## b\n\ntexto", "b"), ("## c", "c"), ("# d", "d"),
        ]  # fmt: skip

    def test_equal_sections_are_chunks_of_their_own(self) -> None:
        chunks = chunks_of("## A\n\nigual\n\n## B\n\nigual\n")

        assert [(chunk.anchor, chunk.line_start, chunk.line_end) for chunk in chunks] == [
            ("a", 1, 3), ("b", 5, 7),
        ]  # fmt: skip

    def test_a_paragraph_near_the_target_is_preferred_to_a_nearer_sentence(self) -> None:
        first = SENTENCE * 29  # 1,044 characters, within 200 of the target of 1,200
        text = first.rstrip() + "\n\n" + SENTENCE * 29

        assert contents(text, overlap_chars=0)[0] == first.rstrip()

    def test_without_a_paragraph_the_nearest_sentence_ends_the_chunk(self) -> None:
        text = SENTENCE * 60

        assert contents(text, overlap_chars=0)[0] == (SENTENCE * 33).rstrip()  # 33 × 36 = 1,188

    def test_without_sentences_a_line_ends_the_chunk(self) -> None:
        line = "valor medido em campo no mês\n"  # 29 characters

        assert contents(line * 100, overlap_chars=0)[0] == (line * 41).rstrip()  # 41 × 29 = 1,189

    def test_without_lines_a_word_ends_the_chunk(self) -> None:
        text = "palavra " * 400

        assert contents(text, overlap_chars=0)[0] == ("palavra " * 150).rstrip()  # 150 × 8 = 1,200

    def test_chinese_breaks_at_its_own_stops_and_not_before_punctuation(self) -> None:
        text = "数据库使用索引，" * 300  # 8 characters, no full stop
        chunks = contents(text, overlap_chars=0)

        assert {chunk[0] for chunk in chunks} <= set("数据库使用索引")
        assert len(contents("我们决定采用。" * 400, overlap_chars=0)[0]) == 1197  # 171 × 7

    def test_one_endless_word_is_cut_at_the_target(self) -> None:
        assert [len(chunk) for chunk in contents("x" * 3000, overlap_chars=0)] == [1200, 1200, 600]

    def test_what_exceeds_the_target_but_not_the_limit_is_one_chunk(self) -> None:
        assert len(contents("palavra " * 174)) == 1  # 1,391 characters

    def test_the_last_chunk_is_no_crumb(self) -> None:
        for count in range(174, 360):
            chunks = chunks_of("palavra " * count, overlap_chars=0)
            assert len(chunks[-1].content) >= 190

    def test_a_heading_stays_with_its_text(self) -> None:
        code = "```\n" + "linha de código\n" * 85 + "```\n"  # 1,368 characters

        assert contents("## Rodar\n\n" + code + f"\n{SENTENCE}\n")[0].endswith("```")

    def test_an_early_cut_keeps_a_block_whole(self) -> None:
        prose = SENTENCE * 20  # 720 characters
        code = "```sh\n" + "echo passo\n" * 100 + "```"  # 1,109 characters
        first, second = contents(f"# a\n\n{prose}\n\n{code}\n")

        assert first == f"# a\n\n{prose}".rstrip()
        assert second.endswith(code)

    def test_code_beyond_the_limit_breaks_at_line_ends(self) -> None:
        code = "```\n" + "chamar(a. B, c. D)\n" * 200 + "```"  # 19 characters a line
        chunks = contents(code)

        assert len(chunks) > 1
        assert all(chunk.endswith((")", "```")) for chunk in chunks)
        assert all(chunk.startswith(("```", "chamar")) for chunk in chunks)

    def test_a_row_beyond_the_limit_is_still_cut(self) -> None:
        text = "| a |\n|---|\n| " + "célula " * 500 + "|\n"

        assert all(len(chunk) <= 1400 for chunk in contents(text))


class TestTables:
    TABLE = "| chave | valor |\n| --- | --- |\n" + "| tempo de espera | trinta |\n" * 100

    def test_rows_stay_whole(self) -> None:
        for chunk in contents(self.TABLE):
            assert all(line.startswith("|") and line.endswith("|") for line in chunk.split("\n"))

    def test_a_continued_table_carries_its_header_beside_its_text(self) -> None:
        first, *others = chunks_of(self.TABLE)

        assert first.context == ""
        assert others
        for chunk in others:
            assert chunk.context == "| chave | valor |\n| --- | --- |"
            assert "chave" not in chunk.content

    def test_a_continued_table_cites_its_own_lines(self) -> None:
        for chunk in chunks_of("# t\n\n" + self.TABLE):
            lines = ("# t\n\n" + self.TABLE).split("\n")
            assert chunk.content == "\n".join(lines[chunk.line_start - 1 : chunk.line_end])

    def test_a_table_in_a_list_carries_its_header_too(self) -> None:
        table = "- x\n\n" + "".join(f"  {line}\n" for line in self.TABLE.splitlines())

        assert chunks_of(table)[1].context.startswith("| chave | valor |")

    def test_text_behind_a_table_has_no_header(self) -> None:
        text = self.TABLE + "\n" + SENTENCE * 60

        assert chunks_of(text)[-1].context == ""

    def test_a_header_is_not_left_without_a_row(self) -> None:
        for words in range(100, 180):
            text = "palavra " * words + "\n\n" + self.TABLE
            for chunk in contents(text):
                assert not chunk.endswith("| --- | --- |")

    def test_an_endless_header_is_cut(self) -> None:
        text = "| " + "coluna " * 400 + "|\n|---|\n" + "| a |\n" * 400

        assert all(len(chunk.context) <= 1200 for chunk in chunks_of(text))


class TestOverlap:
    def test_the_next_chunk_starts_with_the_last_sentences_of_the_one_before(self) -> None:
        first, second = chunks_of(SENTENCE * 60)[:2]

        assert first.end - second.start == 4 * 36 - 1  # four sentences within 150 characters
        assert second.content.startswith(SENTENCE)

    def test_an_overlap_starts_at_a_word(self) -> None:
        first, second = chunks_of("palavra " * 400)[:2]

        assert second.content.startswith("palavra")
        assert 0 < first.end - second.start <= 150

    def test_a_text_without_words_has_no_overlap(self) -> None:
        chunks = chunks_of("x" * 3000)

        assert all(after.start == before.end for before, after in pairwise(chunks))

    def test_an_overlap_across_a_wide_blank_is_given_up(self) -> None:
        text = SENTENCE * 33 + "\n\n" + " " * 160 + "\n\n" + SENTENCE * 33
        first, second = chunks_of(text)[:2]

        assert second.start - first.end >= 160

    def test_an_overlap_never_reaches_into_code(self) -> None:
        code = "```\n" + "a b c d e f\n" * 100 + "```"  # 1,207 characters

        assert contents(f"{code}\n\n{SENTENCE * 30}")[1].startswith("Cada")

    def test_an_overlap_gives_way_to_code_that_fits_only_without_it(self) -> None:
        prose = SENTENCE * 33
        code = "```\n" + "a b c d e f\n" * 114 + "```"  # 1,375 characters

        assert contents(f"{prose}\n\n{code}\n")[1] == code

    def test_an_overlap_is_at_most_half_of_the_chunk_before(self) -> None:
        code = "```\n" + "a b c d e f\n" * 115 + "```"
        first, second = chunks_of(f"um parágrafo curto\n\n{code}\n")

        assert (first.content, second.content) == ("um parágrafo curto", f"curto\n\n{code}")


class TestPlaces:
    def test_lines_are_those_of_the_file_behind_front_matter_and_any_line_end(self) -> None:
        head = "---\r\ntitle: T\r\n---\r\n\r\n"
        text = head + "# T\r\n\r\nfato\r\n\r\n```\r\ncódigo\r\n```\r\n\r\n## U\r\rfim\n"
        chunks = chunks_of(text)

        assert [(chunk.line_start, chunk.line_end) for chunk in chunks] == [(5, 11), (13, 15)]

    def test_marks_and_emoji_are_counted_as_characters_and_never_split(self) -> None:
        text = f"Não há — só hipóteses… {FAMILY} e café ☕.\n" * 200
        chunks = chunks_of(text)

        assert all("\ufffd" not in chunk.content for chunk in chunks)
        pieces = "".join(chunk.content for chunk in chunks).replace(FAMILY, "")
        assert not set(FAMILY) & set(pieces)

    def test_a_byte_order_mark_is_part_of_no_chunk(self) -> None:
        assert contents("\ufeff# a\n\nb\n") == ["# a\n\nb"]
        assert [chunk.content for chunk in chunk_text("\ufeffa b\n").chunks] == ["a b"]

    def test_blank_texts_have_no_chunks(self) -> None:
        for text in ("", "\ufeff", " \n\t\r\n\u00a0", "---\na: 1\n---\n"):
            assert chunks_of(text) == ()
        assert chunk_text(" \n").chunks == ()

    def test_a_character_longer_than_the_limit_is_split_and_reported(self) -> None:
        text = "a\n\nb" + "\u0301" * 3000 + " c"
        chunked = chunk_text(text)

        assert [len(chunk.content) for chunk in chunked.chunks] == [1, 1400, 1400, 203]
        assert len(chunked.warnings) == 1
        assert chunked.warnings[0].startswith("Line 3: one character (grapheme cluster) of 3,001 ")

    def test_warnings_of_the_document_are_passed_on(self) -> None:
        chunked = chunk_markdown(parse_markdown("---\na: b: c\n---\n"))

        assert chunked.warnings[0].startswith("Front matter was not read")


class TestGraphemes:
    @given(
        st.text(
            alphabet="a \r\n\u0301\u200d\ufe0f👩🏽💻한\u1100\u1161\u11a8🇧🇷\u0600ำนक्ष©\ufeff",
            max_size=16,
        )
    )
    @settings(max_examples=200)
    @example("🇧🇷🇧🇷🇧\u0301🇷🇧")
    @example("\u0600🇧🇷🇧")
    def test_boundaries_are_those_of_the_standard(self, text: str) -> None:
        index = GraphemeIndex(text)

        found = {offset for offset in range(len(text) + 1) if index.is_boundary(offset)}
        assert found == boundaries(text)


class TestTime:
    @pytest.mark.parametrize(
        "text",
        [
            "palavra " * 250_000,
            "x" * 2_000_000,
            "决定使用，数据库。" * 60_000,
            "a" + "\u0301" * 500_000,
            FAMILY * 60_000,
            "🇧🇷" * 200_000,
            "a\n" + " " * 500_000 + "b",
            "# a\n" * 5_000,
            "| a |\n|---|\n" + "| b |\n" * 10_000,
            "```\n" + "código\n" * 50_000,
        ],
        ids=[
            "words", "one word", "Chinese", "marks", "emoji", "flags", "blanks", "headings",
            "table", "code",
        ],
    )  # fmt: skip
    def test_the_time_grows_with_the_text_alone(self, text: str) -> None:
        started = time.process_time()
        chunks = chunks_of(text)

        assert chunks
        assert time.process_time() - started < 10  # a quadratic walk takes minutes
