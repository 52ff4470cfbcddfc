#!/usr/bin/env bash
# Text to data-bin for one fine-tuning task, with the pieces and the dictionary of a masked LM.
#   bash examples/deltalm/prepare.sh TASK DATA OUT
# TASK is one of settings.sh; DATA is the folder of the raw set: Multi30k (translation), WebNLG (data_to_text), XQuAD
# (question_generation), DialogSum (summarisation); for toy give -. LANGUAGE=de takes another language of WebNLG or XQuAD.
set -euo pipefail
[ $# -eq 3 ] || { sed -n 2,5p "$0" >&2; exit 2; }
task=$1 data=$2 out=$3
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
language=${LANGUAGE:-en} pairs=$source-$target text=$out/text
lengths=(--output-dir "$text" --model "$MLM/sentencepiece.bpe.model" --max-source $((max_source - 2)) --max-target 80)
mkdir -p "$out"
case $task in
    toy) "$PYTHON" -m data_prep.toy --out "$text" --seed "${TOY_SEED:-1}" --train 20000 --valid 200 --test 500 --langs en,de ;;
    translation)
        # score.sh finds the references in OUT/text, whatever the task.
        mkdir -p "$text" && cp "$data"/{train,valid,$test_split}.{en,de,fr} "$text/"
        pairs=en-de,en-fr,de-fr
        ;;
    data_to_text)
        "$PYTHON" -m data_prep.triples --triples "$data/$language".{train,dev,test}.triples \
            --texts "$data/$language".{train,dev,test}.text --splits train valid test --grouped valid test "${lengths[@]}"
        ;;
    question_generation) "$PYTHON" -m data_prep.question_generation --inputs "$data/xquad.$language.json" "${lengths[@]}" ;;
    summarisation)
        # The set here has no training split: nine tenths of its development split take that place.
        head -n 450 "$data/dev.jsonl" >"$out/train.jsonl" && tail -n +451 "$data/dev.jsonl" >"$out/valid.jsonl"
        "$PYTHON" -m data_prep.summaries --inputs "$out"/{train,valid}.jsonl "$data/test.jsonl" --splits train valid test \
            "${lengths[@]}"
        ;;
esac
bash data_prep/preprocess.sh --text "$text" --model "$MLM/sentencepiece.bpe.model" --dict "$MLM/dict.txt" \
    --pairs "$pairs" --splits "train,valid,$test_split" --out "$out/bin" --workers 2
