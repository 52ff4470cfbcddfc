#!/usr/bin/env bash
# `make test-pythons PYTHONS="python3.10 python3.12"`: for each one a fresh clone of what is committed, `make install` and `make test`
# there, and a line of tests/run_log.jsonl. A Python that is refused has the reason that `make install` gives.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

for python in "$@"; do
  version=$("$python" -c 'import platform; print(platform.python_version())')
  rm -rf "$work/checkout"
  git clone --quiet . "$work/checkout"
  start=$SECONDS
  if make --no-print-directory -C "$work/checkout" install PYTHON="$python" 2>&1 | tee "$work/install.log"; then
    seconds=$((SECONDS - start))
    python3 -m tests.run_log "$version" "installed; the tests did not end"
    INSTALL_SECONDS=$seconds RUN_LOG=$PWD/tests/run_log.jsonl \
      make --no-print-directory -C "$work/checkout" test PYTHON="$python" || failed=1
  else
    reason=$(sed -n 's/, as in: .*//; s/^make install: //p' "$work/install.log" | tail -n 1)
    [ -n "$reason" ] || { reason="make install failed" failed=1; }
    python3 -m tests.run_log "$version" "$reason"
  fi
done

python3 -m tests.what_was_run
make --no-print-directory evidence
exit "$failed"
