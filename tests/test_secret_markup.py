"""Secrets in YAML and XML are masked, and what only looks like them is not."""

import json
import time

import pytest
from test_masking import made

from lastro.masking import mask, mask_json, may_have_secret

PASSWORD = "S3nh" + "@Forte!9"
WORDS = "S3nh" + "@ da 4na"
TOKEN = made(30)

TOLD = [
    ("- name: DB_PASSWORD\n  value: %s\n", PASSWORD),
    ("- name: DB_PASSWORD\n  value: '%s'\n", WORDS),
    ("- value: %s\n  name: DB_PASSWORD\n", PASSWORD),
    ("- value: %s\n  name: DB_PASSWORD", PASSWORD),
    ("env:\n  - name: A\n    value: b\n  - name: API_TOKEN # x\n    x: 1\n    value: %s\n", TOKEN),
    ("- name: 'API_TOKEN'\n  secure:\n    - yes\n  value: \"%s\" # set by ana\n", TOKEN),
    ("- name: DB_PASSWORD\r\n  x: 1\r\n  value: %s\r\n", PASSWORD),
    ("- ParameterKey: DbPassword\n  UsePreviousValue: no\n  ParameterValue: %s\n", PASSWORD),
    ("- key: DB_PASSWORD\n  x: 1\n  value: |\n    %s\n", PASSWORD),
    ("password: |\n  %s\n", PASSWORD),
    ("db:\n  password: >-\n\n    %s\n  host: x\n", PASSWORD),
    ("password: |\n  %s", WORDS),
    ('password: "%s"\n', WORDS),
    ("db:\n  password: '%s' # by ana\n", WORDS),
    ("<password>%s</password>", PASSWORD),
    ("<password>%s</password>", WORDS),
    ("<cfg:apiKey type='x'>\n  %s\n</cfg:apiKey>", TOKEN),
    ("<client-secret><![CDATA[%s]]></client-secret>", TOKEN),
    ("<pass>%s</pass>", PASSWORD),
    ('<add key="ApiKey" value="%s"/>', TOKEN),
    ('<add value="%s" key="ApiKey" />', TOKEN),
    ("<add key='ApiKey' comment='x > y' value='%s'></add>".replace(" > ", " "), TOKEN),
    ('<property name="db.password"\n  x="1" value="%s">', PASSWORD),
]


@pytest.mark.parametrize(("text", "secret"), TOLD)
def test_a_secret_in_yaml_and_xml_is_masked_and_all_else_stays(text: str, secret: str) -> None:
    assert mask(text % secret) == (text % "[masked:secret]", 1)


@pytest.mark.parametrize(("text", "secret"), TOLD)
def test_so_it_is_in_the_texts_of_a_payload(text: str, secret: str) -> None:
    payload = {"out": text % secret, "again": json.dumps({"file": text % secret})}
    assert may_have_secret(json.dumps(payload, ensure_ascii=False))
    masked = mask_json({"out": text % secret})
    assert masked == ({"out": text % "[masked:secret]"}, 1)


@pytest.mark.parametrize(
    "text",
    [
        f"- name: COMMIT\n  value: {TOKEN}\n",
        f"- name: DB_PASSWORD\n- value: {PASSWORD}\n",
        f"name: token\nIt was asked for, and then came this\nvalue: {TOKEN}\n",
        "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef:\n      name: db2\n      key: pass2\n",
        "- name: DB_PASSWORD\n  x: 1\n  value: ${DB_PASSWORD2}\n",
        "password: |\n  must have 8 characters\nname: v2beta1\n",
        "password: |\nuser2name: x9y8z7\n",
        'password: "must have 8 characters"\n',
        'password: "at least 1 of them, e.g. user-made, and/or OAuth2"\n',
        "<password>required</password>",
        "<password>must have 8 characters</password>",
        "<token>TokenV2Response</token>",
        "<bypass>a1b2c3d4</bypass>",
        "lastro keys create <token> and then </b>",
        '<input name="password" type="password" value="Sign in" id="x2y2z2">',
        f'<add key="Commit" value="{TOKEN}"/>',
        f'<a key="ApiKey"/><b value="{TOKEN}"/>',
    ],
)
def test_what_is_told_by_nothing_stays(text: str) -> None:
    assert mask(text) == (text, 0)


MEGABYTE = 2**20
HOSTILE = ["password: |\n", "- ", " ", "- name: token\n", "<password>", "<a b='", "a='",
           "value: |\n name: token\n", "password: '", "pass: "]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_megabyte_of_markup_takes_a_linear_time(piece: str) -> None:
    """Eight times the text takes about eight times as long; a quadratic pass takes 64 times."""
    times = []
    for size in (MEGABYTE // 8, MEGABYTE):
        text = piece * (size // len(piece)) + "\nname: token\n<token>x</token>"
        start = time.process_time()
        assert mask(text) == (text, 0)
        times.append(time.process_time() - start)
    assert times[1] < 8 * 4 * max(times[0], 0.05)


def test_lines_that_are_ever_deeper_take_a_linear_time() -> None:
    text = "".join(f"{' ' * deep}password: |\n" for deep in range(1_400))
    start = time.process_time()
    assert mask(text) == (text, 0)
    assert time.process_time() - start < 20
