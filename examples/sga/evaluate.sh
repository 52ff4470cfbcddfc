#!/usr/bin/env bash
# Average the 5 best checkpoints of a run (BEST=N: the N best), translate the test set, write the facts of the run.
#   bash examples/sga/evaluate.sh OUT NAME "CASE ..." [fairseq-generate options, as --iter-decode-ctc-beam 10]
# CASE: a number of denoising passes (SGA, NAT), as "0 1 10"; or the system, each with beam 5: beam (AT, from_xlmr, msp), tagged
# (mtransformer, adapter), mbart. Writes CASE.TARGET and run.json to OUT/NAME (KEEP=FOLDER: there); score.sh scores them.
# PAIR=SOURCE-TARGET as in training; BIN=PATH and SUBSET=NAME for other data. MAX_SOURCE=256 cuts longer sources (for SGA positions / slots a
# token; not mbart). With options the log is not that of the run's facts.
set -euo pipefail
[ $# -ge 3 ] || { sed -n 2,7p "$0" >&2; exit 2; }
out=$1 name=$2 cases=$3 pair=${PAIR:-en-de}
shift 3
source=${pair%-*} target=${pair#*-}
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
runs=${KEEP:-$out/$name} average=$out/$name/average.pt
mkdir -p "$runs"
PYTHON=${PYTHON:-python}
# in_mbart LANGUAGE LANGS: what an mBART of these languages calls one of them, as en_XX.
in_mbart() (LANGS=$2 && . examples/csr/settings.sh && own_name "$1")
for option in "$@"; do
    [ "${option%%=*}" != --nbest ] || { echo "--nbest: this script keeps one output a sentence; valid: fairseq-generate itself" >&2; exit 2; }
done
for case in $cases; do
    case $case in
        beam | tagged | mbart) ;;
        *[!0-9]*)
            echo "CASE is '$case'; valid: a number of denoising passes, beam, tagged, mbart" >&2
            exit 2
            ;;
    esac
done
"$PYTHON" -m fairseq_plugins.checkpoints.average --directory "$out/$name" --best "${BEST:-5}" --allow-fewer --output "$average"
for case in $cases; do
    bin=$out/bin options=(--beam 5)
    case $case in
        beam) options+=(--task translation) ;;
        tagged) options+=(--task translation_multi_simple_epoch --lang-pairs "$pair") ;;
        mbart) options+=(--task translation_from_pretrained_bart) bin=$out/mbart/bin ;;
        *) options=(--task sga_translation --iter-decode-max-iter "$case" --print-step) ;;
    esac
    from=$source to=$target
    case $case in
        tagged | mbart)
            # The words are options: languages in the order of the training, where their tokens stand.
            tags=($("$PYTHON" examples/sga/trained_with.py tags "$average"))
            options+=("${tags[@]}")
            ;;
    esac
    if [ "$case" != mbart ]; then
        [ -z "${MAX_SOURCE:-}" ] || options+=(--max-source-positions "$MAX_SOURCE" --truncate-source)
    else
        from=$(in_mbart "$source" "${tags[1]:-}")
        to=$(in_mbart "$target" "${tags[1]:-}")
    fi
    log=$out/$name/generate-$case
    [ $# -eq 0 ] || log=$out/$name/generate-with-options-$case
    fairseq-generate "${BIN:-$bin}" --user-dir fairseq_plugins --source-lang "$from" --target-lang "$to" \
        --gen-subset "${SUBSET:-test_2016_flickr}" --path "$average" "${options[@]}" --remove-bpe sentencepiece --batch-size 64 \
        "$@" >"$log.log" 2>"$log.err" || { tail -n 20 "$log.err" >&2; exit 1; }
    "$PYTHON" -m data_prep.hypotheses --input "$log.log" --output "$runs/$case.$target"
done
if [ -f "$out/$name/train.log" ]; then
    "$PYTHON" -m examples.recipes.record --run "$out/$name" --output "$runs/run.json"
else
    echo "no $out/$name/train.log: run.json, the facts of the run, is not written" >&2
fi
