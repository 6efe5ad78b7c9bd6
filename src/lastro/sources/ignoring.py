"""Rules of .gitignore and .lastroignore files, at every level of a tree (pure).

pathspec matches a pattern with all that lies below it, so ``!b`` would take back files in ``b``
that another rule ignores by name. Git matches names alone and walks folders; so does this.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoreRule:
    """One line: ``regex`` is matched in full, from the folder of the file that holds it."""

    regex: re.Pattern[str]
    negated: bool
    folders_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoreRules:
    """Rules by the folder that holds them (``""`` is the root, others end in ``/``)."""

    levels: Mapping[str, tuple[IgnoreRule, ...]]

    def ignores(self, path: str) -> bool:
        """Tell whether ``path`` (a folder ends in ``/``) or a folder above it is ignored.

        As in git, the deepest file with a say decides, its last matching line first, and
        nothing inside an ignored folder can be taken back in.
        """
        return bool(self.levels) and any(
            self.decides(part) for part in (*_folders_above(path), path) if part
        )

    def decides(self, path: str) -> bool:
        """Tell whether the rules ignore ``path`` itself, the folders above it left aside."""
        for folder in reversed(list(_folders_above(path))):
            for rule in reversed(self.levels.get(folder, ())):
                if _matches(rule, path[len(folder) :]):
                    return not rule.negated
        return False


def parse_rules(*contents: bytes) -> tuple[IgnoreRule, ...]:
    """Compile the ignore files of one folder, the later one stronger."""
    lines = (
        line.removesuffix("\r")
        for content in contents
        for line in content.decode("utf-8-sig", "replace").split("\n")
    )
    return tuple(rule for line in lines if (rule := _parse_line(line)) is not None)


def _matches(rule: IgnoreRule, path: str) -> bool:
    if rule.folders_only and not path.endswith("/"):
        return False
    name = unicodedata.normalize("NFC", path.removesuffix("/"))
    return rule.regex.fullmatch(name) is not None


def _folders_above(path: str) -> Iterator[str]:
    """Folders above ``path``, the root first."""
    yield ""
    position = path.find("/")
    while position != -1 and position != len(path) - 1:
        yield path[: position + 1]
        position = path.find("/", position + 1)


# --- lines -------------------------------------------------------------------------------------

# Blanks at the end do not count, unless a backslash holds them.
_LAST_BLANKS = re.compile(r"(?<!\\) +\Z")
_TOKEN = re.compile(
    r"(?P<start>\A\*\*/)"
    r"|(?P<middle>/\*\*(?=/))"
    r"|(?P<end>/\*\*\Z)"
    r"|(?P<stars>\*+)"
    r"|(?P<one>\?)"
    r"|\[(?P<not>[!^]?)(?P<class>\]?(?:\\.|\[:[a-z]+:\]|[^\]\\])*)\]"
    r"|\\(?P<escaped>.)"
    r"|(?P<plain>.)",
    re.DOTALL,
)
_NAMED_CLASSES = {
    "[:alnum:]": "a-zA-Z0-9",
    "[:alpha:]": "a-zA-Z",
    "[:digit:]": "0-9",
    "[:lower:]": "a-z",
    "[:space:]": r"\s",
    "[:upper:]": "A-Z",
    "[:xdigit:]": "0-9a-fA-F",
}


def _parse_line(line: str) -> IgnoreRule | None:
    """Compile a line, or None for a blank, a remark and what git, too, can match with nothing."""
    text = _LAST_BLANKS.sub("", unicodedata.normalize("NFC", line))
    negated = text.startswith("!")
    pattern = text.removeprefix("!")
    if text.startswith("#") or pattern.strip("/") == "":
        return None
    folders_only = pattern.endswith("/")
    pattern = pattern.removesuffix("/")
    # A slash before the end ties a pattern to its folder; others match at any depth.
    depth = "" if "/" in pattern else "(?:.*/)?"
    try:
        regex = re.compile(depth + _to_regex(pattern.removeprefix("/")), re.DOTALL)
    except re.error:
        return None
    return IgnoreRule(regex=regex, negated=negated, folders_only=folders_only)


def _to_regex(pattern: str) -> str:
    return "".join(_translate(token) for token in _TOKEN.finditer(pattern))


def _translate(token: re.Match[str]) -> str:
    match token.lastgroup:
        case "start":
            return "(?:.*/)?"
        case "middle":
            return "(?:/.*)?"
        case "end":
            return "/.+"
        case "stars":
            return "[^/]*"
        case "one":
            return "[^/]"
        case "class":
            return f"(?!/)[{'^' if token['not'] else ''}{_class_members(token['class'])}]"
        case _:
            return re.escape(token["escaped"] or token["plain"])


def _class_members(members: str) -> str:
    parts = re.split(r"(\\.|\[:[a-z]+:\])", members)
    return "".join(
        _NAMED_CLASSES.get(part) or re.sub(r"([\[\]\\^&~|])", r"\\\1", part.removeprefix("\\"))
        for part in parts
    )
