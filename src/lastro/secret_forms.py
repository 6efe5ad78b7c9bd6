"""How secrets look: forms that providers publish, and values that no word is. Pure."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lastro.secret_values import is_placeholder, is_secret_value, looks_random


def _always(_: re.Match[str]) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretForm:
    """A form of secret; ``hints`` are the beginnings of its pattern, with ASCII in lower case.

    They are looked for first, which is many times faster than a pattern. The secret is the
    pattern's group of that name. ``look`` matches, in RE2's syntax, in every text that has the
    form, and in every JSON text of one. One that ``is_prefixed`` begins with its hint.
    """

    name: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    look: str
    is_secret: Callable[[re.Match[str]], bool] = _always
    is_prefixed: bool = False

    def find(self, text: str, *, lowered: str) -> Iterator[re.Match[str]]:
        """Where the text has one, for each hint in turn."""
        for hint in self.hints:
            at = lowered.find(hint)
            while at >= 0:
                match = self.pattern.match(text, at)
                if match is not None and self.is_secret(match):
                    yield match
                at = lowered.find(hint, at + 1 if match is None else match.end())


# What may stand between a name and its value. In JSON a tab is two characters, as a quote is.
_LOOK_BLANK = r"(?:[ \t]|\\t)"
_LOOK_QUOTE = r"[\\\"'`]*\]?"
_LOOK_SIGN = rf"{_LOOK_QUOTE}{_LOOK_BLANK}*[:=：是为][=>]?{_LOOK_BLANK}*{_LOOK_QUOTE}"

_START = r"(?<![A-Za-z0-9_])"
_END = r"(?![A-Za-z0-9])"


def _key(name: str, *hints: str, form: str) -> SecretForm:
    """A key that is known by how it begins."""
    pattern = re.compile(f"{_START}(?P<secret>{form}){_END}", re.ASCII)
    return SecretForm(name=name, hints=hints, pattern=pattern, look=form, is_prefixed=True)


def _is_random_key(match: re.Match[str]) -> bool:
    return looks_random(match["secret"])


# Sources: the providers' own pages on the formats of their keys, and the rules of gitleaks 8
# (config/gitleaks.toml), which collects them.
_KEYS = (
    _key("aws-key", "akia", "asia", "abia", "acca", form=r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}"),
    _key(
        "github-token",
        *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        form=r"(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})",
    ),
    _key(
        "gitlab-token",
        *("glpat-", "gldt-", "glft-", "glsoat-", "glrt-", "glrtr-", "glcbt-", "glimt-", "glptt-"),
        *("glagent-", "gloas-", "glffct-"),
        form=r"gl[a-z]{2,6}-[A-Za-z0-9_.=-]{20,}",
    ),
    _key(
        "slack-token",
        *("xox", "xapp-"),
        form=r"(?:xox[abceoprs]-[A-Za-z0-9-]{10,}|xapp-\d-[A-Za-z0-9-]{10,})",
    ),
    _key(
        "slack-webhook",
        "hooks.slack.com/",
        form=r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,}",
    ),
    SecretForm(
        name="model-key",  # Anthropic, OpenAI, OpenRouter, DeepSeek and others
        hints=("sk-",),
        pattern=re.compile(
            rf"(?<![A-Za-z0-9_-])(?P<secret>sk-[A-Za-z0-9_-]{{20,}}){_END}", re.ASCII
        ),
        look=r"sk-[A-Za-z0-9_-]{20}",
        is_secret=_is_random_key,
        is_prefixed=True,
    ),
    _key(
        "model-key",  # Groq, xAI, Perplexity, Replicate, Hugging Face
        *("gsk_", "xai-", "pplx-", "r8_", "hf_"),
        form=r"(?:gsk_[A-Za-z0-9]{40,}|xai-[A-Za-z0-9]{60,}|pplx-[A-Za-z0-9]{40,}"
        r"|r8_[A-Za-z0-9]{37}|hf_[A-Za-z0-9]{30,})",
    ),
    _key(
        "google-key",
        *("aiza", "gocspx-", "ya29."),
        form=r"(?:AIza[A-Za-z0-9_-]{35}|GOCSPX-[A-Za-z0-9_-]{24,}|ya29\.[A-Za-z0-9_-]{20,})",
    ),
    _key(
        "stripe-key",
        *("sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"),
        form=r"(?:[rs]k_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{24,})",
    ),
    # lastro.key; shorter ends too, which nothing else has either
    _key("lastro-key", "lastro_", form=r"lastro_\d{1,18}_[0-9a-f]{12}_[A-Za-z0-9]{20,}"),
    _key("npm-token", "npm_", form=r"npm_[A-Za-z0-9]{36}"),
    _key("pypi-token", "pypi-age", form=r"pypi-AgE[A-Za-z0-9_-]{50,}"),
    _key(
        "service-key",
        *("sg.", "dop_v1_", "doo_v1_", "dor_v1_", "dapi", "hvs.", "dckr_", "glsa_", "glc_"),
        *("shpat_", "shpca_", "shppa_", "shpss_"),
        form=r"(?:SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}|do[opr]_v1_[a-f0-9]{64}"
        r"|dapi[a-f0-9]{32}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|hvs\.[A-Za-z0-9_-]{24,}"
        r"|dckr_(?:pat|oat)_[A-Za-z0-9_-]{24,}|glsa_[A-Za-z0-9_]{40,}|glc_[A-Za-z0-9+/=]{32,})",
    ),
    SecretForm(
        name="telegram-token",
        hints=(":aa",),
        pattern=re.compile(rf"(?<=\d{{8}}):(?P<secret>AA[A-Za-z0-9_-]{{32,33}}){_END}", re.ASCII),
        look=r"\d{8}:AA[A-Za-z0-9_-]{32}",
    ),
    SecretForm(
        name="aws-key",
        hints=("aws",),
        pattern=re.compile(
            r"aws[A-Z_ -]{0,20}(?:secret|key)[A-Z_ -]{0,20}[\\\"'`]{0,4}[ \t]*[:=][ \t]*"
            r"[\\\"'`]{0,4}(?P<secret>[A-Z0-9/+]{40})(?![A-Z0-9/+])",
            re.IGNORECASE | re.ASCII,
        ),
        look=r"(?i:aws[A-Z_ -]*(?:secret|key)[A-Z_ -]*)" + _LOOK_SIGN + r"[A-Za-z0-9/+]{40}",
    ),
    _key("azure-key", "accountkey=", form=r"AccountKey=[A-Za-z0-9+/]{80,}={0,2}"),
    _key("age-key", "age-secret-key-", form=r"AGE-SECRET-KEY-1[A-Z0-9]{50,}"),
    _key(
        "jwt",
        "eyj",
        form=r"eyJ[A-Za-z0-9_-]{8,}\.(?:eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"
        r"|[A-Za-z0-9_-]*\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,})",
    ),
)

# RFC 7468 and OpenPGP; the body may be quoted, numbered or written with \n. Without its end it is
# the lines of base64 that follow.
_PRIVATE_KEY = SecretForm(
    name="private-key",
    hints=("-----begin ",),
    pattern=re.compile(
        r"(?P<secret>-----BEGIN [A-Z0-9 ]{0,20}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:(?!-----BEGIN ).){20,16384}?-----END [A-Z0-9 ]{0,20}PRIVATE KEY(?: BLOCK)?-----"
        r"|(?:\r?\n[^\n]{0,12}?[A-Za-z0-9+/=]{16,}[^\n]{0,4})+))",
        re.DOTALL | re.ASCII,
    ),
    look="-----BEGIN [A-Z0-9 ]{0,20}PRIVATE KEY",
    is_secret=lambda match: re.search(r"[A-Za-z0-9+/=]{20}", match["secret"][31:]) is not None,
)

_AUTHORIZATION = SecretForm(
    name="authorization",
    hints=("authorization",),
    pattern=re.compile(
        r"authorization[\\\"'`]{0,4}[ \t]*[:=][ \t]*[\\\"'`]{0,4}"
        r"(?:(?:bearer|basic|token|apikey|digest)[ \t]+)?"
        r"(?P<secret>[A-Za-z0-9][A-Za-z0-9._~+/=-]{7,})",
        re.IGNORECASE | re.ASCII,
    ),
    look=rf"(?i:authorization){_LOOK_SIGN}(?:[A-Za-z]+{_LOOK_BLANK}+)?[A-Za-z0-9]\S{{7}}",
    is_secret=lambda match: not is_placeholder(match["secret"]) and not match["secret"].isalpha(),
)
_BEARER = SecretForm(
    name="authorization",
    hints=("bearer",),
    pattern=re.compile(
        r"bearer[ \t]+(?P<secret>[A-Za-z0-9][A-Za-z0-9._~+/=-]{15,})", re.IGNORECASE | re.ASCII
    ),
    look=rf"(?i:bearer){_LOOK_BLANK}+\S{{16}}",
    is_secret=_is_random_key,
)
_URL_PASSWORD = SecretForm(
    name="password",
    hints=("://",),
    pattern=re.compile(
        r"://[^\s/:@\"'`<>\[\]]{0,256}:(?P<secret>[^\s/@\"'`<>\[\]{}$*]{1,256})@", re.ASCII
    ),
    look=r"://[^\s/:@\"'`<>\[\]]*:[^\s/@\"'`<>\[\]{}$*]+@",
    is_secret=lambda match: not is_placeholder(match["secret"]),
)
_CURL_USER = SecretForm(
    name="password",
    hints=(" -u", "\t-u", "--user"),
    pattern=re.compile(
        r"(?:[ \t]-u|--user)[ \t=]*[\\\"']{0,2}[^\s:\"'\[\]]{1,256}:"
        r"(?P<secret>[^\s\"'`<>\[\]{}$*\\]{3,256})"
    ),
    look=rf"(?:-u|--user)(?:{_LOOK_BLANK}|=)*[\\\"']*[^\s:\"'\[\]]+:\S{{3}}",
    is_secret=lambda match: (
        not is_placeholder(match["secret"])
        and "curl" in match.string[match.string.rfind("\n", 0, match.start()) + 1 : match.start()]
    ),
)

_CHOSEN_NAMES = r"password|passwd|passphrase|passwort|pwd|senha|contraseña|密码|密碼|口令"
_KEY_NAMES = ("api", "access", "secret", "private", "auth", "encryption", "signing", "master")
_ISSUED_NAMES = (
    rf"secret|token|credentials?|(?:{'|'.join(_KEY_NAMES)})[_\- ]?key|segredo|密钥|密鑰|令牌"
)
SECRET_NAMES = rf"(?:(?P<password>{_CHOSEN_NAMES})|(?:{_ISSUED_NAMES}))"
# Where case does not matter Python takes these three for one letter, and RE2 does not.
FOLDED_NAMES = f"{_CHOSEN_NAMES}|{_ISSUED_NAMES}".replace("i", "[iıİ]")
_LOOK_NAMES = f"(?i:{FOLDED_NAMES})"
# No reference to a variable, no call and no place that is to be filled in begins like this.
_SIGNS = r"!#+\-./0-9:=?@A-Z^_a-z~"
_VALUE = rf"(?P<secret>[{_SIGNS}][{_SIGNS}$%*]{{5,511}})(?P<next>[(\[]?)"
_QUOTE = r"(?:[\\\"'`]{1,4}\]?)?"


def _assigned(*hints: str) -> SecretForm:
    return SecretForm(
        name="secret",
        hints=hints,
        pattern=re.compile(
            rf"{SECRET_NAMES}(?![A-Za-z0-9_]){_QUOTE}[ \t]*(?::=|=>|==?|[:：是为])[ \t]*"
            rf"{_QUOTE}{_VALUE}",
            re.IGNORECASE,
        ),
        look=rf"{_LOOK_NAMES}{_LOOK_SIGN}\S{{6}}",
        is_secret=lambda match: _is_assigned_secret(match),
    )


_ASSIGNED = _assigned(
    *_CHOSEN_NAMES.split("|"),
    *("secret", "token", "credential", "segredo", "密钥", "密鑰", "令牌"),
)
_ASSIGNED_KEY = _assigned(
    *(f"{name}{sign}key" for name in _KEY_NAMES for sign in ("", "_", "-", " "))
)
_OPTION = SecretForm(
    name="secret",
    hints=("--",),
    pattern=re.compile(
        rf"--[a-z-]{{0,40}}?{SECRET_NAMES}[ \t]+[\\\"']{{0,2}}{_VALUE}", re.IGNORECASE
    ),
    look=rf"--\S*{_LOOK_NAMES}{_LOOK_BLANK}+\S{{6}}",
    is_secret=lambda match: _is_assigned_secret(match),
)
# A name here and its value there, as in lists of variables: `"name": "TOKEN", "value": "…"`.
_BETWEEN_LINES = r"(?:[ \t\r\n]|\\[trn])*"
_PAIR = SecretForm(
    name="secret",
    hints=(*_ASSIGNED.hints, *_ASSIGNED_KEY.hints),
    pattern=re.compile(
        rf"{SECRET_NAMES}(?![A-Za-z0-9_])[\\\"'`]{{0,4}}[ \t\r\n]{{0,40}},?[ \t\r\n]{{0,40}}"
        rf"[\\\"'`]{{0,4}}value[\\\"'`]{{0,4}}[ \t]*[:=][ \t]*{_QUOTE}{_VALUE}",
        re.IGNORECASE,
    ),
    look=rf"{_LOOK_NAMES}[\\\"'`]*{_BETWEEN_LINES},?{_BETWEEN_LINES}[\\\"'`]*(?i:value)",
    is_secret=lambda match: _is_assigned_secret(match),
)


def _is_assigned_secret(match: re.Match[str]) -> bool:
    if match["next"]:  # a call, or a part of a list
        return False
    return is_secret_value(match["secret"], is_password=match["password"] is not None)


# --- all of them -------------------------------------------------------------------------------

# A text of shorter words has none of these forms, which are most.
_LONG_WORD_CHARS = 16
_LONG_FORMS = (_PRIVATE_KEY, *_KEYS, _BEARER)
_SHORT_FORMS = (_AUTHORIZATION, _URL_PASSWORD, _CURL_USER, _ASSIGNED, _OPTION, _PAIR)
_FORMS = (*_LONG_FORMS, *_SHORT_FORMS, _ASSIGNED_KEY)
ALL_HINTS = tuple(dict.fromkeys(hint for form in _FORMS for hint in form.hints))
# Those that are known by how they begin alone, and may therefore go on in another line.
PREFIXED_FORMS = tuple(form for form in _FORMS if form.is_prefixed)
# What a text that has a form matches, in RE2's syntax; the last two stand in JSON alone: a secret's
# name that is the text of a field or an option in a list, and one that is over a list or an object.
LOOKS = (
    *(form.look for form in _FORMS),
    rf"(?i:(?:{FOLDED_NAMES})|authorization)\\*\"[ \t]*[,}}]",
    rf"(?i:(?:{FOLDED_NAMES})s?|authorization)\\*\"[ \t]*:[ \t]*[\[{{]",
)


def forms_in(text: str, *, lowered: str) -> tuple[SecretForm, ...]:
    """The forms that the text may have by its hints.

    In this order: what names its provider says more than a name before it does.
    """
    longest = max(map(len, text.split()), default=0)
    long_ones = _LONG_FORMS if longest >= _LONG_WORD_CHARS else ()
    keys = (_ASSIGNED_KEY,) if "key" in lowered else ()
    return (*long_ones, *_SHORT_FORMS, *keys)
