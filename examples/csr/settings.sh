# Sourced by the scripts beside it: the pair, the mBART and the options that both stages share.
# PAIR=en-de. The defaults of LR, WARMUP and DROPOUT are for the small mBART; released ones take the paper's 3e-5, 2500 and 0.3.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
export PYTHON=${PYTHON:-python}
. examples/miniature/mbart/settings.sh
pair=${PAIR:-en-de}
source=${pair%-*} target=${pair#*-}
lr=${LR:-0.001} warmup=${WARMUP:-100} dropout=${DROPOUT:-0.1} smoothing=${SMOOTHING:-0.2} tokens=${TOKENS:-2048}

# own_name LANGUAGE: what the mBART calls a language: en, or en_XX.
own_name() {
    local name
    for name in ${langs//,/ }; do
        [[ $name != "$1" && $name != "$1"_* ]] || { echo "$name"; return; }
    done
    echo "LANGS is $langs; it has no language $1" >&2
    return 2
}

# The best checkpoint of translation is that with the best BLEU of greedy decoding on the validation set.
by_bleu=(--eval-bleu --eval-bleu-args '{"beam": 1, "max_len_a": 1.2, "max_len_b": 10}' --eval-bleu-remove-bpe sentencepiece
    --best-checkpoint-metric bleu --maximize-best-checkpoint-metric)

# stage NAME UPDATES SEED OPTIONS...: one fairseq-train with the schedule of a stage; run again to continue.
stage() {
    local name=$1 updates=$2 seed=$3
    shift 3
    mkdir -p "$out/$name"
    # shellcheck disable=SC2086  # $mbart_args is several words
    fairseq-train "$out/bin" --user-dir fairseq_plugins --source-lang "$source" --target-lang "$target" --langs "$langs" \
        $mbart_args --dropout "$dropout" --criterion label_smoothed_linear_cross_entropy --label-smoothing "$smoothing" \
        --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 --lr "$lr" --lr-scheduler polynomial_decay \
        --warmup-updates "$warmup" --total-num-update "$updates" --max-update "$updates" --max-tokens "$tokens" --seed "$seed" \
        --num-workers 0 --validate-interval-updates 100 --save-interval-updates 100 --keep-interval-updates 1 --no-epoch-checkpoints \
        --skip-invalid-size-inputs-valid-test --log-format json --log-interval 50 --save-dir "$out/$name" "$@" 2>&1 |
        tee -a "$out/$name/train.log"
}
