"""What is sent to the service: bodies of requests, checked where they come in."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from lastro.ranking import DEFAULT_K, DEFAULT_MAX_PER_DOCUMENT, MAX_K
from lastro.types import Scope


class Body(BaseModel):
    """A body in camelCase, in which a key that means nothing is refused."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", strict=True, frozen=True, allow_inf_nan=False
    )


class SearchBody(Body):
    """A question and what may answer it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"query": "why HNSW and not IVFFlat"},
                {"query": "how are keys stored", "k": 3, "scopes": ["docs", "adr"]},
            ]
        }
    )

    query: str
    k: Annotated[int, Field(ge=1, le=MAX_K)] = DEFAULT_K
    scopes: list[Scope] | None = None
    path_prefix: str | None = None
    filter: dict[str, Any] | None = None
    profile: str = "default"
    explain: bool = False
    max_per_document: Annotated[int, Field(ge=1)] = DEFAULT_MAX_PER_DOCUMENT
    cursor: str | None = None


class ReindexBody(Body):
    """What of the project is indexed again; by default all that changed, at the refs it has."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{}, {"rebuild": True, "scopes": ["docs"]}]}
    )

    scopes: list[Scope] | None = None
    ref: str | None = None
    rebuild: bool = False
