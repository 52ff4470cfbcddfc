#!/usr/bin/env bash
# Average the 5 best checkpoints of a run, translate the test set, keep hypotheses and facts for `make results`.
#   bash examples/sga/evaluate.sh OUT NAME "PASSES ..."     PASSES: denoising passes to try, as "0 1 10"; "beam" for the AT model
# PAIR=SOURCE-TARGET as in training; KEEP=FOLDER for the hypotheses (default: runs/NAME
# beside this file); BIN=PATH and SUBSET=NAME for other data.
set -euo pipefail
[ $# -eq 3 ] || { sed -n 2,5p "$0" >&2; exit 2; }
out=$1 name=$2 passes=$3 pair=${PAIR:-en-de}
source=${pair%-*} target=${pair#*-}
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
runs=${KEEP:-examples/sga/runs/$name}
mkdir -p "$runs"
PYTHON=${PYTHON:-python}
"$PYTHON" -m fairseq_plugins.checkpoints.average --directory "$out/$name" --best 5 --allow-fewer --output "$out/$name/average.pt"
for pass in $passes; do
    case $pass in
        beam) options=(--task translation --beam 5) ;;
        *) options=(--task sga_translation --iter-decode-max-iter "$pass" --print-step) ;;
    esac
    fairseq-generate "${BIN:-$out/bin}" --user-dir fairseq_plugins --source-lang "$source" --target-lang "$target" --gen-subset "${SUBSET:-test_2016_flickr}" \
        --path "$out/$name/average.pt" "${options[@]}" --remove-bpe sentencepiece --batch-size 64 \
        >"$out/$name/generate-$pass.log" 2>"$out/$name/generate-$pass.err"
    "$PYTHON" -m data_prep.hypotheses --input "$out/$name/generate-$pass.log" --output "$runs/$pass.$target"
done
"$PYTHON" examples/sga/record.py --run "$out/$name" --output "$runs/run.json"
