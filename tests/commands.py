"""Commands in an indexed repository, run in this process as from its folder."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lastro.cli import main
from lastro.errors import EXIT_DONE

Run = Callable[..., tuple[int, str, str]]


def indexed(
    folder: Path,
    *,
    owner_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Index ``folder``; what is returned runs a command there: its code, data and messages."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("LASTRO_HOME", str(folder.parent / "home"))
    monkeypatch.setenv("LASTRO_DATABASE_URL", owner_url)
    monkeypatch.setenv("LASTRO_EMBEDDER", "deterministic")

    def call(*words: str) -> tuple[int, str, str]:
        code = main(words)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    assert call("index", ".")[0] == EXIT_DONE
    return call
