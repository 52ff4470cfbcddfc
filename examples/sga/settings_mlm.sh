# Sourced by the scripts that train a frozen model: stock masked_lm on MLM and TLM batches, a transformer of XLM-R's shape.
# pretrain_masked_lm BIN PAIRS LANGUAGES UPDATES FOLDER [fairseq-train options]     run again to continue; the rate falls linearly to 0 at
# UPDATES. WIDTH=256, POSITIONS=512 and options such as --encoder-layers 6 set the size; pairs longer than the positions are left out.
pretrain_masked_lm() {
    local bin=$1 pairs=$2 languages=$3 updates=$4 folder=$5 width=${WIDTH:-256} positions=${POSITIONS:-512}
    shift 5
    fairseq-train "$bin" --user-dir fairseq_plugins --task tlm_pretraining --pairs "$pairs" --monolingual "$languages" \
        --arch xlmr_mlm_tiny --encoder-embed-dim "$width" --encoder-ffn-embed-dim "$((4 * width))" \
        --max-positions "$positions" --tokens-per-sample "$positions" --mask-prob 0.15 --one-side-prob 0.7 --dropout 0.0 --attention-dropout 0.0 --criterion masked_lm \
        --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 --lr 0.0008 --warmup-updates "$((updates / 20 + 1))" \
        --lr-scheduler polynomial_decay --total-num-update "$updates" --max-update "$updates" \
        --max-tokens 2048 --seed 1 --num-workers 0 --skip-invalid-size-inputs-valid-test --validate-interval-updates 1000 \
        --save-interval-updates 500 --keep-interval-updates 1 --no-epoch-checkpoints --log-format simple --log-interval 50 \
        --save-dir "$folder" "$@"
}
