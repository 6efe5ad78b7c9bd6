"""The self-calibration use case: how far a project's vectors know its own texts, and what follows.

It costs the embedding of 64 sentences and 64 lexical searches, about a second, so the first index
run does it too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lastro import adoption, store
from lastro.db.pool import AppConnection, Database
from lastro.embedders import Embedder, fingerprint
from lastro.embedding import embed_texts, require_space
from lastro.filters import HardFilter, compile_filter
from lastro.legs import read_query, run_lexical_leg
from lastro.profiles import DEFAULT, Profile
from lastro.projects import project_id_of
from lastro.search import Engine
from lastro.store import SampledRow, SelfCheck
from lastro.trust import LEAST_ROWS, agreement, sentence_of, trust, trusted

# Spread of the estimate over draws is .05 with this many. Source: docs/adr/0020.
QUESTIONS = 64
# Rows among which neighbours are sought.
POOL_ROWS = 2_000
# Rows by words that are held against the rest, at most; a question with fewer is passed over.
NEAREST = 10
LEAST_NEAREST = 3
# Growth of a project after which it is looked at again.
GROWTH = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfCalibration:
    """What was found, and the profile that follows; None where nothing can be told.

    ``base`` is the profile that it starts from. The one that follows is not stored yet.
    """

    check: SelfCheck
    base: Profile
    profile: Profile | None


def self_calibrate(engine: Engine, *, project: str) -> SelfCalibration:
    """Look at the project's texts; keeps what was found, and changes no profile.

    The same rows give the same result. Errors: NotFound for the project.
    """
    project_id = project_id_of(engine.database, project)
    check = _look(
        engine.database, engine.embedder, project_id=project_id, languages=engine.languages
    )
    with engine.database.transaction(projects=[project_id]) as connection:
        store.save_check(connection, check, project_id=project_id)
    base = engine.profiles[DEFAULT.name]
    if check.trust is None:
        return SelfCalibration(check=check, base=base, profile=None)
    provenance = (
        f"estimated from the project's own texts: agreement {check.agreement:.2f} of "
        f"{check.questions} sentences among {check.row_count} passages, so {check.trust:.0%} of "
        f"the vector weight of {base.name} v{base.version}; {check.embedder}; docs/adr/0020"
    )
    return SelfCalibration(
        check=check, base=base, profile=trusted(base, check.trust, provenance=provenance)
    )


def watch_over(engine: Engine, *, project: str) -> None:
    """After an index run: look where nobody has, or much is new, or the embedder is another.

    Where the vectors deserve less than their whole weight, the profile that follows is stored and
    adopted, and taken back when they deserve it again; a version that somebody else adopted stays.
    """
    project_id = project_id_of(engine.database, project)
    with engine.database.transaction(projects=[project_id]) as connection:
        if store.vector_dimension(connection) is None:
            return
        last = store.last_check(connection, project_id)
        rows = store.count_chunks(connection, project_id)
    known = 0 if last is None or last.embedder != fingerprint(engine.embedder) else last.row_count
    if known and min(rows, POOL_ROWS) < GROWTH * known:
        return
    found = self_calibrate(engine, project=project)
    _follow(engine.database, found, project=project, project_id=project_id)


def _follow(database: Database, found: SelfCalibration, *, project: str, project_id: int) -> None:
    with database.transaction(projects=[project_id]) as connection:
        numbers = store.ranking_numbers(connection, found.base.name, project_id=project_id)
    adopted = numbers.body
    if numbers.chosen and (adopted is None or adopted["calibrated"] != "self"):
        return
    if found.profile is None or found.check.trust == 1:
        if adopted is not None:
            with database.transaction(projects=[project_id]) as connection:
                store.adopt_profile(
                    connection,
                    found.base.name,
                    version=None,
                    project_id=project_id,
                    by_itself=True,
                )
        return
    saved = adoption.save(database, found.profile, project=project, after=found.base.version)
    with database.transaction(projects=[project_id]) as connection:
        store.adopt_profile(
            connection,
            saved.name,
            version=saved.version,
            project_id=project_id,
            by_itself=True,
        )


def _look(
    database: Database, embedder: Embedder, *, project_id: int, languages: Sequence[str]
) -> SelfCheck:
    with database.transaction(projects=[project_id]) as connection:
        rows: list[SampledRow] = []
        if store.vector_dimension(connection) is not None:
            rows = store.sample_rows(connection, project_id, limit=POOL_ROWS)
    asked = [(n, s) for n, row in enumerate(rows) if (s := sentence_of(row.content, id_=row.id))]
    asked = asked[:QUESTIONS] if len(rows) >= LEAST_ROWS else []
    embedded = embed_texts(
        database, embedder, [s for _, s in asked], role="query", project_id=project_id
    )
    vectors = np.array([row.embedding for row in rows])
    agreements: list[float] = []
    reciprocals: list[float] = []
    with database.transaction(projects=[project_id]) as connection:
        for (number, sentence), vector in zip(asked, embedded.vectors, strict=True):
            if vector is None:
                continue
            found = _found_by_words(
                connection,
                sentence,
                vector,
                embedder=embedder,
                project_id=project_id,
                languages=languages,
            )
            own = rows[number].id
            places = [row.id for row in found]
            reciprocals.append(1 / (places.index(own) + 1) if own in places else 0.0)
            nearest = [row for row in found if row.id != own][:NEAREST]
            near = [row.other for row in nearest if row.other is not None][: len(rows) // 4]
            others = np.delete(vectors @ vector, number)
            said = agreement(near, others) if len(near) >= LEAST_NEAREST else None
            if said is not None:
                agreements.append(said)
    lexical_mrr = _mean(reciprocals)
    return SelfCheck(
        embedder=fingerprint(embedder),
        row_count=len(rows),
        questions=len(agreements),
        agreement=_mean(agreements),
        lexical_mrr=lexical_mrr,
        trust=trust(agreements, row_count=len(rows), lexical_mrr=lexical_mrr or 0.0),
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _found_by_words(
    connection: AppConnection,
    sentence: str,
    vector: NDArray[np.float32],
    *,
    embedder: Embedder,
    project_id: int,
    languages: Sequence[str],
) -> list[store.LegRow]:
    """The rows that the words of a sentence find, best first: its own, and those nearest to it."""
    corpus = store.corpus(connection, project_id)
    require_space(connection, corpus, space=fingerprint(embedder), embedder=embedder)
    read = read_query(
        connection,
        sentence,
        corpus=corpus,
        project_id=project_id,
        profile=DEFAULT,
        languages=languages,
    )
    return list(
        run_lexical_leg(
            connection,
            compile_filter(HardFilter(project_id=project_id)),
            read,
            corpus=corpus,
            depth=NEAREST + 1,
            embedding=vector,
        ).rows
    )
