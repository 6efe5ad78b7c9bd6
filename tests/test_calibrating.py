"""The calibration use case: what is stored and adopted, what is refused, and chunk sizes."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pools import a_question

from lastro.adoption import ProfileVersions
from lastro.beir import Passage, load_set
from lastro.calibrating import (
    Calibrated,
    CalibrationRequest,
    calibrate,
    choose,
)
from lastro.chunk_settings import ChunkSettings
from lastro.chunk_sweep import SweepRequest, chunk_settings, compared, sweep
from lastro.cli import main
from lastro.db.pool import Database
from lastro.documents import Pipeline
from lastro.embedders import fingerprint
from lastro.embedders.deterministic import DeterministicEmbedder
from lastro.errors import InvalidInput
from lastro.evaluation import PROJECT, store_passages
from lastro.golden import Answer, GoldenQuestion, dump_golden, golden_set
from lastro.indexing import index
from lastro.leg_cache import human_questions, set_hash
from lastro.places import FilePlace
from lastro.profiles import ADR_0080, DEFAULT, SHIPPED
from lastro.search import Engine, SearchRequest, search
from lastro.sources.files import FilePatterns
from lastro.types import IndexRequest
from lastro.writing import Writer

# fmt: off
WORDS = (
    "anchor", "ballast", "capstan", "deck", "ensign", "frigate", "galley",
    "halyard", "keel", "lantern", "mast", "netting", "oar", "pennant",
    "quay", "rudder", "sail", "tiller", "upperdeck", "vane", "winch",
    "yard", "zephyr", "bowsprit", "compass", "davit",
)
# fmt: on
# Vectors of the tests say nothing: a profile that trusts them alone finds by chance.
BLIND = replace(DEFAULT, name="blind", vector_weight=1.0, lexical_weight=0.0)


def text_of(word: str) -> str:
    return f"The {word} was mended in port before the winter storms came."


def questions(*, unanswerable: int = 6) -> list[GoldenQuestion]:
    answerable = [
        GoldenQuestion(
            id=word,
            question=f"When was the {word} mended?",
            language="en",
            answers=(Answer(place=FilePlace(path=f"docs/{word}.md")),),
        )
        for word in WORDS
    ]
    none = [
        GoldenQuestion(
            id=f"none{n}",
            question=f"Who taught grammar to prince number {n}?",
            language="en",
            answers=(),
            unanswerable=True,
        )
        for n in range(unanswerable)
    ]
    return [*answerable, *none]


def pipeline_of(embedder: DeterministicEmbedder) -> Pipeline:
    return Pipeline(chunking=ChunkSettings(), languages=("en",), embedder=fingerprint(embedder))


@pytest.fixture
def engine(app_database: Database, owner_url: str, embedder: DeterministicEmbedder) -> Engine:
    writer = Writer(
        database=app_database,
        admin_url=owner_url,
        embedder=embedder,
        pipeline=pipeline_of(embedder),
    )
    store_passages(
        writer,
        [Passage(f"docs/{word}.md", word.title(), text_of(word)) for word in WORDS],
        language="en",
        whole=False,
        progress=lambda _done: None,
    )
    return Engine(
        database=app_database,
        embedder=embedder,
        profiles={**SHIPPED, "blind": BLIND},
        languages=("en",),
    )


@pytest.fixture
def run(engine: Engine, owner_url: str, tmp_path: Path):
    def calibrated(golden: list[GoldenQuestion], **options) -> Calibrated:
        file = tmp_path / "ships.jsonl"
        file.write_text(dump_golden(golden_set("ships", tuple(golden))), encoding="utf-8")
        return calibrate(
            engine,
            CalibrationRequest(golden=(str(file),), settings=200, **options),
            project=PROJECT,
            pipeline=pipeline_of(engine.embedder),
            admin_url=owner_url,
            progress=lambda _done, _total: None,
        )

    return calibrated


def versions(engine: Engine) -> list[tuple[str, int, bool]]:
    known = ProfileVersions(
        database=engine.database,
        given=engine.profiles,
        project=PROJECT,
        embedder=engine.embedder.id,
    ).list()
    return [(k.profile.name, k.profile.version, k.adopted) for k in known]


def test_a_certain_gain_becomes_a_version_that_says_where_it_comes_from(run, engine) -> None:
    made = run(questions(), profile="blind")
    assert made.choice.recommended
    assert made.profile is not None
    assert made.profile.lexical_weight > 0
    assert (made.profile.name, made.profile.version) == ("blind", 2)
    assert (made.profile.calibrated, made.profile.embedder) == (True, "deterministic")
    for said in ("ships", "26 questions, 6 unanswerable", "seed 0", "blind v1", "Lastro"):
        assert said in made.profile.provenance
    assert ("blind", 2, False) in versions(engine)
    assert ("blind", 1, True) in versions(engine)


def test_it_answers_once_it_is_adopted(run, engine) -> None:
    made = run(questions(), profile="blind", adopt=True)
    assert made.adopted
    outcome = search(
        engine, SearchRequest(query="the mended keel", profile="blind"), project=PROJECT
    )
    assert (outcome.profile.version, outcome.profile.calibrated) == (2, True)


def test_another_name_starts_at_its_first_version(run) -> None:
    made = run(questions(), profile="blind", name="ships")
    assert made.profile is not None
    assert (made.profile.name, made.profile.version) == ("ships", 1)


def test_nothing_is_stored_where_nothing_is_certainly_better(run, engine) -> None:
    before = versions(engine)
    made = run(questions(unanswerable=0))
    assert made.choice.refusal is not None
    assert (made.profile, made.stored) == (None, False)
    assert made.thresholds is None
    assert "abstention was not measured" in (made.thresholds_kept or "")
    assert versions(engine) == before


def test_a_profile_without_evidence_thresholds_keeps_what_it_has() -> None:
    cached = [a_question(cosine=[0.5], coverage=[0.5], relevant={0: 1})] * 3
    _, thresholds, kept = choose(cached, ADR_0080, CalibrationRequest(golden=("x",), settings=5))
    assert thresholds is None
    assert "adr-0080 has no evidence thresholds" in (kept or "")


def test_questions_without_any_answer_cannot_calibrate() -> None:
    cached = [a_question(cosine=[0.5], coverage=[0.5], relevant={})]
    with pytest.raises(InvalidInput, match="no question has a judged answer"):
        choose(cached, DEFAULT, CalibrationRequest(golden=("x",)))


@pytest.mark.parametrize(
    "options",
    [{"precision": 1.5}, {"settings": 0}, {"name": "a@b"}, {"seed": -1}, {"name": "kb-rrf"}],
)
def test_what_makes_no_sense_is_refused(engine, owner_url, options) -> None:
    with pytest.raises(InvalidInput):
        calibrate(
            engine,
            CalibrationRequest(golden=("x",), **options),
            project=PROJECT,
            pipeline=pipeline_of(engine.embedder),
            admin_url=owner_url,
            progress=lambda _done, _total: None,
        )


def test_derived_questions_do_not_count_beside_human_ones() -> None:
    human, derived = questions()[0], replace(questions()[1], derived=True)
    kept, left_out = human_questions(golden_set("mixed", (human, derived)))
    assert ([q.id for q in kept.questions], left_out) == (["anchor"], 1)
    assert human_questions(golden_set("drafts", (derived,)))[1] == 0


# --- chunk sizes


def test_every_size_is_tried_once_and_the_current_one_first() -> None:
    request = SweepRequest(golden="x", target_chars=(200, 1200), overlap_chars=(0, 150))
    tried = chunk_settings(ChunkSettings(), request)
    # an overlap of 150 is more than half of 200
    assert [(c.target_chars, c.overlap_chars) for c in tried] == [(1200, 150), (200, 0), (1200, 0)]


@pytest.mark.parametrize(("target", "overlap"), [(0, 0), (-1, 0), (300, 400), (600, -1)])
def test_a_size_that_cannot_be_tried_is_refused_and_not_left_out(target, overlap) -> None:
    request = SweepRequest(golden="x", target_chars=(600, target), overlap_chars=(overlap,))
    with pytest.raises(InvalidInput):
        chunk_settings(ChunkSettings(), request)


def test_a_size_is_recommended_where_its_gain_is_certain() -> None:
    tried = [ChunkSettings(), ChunkSettings(target_chars=600), ChunkSettings(target_chars=900)]
    base = np.linspace(0, 0.5, 40, dtype=np.float32)
    noise = np.tile(np.array([0.2, -0.2], dtype=np.float32), 20)
    swept = compared(tried, [base, base + noise, base + 0.1], seed=0)
    assert swept.recommended is not None
    assert swept.recommended.target_chars == 900
    assert swept.sizes[1].interval.low < 0 < swept.sizes[1].interval.high
    assert compared(tried[:2], [base, base + noise], seed=0).recommended is None


def test_sizes_are_swept_over_the_projects_own_files(
    app_database, owner_url, embedder, tmp_path
) -> None:
    docs = tmp_path / "shelf" / "docs"
    docs.mkdir(parents=True)
    for word in WORDS[:6]:
        filler = "Nothing else happened on that watch, and nobody wrote it down. " * 20
        (docs / f"{word}.md").write_text(f"# {word.title()}\n\n{filler}\n\n{text_of(word)}\n")
    golden = tmp_path / "ships.jsonl"
    golden.write_text(dump_golden(golden_set("ships", tuple(questions()[:6]))))
    pipeline = pipeline_of(embedder)
    index(
        app_database,
        IndexRequest(path=tmp_path / "shelf", project="shelf", worktree=True),
        writer=Writer(
            database=app_database, admin_url=owner_url, embedder=embedder, pipeline=pipeline
        ),
        patterns=FilePatterns(),
        progress=lambda _done, _total: None,
    )
    swept = sweep(
        Engine(database=app_database, embedder=embedder, profiles=SHIPPED, languages=("en",)),
        SweepRequest(golden=str(golden), target_chars=(400,), overlap_chars=(0,)),
        project="shelf",
        pipeline=pipeline,
        patterns=FilePatterns(),
        admin_url=owner_url,
        progress=lambda _done, _total: None,
    )
    assert [(s.target_chars, s.overlap_chars) for s in swept.sizes] == [(1200, 150), (400, 0)]
    assert swept.questions == 6
    assert all(size.ndcg > 0.5 for size in swept.sizes)


# --- a folder, and the command


def a_folder(folder: Path) -> Path:
    folder.mkdir()
    corpus = [{"_id": word, "title": word, "text": text_of(word)} for word in WORDS]
    asked = [{"_id": f"q{word}", "text": f"when was the {word} mended"} for word in WORDS]
    for name, records in (("corpus", corpus), ("queries", asked)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    (folder / "qrels.tsv").write_text("".join(f"q{word}\t{word}\t1\n" for word in WORDS))
    return folder


def test_a_sets_hash_follows_its_content_and_not_its_order(tmp_path) -> None:
    data = load_set(a_folder(tmp_path / "ships"))
    again = replace(data, passages=tuple(reversed(data.passages)))
    other = replace(data, passages=data.passages[1:])
    assert set_hash(data) == set_hash(again) != set_hash(other)


@pytest.fixture
def command(owner_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setenv("LASTRO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LASTRO_DATABASE_URL", owner_url)
    monkeypatch.setenv("LASTRO_EMBEDDER", "deterministic")
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        code = main(["calibrate", *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_a_folder_is_calibrated_on_without_a_project(command, tmp_path) -> None:
    code, out, _ = command(
        str(a_folder(tmp_path / "ships")), "--settings", "60", "--format", "json"
    )
    said = json.loads(out)
    assert code == 0
    assert said["golden"][0]["name"] == "ships"
    assert said["golden"][0]["answerable"] == len(WORDS)
    assert {"gain", "interval", "refusal", "setting", "recommended"} <= said["ranking"].keys()
    assert (said["stored"], said["adopted"]) == (False, False)


def test_the_table_says_what_was_found(command, tmp_path) -> None:
    code, out, _ = command(str(a_folder(tmp_path / "ships")), "--settings", "60")
    assert code == 0
    assert "held out" in out
    assert "thresholds kept: abstention was not measured" in out


def test_what_a_project_tells_of_itself_needs_no_golden_set(command, tmp_path) -> None:
    docs = tmp_path / "shelf" / "docs"
    docs.mkdir(parents=True)
    for word in WORDS:
        (docs / f"{word}.md").write_text(f"# {word.title()}\n\n{text_of(word)}\n")
    assert main(["index", str(tmp_path / "shelf"), "--worktree", "--project", "shelf"]) == 0
    code, out, _ = command("--self", "--project", "shelf")
    assert code == 0
    assert "agreement" in out


@pytest.mark.parametrize("words", [["x.jsonl", "--self"], []])
def test_a_golden_set_and_self_exclude_each_other_and_one_is_needed(command, words) -> None:
    code, _, err = command(*words)
    assert code == 2
    assert "--self" in err


@pytest.mark.parametrize("words", [["--chunking"], ["--precision", "0.9"], ["--name", "mine"]])
def test_what_self_cannot_do_is_refused_and_not_passed_over(command, words) -> None:
    code, _, err = command("--self", *words)
    assert code == 2
    assert words[0] in err


def test_sizes_without_the_sweep_are_refused(command) -> None:
    code, _, err = command("x.jsonl", "--target", "500")
    assert code == 2
    assert "--chunking" in err
