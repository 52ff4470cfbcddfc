#!/usr/bin/env bash
# Cross-lingual NLI: restore English sentences with dictionaries into the test languages, then classify with encoder and decoder.
#   bash examples/csr/nli.sh prepare DATA PIECES OUT       DATA holds xnli and lexicon (dictionaries en-de.train.tsv …), PIECES as in prepare.sh
#   bash examples/csr/nli.sh restore OUT MBART NAME UPDATES SEED [fairseq-train options]     stage 1
#   bash examples/csr/nli.sh finetune OUT START NAME UPDATES SEED [fairseq-train options]    in English, from stage 1 or from the mBART
#   bash examples/csr/nli.sh test OUT NAME [fairseq-validate options]    in every language; writes OUT/NAME/test.log (KEEP=FOLDER: there)
# DICTIONARIES=de,fr are switched to; TESTS=en,de,fr,es are tested.
set -euo pipefail
[ $# -ge 3 ] || { sed -n 2,7p "$0" >&2; exit 2; }
step=$1
shift
PAIR=en-en
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
source=$(own_name en)
target=$source
dictionaries=${DICTIONARIES:-de,fr} tests=${TESTS:-en,de,fr,es}
classification=(--user-dir fairseq_plugins --task cross_lingual_classification --criterion sentence_prediction --input-format mbart
    --langs "$langs" --max-positions "${MAX_POSITIONS:-254}" --add-prev-output-tokens)
case $step in
    prepare)
        data=$1 pieces=$2 out=$3
        mkdir -p "$out/nli-text"
        model=(--model "$pieces/sentencepiece.bpe.model" --dict "$pieces/dict.txt")
        # Premises and hypotheses, each sentence once; labels are not looked at.
        for split in train valid; do
            file=$data/xnli/mnli_train.en.tsv
            [ $split = train ] || file=$data/xnli/dev.en.tsv
            cut -f 1,2 "$file" | tr '\t' '\n' | awk 'NF && !seen[$0]++' >"$out/nli-text/$split.en"
        done
        mkdir -p "$out/nli-text/pieces"
        "$PYTHON" -m data_prep.spm apply "${model[@]}" --inputs "$out"/nli-text/{train,valid}.en --outputs "$out"/nli-text/pieces/{train,valid}."$source"
        fairseq-preprocess --only-source --source-lang "$source" --srcdict "$pieces/dict.txt" --trainpref "$out/nli-text/pieces/train" \
            --validpref "$out/nli-text/pieces/valid" --destdir "$out/bin" >"$out/preprocess.log" 2>&1 ||
            { tail -n 20 "$out/preprocess.log" >&2; exit 1; }
        subsets=("train.$source=$data/xnli/mnli_train.en.tsv" "valid.$source=$data/xnli/dev.en.tsv")
        for lang in ${tests//,/ }; do subsets+=("test.$(own_name "$lang")=$data/xnli/test.$lang.tsv"); done
        bash data_prep/nlu.sh sentences "$out/xnli" --sentencepiece "$pieces/sentencepiece.bpe.model" --dict "$pieces/dict.txt" \
            --limit "${LIMIT:-valid=2000}" "${subsets[@]}"
        mkdir -p "$out/lexicon"
        for lang in ${dictionaries//,/ }; do cp "$data/lexicon/en-$lang.train.tsv" "$out/lexicon/en-$lang.tsv"; done
        cp "$pieces/sentencepiece.bpe.model" "$out/"
        ;;
    restore)
        out=$1 mbart=$2 name=$3 updates=$4 seed=$5
        shift 5
        lexicons=()
        for lang in ${dictionaries//,/ }; do lexicons+=("$source-$(own_name "$lang")=$out/lexicon/en-$lang.tsv"); done
        stage "$name" "$updates" "$seed" --task code_switching_restore --restore-langs "$source" --lexicon "$(IFS=,; echo "${lexicons[*]}")" \
            --sentencepiece-model "$out/sentencepiece.bpe.model" --finetune-from-model "$mbart" "$@"
        ;;
    finetune)
        out=$1 start=$2 name=$3 updates=$4 seed=$5
        shift 5
        mkdir -p "$out/$name"
        # shellcheck disable=SC2086  # $mbart_args is several words
        fairseq-train "$out/xnli" "${classification[@]}" $mbart_args --finetune-from-model "$start" --train-subset "train.$source" \
            --valid-subset "valid.$source" --dropout "$dropout" --optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 0.01 --clip-norm 1.0 \
            --lr "${NLI_LR:-0.0005}" --lr-scheduler polynomial_decay --warmup-updates $((updates / 10)) --total-num-update "$updates" \
            --max-update "$updates" --max-tokens "$tokens" --seed "$seed" --num-workers 0 --best-checkpoint-metric accuracy \
            --maximize-best-checkpoint-metric --validate-interval-updates 100 --save-interval-updates 100 --keep-interval-updates 1 \
            --no-epoch-checkpoints --log-format json --log-interval 50 --save-dir "$out/$name" "$@" 2>&1 | tee -a "$out/$name/train.log"
        ;;
    test)
        out=$1 name=$2
        shift 2
        keep=${KEEP:-$out/$name}
        mkdir -p "$keep"
        subsets=()
        for lang in ${tests//,/ }; do subsets+=("test.$(own_name "$lang")"); done
        fairseq-validate "$out/xnli" "${classification[@]}" --path "$out/$name/checkpoint_best.pt" --valid-subset "$(IFS=,; echo "${subsets[*]}")" \
            --max-tokens 4096 --log-format json "$@" >"$out/$name/validate.log" 2>&1 || { tail -n 20 "$out/$name/validate.log" >&2; exit 1; }
        # Only the lines with the numbers are kept: the others hold dates and the paths of a machine.
        sed -n -E 's/^.* (\| test\.[A-Za-z_]+ \| \{.*\})$/\1/p' "$out/$name/validate.log" >"$keep/test.log"
        cat "$keep/test.log"
        ;;
    *)
        echo "STEP is '$step'; valid: prepare, restore, finetune, test" >&2
        exit 2
        ;;
esac
