"""Addresses of remote repositories: what is one, what is refused, and what is kept of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastro.errors import InvalidInput
from lastro.sources.addresses import parse_address


@pytest.mark.parametrize(
    ("text", "protocol", "name"),
    [
        ("https://forge.example/harbour/tides.git", "https", "tides"),
        ("https://forge.example:8443/harbour/tides", "https", "tides"),
        ("https://forge.example/harbour/tides/", "https", "tides"),
        ("http://[::1]:8080/tides.git", "http", "tides"),
        ("ssh://git@forge.example:2222/harbour/tides.git", "ssh", "tides"),
        ("git@forge.example:harbour/tides.git", "ssh", "tides"),
        ("forge.example:tides.git", "ssh", "tides"),
        ("file:///srv/git/tides.git", "file", "tides"),
        ("https://forge.example/harbour/mar%C3%A9s.git", "https", "marés"),
    ],
)
def test_an_address_has_a_protocol_and_a_name(text: str, protocol: str, name: str) -> None:
    found = parse_address(text)
    assert found is not None
    assert (found.protocol, found.name) == (protocol, name)


@pytest.mark.parametrize("text", [".", "docs", "/srv/a:b", "./a:b", "C:\\notes", "C:/notes", "a b"])
def test_a_path_is_no_address(text: str) -> None:
    assert parse_address(text) is None


def test_one_repository_has_one_spelling() -> None:
    texts = ("https://Forge.Example/Harbour/tides", "https://forge.example/Harbour/tides/")
    urls = {found.url for text in texts if (found := parse_address(text))}
    assert urls == {"https://forge.example/Harbour/tides"}


@pytest.mark.parametrize(
    "text",
    [
        "https://ana:s3cret@forge.example/tides.git",
        "https://s3cret@forge.example/tides.git",
        "http://s3cret@forge.example/tides.git",
        "ssh://git:s3cret@forge.example/tides.git",
        "git:s3cret@forge.example:tides.git",
        "https://forge.example/tides.git?private_token=s3cret",
        "https://forge.example/tides.git#s3cret",
        "https://ana:s3cret/x@forge.example/tides.git",
    ],
)
def test_a_secret_in_an_address_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse_address(text)
    assert "s3cret" not in f"{raised.value.message} {raised.value.remedy}"


@pytest.mark.parametrize(
    "text",
    [
        "ext::sh -c 'touch owned'",
        "fd::17",
        "git://forge.example/tides.git",
        "ftp://forge.example/tides.git",
        "ssh://-oProxyCommand=touch${IFS}owned/tides",
        "-oProxyCommand=touch:tides",
        "ssh://git@-oProxyCommand=x/tides",
        "git@-oProxyCommand=x:tides",
        "ssh://-l@forge.example/tides",
        "git@forge.example:--upload-pack=touch",
        "https://forge.example/tides\n--upload-pack=touch",
        "https://forge.example/ti des",
        "https://forge.example",
        "https://forge.example/..",
        "https:///tides",
        "https://for$ge/tides",
        "file://elsewhere/tides",
        "file://tides",
        "https://forge.example:port/tides",
    ],
)
def test_what_may_name_a_program_or_nothing_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="not an address"):
        parse_address(text)


@given(st.text(max_size=60), st.sampled_from(["https://", "ssh://", "git@", "file:///", ""]))
def test_any_text_is_an_address_a_path_or_refused(text: str, lead: str) -> None:
    try:
        found = parse_address(lead + text)
    except InvalidInput:
        return
    if found is not None:
        assert not found.url.startswith("-")
        assert found.url.isprintable()
        assert "@" not in found.origin
        assert found.name.strip("./ ")
