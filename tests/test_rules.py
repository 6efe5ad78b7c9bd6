"""Rules: what they mean, what they refuse, and what they do to the order of real entries."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lastro.chunk_settings import ChunkSettings
from lastro.db.pool import Database
from lastro.documents import Pipeline
from lastro.embedders import fingerprint
from lastro.embedders.deterministic import DeterministicEmbedder
from lastro.entities import upsert_entities
from lastro.entity import Entity
from lastro.profiles import SHIPPED
from lastro.rules import Rule
from lastro.ruling import upsert_rules
from lastro.search import Engine, SearchRequest, search
from lastro.types import EntityOrigin, Hit
from lastro.writing import Writer


class Shop:
    """A knowledge base that is asked with ``kb-rrf``."""

    def __init__(self, database: Database, owner_url: str) -> None:
        self.database = database
        self.owner_url = owner_url
        self.embedder = DeterministicEmbedder()
        self.engine = Engine(
            database=database, embedder=self.embedder, profiles=SHIPPED, languages=("en",)
        )

    def put(self, *entities: Entity, project: str = "shop") -> None:
        writer = Writer(
            database=self.database,
            admin_url=self.owner_url,
            embedder=self.embedder,
            pipeline=Pipeline(
                chunking=ChunkSettings(),
                languages=("en",),
                embedder=fingerprint(self.embedder),
            ),
        )
        upsert_entities(self.database, entities, project=project, writer=writer)

    def rule(self, *rules: Rule, project: str = "shop") -> None:
        upsert_rules(self.database, rules, project=project)

    def hits(self, query: str, *, profile: str = "kb-rrf", **request: Any) -> dict[str, Hit]:
        """Hits by key, best first."""
        asked = SearchRequest(query=query, profile=profile, explain=True, **request)
        found = search(self.engine, asked, project="shop").hits
        assert all(isinstance(hit.origin, EntityOrigin) for hit in found)
        return {hit.origin.entity_key: hit for hit in found}  # pyright: ignore


@pytest.fixture
def shop(app_database: Database, owner_url: str) -> Shop:
    return Shop(app_database, owner_url)


def rules_of(hit: Hit) -> Any:
    assert hit.explain is not None
    return hit.explain["rules"]


# --- kb-rrf, end to end


def test_a_score_of_kb_rrf_is_the_sum_of_its_record(shop: Shop) -> None:
    half_a_year_ago = datetime.now(UTC) - timedelta(days=180)
    shop.put(
        Entity(
            key="a", title="Silk", text="A silk scarf.", type="scarf", rule_weight=0.25,
            effective_at=half_a_year_ago,
        ),
        Entity(key="b", title="Wool", text="A woollen hat.", type="hat"),
    )  # fmt: skip
    # The text that was embedded is the question: rank 1 by meaning and by words for "a", rank 2 by
    # meaning and no rank by words for "b".
    shop.rule(Rule(name="scarves", entry={"types": ["scarf"]}, weight=0.5, reason="on sale"))
    found = shop.hits("Silk\nA silk scarf.")
    assert found["a"].score == pytest.approx(
        0.45 * 61 / 61 + 0.20 * 61 / 61 + 0.25 * (0.5 + 0.25) + 0.10 * 0.5, abs=1e-6
    )
    assert found["b"].score == pytest.approx(0.45 * 61 / 62 + 0.10 * 0.5)


def test_a_rule_outranks_similarity(shop: Shop) -> None:
    shop.put(
        Entity(key="near", title="Silk", text="A silk scarf.", type="scarf"),
        Entity(
            key="far", title="Wool", text="A woollen hat.", type="hat",
            attributes={"occasion": ["wedding"]},
        ),
    )  # fmt: skip
    request = {"query": "Silk\nA silk scarf.", "filter": {"allow": {"occasion": ["wedding"]}}}
    assert list(shop.hits(**request)) == ["near", "far"]
    shop.rule(
        Rule(
            name="wedding-first",
            when={"allow": {"occasion": ["wedding"]}},
            entry={"require": {"occasion": ["wedding"]}},
            weight=1,
            reason="made for weddings",
        )
    )
    found = shop.hits(**request)
    # 0.45 · 61/62 + 0.25 · 1 against 0.45 + 0.20: words do not find the hat
    assert list(found) == ["far", "near"]
    assert rules_of(found["far"]) == {
        "matched": [{"name": "wedding-first", "weight": 1, "reason": "made for weddings"}],
        "own": 0.0,
        "sum": 1.0,
        "part": 1.0,
    }
    assert rules_of(found["near"])["matched"] == []
    # a search that asks for no wedding is not one that the rule is for
    assert list(shop.hits("Silk\nA silk scarf.")) == ["near", "far"]
