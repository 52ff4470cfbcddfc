#!/usr/bin/env bash
# Sequence-level distillation: a data-bin whose training targets are translations by an autoregressive model.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: bash data_prep/distill.sh --data BIN --pair SRC-TGT --checkpoint FILE --out DIR [--shards N] [-- fairseq-generate options]

  --data BIN         data-bin folder, made by preprocess.sh with a sentencepiece model for this pair, in either order
  --pair SRC-TGT     as en-de
  --checkpoint FILE  the model that translates the training set (task translation)
  --out DIR          DIR/bin has its translations as targets (pairs with an empty one are left out), and every other split as it is
  --shards N         parts that the set is translated in (default: 8)

Options behind -- go to fairseq-generate, as --beam 5 --max-tokens 8000 --cpu. After a stop run it again: parts that are whole are kept;
all options must then be the same. The Python that runs it is that of the variable PYTHON (default: python).
TEXT
}

fail() { echo "distill: error: $*" >&2; exit 2; }

bin= pair= checkpoint= out= shards=8
while [ $# -gt 0 ]; do
    case "$1" in
        --help | -h) usage; exit 0 ;;
        --) shift; break ;;
        --data | --pair | --checkpoint | --out | --shards) ;;
        *) fail "$1: unknown option; valid options are listed by --help" ;;
    esac
    [ $# -ge 2 ] || fail "$1: its value is missing"
    case "$1" in
        --data) bin=$2 ;;
        --pair) pair=$2 ;;
        --checkpoint) checkpoint=$2 ;;
        --out) out=$2 ;;
        --shards) shards=$2 ;;
    esac
    shift 2
done
for option in data:"$bin" pair:"$pair" checkpoint:"$checkpoint" out:"$out"; do
    [ -n "${option#*:}" ] || fail "--${option%%:*} is missing"
done
# A path that begins with a dash would be taken for an option.
for option in bin checkpoint out; do
    [[ ${!option} != -* ]] || printf -v "$option" ./%s "${!option}"
done
source=${pair%-*} target=${pair#*-}
case "$pair" in *-*-* | -* | *-) fail "--pair $pair: valid: SRC-TGT, as en-de" ;; *-*) ;; *) fail "--pair $pair: valid: SRC-TGT, as en-de" ;; esac
case "$shards" in '' | *[!0-9]* | 0*) fail "--shards $shards: valid: a whole number, 1 or more" ;; esac
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}" PYTHON=${PYTHON:-python}
[ -f "$checkpoint" ] || fail "--checkpoint $checkpoint: no such file"
pieces=$bin/pieces/train.$source named=$pair
[ -f "$bin/train.$pair.$target.bin" ] || named=$target-$source # as fairseq looks for it
for file in "$pieces" "$bin/dict.txt" "$bin/sentencepiece.bpe.model" "$bin/train.$named.$target.bin"; do
    [ -f "$file" ] || fail "--data $bin: no $file; valid: a folder made by data_prep/preprocess.sh with a sentencepiece model, for --pair $pair"
done
mkdir -p "$out/shards" "$out/pieces" "$out/bin"

# A part belongs to one model, one text and one command line.
settings=$(printf '%s\n' "shards $shards" "options $*" "$(sha256sum "$checkpoint" "$bin/train.$named.$source.bin" | cut -d' ' -f1)")
if [ -f "$out/shards/settings" ] && [ "$settings" != "$(cat "$out/shards/settings")" ]; then
    fail "--out $out: its parts were made with another checkpoint, text, --shards or options; remove $out/shards or take another --out"
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

"$PYTHON" -m data_prep hypotheses --input "${logs[@]}" --lines-of "$pieces" --output "$out/train.$target"
# The target's dictionary may be cut to some entries of the source's.
dict=$bin/dict.txt target_dict=
if ! cmp -s "$bin/dict.$source.txt" "$bin/dict.$target.txt"; then
    dict=$bin/dict.$source.txt target_dict=$bin/dict.$target.txt
fi
"$PYTHON" -m data_prep spm apply --model "$bin/sentencepiece.bpe.model" --dict "${target_dict:-$dict}" --inputs "$out/train.$target" \
    --outputs "$out/translated.$target"
# A student cannot learn from an empty translation, and the SGA tasks refuse it.
paste "$pieces" "$out/translated.$target" | from="$out/pieces/train.$source" to="$out/pieces/train.$target" awk -F '\t' '
    $2 ~ /[^ ]/ { print $1 >ENVIRON["from"]; print $2 >ENVIRON["to"]; kept++ }
    END { printf "distill: %d of %d translations are empty and left out\n", NR - kept, NR >"/dev/stderr"; exit !kept }
' || fail "every translation is empty"
"$PYTHON" -m data_prep binarize --pieces "$out/pieces" --pairs "$pair" --splits train --dict "$dict" \
    ${target_dict:+--target-dict "$target_dict"} --output "$out/bin"
for file in "$bin"/*."$named".*; do
    case ${file##*/} in train.*) ;; *) cp "$file" "$out/bin/" ;; esac
done
cp "$bin/dict.txt" "$bin/sentencepiece.bpe.model" "$bin/dict.$source.txt" "$bin/dict.$target.txt" "$out/bin/"
echo "distill: done: $out/bin" >&2
