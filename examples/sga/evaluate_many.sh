#!/usr/bin/env bash
# Average the 5 best checkpoints (BEST=N: the N best) of a run over several languages, translate every language, print and keep a table of each test set.
#   bash examples/sga/evaluate_many.sh OUT NAME PASSES [fairseq-generate options, as --iter-decode-ctc-beam 5]
# TRAINED="de es fr ru", ZERO="vi he eu" (ZERO= for none), TARGET=en as in prepare_many.sh: all of them are translated; which ones the model was trained on
# is read from its checkpoint. SUBSETS="test ntrex" are the test sets. Hypotheses and tables go to OUT/NAME/SUBSET-PASSES. References are
# OUT/text/SUBSET.TARGET, or of sets with sentences of their own for each pair (TED) OUT/text/SOURCE-TARGET/SUBSET.TARGET.
# MAX_SOURCE=256 is the longest source (positions of the masked LM / slots a token); longer ones are cut.
set -euo pipefail
[ $# -ge 3 ] || { sed -n 2,7p "$0" >&2; exit 2; }
out=$1 name=$2 passes=$3
shift 3
languages="${TRAINED:-de es fr ru} ${ZERO-vi he eu}" target=${TARGET:-en}
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
PYTHON=${PYTHON:-python}
. examples/sga/settings_many.sh
"$PYTHON" -m fairseq_plugins.checkpoints.average --directory "$out/$name" --best "${BEST:-5}" --allow-fewer --output "$out/$name/average.pt"
pairs=$("$PYTHON" examples/sga/trained_with.py pairs "$out/$name/average.pt")
trained=()
for language in $languages; do
    case ",$pairs," in *",$language-$target,"*) trained+=("$language") ;; esac
done
for subset in ${SUBSETS:-test ntrex}; do
    kept=$out/$name/$subset-$passes
    mkdir -p "$kept"
    systems=()
    for language in $languages; do
        fairseq-generate "$out/bin" --user-dir fairseq_plugins --task sga_translation --source-lang "$language" --target-lang "$target" \
            --gen-subset "$subset" --path "$out/$name/average.pt" --iter-decode-max-iter "$passes" --remove-bpe sentencepiece \
            --batch-size 64 --max-source-positions "${MAX_SOURCE:-256}" --truncate-source "$@" >"$kept/$language.log" 2>"$kept/$language.err" ||
            { tail -n 20 "$kept/$language.err" >&2; exit 1; }
        "$PYTHON" -m data_prep.hypotheses --input "$kept/$language.log" --lines-of "$(reference_of "$subset" "$language")" \
            --output "$kept/$language.txt"
        systems+=(--system "$language=$kept/$language.txt")
    done
    references_of "$subset" $languages
    echo "$subset, $passes passes:"
    "$PYTHON" -m data_prep.score_languages "${systems[@]}" "${references[@]}" \
        --trained "$(IFS=,; echo "${trained[*]:-}")" --json "$kept/scores.json" | tee "$kept/table.md"
done
