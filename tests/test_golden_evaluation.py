"""Golden sets asked on a project: judged by place, stored, compared, watched, and demanded of."""

import json
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import pytest
from repositories import commit

from lastro.cli import main
from lastro.embedders.deterministic import DeterministicEmbedder
from lastro.embedders.protocol import Role
from lastro.errors import ProviderError
from lastro.golden_evaluation import answer_ranks, levels
from lastro.profiles import ADR_0080, DEFAULT, KB_RRF, Thresholds

FILES = {
    "docs/ropes.md": "# Ropes\n\nMooring ropes.\n\n## Hemp\n\nHemp was replaced by nylon.\n\n"
    "## Knots\n\nA bowline holds and is easily untied.\n",
    "docs/tides.md": "# Tides\n\nThe moon pulls the sea twice a day.\n",
    "docs/adr/0001-pilots.md": "# 1. Pilots board by boat\n\n## Status\n\nAccepted\n\n"
    "## Decision\n\nPilots board from a cutter.\n",
}
# Words alone decide here: the embedder knows no meaning. Nothing is said of zeppelins.
QUESTIONS = [
    {"id": "moon", "question": "moon sea", "language": "en", "difficulty": "easy",
     "answers": [{"path": "docs/tides.md"}]},
    {"id": "knot", "question": "bowline", "language": "en",
     "answers": [{"path": "docs/ropes.md", "heading": "Knots"}]},
    {"id": "cutter", "question": "cutter", "language": "pt",
     "answers": [{"path": "docs/adr/0001-pilots.md", "heading": "Decision"}]},
    {"id": "gone", "question": "hemp nylon", "language": "en",
     "answers": [{"path": "docs/cranes.md"}]},
    {"id": "none", "question": "zeppelin", "language": "en", "unanswerable": True},
]  # fmt: skip


class Command:
    """The command line over an indexed harbour."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys
        self.err = ""

    def __call__(self, *words: str, code: int = 0) -> str:
        ended = main(list(words))
        said = self._capsys.readouterr()
        self.err = said.err
        assert ended == code, said.err
        return said.out

    def json(self, *words: str, code: int = 0):
        return json.loads(self(*words, "--format", "json", code=code))

    def golden(self, questions: Sequence[dict] = QUESTIONS) -> str:
        path = self.folder / "harbour.jsonl"
        path.write_text("".join(f"{json.dumps(q)}\n" for q in questions), encoding="utf-8")
        return str(path)


@pytest.fixture
def command(owner_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> Command:
    monkeypatch.setenv("LASTRO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LASTRO_DATABASE_URL", owner_url)
    monkeypatch.setenv("LASTRO_EMBEDDER", "deterministic")
    commit(tmp_path / "harbour", FILES)
    monkeypatch.chdir(tmp_path / "harbour")
    made = Command(tmp_path, capsys)
    made("index", ".")
    return made


def by_id(report: dict) -> dict[str, dict]:
    return {result["id"]: result for result in report["results"]}


# --- what is judged


def test_an_answers_chunks_are_one_unit_that_stands_where_the_first_does() -> None:
    a, b, c, d = (UUID(int=n) for n in range(4))
    # b and d are chunks of answer 0, c one of answer 1: units a, 0, 1
    assert answer_ranks([a, b, c, d], {b: 0, d: 0, c: 1}) == {0: 2, 1: 3}


def test_ranks_count_to_a_hundred() -> None:
    ids = [UUID(int=n) for n in range(102)]
    assert answer_ranks(ids, {ids[99]: 0, ids[100]: 1}) == {0: 100}


@pytest.mark.parametrize("profile", [DEFAULT, ADR_0080, KB_RRF], ids=lambda p: p.name)
def test_a_curve_begins_where_everything_passes(profile) -> None:
    threshold = levels(profile)[0.0].threshold
    numbers = (
        {threshold.both, threshold.vector_only, threshold.lexical_only}
        if isinstance(threshold, Thresholds)
        else {threshold}
    )
    assert numbers == {0}


def test_the_profiles_own_threshold_is_a_level_of_its_curve() -> None:
    assert levels(DEFAULT)[1.0] == DEFAULT
    assert levels(ADR_0080)[1.0] == ADR_0080


def test_places_are_judged_and_what_is_not_indexed_is_listed(command: Command) -> None:
    report = command.json("eval", "run", command.golden())
    results = by_id(report)
    assert [results[id_]["answers"][0]["rank"] for id_ in ("moon", "knot", "cutter")] == [1, 1, 1]
    assert results["gone"]["answers"][0] == {
        "place": "docs/cranes.md", "grade": 1, "rank": None, "indexed": False, "merged": False
    }  # fmt: skip
    assert report["notIndexed"] == [{"id": "gone", "place": "docs/cranes.md"}]
    # three of four answers are found at rank 1
    assert report["figures"]["figures"]["success@1"]["value"] == 3 / 4
    assert "1 judged answers are not in the index" in command.err


def test_hits_are_those_of_a_search_and_judged_alike(command: Command) -> None:
    report = command.json("eval", "run", command.golden(), "-k", "3")
    hits = command.json("search", "bowline", "-k", "3")["hits"]
    shown = by_id(report)["knot"]["hits"]
    assert [hit["place"] for hit in shown] == [
        f"{h['origin']['sourcePath']}:{h['origin']['lineStart']}-{h['origin']['lineEnd']}"
        for h in hits
    ]
    assert shown[0]["grade"] == 1


def test_the_curve_at_the_profiles_threshold_counts_what_was_shown(command: Command) -> None:
    report = command.json("eval", "run", command.golden())
    (own,) = [point for point in report["curve"] if point["level"] == 1]
    shown = [result["hits"] for result in report["results"]]
    assert own["hits"] == sum(map(len, shown))
    assert own["rightHits"] == sum(hit["grade"] > 0 for hits in shown for hit in hits)
    assert own["answered"] == sum(bool(hits) for hits in shown)


def test_groups_are_by_language_scope_and_difficulty(command: Command) -> None:
    report = command.json("eval", "run", command.golden())
    groups = {(group["by"], group["name"]): group["questions"] for group in report["groups"]}
    assert groups[("scope", "adr")] == 1
    # the file that is not indexed has no scope
    assert groups[("scope", "docs")] == 2
    assert (groups[("language", "pt")], groups[("difficulty", "easy")]) == (1, 1)


def test_a_filter_is_asked_with(command: Command) -> None:
    question = {**QUESTIONS[0], "filter": {"scopes": ["adr"]}}
    report = command.json("eval", "run", command.golden([question]))
    assert by_id(report)["moon"]["answers"][0]["rank"] is None


def test_a_run_says_all_that_is_needed_to_repeat_it(command: Command) -> None:
    report = command.json("eval", "run", command.golden(), "--seed", "5", "--profile", "kb-rrf")
    head = command.json("coverage")["revision"]
    assert (report["profileName"], report["profile"]["fusion"]) == ("kb-rrf", "rrf")
    assert (report["golden"]["name"], len(report["golden"]["contentHash"])) == ("harbour", 64)
    assert (report["seed"], report["k"]) == (5, 10)
    assert [source["revision"] for source in report["corpus"]["sources"]] == [head]
    assert report["corpus"]["sources"][0]["indexedAt"]
    assert report["embedder"].startswith("deterministic")
    assert {"pipeline", "chunking", "version", "startedAt"} <= report.keys()


def test_an_embedder_that_fails_degrades_the_run_and_is_warned_of(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dead(self: object, texts: Sequence[str], role: Role):
        raise ProviderError("nobody answers", reason="embedder_unreachable")

    monkeypatch.setattr(DeterministicEmbedder, "embed", dead)
    report = command.json("eval", "run", command.golden())
    assert report["degraded"]["embedder_unreachable"] == len(QUESTIONS)
    assert "embedder_unreachable in 5 of 5 searches" in command.err


# --- a set by name, and the doors


def test_an_imported_set_is_asked_by_its_name(command: Command) -> None:
    command("golden", "import", command.golden(), "--name", "port")
    assert command.json("eval", "run", "port")["golden"]["name"] == "port"


def test_a_run_of_a_file_that_was_not_imported_says_so(command: Command) -> None:
    file = command.golden()
    assert "read from a file that the project has not imported" in command("eval", "run", file)
    command("golden", "import", file)
    assert "has not imported" not in command("eval", "run", file)


def test_a_set_that_is_not_there_is_not_found(command: Command) -> None:
    command("eval", "run", "nowhere", code=4)
    command("eval", "run", "nowhere.jsonl", code=4)
    assert "nowhere.jsonl" in command.err


@pytest.mark.parametrize(
    "words",
    [["-k", "0"], ["--profile", "mine"], ["--fail-below", "ndcg=1"], ["--seed", "-1"]],
)
def test_a_request_that_cannot_be_met_is_wrong_input(command: Command, words: list[str]) -> None:
    command("eval", "run", command.golden(), *words, code=2)
    assert command.json("eval", "runs") == {"runs": []}


def test_a_demand_that_is_not_met_ends_with_1_after_the_report(command: Command) -> None:
    words = ["eval", "run", command.golden(), "--fail-below", "success@1=0.9"]
    report = command.json(*words, "--fail-below", "mrr=0.1", code=1)
    assert report["number"] == 1
    failed = [line for line in command.err.splitlines() if line.startswith("failed")]
    assert failed == ["failed: success@1 is 0.7500, below 0.9"]


def test_every_format_goes_to_stdout_or_to_a_file(command: Command, tmp_path: Path) -> None:
    command("eval", "run", command.golden())
    for format_, said in (("table", "nDCG@10"), ("markdown", "## Ranking"), ("html", "<svg")):
        out = tmp_path / f"report.{format_}"
        printed = command("eval", "show", "1", "--format", format_)
        assert command("eval", "show", "1", "--format", format_, "--out", str(out)) == ""
        assert said in printed
        assert out.read_text(encoding="utf-8") == printed


def test_a_report_that_cannot_be_written_is_wrong_input(command: Command, tmp_path: Path) -> None:
    command("eval", "run", command.golden(), "--out", str(tmp_path / "no" / "r.md"), code=2)


# --- runs, kept and compared


def test_runs_are_listed_shown_and_compared_by_number_or_file(
    command: Command, tmp_path: Path
) -> None:
    golden, file = command.golden(), tmp_path / "second.json"
    command("eval", "run", golden)
    words = ["--profile", "kb-rrf", "--format", "json", "--out", str(file)]
    command("eval", "run", golden, *words)
    assert [run["number"] for run in command.json("eval", "runs")["runs"]] == [2, 1]
    assert command.json("eval", "show", "2") == json.loads(file.read_text(encoding="utf-8"))
    by_number, by_file = (command.json("eval", "compare", "1", b) for b in ("2", str(file)))
    assert by_number["differences"] == by_file["differences"]
    assert any("fusion" in change for change in by_number["changed"])
    # kb-rrf has no threshold: what nothing answers is answered
    (refused,) = [d for d in by_number["differences"] if d["measure"] == "refused"]
    assert (refused["before"], refused["after"]) == (1, 0)


def test_files_are_compared_without_a_database(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(tmp_path / "run.json")
    command("eval", "run", command.golden(), "--format", "json", "--out", file)
    monkeypatch.setenv("LASTRO_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    assert command.json("eval", "compare", file, file)["worse"] == []
    assert "moon sea" in command("eval", "show", file, "--format", "html")


@pytest.mark.parametrize(("name", "code"), [("99", 4), ("99999999999", 4), ("no.json", 4)])
def test_a_run_that_is_not_there_is_not_found(command: Command, name: str, code: int) -> None:
    command("eval", "show", name, code=code)


def test_a_file_that_is_no_run_is_refused(command: Command, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}", encoding="utf-8")
    command("eval", "show", str(tmp_path / "x.json"), code=2)
    (tmp_path / "y.json").write_text("{", encoding="utf-8")
    command("eval", "show", str(tmp_path / "y.json"), code=2)


def test_runs_of_another_project_are_not_seen(command: Command) -> None:
    command("eval", "run", command.golden())
    command("index", ".", "--project", "other")
    assert command.json("eval", "runs", "--project", "other") == {"runs": []}


# --- watching


def test_a_set_is_asked_again_only_after_a_change(command: Command) -> None:
    golden = command.golden()
    assert "run 1 is the first" in command("eval", "watch", golden)
    assert command("eval", "watch", golden) == "nothing changed since run 1\n"
    assert len(command.json("eval", "runs")["runs"]) == 1
    assert command.json("eval", "watch", golden, "--force")["changed"] == []
    commit(Path.cwd(), {"docs/tides.md": "# Tides\n\nNothing of note.\n"})
    command("index", ".")
    found = command.json("eval", "watch", golden)
    assert any("revision" in change for change in found["changed"])
    assert [moved["id"] for moved in found["worse"]] == ["moon"]
    # one question of four could be chance
    assert found["gotWorse"] is False


def test_a_run_without_its_embedder_is_repeated_though_nothing_changed(command: Command) -> None:
    def dead(self: object, texts: Sequence[str], role: Role):
        raise ProviderError("nobody answers", reason="embedder_unreachable")

    golden = command.golden()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DeterministicEmbedder, "embed", dead)
        command("eval", "run", golden)
    assert command.json("eval", "watch", golden)["after"] == "run 2"
    assert command("eval", "watch", golden) == "nothing changed since run 2\n"


def test_a_changed_set_is_a_change(command: Command) -> None:
    command("eval", "watch", command.golden())
    found = command.json("eval", "watch", command.golden(QUESTIONS[:2]))
    assert found["missingAfter"] == ["cutter", "gone", "none"]


def test_what_got_worse_for_sure_ends_with_1(command: Command) -> None:
    words = ["anchor", "buoy", "capstan", "davit", "ensign", "fender", "gangway", "hawser", "jib",
             "keel", "lanyard", "mast"]  # fmt: skip
    # a file's name is searched too
    pages = {f"docs/{n}.md": f"# Page\n\nOf the {word}.\n" for n, word in enumerate(words)}
    questions = [
        {"id": word, "question": word, "language": "en", "answers": [{"path": f"docs/{n}.md"}]}
        for n, word in enumerate(words)
    ]
    commit(Path.cwd(), pages)
    command("index", ".")
    command("eval", "watch", command.golden(questions))
    commit(Path.cwd(), dict.fromkeys(pages, "# Page\n\nBlank.\n"))
    command("index", ".")
    found = command.json("eval", "watch", command.golden(questions), code=1)
    assert found["gotWorse"] is True
    assert len(found["worse"]) == len(words)
