"""What is known of Ollama's embedding models: widths, prefixes and windows. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

# What models trained after BGE put before a question. Source: their model cards.
_SEARCHING = "Represent this sentence for searching relevant passages: "


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """One family in Ollama's library, as its model card describes it.

    ``dimension`` is the width of every tag, ``by_tag`` that of single ones. ``window_tokens`` is
    given where a chunk can only exceed it by unusual text.
    """

    dimension: int | None = None
    by_tag: Mapping[str, int] = field(default_factory=dict[str, int])
    query_prefix: str = ""
    document_prefix: str = ""
    window_tokens: int | None = None


# Sources: the cards of nomic-ai/nomic-embed-text-v1.5 and -v2-moe, mixedbread-ai/
# mxbai-embed-large-v1, Snowflake/snowflake-arctic-embed-* and -l-v2.0, BAAI/bge-m3 and
# bge-large-en-v1.5, sentence-transformers/all-MiniLM-L6-v2 and -L12-v2,
# sentence-transformers/paraphrase-multilingual-mpnet-base-v2, google/embeddinggemma-300m.
_KNOWN: Mapping[str, KnownModel] = {
    "nomic-embed-text": KnownModel(
        dimension=768,
        query_prefix="search_query: ",
        document_prefix="search_document: ",
        window_tokens=2048,
    ),
    "nomic-embed-text-v2-moe": KnownModel(
        dimension=768, query_prefix="search_query: ", document_prefix="search_document: "
    ),
    "mxbai-embed-large": KnownModel(dimension=1024, query_prefix=_SEARCHING),
    "snowflake-arctic-embed": KnownModel(
        by_tag={
            "latest": 1024, "335m": 1024, "l": 1024, "137m": 768, "110m": 768, "m": 768,
            "33m": 384, "s": 384, "22m": 384, "xs": 384,
        },
        query_prefix=_SEARCHING,
    ),
    "snowflake-arctic-embed2": KnownModel(
        dimension=1024, query_prefix="query: ", window_tokens=8192
    ),
    "bge-m3": KnownModel(dimension=1024, window_tokens=8192),
    "bge-large": KnownModel(dimension=1024, query_prefix=_SEARCHING),
    "all-minilm": KnownModel(dimension=384),
    "paraphrase-multilingual": KnownModel(dimension=768),
    "embeddinggemma": KnownModel(
        dimension=768,
        query_prefix="task: search result | query: ",
        document_prefix="title: none | text: ",
        window_tokens=2048,
    ),
}  # fmt: skip
_UNKNOWN = KnownModel()


def canonical(model: str) -> str:
    """A model's name as Ollama compares it: in lower case, without the tag it adds by itself."""
    return model.lower().removeprefix("library/").removesuffix(":latest")


def is_same(one: str, other: str) -> bool:
    """Whether two names mean one model of one server."""
    return canonical(one) == canonical(other)


def known_model(model: str) -> KnownModel:
    """What is known of a model of Ollama's library; nothing of one in another namespace."""
    return _KNOWN.get(canonical(model).partition(":")[0], _UNKNOWN)


def known_dimension(model: str) -> int | None:
    """The width of a model's vectors; None where only the server knows."""
    tag = canonical(model).partition(":")[2] or "latest"
    known = known_model(model)
    return known.dimension or known.by_tag.get(tag)
