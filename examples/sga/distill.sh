#!/usr/bin/env bash
# Sequence-level distillation: an autoregressive model translates the training set; the data-bin OUT/bin has its translations as
# targets (pairs with an empty one are left out), and every other split of BIN as it is. train_nat.sh and train_at.sh take this OUT as
# theirs, train_sga.sh BIN=OUT/bin.
#   bash examples/sga/distill.sh BIN CHECKPOINT OUT [fairseq-generate options, as --beam 5 --max-tokens 8000]
# BIN was made by data_prep/preprocess.sh (prepare.sh) for this pair, in either order; PAIR=SOURCE-TARGET (en-de). The set is translated in SHARDS=8 parts: after a stop
# run it again, parts that are whole are kept. All options and SHARDS must then be the same.
set -euo pipefail
[ $# -ge 3 ] || { sed -n 2,7p "$0" >&2; exit 2; }
bin=$1 checkpoint=$2 out=$3 pair=${PAIR:-en-de} shards=${SHARDS:-8}
source=${pair%-*} target=${pair#*-}
shift 3
fail() { echo "distill: error: $*" >&2; exit 2; }
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}" PYTHON=${PYTHON:-python}
case "$shards" in '' | *[!0-9]* | 0*) fail "SHARDS=$shards: valid: a whole number, 1 or more" ;; esac
[ -f "$checkpoint" ] || fail "CHECKPOINT $checkpoint: no such file"
pieces=$bin/pieces/train.$source named=$pair
[ -f "$bin/train.$pair.$target.bin" ] || named=$target-$source # as fairseq looks for it
for file in "$pieces" "$bin/dict.txt" "$bin/sentencepiece.bpe.model" "$bin/train.$named.$target.bin"; do
    [ -f "$file" ] || fail "BIN $bin: no $file; valid: a folder made by data_prep/preprocess.sh with a sentencepiece model, for PAIR=$pair"
done
mkdir -p "$out/shards" "$out/pieces" "$out/bin"

# A part belongs to one model, one text and one command line.
settings=$(printf '%s\n' "shards $shards" "options $*" "$(sha256sum "$checkpoint" "$bin/train.$named.$source.bin" | cut -d' ' -f1)")
if [ -f "$out/shards/settings" ] && [ "$settings" != "$(cat "$out/shards/settings")" ]; then
    fail "OUT $out: its parts were made with another checkpoint, text, SHARDS or options; remove $out/shards or take another OUT"
fi
printf '%s\n' "$settings" >"$out/shards/settings"

logs=()
for ((shard = 0; shard < shards; shard++)); do
    log=$out/shards/$shard.log
    logs+=("$log")
    [ -f "$log" ] && { echo "distill: part $((shard + 1)) of $shards is there" >&2; continue; }
    fairseq-generate "$bin" --task translation --user-dir "$root/fairseq_plugins" --source-lang "$source" --target-lang "$target" \
        --gen-subset train --path "$checkpoint" --remove-bpe sentencepiece --nbest 1 \
        --distributed-world-size "$shards" --distributed-rank "$shard" "$@" >"$log.part" 2>"$out/shards/$shard.err" ||
        { tail -n 3 "$out/shards/$shard.err" >&2; fail "fairseq-generate failed on part $((shard + 1)); see $out/shards/$shard.err"; }
    # The last line that fairseq-generate prints.
    tail -n 1 "$log.part" | grep -q '^Generate train ' || fail "part $((shard + 1)) of $shards is not whole: $log.part"
    mv "$log.part" "$log"
    echo "distill: part $((shard + 1)) of $shards: $(grep -c '^D-' "$log") sentences" >&2
done

"$PYTHON" -m data_prep.hypotheses --input "${logs[@]}" --lines-of "$pieces" --output "$out/train.$target"
"$PYTHON" -m data_prep.spm apply --model "$bin/sentencepiece.bpe.model" --dict "$bin/dict.txt" --inputs "$out/train.$target" \
    --outputs "$out/translated.$target"
# A student cannot learn from an empty translation, and the SGA tasks refuse it.
paste "$pieces" "$out/translated.$target" | awk -F '\t' -v source="$out/pieces/train.$source" -v target="$out/pieces/train.$target" '
    $2 ~ /[^ ]/ { print $1 >source; print $2 >target; kept++ }
    END { printf "distill: %d of %d translations are empty and left out\n", NR - kept, NR >"/dev/stderr"; exit !kept }
' || fail "every translation is empty"
"$PYTHON" -m data_prep.binarize --pieces "$out/pieces" --pairs "$pair" --splits train --dict "$bin/dict.txt" --output "$out/bin"
for file in "$bin"/*."$named".*; do
    case ${file##*/} in train.*) ;; *) cp "$file" "$out/bin/" ;; esac
done
cp "$bin/dict.txt" "$bin/sentencepiece.bpe.model" "$bin/dict.$source.txt" "$bin/dict.$target.txt" "$out/bin/"
echo "distill: done: $out/bin" >&2
