"""Routes of what a project's searches go by: its rules, its words, its profiles."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from lastro.adoption import KnownProfile, known_json
from lastro.app import App
from lastro.http.answers import answer
from lastro.http.bodies import lines_body, lines_of
from lastro.http.pages import Page, Strict
from lastro.http.routes import Routes
from lastro.http.schemas import PLACE, Schema, line_of, page_of, schema_of
from lastro.profiles import Profile
from lastro.roles import Action
from lastro.rules import Rule, RuleReport, rule_json
from lastro.types import ProfileRef
from lastro.words import Word, WordReport, key_of

AT = "/api/projects/{project}"
RULE = {"name": "parts first", "entry": {"types": ["part"]}, "weight": 0.5, "reason": "a part"}
WORDS = [{"synonyms": ["pump", "lifter"]}, {"term": "V7", "means": ["valve 7"]}, {"protect": "IT"}]


def add_keeping_routes(routes: Routes, app: App) -> None:
    """Rules and words kept, profiles adopted."""
    _add_rules(routes, app)
    _add_words(routes, app)
    _add_profiles(routes, app)


def _add_rules(routes: Routes, app: App) -> None:
    def list_rules(project: str, page: Annotated[Page, Query()]) -> Response:
        """The project's rules by name."""
        whole = app.rules(project).list()
        return page.cut("rules", whole, place=lambda rule: [rule.name], kinds=[str], told=rule_json)

    def merge_rules(project: str, request: Request, asked: Annotated[Strict, Query()]) -> Response:
        """Store the rules of lines of JSON, over those of the same names; others stay.

        The report lists the lines that were refused. With `strict` one such line refuses all.
        """
        return answer(app.rules(project).import_lines(lines_of(request), strict=asked.strict))

    def delete_rule(project: str, rule: str) -> Response:
        """Remove a rule."""
        app.rules(project).remove([rule])
        return Response(status_code=204)

    shape = line_of(Rule, routes.definitions, optional=["when", "entry"])
    _add_kept(
        routes,
        "rules",
        action="keep_rules",
        endpoints=(list_rules, merge_rules, delete_rule),
        shape=shape,
        report=RuleReport,
        examples=[RULE],
    )


def _add_words(routes: Routes, app: App) -> None:
    def list_words(project: str, page: Annotated[Page, Query()]) -> Response:
        """The project's synonyms and protected terms."""
        after = page.after_one("words", str)
        found = app.words(project).list(after=after, limit=page.looked_at)
        return page.answer("words", found, place=lambda word: [key_of(word.term)])

    def merge_words(project: str, request: Request, asked: Annotated[Strict, Query()]) -> Response:
        """Add the words of lines of JSON to those that are there.

        The report lists the lines that were refused. With `strict` one such line refuses all.
        """
        return answer(app.words(project).import_lines(lines_of(request), strict=asked.strict))

    def delete_word(project: str, word: str) -> Response:
        """Take a term out, and out of what others mean."""
        app.words(project).remove([word])
        return Response(status_code=204)

    _add_kept(
        routes,
        "words",
        action="keep_words",
        endpoints=(list_words, merge_words, delete_word),
        shape=schema_of(Word, routes.definitions),
        report=WordReport,
        examples=WORDS,
    )


def _add_kept(
    routes: Routes,
    name: str,
    *,
    action: Action,
    endpoints: Sequence[Callable[..., Response]],
    shape: Schema,
    report: type,
    examples: Sequence[dict[str, Any]],
) -> None:
    """Three routes of a kind of line: listed, merged with those that are there, and deleted."""
    listed, merge, delete = endpoints
    tags = (name,)
    answers = {200: page_of(name, shape)}
    routes.add("GET", f"{AT}/{name}", listed, action=action, answers=answers, tags=tags)
    routes.add(
        "PATCH",
        f"{AT}/{name}",
        merge,
        action=action,
        body=lines_body(examples),
        is_long=True,
        answers={200: report},
        tags=tags,
    )
    at = f"{AT}/{name}/{{{name.removesuffix('s')}}}"
    routes.add("DELETE", at, delete, action=action, answers={204: None}, tags=tags)


def _add_profiles(routes: Routes, app: App) -> None:
    def list_profiles(project: str, page: Annotated[Page, Query()]) -> Response:
        """Every version of a profile that the project can answer with."""
        whole = app.profiles(project).list()
        return page.cut("profiles", whole, place=_profile_place, kinds=[str, int], told=known_json)

    def adopt_profile(project: str, profile: str) -> Response:
        """Answer with `name@version` where searches ask for that name."""
        adopted = app.profiles(project).adopt(profile)
        return answer({"profile": adopted.ref})

    def roll_back_profile(project: str, profile: str) -> Response:
        """Undo the last adoption of a name; the answer says what answers now."""
        answering = app.profiles(project).roll_back(profile)
        return answer({"profile": answering.ref})

    schema_of(Profile, routes.definitions)
    routes.definitions["KnownProfile"] = _known_profile(routes.definitions)
    tags = ("profiles",)
    at = f"{AT}/profiles"
    listed = page_of("profiles", {"$ref": f"{PLACE}KnownProfile"})
    routes.add("GET", at, list_profiles, action="list_profiles", answers={200: listed}, tags=tags)
    answering = {
        "type": "object",
        "properties": {"profile": schema_of(ProfileRef, routes.definitions)},
        "required": ["profile"],
    }
    for verb, endpoint in (("adopt", adopt_profile), ("rollback", roll_back_profile)):
        routes.add(
            "POST",
            f"{at}/{{profile}}/{verb}",
            endpoint,
            action="adopt_profiles",
            answers={200: answering},
            tags=tags,
        )


def _profile_place(known: KnownProfile) -> list[str | int]:
    return [known.profile.name, known.profile.version]


def _known_profile(definitions: dict[str, Schema]) -> Schema:
    """The schema of what ``known_json`` writes."""
    numbers = definitions["Profile"]
    beside: Schema = {
        "adopted": {"type": "boolean"},
        "createdAt": {"type": ["string", "null"], "format": "date-time"},
    }
    return {
        "type": "object",
        "properties": {**numbers["properties"], **beside},
        "required": [*numbers["required"], *beside],
    }
