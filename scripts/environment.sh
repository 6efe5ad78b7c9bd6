#!/bin/sh
# Makes .venv and installs Lastro there; with "dev" also what tests and checks need.
# Does nothing when that was done for this pyproject.toml, in this folder.
set -eu
cd "$(dirname "$0")/.."
kind=${1:-run}

fail() {
    echo "error: $1" >&2
    echo "remedy: $2" >&2
    exit 1
}

# An empty HOME sends caches to the root folder; without one the account's own folder is taken.
[ -n "${HOME:-}" ] || unset HOME
# Settings for other environments must not reach this one. Bytecode is wanted: without it every
# command would compile what it imports again.
unset PYTHONHOME PYTHONPATH VIRTUAL_ENV PYTHONDONTWRITEBYTECODE
export PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    found=
    for name in ${PYTHON:-} python3.13 python3.12 python3.11 python3.14 python3 python; do
        is_new_enough "$name" || continue
        found=$name
        if "$name" -c 'import ensurepip, venv' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    if [ -n "$found" ]; then
        fail "$found cannot make virtual environments: its modules venv and ensurepip are missing" \
            "install them (Debian and Ubuntu: apt install python3-venv) and run make again"
    fi
    fail "no Python 3.11 or newer was found" \
        "install one, or name it: make demo PYTHON=/path/to/python3"
}

stamp=.venv/.lastro-$kind
wanted="$(cksum < pyproject.toml) $PWD"
# Importing also compiles what was edited; pip's own compiling would take the packages whole.
is_whole() { .venv/bin/python -c 'import lastro.cli' 2>/dev/null; }
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && is_whole; then
    exit 0
fi

# A clone that was moved, or whose Python is gone, needs a new environment.
if [ -e .venv ] && ! { is_new_enough .venv/bin/python && [ -x .venv/bin/pip ] &&
    grep -qF "$PWD/.venv/bin" .venv/bin/pip; }; then
    rm -rf .venv
fi
if [ ! -e .venv ]; then
    [ -w . ] || fail "this folder may not be written, so .venv cannot be made in it" \
        "work in a clone of your own"
    python=$(find_python)
    echo "making .venv with $("$python" --version)" >&2
    "$python" -m venv .venv
fi

echo "installing into .venv" >&2
# --use-pep517: older pips build a package without wheels in a way that they then warn of.
install() { .venv/bin/python -m pip install --quiet --no-compile --use-pep517 "$@"; }
if [ "$kind" = dev ]; then
    # The group is read here, since only pip 25.1 and newer know --group.
    .venv/bin/python -c '
import tomllib
with open("pyproject.toml", "rb") as file:
    print("\n".join(tomllib.load(file)["dependency-groups"]["dev"]))
' > .venv/dev-requirements.txt
    install --editable . --requirement .venv/dev-requirements.txt
else
    install --editable .
fi
.venv/bin/python -c 'import lastro.cli'
echo "$wanted" > "$stamp"
