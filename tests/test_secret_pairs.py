"""Secrets that stand apart from their names are masked, as a value and as the text of it."""

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_masking import HEX, KEYS, NAMES, ODD_TEXTS, ORDINARY, made

from lastro.masking import mask, mask_json, may_have_form, may_have_secret

PASSWORD = "S3nh" + "@Forte!9"
WORDS = "S3nh" + "@ da 4na"
TOKEN = made(30)

TOLD: list[tuple[Any, str]] = [
    ({"value": TOKEN, "name": "API_TOKEN"}, TOKEN),
    ({"name": "DB_PASSWORD", "secure": True, "value": PASSWORD}, PASSWORD),
    ({"value": PASSWORD, "note": ["a", {"b": 1}], "name": "DB_PASSWORD", "order": 1}, PASSWORD),
    ({"field": "password", "value": PASSWORD}, PASSWORD),
    ({"ID": "api-key", "Value": TOKEN}, TOKEN),
    ({"label": "Client secret", "value": TOKEN}, TOKEN),
    ({"ParameterKey": "DbPassword", "ParameterValue": PASSWORD}, PASSWORD),
    ({"name": "password", "value": {"text": PASSWORD}}, PASSWORD),
    ({"name": "password", "value": {"kind": "plain", "data": {"value": PASSWORD}}}, PASSWORD),
    ({"value": ["x", PASSWORD], "name": "password"}, PASSWORD),
    ({"name": "Authorization", "x": 1, "value": "Bearer " + TOKEN}, TOKEN),
    ({"name": "SMTP_PASS", "x": 1, "value": PASSWORD}, PASSWORD),
    (["run", "--token", TOKEN], TOKEN),
    (["run", "-password", PASSWORD], PASSWORD),
    ({"headers": [["Accept", "*/*"], ["X-Api-Key", TOKEN]]}, TOKEN),
    ({"pass": PASSWORD}, PASSWORD),
    ({"user": "ana", "pass": "hunter" + "2"}, "hunter" + "2"),
    ({"db_pass": "hunter" + "2", "dbPass": "x"}, "hunter" + "2"),
    ({"password": WORDS}, WORDS),
]
STAYS: list[Any] = [
    {"value": TOKEN, "name": "commit"},
    {"name": "password", "value": "required", "x": 1},
    {"name": "max_tokens", "x": 1, "value": TOKEN},
    {"name": "password", "value": {"type": "string2", "schema": PASSWORD}},
    {"name": "password", "other": {"value": PASSWORD}},
    [{"name": "password"}, {"value": PASSWORD}],
    {"id": made(40, HEX), "value": made(40, HEX)},
    ["-p", PASSWORD],
    ["-p", "8080:80", "--tokenizer", TOKEN],
    ["password", "oauth2"],
    [["password", "oauth2", "token"], ["commit", TOKEN]],
    {"pass": 12, "fail": 3},
    {"pass": True, "bypass": PASSWORD, "compass": PASSWORD},
    {"pass": "test_login2", "first": "v1.2.3"},
    {"password": "must have 8 characters"},
    {"password": "Ask for OAuth2, don't guess: the 2nd is user-made."},
]


def id_of(case: Any) -> str:
    return json.dumps(case[0] if isinstance(case, tuple) else case)[:60]


@pytest.mark.parametrize("case", TOLD, ids=id_of)
def test_a_value_is_masked_wherever_its_name_stands(case: tuple[Any, str]) -> None:
    value, secret = case
    masked = mask_json(value)
    assert masked.secrets == 1
    assert secret not in json.dumps(masked.value)
    assert may_have_secret(json.dumps(value))


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("around", ["{}", "it said {} and went on", "5\" it's: {}", "x = [{}"])
@pytest.mark.parametrize("case", TOLD, ids=id_of)
def test_a_text_is_masked_as_the_value_that_it_writes(
    case: tuple[Any, str], around: str, indent: int | None
) -> None:
    value, secret = case
    text = around.replace("{}", json.dumps(value, indent=indent))
    assert secret not in mask(text).text
    assert mask(text).secrets == 1


@pytest.mark.parametrize("case", TOLD, ids=id_of)
@pytest.mark.parametrize("levels", [1, 2, 3])
def test_json_within_json_is_masked_too(case: tuple[Any, str], levels: int) -> None:
    text, secret = json.dumps(case[0]), case[1]
    for _ in range(levels):
        text = json.dumps({"arguments": text})
    assert secret not in mask(text).text
    assert may_have_form(json.dumps({"out": text}))


@pytest.mark.parametrize("value", STAYS, ids=id_of)
def test_what_no_name_tells_of_stays(value: Any) -> None:
    assert mask_json(value) == (value, 0)
    for text in (json.dumps(value), json.dumps(value, indent=2), repr(value)):
        assert mask(text) == (text, 0)


@pytest.mark.parametrize(
    "text",
    [
        "{'value': '%s', 'name': 'API_TOKEN'}",
        "{name: 'API_TOKEN', public: false, value: '%s'}",
        '{"name": "API_TOKEN", "x": 1, "value": "%s", "y": [1, 2',
        'CMD ["run", "--token", "%s"]',
        '-d "{\\"value\\": \\"%s\\", \\"name\\": \\"API_TOKEN\\"}"',
        '{\\"value\\": \\"%s\\", \\"name\\": \\"API_TOKEN\\"}',
    ],
)
def test_code_and_what_is_cut_off_are_masked_as_json_is(text: str) -> None:
    cut_off = text.endswith("2")  # its name and its value stand, and what tells of them does not
    assert (TOKEN in mask(text % TOKEN).text) == cut_off


@pytest.mark.parametrize(
    "text",
    [
        "let it pass: everything is fine",
        "Let them pass: hunter2 is no word",
        "pass: everything is fine in 2 of 3",
        "PASS: test_login2",
        "PASS: hunter2",
        "pass: test_login2",
        "pass: 123456",
        "pass: v1.2.3-rc4",
        "  pass: ./tests/login2.py",
        "bypass: a1b2c3d4",
        "    pass\nx: a1b2c3",
    ],
)
def test_pass_is_a_word_in_prose_and_in_reports_of_tests(text: str) -> None:
    assert mask(text) == (text, 0)


@pytest.mark.parametrize("text", ["pass: %s", "smtp:\n  user: ana\n  pass: %s\n", "- pass: '%s'"])
@pytest.mark.parametrize("secret", ["hunter" + "2", PASSWORD, made(16)])
def test_pass_names_a_password_at_the_begin_of_a_line(text: str, secret: str) -> None:
    assert mask(text % secret).text == text % "[masked:secret]"


MEGABYTE = 2**20
DEEP = '{"name":"token","value":[' * 31
HOSTILE = ["[", '["', '["\\"', '\\\\\\"{', '{"value": "', '["--token", ', '{"value":[', DEEP]


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_megabyte_of_brackets_and_quotes_takes_a_linear_time(piece: str) -> None:
    """Eight times the text takes about eight times as long; a quadratic pass takes 64 times."""
    tail = '"token", ' + '"token": "x"'  # that the look lets through
    times = []
    for size in (MEGABYTE // 8, MEGABYTE):
        text = piece * (size // len(piece)) + tail
        start = time.process_time()
        assert mask(text) == (text, 0)
        times.append(time.process_time() - start)
    assert times[1] < 8 * 4 * max(times[0], 0.05)


SIGNS = list("\"'\\{}[]:,\n- ")
TEXTS = st.sampled_from(
    [
        *SIGNS,
        *SIGNS,
        "name",
        "value",
        "pass",
        *NAMES,
        PASSWORD,
        TOKEN,
        *ORDINARY[:3],
        *KEYS.values(),
    ]
)


@settings(max_examples=150)
@given(st.lists(TEXTS | ODD_TEXTS, max_size=30).map("".join))
def test_masking_again_changes_nothing(text: str) -> None:
    masked = mask(text)
    assert mask(masked.text) == (masked.text, 0)
    assert masked.text.count("\n") == text.count("\n")
