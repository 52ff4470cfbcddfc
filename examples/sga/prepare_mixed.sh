#!/usr/bin/env bash
# The pairs of several languages as the one pair x-TARGET in OUT/mixed: one set of prompts for a system whose stock task knows one pair.
#   bash examples/sga/prepare_mixed.sh OUT     OUT was made by prepare.sh; TRAINED="de fr" and TARGET=en name the languages
set -euo pipefail
[ $# -eq 1 ] || { sed -n 2,3p "$0" >&2; exit 2; }
out=$1 target=${TARGET:-en} languages=(${TRAINED:-de fr})
for language in "${languages[@]}" "$target"; do
    pieces=$out/bin/pieces/train.$language
    [ -f "$pieces" ] || { echo "OUT $out: no $pieces; valid: a folder made by prepare.sh, TRAINED and TARGET of its languages" >&2; exit 2; }
done
text=$out/mixed_text
mkdir -p "$text"
for split in train valid; do
    sources=() targets=()
    for language in "${languages[@]}"; do
        sources+=("$out/bin/pieces/$split.$language")
        targets+=("$out/bin/pieces/$split.$target")
    done
    cat "${sources[@]}" >"$text/$split.x"
    cat "${targets[@]}" >"$text/$split.$target"
done
fairseq-preprocess --source-lang x --target-lang "$target" --joined-dictionary --srcdict "$out/dict.txt" \
    --trainpref "$text/train" --validpref "$text/valid" --destdir "$out/mixed" --workers 2
