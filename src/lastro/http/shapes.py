"""What is sent to the service: bodies of requests, checked where they come in."""

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from lastro.gap import GOLDEN_NAME
from lastro.golden_lines import MAX_GRADE
from lastro.ranking import DEFAULT_K, DEFAULT_MAX_PER_DOCUMENT, MAX_K
from lastro.roles import Role
from lastro.types import Scope

# Gaps decided on at once.
MAX_IDS = 200


def _moment(said: object) -> datetime:
    """A time in ISO 8601, which is one in UTC too. Errors: ValueError."""
    if not isinstance(said, str):
        raise ValueError("it is no text")  # noqa: TRY004 - pydantic tells of no other
    when = datetime.fromisoformat(said)
    try:
        return when if when.tzinfo is None else when.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("it is in UTC no time of the years 1 to 9999") from error


Moment = Annotated[AwareDatetime, BeforeValidator(_moment)]


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


class GapsBody(Body):
    """Gaps by their ids, or the first digits of these."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"ids": ["0ff11fc8"]}]})

    ids: Annotated[list[str], Field(min_length=1, max_length=MAX_IDS)]


class ResolveBody(Body):
    """Gaps to ask again, by default every open one, and with which profile."""

    model_config = ConfigDict(json_schema_extra={"examples": [{}, {"profile": "default"}]})

    ids: Annotated[list[str], Field(min_length=1, max_length=MAX_IDS)] | None = None
    profile: str = "default"


class AcceptBody(Body):
    """Where a gap's question is answered, or that it is nowhere."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"unanswerable": True}]})

    places: list[str] = []
    unanswerable: bool = False
    grade: Annotated[int, Field(ge=1, le=MAX_GRADE)] = 1
    golden: str = GOLDEN_NAME
    language: str | None = None


class KeyBody(Body):
    """What a key may do, until when, and what it is for."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"role": "viewer", "label": "website"},
                {"role": "editor", "expiresAt": "2099-12-31T00:00:00Z"},
            ]
        }
    )

    role: Role
    expires_at: Moment | None = None
    label: str | None = None


class RotateBody(Body):
    """Until when the former secret is taken, and when the key ends; null leaves that as it is."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{}, {"formerUntil": "2099-12-31T00:00:00Z"}]}
    )

    former_until: Moment | None = None
    expires_at: Moment | None = None


def shape_of(kind: type[Body]) -> tuple[dict[str, Any], list[Any]]:
    """Schema and examples of a body."""
    schema = kind.model_json_schema()
    return schema, schema.pop("examples", [])
