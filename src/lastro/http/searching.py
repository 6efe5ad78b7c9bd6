"""Routes of retrieval: search, index again, coverage."""

from starlette.requests import Request
from starlette.responses import Response

from lastro.app import App
from lastro.errors import InvalidInput
from lastro.http.answers import answer
from lastro.http.observing import note_outcome
from lastro.http.routes import Routes
from lastro.http.shapes import SearchBody
from lastro.search import SearchRequest
from lastro.types import Coverage, Outcome


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
        return answer(outcome)

    def coverage(project: str) -> Response:
        """How much of the project is indexed, and how far its sources moved on."""
        return answer(app.coverage(project))

    at = "/api/projects/{project}/rag"
    routes.add("POST", f"{at}/search", search, action="search", answers={200: Outcome})
    routes.add("GET", f"{at}/coverage", coverage, action="read_coverage", answers={200: Coverage})
