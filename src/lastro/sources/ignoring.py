"""Rules of .gitignore and .lastroignore files, at every level of a tree (pure)."""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pathspec import GitIgnoreSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoreRules:
    """Rules by the folder that holds them (``""`` is the root, others end in ``/``)."""

    levels: Mapping[str, GitIgnoreSpec]

    def ignores(self, path: str) -> bool:
        """Tell whether ``path`` (a folder ends in ``/``) or a folder above it is ignored.

        As in git, the deepest file with a say decides, and nothing inside an ignored folder can
        be taken back in.
        """
        return bool(self.levels) and any(self.decides(part) for part in _with_parents(path))

    def decides(self, path: str) -> bool:
        """Tell whether the rules ignore ``path`` itself, the folders above it left aside."""
        name = unicodedata.normalize("NFC", path)
        for folder in reversed(list(_folders_of(path))):
            spec = self.levels.get(folder)
            if spec is None:
                continue
            verdict = spec.check_file(name[len(unicodedata.normalize("NFC", folder)) :]).include
            if verdict is not None:
                return verdict
        return False


def parse_rules(*contents: bytes) -> GitIgnoreSpec:
    """Compile a folder's ignore files, the later stronger; lines git cannot use are no rule."""
    lines = (
        unicodedata.normalize("NFC", line).removesuffix("\r")
        for content in contents
        for line in content.decode("utf-8-sig", "replace").split("\n")
    )
    return GitIgnoreSpec.from_lines(_usable(lines))


def _usable(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        try:
            GitIgnoreSpec.from_lines([line])
        except ValueError:  # pathspec's pattern error is one
            continue
        yield line


def _folders_of(path: str) -> Iterator[str]:
    """Folders above ``path``, the root first."""
    yield ""
    position = path.find("/")
    while position != -1 and position != len(path) - 1:
        yield path[: position + 1]
        position = path.find("/", position + 1)


def _with_parents(path: str) -> Iterator[str]:
    yield from (folder for folder in _folders_of(path) if folder)
    yield path
