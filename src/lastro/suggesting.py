"""Drafts of golden questions, derived from what a project's texts say of themselves; pure.

A draft is no judgement: it asks with the words of the text that it points to, so it flatters words
over meaning. Every one is marked derived, to be read and rephrased by a person.
"""

import posixpath
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt

from lastro.golden import Answer, GoldenQuestion, question_id
from lastro.places import (
    ChunkPlace,
    EntityPlace,
    FilePlace,
    Passage,
    covers,
    folded,
    normal_path,
    plain_heading,
)


@dataclass(frozen=True, slots=True)
class _Draft:
    question: str
    language: str
    place: FilePlace | EntityPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wording:
    """Questions of one language, each about a text that it quotes.

    ``act`` is for a heading that tells what to do, ``brief_act`` for one of so few words that only
    its document says with what; ``part`` and ``whole`` for one that names a thing.
    """

    act: str
    brief_act: str
    part: str
    whole: str
    link: str
    record: str


_WORDINGS: Mapping[str, _Wording] = {
    "en": _Wording(
        act="How do I {lower}?",
        brief_act="{title}: how do I {lower}?",
        part="What does “{title}” say about “{heading}”?",
        whole="What should I know about “{heading}”?",
        link="Where can I read about {heading}?",
        record="What was decided about “{heading}”, and why?",
    ),
    "pt": _Wording(
        act="Como faço para {lower}?",
        brief_act="{title}: como faço para {lower}?",
        part="O que “{title}” diz sobre “{heading}”?",
        whole="O que devo saber sobre “{heading}”?",
        link="Onde posso ler sobre {heading}?",
        record="O que foi decidido sobre “{heading}”, e por quê?",
    ),
    "zh": _Wording(
        act="如何{heading}？",
        brief_act="{title}：如何{heading}？",
        part="“{title}”中关于“{heading}”是怎么说的？",
        whole="关于“{heading}”，需要了解什么？",
        link="在哪里可以读到{heading}？",
        record="关于“{heading}”作出了什么决定，为什么？",
    ),
}
# A language without words of its own gets none of another's.
_PLAIN = _Wording(
    act="{heading}?",
    brief_act="{title}: {heading}?",
    part="{title}: {heading}?",
    whole="{heading}?",
    link="{heading}?",
    record="{heading}?",
)

# How headings of instructions begin.
_EN_ACTS = (
    "add allow ask avoid back build call change check choose clone combine compare configure "
    "connect copy create debug declare define delete deploy disable download enable evaluate "
    "export find fix generate get go handle import index insert inspect install keep limit list "
    "load look make manage measure migrate monitor move open pass prepare publish put query read "
    "remove rename repair replace reset restore return run save search see send serve set share "
    "start stop store test troubleshoot try tune uninstall update upgrade use validate verify "
    "view wait watch write"
)
_PT_ACT = re.compile(r"[^\W\d_]+(?:ar|er|ir)(?:-(?:se|lo|la|los|las))?", re.IGNORECASE)
_ZH_ACT = re.compile(
    "(?:安装|配置|使用|创建|添加|删除|更新|运行|设置|选择|迁移|备份|启动|停止|查看|编写|构建|部署|"
    "升级|卸载|导入|导出|搜索|索引|测试|调试|连接|管理|定义|评估|恢复|移动|修改|检查|处理|下载|准备)(?![前后时中的])"
)
# Headings that every document may have: asked alone, they ask for nothing.
_GENERIC = (
    "About|Abstract|Alternatives|Alternatives considered|Appendix|Background|Conclusion|"
    "Consequences|Considered options|Contents|Context|Decision|Decision drivers|"
    "Decision outcome|Details|Example|Examples|FAQ|Further reading|Installation|Introduction|"
    "License|Links|More information|Note|Notes|Overview|Options|Positive consequences|"
    "Negative consequences|Pros and cons of the options|Rationale|Recap|References|"
    "Requirements|See also|Status|Summary|Table of contents|Tips|Tip|Usage|Warning|"
    "Alternativas|Conclusão|Consequências|Contexto|Decisão|Detalhes|Exemplo|Exemplos|"
    "Introdução|Licença|Nota|Notas|Recapitulando|Referências|Resumo|Requisitos|Ver também|"
    "Veja também|Visão geral|Sumário|"
    "上下文|决策|决定|后果|状态|背景|备选方案|概述|概览|简介|介绍|示例|例子|总结|小结|参考|注意|"
    "说明|目录|安装|要求|前提|另见"
)
_NOT_TELLING = (
    "here|this|link|this page|see|more|read more|docs|documentation|page|click here|source|"
    "aqui|este|esta página|leia mais|mais|ver|documentação|"
    "这里|此处|点击这里|更多|链接|文档|参见"
)
_SAY_NOTHING = frozenset(map(folded, f"{_GENERIC}|{_NOT_TELLING}".split("|")))
# "these shapes", "record 5", "guide": link texts that only their sentence explains.
_POINTING = re.compile(
    r"(?:its?|this|that|these|those|their|our|your|my|here|ess[ea]s?|est[ea]s?|seus?|suas?|sua)\b.*"
    r"|\S+ #?\d+|[^\s\u3400-\u9fff]+|[\u3400-\u9fff]{1,3}",
    re.IGNORECASE,
)
# "ADR 0005: ", "ADR-5 ", "0005. ", "3) " before a title.
_NUMBERING = re.compile(
    r"\s*(?:(?:adr[\s\-#]*)?\d+(?:\.\d+)*\s*[.:)\-–—：、]\s*|adr[\s\-#]*\d+\s+)", re.IGNORECASE
)
_FILE_NAME = re.compile(r"[\w./-]+\.[a-z]{1,8}")
_QUESTION = re.compile(r"[?？]$")
_HAN = re.compile(r"[\u3400-\u9fff]")
MIN_HEADING_CHARS = 4
MIN_HAN_CHARS = 2
MAX_HEADING_CHARS = 100
# "Use it", "Check it": about what, the document's title says.
MAX_BRIEF_CHARS = 12

_LINKS = MarkdownIt("commonmark")


def suggest_questions(
    passages: Sequence[Passage], *, limit: int, seed: int
) -> tuple[GoldenQuestion, ...]:
    """At most ``limit`` drafts from headings, titles of entries, link texts and records, in turn.

    The same passages and seed give the same drafts, whatever the order of the passages.
    """
    kinds = (_from_headings(passages), _from_links(passages), _from_records(passages))
    dice = random.Random(seed)  # noqa: S311 - a choice that can be repeated, not a secret
    decks: list[list[GoldenQuestion]] = []
    asked: set[str] = set()
    for drafts in kinds:
        deck = [draft for draft in _merged(drafts) if draft.id not in asked]
        asked |= {draft.id for draft in deck}
        dice.shuffle(deck)
        decks.append(deck)
    dealt = [draft for round_ in zip_longest(*decks) for draft in round_ if draft is not None]
    return tuple(sorted(dealt[:limit], key=lambda draft: draft.id))


def _merged(drafts: Iterable[_Draft]) -> list[GoldenQuestion]:
    """A question for each wording, with every place that it was derived from."""
    by_id: dict[str, list[_Draft]] = defaultdict(list)
    for draft in drafts:
        by_id[question_id(draft.question, draft.language)].append(draft)
    return [
        GoldenQuestion(
            id=id_,
            question=min(draft.question for draft in same),
            language=same[0].language,
            answers=tuple(
                Answer(place=place)
                for place in sorted({draft.place for draft in same}, key=_place_order)
            ),
            derived=True,
        )
        for id_, same in sorted(by_id.items())
    ]


def _place_order(place: FilePlace | EntityPlace) -> tuple[str, tuple[str, ...]]:
    if isinstance(place, EntityPlace):
        return place.entity, ()
    return place.path, place.heading or ()


def _from_headings(passages: Sequence[Passage]) -> Iterator[_Draft]:
    for passage in passages:
        heading = _telling(passage.heading_path[-1]) if passage.heading_path else None
        # A record's own title is asked as a record; its sections have the same names in each.
        if heading is None or (passage.is_adr and _is_whole(passage)):
            continue
        yield _Draft(
            question=_heading_question(heading, passage),
            language=passage.language,
            place=FilePlace(path=normal_path(passage.path), heading=passage.heading_path)
            if passage.entity is None
            else EntityPlace(entity=passage.entity),
        )


def _from_links(passages: Sequence[Passage]) -> Iterator[_Draft]:
    by_path: dict[str, list[Passage]] = defaultdict(list)
    for passage in passages:
        by_path[normal_path(passage.path)].append(passage)
    for passage in passages:
        for text, target in _links(passage.content or ""):
            place = _linked_place(target, passage.path)
            told = _telling(text)
            if place is None or told is None or _POINTING.fullmatch(told):
                continue
            linked = _covered(place, by_path.get(place.path, ()))
            names = {folded(name) for name in chain.from_iterable(map(_names, linked))}
            if place.path == normal_path(passage.path) or not linked or folded(told) in names:
                continue
            wording = _WORDINGS.get(passage.language, _PLAIN)
            question = wording.link.format(heading=told)
            yield _Draft(question=question, language=passage.language, place=place)


def _from_records(passages: Sequence[Passage]) -> Iterator[_Draft]:
    for passage in passages:
        title = _unnumbered(passage.title)
        if not passage.is_adr or _telling(title) is None:
            continue
        wording = _WORDINGS.get(passage.language, _PLAIN)
        question = title if _QUESTION.search(title) else wording.record.format(heading=title)
        place = FilePlace(path=normal_path(passage.path))
        yield _Draft(question=question, language=passage.language, place=place)


# --- headings


def _telling(text: str) -> str | None:
    """A heading or link text that says what it is about, on one line; None for any other."""
    told = _unnumbered(text).rstrip(" .:：。#")
    wanted = MIN_HAN_CHARS if _HAN.search(told) else MIN_HEADING_CHARS
    is_word = any(character.isalpha() for character in told)
    if not wanted <= len(told) <= MAX_HEADING_CHARS or not is_word or "://" in told:
        return None
    return None if folded(told) in _SAY_NOTHING or _FILE_NAME.fullmatch(told) else told


def _unnumbered(text: str) -> str:
    """A title on one line, without its number and attributes."""
    plain = plain_heading(text)
    found = _NUMBERING.match(plain)
    return " ".join(plain[found.end() if found else 0 :].split())


def _is_whole(passage: Passage) -> bool:
    return len(passage.heading_path) == 1 or folded(passage.heading_path[-1]) == folded(
        passage.title
    )


def _heading_question(heading: str, passage: Passage) -> str:
    if _QUESTION.search(heading):
        return heading
    wording = _WORDINGS.get(passage.language, _PLAIN)
    is_whole = _is_whole(passage)
    if _tells_what_to_do(heading, passage.language):
        is_brief = len(heading) <= MAX_BRIEF_CHARS and not is_whole
        pattern = wording.brief_act if is_brief else wording.act
    else:
        pattern = wording.whole if is_whole else wording.part
    return pattern.format(
        heading=heading, lower=_lower_first(heading), title=_unnumbered(passage.title)
    )


def _tells_what_to_do(heading: str, language: str) -> bool:
    first, _, rest = heading.partition(" ")
    match language:
        case "en":
            return bool(rest) and first.casefold() in _EN_ACTS.split()
        case "pt":
            return bool(rest) and _PT_ACT.fullmatch(first) is not None
        case "zh":
            return _ZH_ACT.match(heading) is not None
        case _:
            return False


def _lower_first(heading: str) -> str:
    """A heading within a sentence: its first word is small unless it is a name in capitals."""
    first = heading.split(maxsplit=1)[0]
    return heading if first[1:] != first[1:].lower() else heading[0].lower() + heading[1:]


# --- links


def _links(content: str) -> Iterator[tuple[str, str]]:
    """Text and target of each inline link of a chunk, code and pictures left out."""
    for token in _LINKS.parse(content):
        target, parts = None, list[str]()
        for child in token.children or ():
            if child.type == "link_open":
                target, parts = str(child.attrGet("href") or ""), []
            elif child.type == "link_close" and target is not None:
                yield "".join(parts), target
                target = None
            elif child.type in {"text", "code_inline"}:
                parts.append(child.content)


def _linked_place(target: str, path: str) -> FilePlace | None:
    """The file and section that a relative link in ``path`` leads to; None for any other."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc or not parts.path or parts.path.startswith("/"):
        return None
    file = posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(parts.path)))
    if file.startswith("../"):
        return None
    heading = (unquote(parts.fragment),) if parts.fragment else None
    return FilePlace(path=normal_path(file), heading=heading)


def _covered(place: FilePlace, passages: Sequence[Passage]) -> list[Passage]:
    return [passage for passage in passages if covers(place, _chunk_place(passage))]


def _chunk_place(passage: Passage) -> ChunkPlace:
    return ChunkPlace(path=passage.path, heading_path=passage.heading_path, anchor=passage.anchor)


def _names(passage: Passage) -> tuple[str, ...]:
    return tuple(map(_unnumbered, (passage.title, *passage.heading_path[-1:])))
