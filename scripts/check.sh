#!/bin/sh
# Lint, format, types, imports: all of them run, and one that fails makes the whole fail.
set -u
cd "$(dirname "$0")/.."
failed=

run() {
    echo "== $*"
    .venv/bin/"$@" || failed="$failed $1"
}

run ruff check .
run ruff format --check .
if .venv/bin/pyright --version > /dev/null 2>&1; then
    run pyright
else
    echo "error: pyright cannot start; it fetches its program once, from the npm registry" >&2
    echo "remedy: make that registry reachable (npm's settings apply), then run make check" >&2
    failed="$failed pyright"
fi
run lint-imports
if [ -n "$failed" ]; then
    echo "failed:$failed" >&2
    exit 1
fi
echo "all checks passed"
