"""Routes of retrieval: search, index again, coverage."""

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from lastro.app import App
from lastro.errors import InvalidInput
from lastro.http.answers import answer
from lastro.http.asking import UNTOLD, may
from lastro.http.observing import note_outcome
from lastro.http.remedies import in_http
from lastro.http.routes import Routes
from lastro.http.schemas import may_be_untold
from lastro.http.shapes import SearchBody
from lastro.search import SearchRequest
from lastro.types import Coverage, Outcome
from lastro.wire import to_json


def add_search_routes(routes: Routes, app: App, *, max_query_chars: int) -> None:
    """``/rag/…`` of a project."""

    def search(project: str, body: SearchBody, request: Request) -> Response:
        """Find cited passages, best first; `cursor` asks for those after a page."""
        if len(body.query) > max_query_chars:
            raise InvalidInput(
                f"the query has {len(body.query)} characters; at most {max_query_chars} are read",
                remedy="shorten it",
            )
        outcome = app.search(
            SearchRequest(
                query=body.query,
                k=body.k,
                scopes=body.scopes,
                path_prefix=body.path_prefix,
                filter=body.filter,
                profile=body.profile,
                explain=body.explain,
                max_per_document=body.max_per_document,
                cursor=body.cursor,
            ),
            project=project,
        )
        note_outcome(request, outcome)
        return answer(_in_http(outcome))

    def coverage(project: str, request: Request) -> Response:
        """How much of the project is indexed, and how far its sources moved on.

        A maintainer is told where they are.
        """
        return answer(_shown(request, app.coverage(project)))

    at = "/api/projects/{project}/rag"
    routes.add("POST", f"{at}/search", search, action="search", answers={200: Outcome})
    routes.add("GET", f"{at}/coverage", coverage, action="read_coverage", answers={200: Coverage})
    may_be_untold(routes.definitions["SourceCoverage"], "root")


def _in_http(outcome: Outcome) -> Outcome:
    """The outcome, and what to do about its degraded parts in the words of this door."""
    if not outcome.degraded:
        return outcome
    degraded = tuple(replace(part, detail=in_http(part.detail)) for part in outcome.degraded)
    return replace(outcome, degraded=degraded)


def _shown(request: Request, found: Coverage) -> object:
    """The coverage, to others than maintainers without the folders and addresses of sources."""
    if may(request, "reindex"):
        return found
    said = to_json(found)
    for source in said["sources"]:
        source["root"] = None
        if "unknown" in source:
            source["unknown"] = UNTOLD
    return said
