"""A dress rental's knowledge base: what filters, rules, words and gaps do to a search, and why.

    python examples/knowledge_base/show.py

The 60 entries, in English, Portuguese and Chinese, go into a project of their own, which is made
anew each time. The database is that of the settings: by default Lastro's own, which starts itself.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lastro import App, Entity, RuleMatch, SearchRequest, build, load_settings

HERE = Path(__file__).parent
PROJECT = "example-atelier"

# What is asked, in which filter, and what the filter is for.
FILTERS: list[tuple[str, Mapping[str, Any], str]] = [
    ("a dress for a gala", {"types": ["suit"]}, "only entries of these types"),
    (
        "a long dress for a gala",
        {"require": {"occasion": ["gala", "wedding"]}},
        "made for both: the attribute holds every value",
    ),
    (
        "what suits my figure?",
        {"allow": {"body_shape": ["pear"]}},
        "for this shape, or for any: what names no shape stays",
    ),
    (
        "a tight mermaid dress with sequins",
        {"forbid": {"avoid_body_shapes": ["pear"]}},
        "what must never be shown to somebody of this shape, even where it is the question itself",
    ),
    ("may the price go down?", {"forbid": {"audience": ["staff"]}}, "what is for staff alone"),
    ("a green dress", {"equals": {"colour": "green"}}, "one value, and this one"),
    ("a dress for a garden party", {"range": {"price": {"lte": 40}}}, "a number between bounds"),
]
# A rule, what is asked, and in which filter: one that the rule is for.
RULES: list[tuple[str, str, Mapping[str, Any]]] = [
    ("made-for-weddings", "a long dress", {"allow": {"occasion": ["wedding"]}}),
    ("matching-sets-first", "an evening dress", {"allow": {"occasion": ["wedding"]}}),
    ("within-fifty", "a dress for a garden party", {"range": {"price": {"lte": 50}}}),
    ("no-velvet-in-summer", "a gown for a gala", {"allow": {"season": ["summer", "winter"]}}),
    ("ask-the-rules-first", "what happens when I am late?", {"types": ["policy"]}),
]
WORDS = [
    "bridal gown",
    "婚纱",
    "toast dress",
    "tuxedo",
    "LBD",
    "deposit",
    "押金",
    "IT",
    "Rio",
]
QUESTIONS = [
    "how do I cancel a booking?",
    "o que fazer com uma nódoa de vinho tinto?",
    "谁可以穿白色？",
    "quantos dias dura o aluguer?",
]
MISSED = "Do you rent children's karate uniforms?"
NONSENSE = "Which lottery numbers win tomorrow?"
ANSWER = Entity(
    key="policy-children",
    title="Children's clothes",
    text="We do not rent children's clothes, neither karate uniforms nor dresses. Ask next door.",
    type="policy",
    attributes={"topic": ["rental"]},
)


def main() -> None:
    """Show everything, in order."""
    forget()
    in_four_lines()
    with build(load_settings()) as app:
        fill(app)
        across_languages(app)
        unpublished(app)
        filters(app)
        rules(app)
        functions(app)
        words(app)
        gaps(app)


def in_four_lines() -> None:
    """Open, upsert, search, use the hit."""
    heading("In four lines")
    entity = Entity(key="hem", title="Hems", text="A blind hem hides its thread.", type="advice")
    with build(load_settings()) as app:
        app.entities(PROJECT).upsert([entity])
        outcome = app.search(SearchRequest(query="which hem hides?"), project=PROJECT)
        print(outcome.hits[0].origin.entity_key, outcome.hits[0].content)


def fill(app: App) -> None:
    """Store the entries and words that lie beside this script."""
    heading("What goes in")
    app.entities(PROJECT).remove(["hem"])
    with (HERE / "entries.jsonl").open("rb") as lines:
        stored = app.entities(PROJECT).import_lines(lines)
    with (HERE / "words.jsonl").open("rb") as lines:
        learned = app.words(PROJECT).import_lines(lines)
    print(f"{stored.entries.added} entries, {stored.chunks} published chunks")
    print(f"{learned.total} terms of the shop's own")


def across_languages(app: App) -> None:
    """A question in one language is answered in another."""
    heading("Across languages")
    for query in QUESTIONS:
        print(f"{query} -> {', '.join(keys(app, query)[:3])}")


def unpublished(app: App) -> None:
    """A draft or archived entry is never found, even where the question is its text."""
    heading("Drafts and archived entries")
    for entity in app.entities(PROJECT).export():
        if entity.status != "published":
            found = keys(app, entity.text, k=100, max_per_document=100)
            shown = "SHOWN" if entity.key in found else "not shown"
            print(f"{entity.key}, {entity.status}: {shown}")


def filters(app: App) -> None:
    """What a filter shuts out is in no hit, however near it is."""
    heading("Filters")
    for query, asked, why in FILTERS:
        before, after = keys(app, query, **RANKED), keys(app, query, filter=asked, **RANKED)
        shut_out = [key for key in before if key not in after]
        print(f"{query} {json.dumps(asked)}: {why}")
        print(f"    shown    {', '.join(after[:4])}")
        print(f"    shut out {', '.join(shut_out[:4])}")


def rules(app: App) -> None:
    """A rule moves what was found, and says why."""
    heading("Rules")
    before = {name: keys(app, query, filter=asked, **RANKED) for name, query, asked in RULES}
    with (HERE / "rules.jsonl").open("rb") as lines:
        app.rules(PROJECT).import_lines(lines)
    for name, query, asked in RULES:
        hits = search(app, query, filter=asked, **RANKED).hits
        after = unique(hit.origin.entity_key for hit in hits)
        print(f"{name}: {query} {json.dumps(asked)}")
        for hit in hits[:5]:
            key = hit.origin.entity_key
            for rule in hit.explain["rules"]["matched"]:
                if rule["name"] == name:
                    places = f"place {before[name].index(key) + 1} -> {after.index(key) + 1}"
                    print(f"    {key}: {places}, {rule['weight']:+} since {rule['reason']}")


def functions(app: App) -> None:
    """A rule may be a function of the program that asks."""
    heading("Rules as functions")

    def my_size(context: Any, entry: Any) -> RuleMatch | None:
        if "size 46" in context.query and 46 in entry.attributes.get("sizes", []):
            return RuleMatch(weight=0.5, reason="there is one in your size")
        return None

    for hit in search(app, "a dress in size 46", rules=[my_size], **RANKED).hits:
        for rule in hit.explain["rules"]["matched"]:
            print(f"{hit.origin.entity_key}: {rule['weight']:+} since {rule['reason']}")


def words(app: App) -> None:
    """The shop's own words, as a question has them and as entries do."""
    heading("Words")
    for query in WORDS:
        outcome = search(app, query)
        terms = outcome.explain["lexical"]["terms"]
        alone = " (protected)" if any(term.get("protected") for term in terms) else ""
        hits = [hit for hit in outcome.hits if hit.lexical_score is not None]
        by = unique(one["by"] for hit in hits for one in hit.explain.get("synonyms", []))
        found = unique(hit.origin.entity_key for hit in hits)
        print(f"{query}{alone} = {', '.join(by) or 'itself'} -> {', '.join(found[:3])}")


def gaps(app: App) -> None:
    """A question that nothing answers is counted, until something does."""
    heading("Gaps")
    ledger = app.gaps(PROJECT)
    for query in (MISSED, MISSED.upper()):
        outcome = app.search(SearchRequest(query=query), project=PROJECT)
        print(f"{query} -> {len(outcome.hits)} hits, gap {'noted' if outcome.gap_id else 'none'}")
    for gap in ledger.list(status="open"):
        print(f"asked {gap.hit_count} times: {gap.query}")
    app.entities(PROJECT).upsert([ANSWER])
    resolved = ledger.resolve()
    print(f"answered by {ANSWER.key}: {len(resolved.resolved)} closed, {resolved.remaining} open")
    app.search(SearchRequest(query=NONSENSE), project=PROJECT)
    for gap in ledger.list(status="open"):
        ledger.dismiss([gap.id])
        print(f"dismissed: {gap.query}")


# Without a threshold, and by rules too.
RANKED: dict[str, Any] = {"profile": "kb-rrf", "k": 100, "max_per_document": 100}


def search(app: App, query: str, **request: Any) -> Any:
    """The outcome with its explanation; no gap is noted for a mere show."""
    asked = SearchRequest(query=query, explain=True, record_gap=False, **request)
    return app.search(asked, project=PROJECT)


def keys(app: App, query: str, **request: Any) -> list[str]:
    """Keys of the hits, best first, each once."""
    return unique(hit.origin.entity_key for hit in search(app, query, **request).hits)


def unique(found: Iterable[str]) -> list[str]:
    """What was found, each once."""
    return list(dict.fromkeys(found))


def forget() -> None:
    """Erase the project of an earlier run, so that each begins alike."""
    with build(load_settings()) as app:
        if any(project.slug == PROJECT for project in app.projects()):
            app.erase_project(PROJECT)


def heading(text: str) -> None:
    """Print what comes next."""
    print(f"\n== {text}")


if __name__ == "__main__":
    main()
