"""Settings from the environment and from ``lastro.toml``: what is taken and what is refused."""

from pathlib import Path

import pytest

from lastro.config import load_settings
from lastro.errors import ConfigError
from lastro.ollama_settings import OllamaSettings


def settings_of(folder: Path, text: str = "", **environ: str):
    (folder / "lastro.toml").write_text(text, encoding="utf-8")
    return load_settings(environ, folder=folder)


def test_the_environment_wins_over_the_file_and_the_file_over_the_default(tmp_path) -> None:
    settings = settings_of(
        tmp_path, 'embedder = "deterministic"\nproject = "one"\n', LASTRO_PROJECT="two"
    )
    assert (settings.embedder, settings.project) == ("deterministic", "two")
    assert settings.origins["embedder"] == str(tmp_path / "lastro.toml")
    assert settings.origins["project"] == "environment"


def test_sections_of_the_file_are_taken(tmp_path) -> None:
    text = '[chunking]\ntarget_chars = 600\n[files]\ndocs = ["handbook/**"]\nwhole_tree = false\n'
    settings = settings_of(tmp_path, text)
    assert settings.chunking.target_chars == 600
    assert (settings.files.docs, settings.files.whole_tree) == (("handbook/**",), False)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("home = 3", "home"),
        ("postgres_bin = 3", "postgres_bin"),
        ("embedder = 3", "embedder"),
        ("idle_stop_s = nan", "idle_stop_s"),
        ("idle_stop_s = inf", "idle_stop_s"),
        ("idle_stop_s = true", "idle_stop_s"),
        ("chunking = 3", "chunking"),
        ('[chunking]\ntarget_chars = "600"', "target_chars"),
        ("[chunking]\ntarget_chars = 600.5", "target_chars"),
        ("[chunking]\nwindow_chars = true", "window_chars"),
        ("[chunking]\ntarget = 600", "target"),
        # a text would be read letter by letter, each a pattern
        ('[files]\ndocs = "docs/**"', "docs"),
        ("[files]\nadr = [1]", "adr"),
        ("[files]\ndocs = []", "docs"),
        ('[files]\nmax_bytes = "1 MB"', "max_bytes"),
        ('[files]\nwhole_tree = "no"', "whole_tree"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_by_its_name(tmp_path, text: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        settings_of(tmp_path, text)


def test_a_language_that_iso_639_1_does_not_have_is_refused(tmp_path) -> None:
    with pytest.raises(ConfigError, match="'xx'"):
        settings_of(tmp_path, LASTRO_LANGUAGES="en,xx")


def test_a_language_without_a_configuration_of_postgresql_is_taken(tmp_path) -> None:
    assert settings_of(tmp_path, LASTRO_LANGUAGES="ko,en").languages == ("ko", "en")


# --- Ollama


def test_the_table_of_ollama_is_taken_and_the_environment_wins(tmp_path) -> None:
    text = '[ollama]\nquery_timeout_s = 3\nbatch_texts = 8\nkeep_alive = "1h"\n'
    (tmp_path / "lastro.toml").write_text(text)
    env = {"LASTRO_OLLAMA_BATCH_TEXTS": "16", "LASTRO_OLLAMA_RETRY_AFTER_S": "2.5"}
    settings = load_settings(env, folder=tmp_path)
    assert settings.ollama == OllamaSettings(
        query_timeout_s=3, batch_texts=16, keep_alive="1h", retry_after_s=2.5
    )
    assert settings.origins["ollama.batch_texts"] == "environment"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("QUERY_TIMEOUT_S", "soon"),
        ("QUERY_TIMEOUT_S", "0"),
        ("QUERY_TIMEOUT_S", "inf"),
        ("BATCH_TEXTS", "0"),
        ("BATCH_TEXTS", "1.5"),
    ],
)
def test_a_number_of_ollama_that_is_none_is_refused(tmp_path, variable: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"(?i){variable}"):
        load_settings({f"LASTRO_OLLAMA_{variable}": value}, folder=tmp_path)


def test_a_key_of_ollama_that_is_unknown_is_refused(tmp_path) -> None:
    (tmp_path / "lastro.toml").write_text("[ollama]\ntimeout = 3\n")
    with pytest.raises(ConfigError, match=r"\[ollama\].*timeout"):
        load_settings({}, folder=tmp_path)


@pytest.mark.parametrize(
    ("env", "host"),
    [
        ({}, "file"),
        ({"OLLAMA_HOST": "env"}, "env"),
        ({"OLLAMA_HOST": "env", "LASTRO_OLLAMA_HOST": "own"}, "own"),
    ],
)
def test_the_address_of_ollama_comes_from_the_environment_first(tmp_path, env, host) -> None:
    (tmp_path / "lastro.toml").write_text('ollama_host = "file"\n')
    assert load_settings(env, folder=tmp_path).ollama_host == host
