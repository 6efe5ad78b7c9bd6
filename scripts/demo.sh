#!/bin/sh
# Indexes this repository's own documents and asks three questions; a second run changes nothing.
set -eu
cd "$(dirname "$0")/.."
project=lastro-docs

# The demo shows the embedded database, also where the shell is set up for a server.
unset LASTRO_DATABASE_URL LASTRO_ADMIN_DATABASE_URL
unset PYTHONHOME PYTHONPATH PYTHONDONTWRITEBYTECODE
[ -n "${HOME:-}" ] || unset HOME
# An account without a home folder keeps the demo's data in the clone.
home=$(.venv/bin/python -c 'import os; print(os.path.expanduser("~"))')
if [ -z "${LASTRO_HOME:-}" ] && [ "$(id -u)" != 0 ] && ! [ -w "$home" ]; then
    export LASTRO_HOME="$PWD/.lastro-home"
fi

heading() {
    printf '\n== %s\n\n' "$1"
}

heading "Indexing docs/ and docs/adr/ of this repository"
worktree=
git -c safe.directory="$PWD" rev-parse --verify --quiet HEAD > /dev/null 2>&1 || worktree=--worktree
status=0
.venv/bin/lastro index . --project "$project" $worktree || status=$?
# 6: done, and some files were skipped; each is listed.
[ "$status" = 0 ] || [ "$status" = 6 ] || exit "$status"

for question in \
    "why HNSW and not IVFFlat?" \
    "o que acontece quando nenhum trecho é bom o bastante?" \
    "怎样使用自己的 PostgreSQL 服务器？"; do
    heading "lastro search \"$question\" -k 3"
    .venv/bin/lastro search "$question" -k 3 --project "$project"
done

heading "How to go on"
cat << END
    . .venv/bin/activate
    cd YOUR-REPOSITORY
    lastro index .
    lastro search "your question"

The database stops by itself after 15 idle minutes, or with: lastro db stop
Next: docs/tutorial/getting-started.md
END
