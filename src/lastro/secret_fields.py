"""Fields that hold a secret, by their name or by what an object says of its value. Pure."""

import re

from lastro.secret_forms import FOLDED_NAMES, SECRET_NAMES
from lastro.secret_values import is_pass, is_placeholder, is_whole_secret

# Variables, headers and parameters in lists: {"name": "DB_PASSWORD", "value": "…"}.
NAMING = frozenset({"name", "key", "variable", "field", "id", "label", "parameterkey"})
NAMED = frozenset({"value", "val", "parametervalue"})
# Fields of an object that is the value, below which the secret itself stands.
HOLDING = NAMED | {"text", "string", "stringvalue", "string_value", "content", "data", "plain"}
# No name is longer, and none of those that are looked at in a text.
_MOST_NAME_CHARS = 200

SECRET_NAME = re.compile(rf"{SECRET_NAMES}\Z", re.IGNORECASE)
CREDENTIALS_NAME = re.compile(r"authorization\Z", re.IGNORECASE)
# A word of its own, or the last of a name: no `bypass`, no `compass`.
_PASS_NAME = re.compile(r"(?:(?:\A|[_.-])(?:pass|PASS)|(?:\A|[_.-]|(?<=[a-z]))Pass)\Z")
_OPTION = re.compile(rf"--?[\w-]*?(?:{SECRET_NAMES}|(?<=-)pass)\Z", re.IGNORECASE)
_CREDENTIALS = re.compile(
    r"(?:(?:bearer|basic|token|apikey|digest)[ \t]+)?(?P<secret>[A-Za-z0-9][A-Za-z0-9._~+/=-]{7,})",
    re.IGNORECASE | re.ASCII,
)

# In RE2's syntax.
LOOK_NAMES = f"(?i:{FOLDED_NAMES}|pass|authorization)"


def names_secret(name: str) -> bool:
    """Whether a field, a variable or a header of this name holds a secret."""
    return len(name) <= _MOST_NAME_CHARS and any(
        pattern.search(name) is not None for pattern in (SECRET_NAME, CREDENTIALS_NAME, _PASS_NAME)
    )


def is_option(text: str) -> bool:
    """Whether the next of the arguments is a secret: ``--token``, but not ``-p``."""
    return len(text) <= _MOST_NAME_CHARS and _OPTION.match(text) is not None


def secret_held(name: str, held: str) -> tuple[int, int] | None:
    """Where in what a field of this name holds the secret is; None where it holds none."""
    if CREDENTIALS_NAME.search(name) is not None:
        return _credentials_in(held)
    named = SECRET_NAME.search(name)
    if named is not None:
        is_secret = is_whole_secret(held, is_password=named["password"] is not None)
    else:
        is_secret = _PASS_NAME.search(name) is not None and is_pass(held)
    return (0, len(held)) if is_secret else None


def _credentials_in(held: str) -> tuple[int, int] | None:
    match = _CREDENTIALS.match(held)
    if match is None or is_placeholder(match["secret"]) or match["secret"].isalpha():
        return None
    return match.span("secret")
