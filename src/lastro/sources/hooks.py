"""Git hooks that have a folder indexed when its ref moves: lines in the scripts that Git runs.

A script that is there is added to, behind its first line, where nothing in it can end before; the
lines that are ours are marked, and only these are changed or removed.
"""

import re
import shlex
import shutil
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from lastro.errors import ConfigError, Conflict, InvalidInput, NotFound
from lastro.sources.running import GitFailed, run_git

# After these a ref may stand elsewhere: commits and amendments, merges and pulls, rebases,
# switches of branches. `git reset` runs none; the next one of these makes up for it.
HOOKS = ("post-commit", "post-merge", "post-rewrite", "post-checkout")
# A repository without files gets its commits by a push.
BARE_HOOKS = ("post-receive",)
FIRST_LINE = "#!/bin/sh"
_LOG = "hook.log"
_SHELL = re.compile(r"#!\s*(?:/usr/bin/env\s+)?(?:/[\w/.-]*/)?(?:ba|da|k|z|a)?sh\b[^\n]*")
# Of a log, where it is longer; what is newest stays.
MAX_LOG_BYTES = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """The scripts in ``folder`` that were changed, and where their runs are logged."""

    folder: str
    hooks: tuple[str, ...]
    log: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Repository:
    root: Path
    hooks: Path
    own: Path
    names: tuple[str, ...]


def wish_of(path: Path) -> Path:
    """The file that stands for the wish to have ``path`` indexed: in the Git folder.

    Errors: NotFound, ConfigError.
    """
    return _find(path).own / _wish_name(path)


def _wish_name(path: Path) -> str:
    return sha256(str(path).encode(errors="surrogateescape")).hexdigest()[:16]


def log_of(path: Path) -> Path:
    """The log of the runs that hooks began: in the Git folder, which worktrees share.

    Errors: NotFound, ConfigError.
    """
    return _find(path).own / _LOG


def begin_run(path: Path) -> Path:
    """Take the note of its start away, so that who comes later starts another; returns the wish.

    Errors: NotFound, ConfigError.
    """
    shorten_log(log_of(path))
    wish = wish_of(path)
    wish.parent.mkdir(parents=True, exist_ok=True)
    wish.with_suffix(".start").unlink(missing_ok=True)
    return wish


def shorten_log(log: Path) -> None:
    """Keep what is newest of a log that has grown too long."""
    if log.exists() and log.stat().st_size > MAX_LOG_BYTES:
        kept = log.read_bytes()[-MAX_LOG_BYTES // 4 :]
        log.write_bytes(kept[kept.find(b"\n") + 1 :])


def install_hooks(path: Path, *, command: Sequence[str]) -> Hooks:
    """Have ``command`` run in the background after each change of the refs of a repository.

    All scripts are changed, or none. Errors: NotFound (no repository), ConfigError (no git, or a
    script cannot be written), Conflict (scripts that cannot be added to, or that other repositories
    use too), InvalidInput.
    """
    repository = _find(path)
    _require_own(repository)
    if "\n" in str(path):
        raise InvalidInput("the folder's name has a line break", remedy="rename the folder")
    scripts: dict[Path, str | None] = {
        repository.hooks / name: _with_block(
            repository.hooks / name, _block(name, repository, path, command)
        )
        for name in repository.names
    }
    with _told(repository.hooks):
        repository.own.mkdir(parents=True, exist_ok=True)
        repository.hooks.mkdir(parents=True, exist_ok=True)
        _change_all(scripts, folder=repository.hooks)
    return _changed(repository, repository.names)


def remove_hooks(path: Path) -> Hooks:
    """Take out what ``install_hooks`` put in for ``path``; a script of nothing else is deleted.

    All of them are changed, or none. Errors: NotFound (no repository, or nothing of ours there),
    ConfigError (no git, or a script cannot be written).
    """
    repository = _find(path)
    changes: dict[Path, str | None] = {}
    for name in repository.names:
        script = repository.hooks / name
        before = _text_of(script)
        after = _without_block(before or "", path)
        if before is None or after == before:
            continue
        changes[script] = None if after.strip() in ("", FIRST_LINE) else after
    if not changes:
        raise NotFound(
            f"no hook in {repository.hooks} indexes {path}",
            remedy="install one with `lastro hook install`",
        )
    with _told(repository.hooks):
        _change_all(changes, folder=repository.hooks)
    return _changed(repository, tuple(script.name for script in changes))


def _changed(repository: _Repository, names: tuple[str, ...]) -> Hooks:
    return Hooks(folder=str(repository.hooks), hooks=names, log=str(repository.own / _LOG))


# --- the repository ----------------------------------------------------------------------------


def _find(path: Path) -> _Repository:
    if not path.is_dir():
        raise NotFound(f"no such folder: {path}", remedy="give the folder of a Git repository")

    def asked(*words: str) -> str:
        return run_git(path, "rev-parse", *words).decode(errors="surrogateescape").rstrip("\n")

    is_bare = asked("--is-inside-work-tree") != "true"
    # Git names these from the folder that it runs in.
    root = Path(asked("--absolute-git-dir" if is_bare else "--show-toplevel"))
    common = path / asked("--git-common-dir")
    hooks = path / asked("--git-path", "hooks")
    return _Repository(
        root=root,
        hooks=hooks.resolve(),
        own=common.resolve() / "lastro",
        names=BARE_HOOKS if is_bare else HOOKS,
    )


def _require_own(repository: _Repository) -> None:
    """Refuse scripts of every repository of a user or a machine."""
    try:
        said = run_git(repository.root, "config", "--show-scope", "--get", "core.hooksPath")
    except GitFailed:
        return  # it is not set
    scope = said.decode(errors="replace").partition("\t")[0]
    if scope in ("global", "system"):
        raise Conflict(
            f"core.hooksPath is set for {scope} use: {repository.hooks} is run by other "
            "repositories too",
            remedy="set it for this repository, as in `git config core.hooksPath .githooks`, or "
            "run `lastro watch`",
        )


# --- scripts -----------------------------------------------------------------------------------


def _marks(path: Path) -> tuple[str, str]:
    return f"# >>> lastro hook: {path}", f"# <<< lastro hook: {path}"


# A rebase runs a hook for each commit. Of all that come within this second one starts a program;
# the others leave the wish to it. `hook run` takes the note of its start away before the wish.
_START = """\
  : >"$wish"
  waiting=$(find "$wish.start" -mmin -1)
  [ -n "$waiting" ] && kill -0 "$(cat "$wish.start")" && exit 0
  exec sh -c 'echo $$ >"$1.start"; sleep 1; shift; exec "$@"' sh "$wish" "$lastro\""""


def _block(name: str, repository: _Repository, path: Path, command: Sequence[str]) -> str:
    """Lines that leave at once and hold nothing: no descriptor, no terminal, no commit."""
    begin, end = _marks(path)
    program, *words = command
    log, wish = repository.own / _LOG, repository.own / _wish_name(path)
    # A checkout of files moves no ref.
    guard = '[ "${3:-1}" = 0 ] || ' if name == "post-checkout" else ""
    return "\n".join(
        [
            begin,
            f"{guard}(",
            f"  exec 2>/dev/null </dev/null >>{shlex.quote(str(log))} || exit 0",
            "  exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-",
            "  trap '' HUP INT",
            f"  lastro={shlex.quote(program)}",
            '  [ -x "$lastro" ] || lastro=$(command -v lastro) || exit 0',
            f"  wish={shlex.quote(str(wish))}",
            f"{_START} {shlex.join(words)} 2>&1",
            ") &",
            end,
            "",
        ]
    )


def _text_of(script: Path) -> str | None:
    """A script's text; None where there is none. Errors: Conflict for what is no text to us."""
    if script.is_symlink():
        raise Conflict(
            f"{script} is a link", remedy=f"call `lastro hook run` in what it leads to: {_LINE}"
        )
    try:
        return script.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise _no_shell(script) from error
    except OSError as error:
        raise Conflict(
            f"{script} cannot be read: {error.strerror}", remedy="make it a script of this user"
        ) from error


_LINE = "`lastro hook run FOLDER >/dev/null 2>&1 &`"


def _no_shell(script: Path) -> Conflict:
    return Conflict(
        f"{script} is there already, and is no shell script",
        remedy=f"call it from there: {_LINE}",
    )


def _change_all(changes: Mapping[Path, str | None], *, folder: Path) -> None:
    """Swap every script in, or delete it, so that no Git runs half of one; or leave all of them.

    Whatever needs room is written first, beside them: a change and its undoing are renames.
    Errors: OSError; ConfigError where a change could not be undone.
    """
    with tempfile.TemporaryDirectory(
        dir=folder, prefix=".lastro-", ignore_cleanup_errors=True
    ) as name:
        aside = Path(name)
        for script, text in changes.items():
            _lay_aside(script, text, aside)
        done: list[Path] = []
        try:
            for script, text in changes.items():
                if text is None:
                    script.unlink()
                else:
                    (aside / f"{script.name}.after").replace(script)
                done.append(script)
        except OSError as error:
            left = [script.name for script in done if not _is_undone(script, aside)]
            if left:
                raise _unwritable(
                    folder, error, what=f"{', '.join(left)} stayed changed"
                ) from error
            raise


def _lay_aside(script: Path, text: str | None, aside: Path) -> None:
    """Keep what a script is, and write what it will be, executable."""
    before, after = aside / f"{script.name}.before", aside / f"{script.name}.after"
    mode = 0o644
    if script.exists():
        mode = script.stat().st_mode
        try:
            before.hardlink_to(script)
        except OSError:  # a file system without them
            shutil.copy2(script, before)
    if text is not None:
        after.write_bytes(text.encode())
        after.chmod(mode & 0o777 | 0o111)


def _is_undone(script: Path, aside: Path) -> bool:
    before = aside / f"{script.name}.before"
    try:
        if before.exists():
            before.replace(script)
        else:
            script.unlink(missing_ok=True)
    except OSError:
        return False
    return True


@contextmanager
def _told(folder: Path) -> Generator[None]:
    """Errors: ConfigError for what the system says of scripts; nothing was changed then."""
    try:
        yield
    except OSError as error:
        raise _unwritable(folder, error, what="none of them was changed") from error


def _unwritable(folder: Path, error: OSError, *, what: str) -> ConfigError:
    return ConfigError(
        f"the hooks in {folder} cannot be written: {error.strerror}; {what}",
        remedy="let this user write there, or run `lastro watch`",
    )


def _with_block(script: Path, block: str) -> str:
    before = _text_of(script)
    if before is None:
        return f"{FIRST_LINE}\n{block}"
    begin = block.partition("\n")[0]
    kept = _cut(before, begin, begin.replace(">>>", "<<<"))
    first, line_end, rest = kept.partition("\n")
    if not _SHELL.fullmatch(first.rstrip("\r")):
        raise _no_shell(script)
    return f"{first}{line_end or chr(10)}{block}{rest}"


def _without_block(script: str, path: Path) -> str:
    return _cut(script, *_marks(path))


def _cut(script: str, begin: str, end: str) -> str:
    lines = script.splitlines(keepends=True)
    stripped = [line.rstrip("\r\n") for line in lines]
    if begin not in stripped or end not in stripped:
        return script
    return "".join(lines[: stripped.index(begin)] + lines[stripped.index(end) + 1 :])
