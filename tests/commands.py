"""Commands in a folder, run in this process as from there."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lastro.cli import main
from lastro.errors import EXIT_DONE

Run = Callable[..., tuple[int, str, str]]


def in_folder(
    folder: Path,
    *,
    home: Path,
    owner_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    project: str | None = None,
) -> Run:
    """What runs a command in ``folder``, for ``project`` by default: its code, data and messages.

    What the command reads of its environment holds for the rest of the test.
    """
    monkeypatch.chdir(folder)
    monkeypatch.setenv("LASTRO_HOME", str(home))
    monkeypatch.setenv("LASTRO_DATABASE_URL", owner_url)
    monkeypatch.setenv("LASTRO_EMBEDDER", "deterministic")
    if project is not None:
        monkeypatch.setenv("LASTRO_PROJECT", project)

    def call(*words: str) -> tuple[int, str, str]:
        code = main(words)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def indexed(
    folder: Path,
    *,
    owner_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Index ``folder``, which is a repository; what is returned runs a command there."""
    home = folder.parent / "home"
    call = in_folder(folder, home=home, owner_url=owner_url, monkeypatch=monkeypatch, capsys=capsys)
    assert call("index", ".")[0] == EXIT_DONE
    return call
