"""Secrets are masked, and nothing else. Those of this file are made at run time."""

import json
import random
import string
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastro import masking
from lastro.masking import mask, mask_json, may_have_form, may_have_secret
from lastro.secret_values import looks_random

LETTERS = string.ascii_letters
BASE62 = LETTERS + string.digits
BASE32 = string.ascii_uppercase + "234567"
HEX = "0123456789abcdef"


def made(length: int, alphabet: str = BASE62, *, seed: int = 7) -> str:
    """A text that looks like a secret, the same in every run."""
    drawn = random.Random(seed).choices(alphabet, k=length)
    return "".join(drawn)


KEYS = {
    "aws-key": "AKIA" + made(16, BASE32),
    "github-token": "ghp" + "_" + made(36),
    "fine-grained": "github" + "_pat_" + made(22) + "_" + made(59),
    "gitlab-token": "glpat" + "-" + made(20),
    "slack-token": "xoxb" + "-" + made(12, string.digits) + "-" + made(24),
    "anthropic": "sk" + "-ant-api03-" + made(93),
    "openai": "sk" + "-proj-" + made(100),
    "openai-old": "sk" + "-" + made(48),
    "deepseek": "sk" + "-" + made(32, HEX),
    "groq": "gsk" + "_" + made(52),
    "hugging-face": "hf" + "_" + made(34),
    "google-key": "AIza" + made(35),
    "stripe-key": "sk" + "_live_" + made(24),
    "lastro-key": "lastro" + "_12_" + made(12, HEX) + "_" + made(43),
    "npm-token": "npm" + "_" + made(36),
    "pypi-token": "pypi" + "-AgEIcHlwaS5vcmc" + made(80),
    "sendgrid": "SG" + "." + made(22) + "." + made(43),
    "telegram": "AA" + made(33),
    "jwt": "eyJ" + made(20) + ".eyJ" + made(40) + "." + made(43),
}


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("around", ["o valor é {} agora", "K={}", "'{}',", "（{}）", "{}.", "{}\n"])
def test_a_key_of_a_known_form_is_masked_wherever_it_stands(name: str, around: str) -> None:
    key = KEYS[name]
    before = "123456789:" if name == "telegram" else ""
    masked = mask(around.format(before + key))
    assert key not in masked.text
    assert masked.secrets == 1


HIDDEN = {
    "password = {}": "S3nh" + "@Forte!9",
    "password: {} ": "Xk9$m" + "Q2%vT*z81",
    "DB_PASSWORD={}": made(12),
    "senha: {}": "Gato" + "#2020x",
    "密码：{}": "Mao9" + "!zedx",
    "密码是 {}": "Mao9" + "!zedx",
    '"api_key": "{}"': made(32, HEX),
    "client_secret: {}": made(36),
    "SECRET_KEY='{}'": made(50),
    "令牌={}": made(24),
    "aws_secret_access_key = {}": made(20) + "/" + made(19),
    "Authorization: Bearer {}": made(20),
    'headers["Authorization"] = "Bearer {}"': made(40),
    "-H 'X-Api-Key: {}'": made(40),
    "postgres://ana:{}@db.example.org/app": "qwerty",
    "curl -u ana:{} https://example.org": "pw12" + "345",
    "deploy --token {} --now": made(30),
    r"{{\"token\": \"{}\"}}": made(40),
    'os.environ["API_KEY"] = "{}"': made(32),
}


@pytest.mark.parametrize("text", HIDDEN)
def test_a_value_after_the_name_of_a_secret_is_masked_and_the_name_stays(text: str) -> None:
    secret = HIDDEN[text]
    masked = mask(text.format(secret))
    assert secret not in masked.text
    assert masked.text.startswith(text.replace("{{", "{").split("{}")[0].split("Bearer")[0])
    assert masked.secrets == 1


ORDINARY = [
    "commit 8f3c2e1d9a7b6c5d4e3f2a1b0c9d8e7f6a5b4c3d",
    "Merge 8f3c2e1 into main",
    "id 550e8400-e29b-41d4-a716-446655440000",
    '"integrity": "sha512-' + made(86) + '=="',
    "sha256:" + made(64, HEX),
    "data:image/png;base64," + made(3_000, BASE62 + "+/"),
    "token = tokens[i + 1]",
    "token: TokenV2Response",
    "password = getpass(prompt2)",
    "self.password = config.password2",
    "password: str | None = None",
    "max_tokens: 4096, tokenizer: gpt2-medium-v3",
    "SECRET_KEY=${SECRET_KEY}",
    "api_key = os.environ['API_KEY_2']",
    "Authorization: Bearer $TOKEN",
    "Authorization: Bearer <token>",
    "password: <your-password>",
    "api_key=your-api-key-here",
    "PWD=/home/ana/project2",
    "secret: my-k8s-secret-v2",
    'class="sk-container-id-1 sk-toggleable__content-with-label"',
    "http://localhost:8080/@scope/package",
    "docker run -u 1000:1000 image",
    "git@github.com:org/repo.git",
    "A senha mudou em 2024, e o segredo: medir antes.",
    "The password was changed: ask for it; the token: see docs/adr/0012-oauth2.md",
    "密码是8位以上的数字，令牌在网关那里。",
    "the line -----BEGIN PRIVATE" + " KEY----- opens such a file",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + made(43) + " ana@laptop",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_what_only_looks_odd_stays(text: str) -> None:
    assert mask(text) == (text, 0)


def private_key() -> str:
    body = "\n".join(made(64, seed=seed) for seed in range(5))
    return "-----BEGIN RSA PRIVATE" + f" KEY-----\n{body}\n-----END RSA PRIVATE" + " KEY-----"


@pytest.mark.parametrize(
    "written",
    [
        private_key(),
        private_key().replace("\n", "\\n"),
        private_key().replace("\n", "\r\n"),
        "\n".join(f"{n:6}→{line}" for n, line in enumerate(private_key().split("\n"))),
        private_key().rsplit("\n", 1)[0],
    ],
    ids=["plain", "escaped", "windows", "numbered", "cut off"],
)
def test_a_private_key_is_masked_whole_and_its_lines_stay_as_many(written: str) -> None:
    text = f"before\n{written}\nafter"
    masked = mask(text)
    assert not any(made(64, seed=seed) in masked.text for seed in range(5))
    assert masked.text.count("\n") == text.count("\n")
    assert masked.text.startswith("before\n")
    assert masked.text.endswith("\nafter")


def test_a_secret_is_masked_where_it_stands_again_without_its_name() -> None:
    secret = made(24)
    masked = mask(f"token={secret}\nand then the server said {secret}")
    assert secret not in masked.text
    assert masked.secrets == 2


def test_a_password_that_is_a_word_is_not_masked_in_prose() -> None:
    masked = mask("postgres://postgres:postgres@localhost/app: postgres is our database")
    assert masked.text == (
        "postgres://postgres:[masked:password]@localhost/app: postgres is our database"
    )


def test_a_json_value_is_masked_in_texts_names_and_fields_of_secrets() -> None:
    token, word = made(36), "S3nh" + "@Forte!9"
    masked = mask_json(
        {
            "password": word,
            "list": ["gh" + "p_" + token, 5, None, True],
            "gh" + "p_" + token: "kept",
            "arguments": json.dumps({"token": made(30)}),
            "input_tokens": 4096,
            "sha": made(40, HEX),
        }
    )
    assert masked.value == {
        "password": "[masked:secret]",
        "list": ["[masked:github-token]", 5, None, True],
        "[masked:github-token]": "kept",
        "arguments": '{"token": "[masked:secret]"}',
        "input_tokens": 4096,
        "sha": made(40, HEX),
    }
    assert masked.secrets == 4


def test_two_names_that_were_secrets_stay_two_fields() -> None:
    one, two = ("gh" + "p_" + made(36, seed=seed) for seed in (1, 2))
    assert mask_json({one: 1, two: 2}).value == {
        "[masked:github-token]": 1,
        "[masked:github-token] 2": 2,
    }


def test_a_value_of_a_thousand_levels_is_masked() -> None:
    secret = KEYS["github-token"]
    value: object = secret
    for _ in range(800):
        value = [value]
    masked = mask_json(value)
    assert secret not in json.dumps(masked.value)
    assert masked.secrets == 1


PIECES = st.sampled_from(
    [
        *KEYS.values(),
        *(text.format(secret) for text, secret in HIDDEN.items()),
        *ORDINARY,
        private_key(),
        *(
            "password=",
            "token: ",
            " ",
            "\n",
            "ghp_" + made(12),
            "Bearer ",
            "://u:",
            "@",
            '"',
            "[masked:secret]",
            "-",
        ),
    ]
)


@settings(max_examples=150)
@given(st.lists(PIECES | st.text(max_size=12), max_size=8).map("".join))
def test_masking_what_is_masked_changes_nothing_and_lines_are_kept(text: str) -> None:
    masked = mask(text)
    assert mask(masked.text) == (masked.text, 0)
    assert masked.text.count("\n") == text.count("\n")
    assert (masked.text == text) == (masked.secrets == 0)


NAMES = ["password", "senha", "密码", "secret", "token", "credentials", "api_key", "private-key"]
SIGNS = ["=", ": ", " := ", "=>", "是", "\t:\t", '": "', "`]=`", "  ", "\t"]
VALUES = [
    made(12),
    made(36),
    "S3nh" + "@Forte!9",
    "a\tb9!cc",
    '""""a9',
    "ü9\ud800!abc",
    "k\x01s9!i",
]
AROUND = [
    "--",
    "curl -u ana:",
    "curl\t--user=ana:",
    "://ana:",
    "@",
    "bearer ",
    "authorization",
    "\n",
]
# Letters that Python takes for i, s and k where case does not matter.
FOLDED = str.maketrans("isk", "ıſ\u212a")
ODD_PIECES = (
    PIECES
    | st.tuples(*map(st.sampled_from, (NAMES, SIGNS, VALUES))).map("".join)
    | st.sampled_from(AROUND)
    | st.text(max_size=8)
)
ODD_TEXTS = st.lists(
    ODD_PIECES | ODD_PIECES.map(str.upper) | ODD_PIECES.map(lambda text: text.translate(FOLDED)),
    max_size=5,
).map("".join)


PASSWORD = "S3nh" + "@Forte!9"
TOKEN = made(30)


@pytest.mark.parametrize(
    ("payload", "secrets"),
    [
        ({"env": [{"name": "DB_PASSWORD", "value": PASSWORD}]}, [PASSWORD]),
        ({"Value": PASSWORD, "Key": "dbPassword"}, [PASSWORD]),
        ({"headers": [{"name": "Authorization", "value": "token " + TOKEN}]}, [TOKEN]),
        ({"DB_PASSWORD": {"type": "plain", "value": PASSWORD}}, [PASSWORD]),
        ({"password": ["x", PASSWORD, "y", TOKEN]}, [PASSWORD, TOKEN]),
        ({"api_keys": [TOKEN, [made(40, HEX)]]}, [TOKEN, made(40, HEX)]),
        ({"Authorization": ["token " + TOKEN]}, [TOKEN]),
        ({"argv": ["psql", "--password", PASSWORD]}, [PASSWORD]),
        ({"password": 12345678}, ["12345678"]),
        ({"password": "12345678"}, ["12345678"]),
        ({"client_secret": [123456, 654321]}, ["123456", "654321"]),
        ({"token": 12345678901}, ["12345678901"]),
        ({"out": json.dumps([{"name": "DB_PASSWORD", "value": PASSWORD}])}, [PASSWORD]),
        ({"yaml": f"- name: DB_PASSWORD\n  value: {PASSWORD}\n"}, [PASSWORD]),
    ],
)
def test_a_secret_s_name_tells_of_pairs_lists_options_and_numbers(
    payload: dict[str, object], secrets: list[str]
) -> None:
    assert may_have_secret(json.dumps(payload, ensure_ascii=False))
    masked = mask_json(payload)
    assert masked.secrets == len(secrets)
    assert not [secret for secret in secrets if secret in json.dumps(masked.value)]


@pytest.mark.parametrize(
    "payload",
    [
        {"max_tokens": 512, "usage": {"input_tokens": 1234567890, "tokenCount": 12345678901}},
        {"name": "id", "value": 5},
        {"name": "commit", "value": made(40, HEX)},
        {"name": "token", "value": 50256},
        {"name": "password", "value": "required"},
        {"tokens": ["hello", "world", "getUserTokenV2"], "token": 3.25, "logprob": -0.5},
        {"tokens": [[101, 2023, 2003], [1234567890123]]},
        {"password": True, "token": None, "secret": 1},
        {"required": ["user2name", "password", "email2fa"]},
        {"key": "password", "value": ["x", "y"]},
    ],
)
def test_counts_names_and_words_below_a_name_stay(payload: dict[str, object]) -> None:
    assert mask_json(payload) == (payload, 0)


@pytest.mark.parametrize("name", sorted(KEYS.keys() - {"telegram"}))  # that has no beginning
@pytest.mark.parametrize("between", ["\n", "\r\n", "\\\n", "\n    "])
def test_a_key_that_is_broken_over_two_lines_is_masked_in_both(name: str, between: str) -> None:
    key = KEYS[name]
    middle = len(key) // 2
    text = f"the key\n{key[:middle]}{between}{key[middle:]}\nand more\n"
    masked = mask(text)
    assert (key[:middle] in masked.text, key[middle:] in masked.text) == (False, False)
    assert masked.text.startswith("the key\n[masked:")
    assert masked.text.endswith("\nand more\n")
    assert masked.text.count("\n") == text.count("\n")
    assert may_have_secret(json.dumps({"out": text}, ensure_ascii=False))


def test_a_value_after_a_name_is_masked_with_the_rest_of_it_in_the_next_line() -> None:
    first, rest = made(30, seed=1), made(20, seed=2)
    masked = mask(f"API_KEY={first}\n{rest}\nDone: 3 files\n")
    assert masked.text == "API_KEY=[masked:secret]\n\nDone: 3 files\n"


@pytest.mark.parametrize(
    "after",
    [
        made(40, HEX) + " Merge of main",
        "550e8400-e29b-41d4-a716-446655440000",
        "SECOND_SETTING=yes",
        "docs/how-to/deploy.md",
        "2026-11-30 12:00:00 started",
        "and then it ran",
    ],
)
def test_what_follows_a_secret_in_the_next_line_stays(after: str) -> None:
    token = KEYS["github-token"]
    assert mask(f"use {token}\n{after}").text == f"use [masked:github-token]\n{after}"


@pytest.mark.parametrize(
    "text", ["a task-force\nfor 2026\n", "from Australasia\nand Asia\nwith love", "msg.\nnext"]
)
def test_a_word_at_the_end_of_a_line_is_no_broken_key(text: str) -> None:
    assert mask(text) == (text, 0)


def look_and_forms(text: str, payload: dict[str, object]) -> tuple[object, object]:
    """What is masked with the first look, and without it."""

    def masks() -> object:
        may_have = may_have_secret(json.dumps(payload, ensure_ascii=False))
        return mask(text), mask_json(payload) if may_have else (payload, 0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(masking, "may_have_form", lambda _: True)
        without = masks()
    return masks(), without


@settings(max_examples=80)
@given(text=ODD_TEXTS, name=ODD_TEXTS | st.sampled_from(NAMES))
def test_the_first_look_passes_over_nothing_that_the_forms_find(text: str, name: str) -> None:
    pair = {"name": name, "value": text, "argv": [f"--{name}", text]}
    with_look, without = look_and_forms(text, {name: text, "out": [{"cmd": text}, pair]})
    assert with_look == without
    with_look, without = look_and_forms(text, {name: ["x", text, {"value": text}]})
    assert with_look == without


@pytest.mark.parametrize("name", [*NAMES, *(name.translate(FOLDED) for name in NAMES)])
def test_the_first_look_passes_over_no_name_with_a_value(name: str) -> None:
    for sign, value, before in product(SIGNS, VALUES, ("", "--")):
        with_look, without = look_and_forms(f"{before}{name}{sign}{value}", {name: value})
        assert with_look == without, (before, sign, value)


def test_the_first_look_is_done_with_nearly_every_text() -> None:
    """Else it would spare nothing: of paragraphs about keys and passwords at most one in 50."""
    pages = Path(__file__).parent.parent.joinpath("docs").rglob("*.md")
    texts = [part for page in pages for part in page.read_text(encoding="utf-8").split("\n\n")]
    assert len(texts) > 500
    assert sum(map(may_have_form, texts)) <= len(texts) / 50


@settings(max_examples=100)
@given(
    key=st.sampled_from([key for name, key in KEYS.items() if name != "telegram"]),
    before=st.text(alphabet=st.characters(exclude_categories=("L", "N", "Pc", "Pd")), max_size=20),
    after=st.text(alphabet=st.characters(exclude_categories=("L", "N", "Pc", "Pd")), max_size=20),
)
def test_a_masked_text_never_has_the_key(key: str, before: str, after: str) -> None:
    assert key not in mask(before + key + after).text


@settings(max_examples=100)
@given(st.integers(0, 2**32))
def test_random_base62_looks_random(seed: int) -> None:
    assert looks_random(made(40, seed=seed))


@settings(max_examples=100)
@given(
    st.lists(
        st.sampled_from(["get", "User", "Token", "config", "database", "v2", "Handler", "2026"]),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from(["-", "_", ".", "/", ":"]),
)
def test_names_that_programs_have_do_not_look_random(words: list[str], sign: str) -> None:
    assert not looks_random(sign.join(words))


def test_no_pattern_runs_away_on_a_long_text() -> None:
    """A pattern that tries every pair of places would take hours for one of these."""
    for text in (made(2**18), "password " * 2**15, "://" + "a" * 2**18, "-----BEGIN " * 2**14):
        assert mask(text) == (text, 0)


@pytest.mark.parametrize("held", ["Basic " + "YWRtaW46aHVu" + "dGVyMg==", "token " + made(20)])
def test_what_a_header_of_credentials_holds_is_masked_in_a_payload(held: str) -> None:
    masked = mask_json({"headers": {"Authorization": held}})
    assert masked.secrets == 1
    assert held.split()[1] not in str(masked.value)
