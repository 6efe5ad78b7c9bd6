"""Markdown: headings as CommonMark has them, anchors as GitHub makes them, places of the file."""

import json
import re
import time
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from mdit_py_plugins.front_matter import front_matter_plugin

from lastro.anchors import AnchorCounter, github_slug
from lastro.markdown import LineIndex, MarkdownDocument, parse_markdown

REFERENCE = MarkdownIt("commonmark", {"maxNesting": 100}).enable(["table", "strikethrough"])

# Lines that open, close, nest and interrupt blocks; drawn in any order they make hostile Markdown.
LINES = st.sampled_from(
    [
        "", "", "", " ", "\t", "texto corrido", "uma linha. Outra frase!", "決定を記録する。",
        "# Um", "## Dois", "### `três` *e* [quatro](u)", "###### Seis #", "####### sete", "#sem",
        "    # recuado", "   ## quase recuado ##", "===", "---", "- - -", "***", "--", "título\\",
        "```", "```sh", "````", "~~~", "~~~~ yaml", "    ```", " ```", "``` a`b",
        "- item", "  - dentro", "- # no item", "1. um", "2) dois", "10. dez", "* outra", "  segue",
        "> citado", "> # no quadro", "> > fundo", ">", "> ```", "> - a", "preguiçosa",
        "| a | b |", "| --- | :-: |", "|--|", "| 1 | 2 |", "a | b", "-|-",
        "<!-- comentário", "-->", "<!-- um só -->", "<div>", "</div>", "<h2>de HTML</h2>", "<pre>",
        "[ref]: /alvo", "[ref]: /alvo 'título", "## com [ref] dentro", "'", "\u00a0", "\u2028x",
        "😀 riso", "e\u0301 solto", "&amp; &#35;", "+++", "...", "a: b", "\\# escapado",
    ]
)  # fmt: skip
BREAKS = st.sampled_from(["\n", "\n", "\r\n", "\r"])


@st.composite
def markdown_texts(draw: st.DrawFn) -> str:
    lines = draw(st.lists(st.tuples(LINES, BREAKS), max_size=25))
    bom = draw(st.sampled_from(["", "", "", "\ufeff"]))
    return bom + "".join(line + end for line, end in lines)


def paths(text: str) -> list[tuple[str, ...]]:
    return [section.heading_path for section in parse_markdown(text).sections]


def anchors(text: str) -> list[str | None]:
    return [section.anchor for section in parse_markdown(text).sections]


def kinds(text: str) -> list[str]:
    return [block.kind for section in parse_markdown(text).sections for block in section.blocks]


def source_of(document: MarkdownDocument, kind: str) -> list[str]:
    return [
        document.text[block.start : block.end]
        for section in document.sections
        for block in (*section.blocks, *section.nested)
        if block.kind == kind
    ]


class TestHeadings:
    def test_a_comment_in_a_fence_is_no_heading(self) -> None:
        text = "# Guia\n\n## Instalar\n\n```sh\n# baixar\nmake\n## fim\n```\n\n## Remover\n"

        assert paths(text) == [("Guia",), ("Guia", "Instalar"), ("Guia", "Remover")]

    def test_a_fence_closes_only_on_its_own_kind_and_length(self) -> None:
        text = "````\n```\n# a\n```\n~~~~\n# b\n````\n# c\n"

        assert paths(text) == [(), ("c",)]

    def test_a_fence_is_not_closed_by_a_marker_with_an_info_string(self) -> None:
        assert paths("~~~\n~~~ py\n# a\n~~~\n# b\n") == [(), ("b",)]

    def test_a_marker_indented_four_spaces_opens_no_fence(self) -> None:
        assert paths("    ```\n\n# a\n") == [(), ("a",)]

    def test_an_unclosed_fence_runs_to_the_end_of_the_file_and_no_further(self) -> None:
        assert paths("# a\n```\n# b\n# c") == [("a",)]
        assert paths("# d\n") == [("d",)]

    def test_html_comments_hide_headings(self) -> None:
        assert paths("# a\n<!--\n# b\n-->\n\n# c\n") == [("a",), ("c",)]

    def test_underlined_headings_are_headings(self) -> None:
        assert paths("Um\n===\n\nDois\nlinhas\n---\n\ntexto\n") == [("Um",), ("Um", "Dois linhas")]

    def test_headings_in_lists_and_quotes_are_no_sections(self) -> None:
        assert paths("# a\n\n- # b\n\n> # c\n\n1. d\n   ## e\n") == [("a",)]

    def test_text_before_the_first_heading_is_a_section_without_path_or_anchor(self) -> None:
        first = parse_markdown("início\n\n# a\n").sections[0]

        assert (first.heading_path, first.anchor, first.start) == ((), None, 0)

    def test_blank_lines_before_the_first_heading_are_no_section(self) -> None:
        assert paths("\n \n\t\n# a\n") == [("a",)]

    def test_skipped_and_rising_levels_keep_the_nearest_parents(self) -> None:
        text = "### c\n# a\n### a3\n## a2\n#### a24\n# b\n"

        assert paths(text) == [
            ("c",), ("a",), ("a", "a3"), ("a", "a2"), ("a", "a2", "a24"), ("b",),
        ]  # fmt: skip

    def test_a_section_may_be_empty(self) -> None:
        assert paths("# a\n## b\n## c\n") == [("a",), ("a", "b"), ("a", "c")]

    def test_an_empty_heading_parts_sections_and_adds_no_name(self) -> None:
        assert paths("# a\n##\ntexto\n### b\n") == [("a",), ("a",), ("a", "b")]
        assert anchors("# a\n##\n") == ["a", None]

    def test_the_path_is_what_a_reader_sees(self) -> None:
        text = (
            "[alvo]: /x\n\n"
            "# `código`, *ênfase*, ~~riscado~~, [elo](http://e.x), [alvo], &amp; \\* <b>forte</b>\n"
        )

        assert paths(text)[-1] == ("código, ênfase, riscado, elo, alvo, & * forte",)

    def test_a_heading_of_a_picture_alone_is_named_by_its_text(self) -> None:
        assert paths("# ![Logotipo](l.png)\n") == [("Logotipo",)]

    def test_a_heading_of_absurd_length_is_cut_in_the_path(self) -> None:
        (path,) = paths("# " + "palavra " * 1_000)

        assert len(path[0]) <= 300
        assert path[0].endswith("…")

    @given(markdown_texts())
    @settings(max_examples=150)
    @example("> ```\nlazy\n> # a\n")
    @example("- a\n\n      ```\n# b\n")
    def test_headings_are_those_of_a_plain_commonmark_parser(self, text: str) -> None:
        document = parse_markdown(text)
        body = re.sub(r"\r\n?", "\n", text[document.body_start :])
        first_line = document.lines.line_of(document.body_start)
        expected = [
            first_line + token.map[0]
            for token in REFERENCE.parse(body)
            if token.type == "heading_open" and token.level == 0 and token.map
        ]

        found = [
            document.lines.line_of(section.start)
            for section in document.sections
            if section.blocks and section.blocks[0].kind == "heading"
        ]
        assert found == expected


class TestSections:
    @given(markdown_texts())
    @settings(max_examples=80)
    def test_sections_follow_each_other_and_leave_out_blanks_alone(self, text: str) -> None:
        document = parse_markdown(text)
        edges = [section.start for section in document.sections] + [len(text)]

        assert [section.end for section in document.sections] == edges[1:]
        assert not text[document.body_start : edges[0]].strip()

    @given(markdown_texts())
    @settings(max_examples=80)
    def test_top_level_blocks_lie_in_their_section_in_order(self, text: str) -> None:
        for section in parse_markdown(text).sections:
            spans = [(block.start, block.end) for block in section.blocks]
            edges = [section.start, *(edge for span in spans for edge in span), section.end]
            assert edges == sorted(edges)

    def test_blocks_tell_their_kind(self) -> None:
        text = "# a\n\np\n\n- i\n\n> q\n\n```\nf\n```\n\n    c\n\n|a|\n|-|\n|1|\n\n<div>\n\n***\n"

        assert kinds(text) == [
            "heading", "paragraph", "list", "quote", "fence", "code", "table", "html", "rule",
        ]  # fmt: skip

    def test_blocks_inside_lists_and_quotes_are_kept_apart(self) -> None:
        document = parse_markdown("- um\n  ```\n  x\n  ```\n\n> | a |\n> |---|\n> | 1 |\n")

        assert source_of(document, "fence") == ["  ```\n  x\n  ```\n"]
        assert source_of(document, "table") == ["> | a |\n> |---|\n> | 1 |\n"]
        assert [block.kind for block in document.sections[0].blocks] == ["list", "quote"]

    def test_a_table_tells_where_its_header_ends(self) -> None:
        document = parse_markdown("p\n\n| a |\r\n|---|\r\n| 1 |\r\n")
        table = document.sections[0].blocks[1]

        assert document.text[table.start : table.header_end] == "| a |\r\n|---|\r\n"


class TestLines:
    @pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r"])
    def test_line_ends_of_any_kind_give_the_same_sections_and_lines(self, line_break: str) -> None:
        text = "# Cópia\n\ntexto\n\n## Diária\n\n| a |\n|---|\n| 1 |\n\n## Mensal\n".replace(
            "\n", line_break
        )
        document = parse_markdown(text)

        assert [section.heading_path[-1] for section in document.sections] == [
            "Cópia", "Diária", "Mensal",
        ]  # fmt: skip
        assert [document.lines.line_of(section.start) for section in document.sections] == [
            1,
            5,
            11,
        ]

    def test_other_separators_do_not_end_lines(self) -> None:
        lines = LineIndex("a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g\nh")

        assert [lines.line_of(12), lines.line_of(14)] == [1, 2]

    @given(st.text(alphabet="a\r\n\u2028é", max_size=30))
    def test_a_line_number_counts_the_breaks_before(self, text: str) -> None:
        lines = LineIndex(text)

        for offset in range(len(text)):
            before = text[:offset]
            inside_pair = before.endswith("\r") and text[offset] == "\n"
            breaks = before.replace("\r\n", "\n").replace("\r", "\n").count("\n") - inside_pair
            assert lines.line_of(offset) == 1 + breaks

    def test_a_byte_order_mark_hides_nothing(self) -> None:
        document = parse_markdown("\ufeff# a\n\ntexto\n")

        assert (document.title, document.sections[0].start) == ("a", 1)

    def test_a_byte_order_mark_may_stand_before_front_matter(self) -> None:
        document = parse_markdown("\ufeff---\ntitle: T\n---\n# a\n")

        assert (document.title, document.lines.line_of(document.body_start)) == ("T", 4)


class TestAnchors:
    @pytest.mark.parametrize(
        ("heading", "slug"),
        [
            ("Visão geral", "visão-geral"),
            ("Fila / Tópico", "fila--tópico"),
            ("Versão: 2.0.1 (beta)", "versão-201-beta"),
            ("um — dois – três - quatro", "um--dois--três---quatro"),
            ("snake_case e kebab-case", "snake_case-e-kebab-case"),
            ("为什么选择 PostgreSQL？", "为什么选择-postgresql"),
            ("😀 festa", "-festa"),
            ("C++ & C#", "c--c"),
            ("½ e ² e Ⅷ", "-e--e-ⅷ"),
            ("no\u00a0break", "nobreak"),
            ("❤\ufe0f", "\ufe0f"),
            ("Ⓐ círculo", "ⓐ-círculo"),
        ],
    )
    def test_a_slug_drops_what_github_drops(self, heading: str, slug: str) -> None:
        assert github_slug(heading) == slug

    def test_repeated_headings_count_up_and_step_around_taken_names(self) -> None:
        counter = AnchorCounter()
        headings = ["eco", "eco", "eco 1", "eco-1", "eco", "fim-1", "fim", "fim"]

        assert [counter.take(heading) for heading in headings] == [
            "eco", "eco-1", "eco-1-1", "eco-1-2", "eco-2", "fim-1", "fim", "fim-2",
        ]  # fmt: skip

    def test_the_anchor_is_of_the_rendered_heading(self) -> None:
        assert anchors("## `max_conn` — *uso* [aqui](u) ![foto](f)\n") == ["max_conn--uso-aqui-"]

    def test_headings_in_quotes_lists_and_html_use_up_anchors(self) -> None:
        text = "# Uso\n\n> # Uso\n\n- ## Uso\n\n<h3>Uso</h3>\n\n# Uso\n"

        assert anchors(text) == ["uso", "uso-4"]

    @given(markdown_texts())
    def test_no_two_sections_share_an_anchor(self, text: str) -> None:
        named = [anchor for anchor in anchors(text) if anchor is not None]

        assert len(named) == len(set(named))


class TestTitle:
    @pytest.mark.parametrize("key", ["title", "titulo", "título", "标题", "Title", "TÍTULO"])
    def test_front_matter_names_the_document(self, key: str) -> None:
        assert parse_markdown(f"---\n{key}: Da capa\n---\n# Do texto\n").title == "Da capa"

    def test_a_number_may_be_a_title(self) -> None:
        assert parse_markdown("---\ntitle: 2024\n---\n").title == "2024"

    @pytest.mark.parametrize("value", ["", "[a, b]", "true", '"  "', "{a: 1}"])
    def test_what_is_no_name_is_passed_over(self, value: str) -> None:
        assert parse_markdown(f"---\ntitle: {value}\n---\n# Do texto\n").title == "Do texto"

    def test_the_first_heading_of_level_one_comes_next(self) -> None:
        assert parse_markdown("## Antes\n\n# Nome\n\n# Outro\n").title == "Nome"

    def test_a_heading_written_in_html_counts_as_level_one(self) -> None:
        assert (
            parse_markdown('<h1 align="center">Meu <i>lar</i></h1>\n\n## Uso\n').title == "Meu lar"
        )

    def test_else_the_first_heading_names_the_document(self) -> None:
        assert parse_markdown("texto\n\n### c\n\n## b\n").title == "c"

    def test_a_text_without_any_has_no_title(self) -> None:
        assert parse_markdown("só texto\n").title is None


class TestFrontMatter:
    def test_yaml_becomes_plain_json_values(self) -> None:
        text = (
            "---\ndate: 2024-05-06\nat: 2024-05-06T07:08:09\ntags: [a, b]\nn: 1\nx: .nan\n"
            "nested: {1: true, null: ~}\nwhen: !!set {b, a}\n---\ncorpo\n"
        )
        metadata = parse_markdown(text).metadata

        assert metadata == {
            "date": "2024-05-06", "at": "2024-05-06T07:08:09", "tags": ["a", "b"], "n": 1,
            "x": None, "nested": {"1": True, "None": None}, "when": ["a", "b"],
        }  # fmt: skip

    def test_toml_between_plus_signs_is_read_too(self) -> None:
        document = parse_markdown('+++\r\ntitle = "T"\r\nd = 2024-01-02\r\n+++\r\n# a\r\n')

        assert document.metadata == {"title": "T", "d": "2024-01-02"}
        assert document.lines.line_of(document.sections[0].start) == 5

    def test_nul_and_half_characters_are_taken_out(self) -> None:
        document = parse_markdown('---\ntitle: "a\\0b\\ud800c"\n"k\\0": 1\n---\n')

        assert document.metadata == {"title": "abc", "k": 1}

    @pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r"])
    def test_the_body_starts_on_the_line_after(self, line_break: str) -> None:
        text = "---\na: 1\nb: |\n  x\n  ---\n---\n\n# t\n".replace("\n", line_break)
        document = parse_markdown(text)

        assert document.metadata == {"a": 1, "b": "x\n---\n"}
        assert [document.lines.line_of(section.start) for section in document.sections] == [8]

    def test_yaml_may_end_with_dots(self) -> None:
        document = parse_markdown("---\na: 1\n...\n# t\n")

        assert (document.metadata, document.body_start) == ({"a": 1}, 13)

    @pytest.mark.parametrize(
        "text",
        [
            "---\n# sem fim\n",
            "\n---\na: 1\n---\n",
            " ---\na: 1\n---\n",
            "----\na: 1\n----\n",
            "--- a: 1\n---\n",
            "---\n\num parágrafo entre réguas\n\n---\n",
            "---\n\n# um título entre réguas\n\n---\n",
            "---\n- lista\n- entre réguas\n---\n",
            "---\n@ nem YAML é\n---\n",
        ],
    )
    def test_a_rule_at_the_top_is_body_and_stays_searchable(self, text: str) -> None:
        document = parse_markdown(text)

        assert (document.metadata, document.body_start, document.warnings) == ({}, 0, ())

    def test_an_empty_block_is_front_matter(self) -> None:
        assert parse_markdown("---\n\n---\n# a\n").body_start == 9

    @pytest.mark.parametrize(
        "yaml",
        [
            "title: a: b",
            "a: &x [1]\nb: *x",
            "a: &a [*a]",
            "a: " + "[" * 1_000,
            "a: !!python/object/apply:os.system [ls]",
            "a: !!timestamp x",
            "a: !!bool x",
            "a: 2024-13-45",
            "a: " + "9" * 5_000,
            "c: d\n? [a]\n: b",
            "a: \x07",
            "a: " + "{b: " * 40 + "1" + "}" * 40,
            "a: " + "x" * 70_000,
        ],
    )
    def test_what_cannot_be_read_is_skipped_with_a_warning(self, yaml: str) -> None:
        document = parse_markdown(f"---\n{yaml}\n---\n# a\n")

        assert (document.metadata, document.title) == ({}, "a")
        assert document.warnings[0].startswith("Front matter was not read: ")

    def test_an_integer_too_large_to_print_is_no_value(self) -> None:
        assert parse_markdown(f"---\na: 0x{'f' * 5_000}\n---\n").metadata == {"a": None}

    @given(st.text(alphabet="ab:- \n[]{}&*!|>'\"#%@,?0.~\\ux\t=<é", max_size=60))
    @settings(max_examples=150)
    @example("a: !!timestamp {}")
    @example("a: !!float ''")
    @example("<<: 1\na: 1")
    @example("!!set {a}")
    def test_no_front_matter_raises_and_all_of_it_is_json(self, yaml: str) -> None:
        for marker in ("---", "+++"):
            document = parse_markdown(f"{marker}\n{yaml}\n{marker}\n")
            json.dumps(document.metadata, allow_nan=False)

    @given(st.lists(st.sampled_from(["a: 1", "", "# c", "b: [2]", "---", "..."]), max_size=6))
    def test_the_body_starts_where_the_markdown_plugin_says(self, lines: list[str]) -> None:
        text = "\n".join(["---", "k: v", *lines, "---", "fim", ""])
        token = MarkdownIt().use(front_matter_plugin).parse(text)[0]
        assert token.map is not None

        document = parse_markdown(text)
        assert document.lines.line_of(document.body_start) == token.map[1] + 1


class TestHostileTexts:
    def test_a_heading_after_a_list_nested_beyond_reason_is_found(self) -> None:
        nested = "".join("  " * depth + "- a\n" for depth in range(60))

        assert paths(nested + "\n# b\n") == [(), ("b",)]

    @pytest.mark.parametrize(
        "text",
        [
            ">" * 50_000 + " a\n\n# b\n",
            "- " * 50_000 + "a\n\n# b\n",
            "> - " * 20_000 + "a\n\n# b\n",
            "> ```\na\n" * 8_000 + "\n# b\n",
            "> > ```\n> a\n" * 5_000 + "\n# b\n",
            "> " * 20 + "a\n" + "b\n" * 12_000 + "\n# b\n",
            "x" * 3_000_000 + "\n\n# b\n",
            "[" * 100_000 + "\n\n# b\n",
            "\n" * 200_000 + "a\n\n# b\n",
        ],
        ids=[
            "quotes", "lists", "both", "torn quotes", "torn nested quotes", "lazy lines",
            "one line", "brackets", "blank lines",
        ],
    )  # fmt: skip
    def test_the_time_to_parse_grows_with_the_text_alone(self, text: str) -> None:
        started = time.process_time()
        last = parse_markdown(text).sections[-1]

        assert last.heading_path == ("b",)
        assert time.process_time() - started < 10  # a quadratic reading takes minutes

    @pytest.mark.parametrize("mark", ["*a", "[*a_", "`", "[](", "<a ", "![["])
    def test_headings_of_nothing_but_markup_are_read_in_bounded_time(self, mark: str) -> None:
        text = ("# " + mark * 2_000 + "\n") * 200
        started = time.process_time()

        assert len(parse_markdown(text).sections) == 200
        assert time.process_time() - started < 10

    @given(markdown_texts())
    def test_parsing_twice_gives_the_same(self, text: str) -> None:
        first, second = parse_markdown(text), parse_markdown(text)

        assert first == second
        assert all(before.end == after.start for before, after in pairwise(first.sections))
