"""Which ranking numbers a project answers with: shipped, set, or calibrated and adopted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from lastro import store
from lastro.db.pool import Database
from lastro.errors import InvalidInput, NotFound
from lastro.profiles import Profile, profile_from_json, profile_json, unscaled
from lastro.projects import project_id_of
from lastro.ranking import VectorScale
from lastro.store import AppConnection, StoredProfile
from lastro.wire import to_json

# Rows with a vector from which their random pairs say what chance is: 190 pairs.
SCALE_LEAST_ROWS = 20
# Any number of so many digits fits the integer column that holds a version.
MOST_DIGITS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownProfile:
    """A profile that a project can answer with; ``adopted`` says whether its name means this one.

    ``created_at`` is None for one that is shipped or set.
    """

    profile: Profile
    adopted: bool
    created_at: datetime | None


def known_json(known: KnownProfile) -> dict[str, Any]:
    """The profile's own JSON, with what is known of it beside."""
    return {
        **to_json(known.profile),
        "adopted": known.adopted,
        "createdAt": to_json(known.created_at),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileVersions:
    """The profiles that a project can answer with.

    ``given`` are those shipped and set, ``embedder`` the id of the one that makes the vectors.
    ``is_named`` is False where the project is a folder's, which may be none yet: then ``given``
    are listed. Errors of every method else: NotFound for the project.
    """

    database: Database
    given: Mapping[str, Profile]
    project: str
    embedder: str
    is_named: bool = True

    def adopt(self, name: str) -> Profile:
        """Answer with ``name@version`` where searches ask for ``name``; returns it.

        The version that is shipped or set can be adopted again. Errors: InvalidInput for a version
        that is not there.
        """
        plain, _, version = name.partition("@")
        if not version:
            raise InvalidInput(
                f"{name!r} names no version", remedy=f"write {plain}@VERSION; see `lastro profiles`"
            )
        project_id = project_id_of(self.database, self.project)
        with self.database.transaction(projects=[project_id]) as connection:
            profile = self._resolved(connection, name, project_id=project_id)
            given = plain in self.given and self.given[plain].version == profile.version
            store.adopt_profile(
                connection,
                plain,
                version=None if given else profile.version,
                project_id=project_id,
            )
        return profile

    def roll_back(self, name: str) -> Profile:
        """Undo the last adoption of ``name``; returns the profile that answers now.

        Errors: NotFound where nothing was adopted.
        """
        project_id = project_id_of(self.database, self.project)
        with self.database.transaction(projects=[project_id]) as connection:
            if not store.roll_back_profile(connection, name, project_id=project_id):
                raise NotFound(
                    f"the project {self.project!r} has adopted no version of {name!r}",
                    remedy="see `lastro profiles`",
                )
            return self._resolved(connection, name, project_id=project_id)

    def list(self) -> list[KnownProfile]:
        """Every profile that the project can answer with, by name and version."""
        made = [
            KnownProfile(
                profile=profile_from_json(s.body), adopted=s.adopted, created_at=s.created_at
            )
            for s in self._stored()
        ]
        replaced = {known.profile.name for known in made if known.adopted}
        given = [
            KnownProfile(profile=p, adopted=p.name not in replaced, created_at=None)
            for p in self.given.values()
        ]
        return sorted([*given, *made], key=lambda k: (k.profile.name, k.profile.version))

    def _resolved(self, connection: AppConnection, name: str, *, project_id: int) -> Profile:
        profile, _scale = resolve(
            connection, self.given, name, project_id=project_id, embedder=self.embedder
        )
        return profile

    def _stored(self) -> Sequence[StoredProfile]:
        try:
            project_id = project_id_of(self.database, self.project)
        except NotFound:
            if self.is_named:
                raise
            return ()
        with self.database.transaction(projects=[project_id]) as connection:
            return store.stored_profiles(connection, project_id)


def resolve(
    connection: AppConnection,
    profiles: Mapping[str, Profile],
    asked: str | Profile,
    *,
    project_id: int,
    embedder: str,
) -> tuple[Profile, VectorScale | None]:
    """The profile that ``asked`` means in a project, and the scale of the project's cosines.

    ``profiles`` are those shipped and set; an adopted version stands before them, and
    ``name@version`` names one version. Numbers that were chosen on another embedder's cosines are
    used, and called uncalibrated. Uncalibrated numbers fuse cosines on the project's own scale only
    where its texts told how far its vectors can be trusted, else as they are; numbers themselves
    are taken at their word. Errors: InvalidInput for an unknown name or version.
    """
    name = asked.name if isinstance(asked, Profile) else asked
    plain, versioned, version = name.partition("@")
    numbers = store.ranking_numbers(connection, plain, project_id=project_id)
    if isinstance(asked, Profile):
        profile = asked
    elif versioned:
        profile = _version(connection, profiles, plain, version, project_id=project_id)
    elif numbers.body is not None:
        profile = profile_from_json(numbers.body)
    elif plain in profiles:
        profile = profiles[plain]
    else:
        raise _unknown(connection, profiles, name, project_id=project_id)
    if profile.embedder not in {None, embedder}:
        profile = replace(profile, calibrated=False)
    if not (isinstance(asked, Profile) or profile.calibrated or numbers.looked_at):
        profile = unscaled(profile) if profile.cosine == "scaled" else profile
    if numbers.mean is None or numbers.spread is None:
        return profile, None
    return profile, VectorScale(mean=numbers.mean, spread=numbers.spread)


def _version(
    connection: AppConnection,
    profiles: Mapping[str, Profile],
    name: str,
    version: str,
    *,
    project_id: int,
) -> Profile:
    if version.isascii() and version.isdecimal() and len(version) <= MOST_DIGITS:
        if name in profiles and profiles[name].version == int(version):
            return profiles[name]
        body = store.find_profile(connection, name, version=int(version), project_id=project_id)
        if body is not None:
            return profile_from_json(body)
    raise _unknown(connection, profiles, f"{name}@{version}", project_id=project_id)


def _unknown(
    connection: AppConnection, profiles: Mapping[str, Profile], name: str, *, project_id: int
) -> InvalidInput:
    stored = store.stored_profiles(connection, project_id)
    known = sorted({*profiles, *(f"{s.body['name']}@{s.body['version']}" for s in stored)})
    return InvalidInput(f"there is no profile {name!r}", remedy=f"profiles are {', '.join(known)}")


def save(database: Database, profile: Profile, *, project: str, after: int) -> Profile:
    """Store a profile as the next version of its name, above ``after``. Errors: NotFound."""
    project_id = project_id_of(database, project)
    with database.transaction(projects=[project_id]) as connection:
        version = store.save_profile(
            connection, profile_json(profile), project_id=project_id, after=after
        )
    return replace(profile, version=version)


def refresh_vector_scale(connection: AppConnection, project_id: int) -> None:
    """Measure the cosines of the project's random pairs again, where there are vectors."""
    if store.vector_dimension(connection) is not None:
        store.refresh_vector_scale(connection, project_id, least_rows=SCALE_LEAST_ROWS)
