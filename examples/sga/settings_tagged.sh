# Sourced by the scripts of the multilingual transformers: pairs, languages and their tokens, sizes, schedule.
# PAIR=en-de is tested, and its validation loss chooses the best checkpoints; PAIRS are all that train, PAIR among them: by default
# de-en,fr-en for a PAIR into English, en-de,en-fr otherwise. MORE_LANGS=vi,he get a token too, so that they can be translated without training.
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
pair=${PAIR:-en-de}
case $pair in
    *-en) pairs=${PAIRS:-de-en,fr-en} ;;
    *) pairs=${PAIRS:-en-de,en-fr} ;;
esac
case ",$pairs," in
    *",$pair,"*) ;;
    *)
        echo "PAIR is '$pair'; valid: one of PAIRS, which is $pairs" >&2
        exit 2
        ;;
esac
langs=$(tr ',-' '\n\n' <<<"$pairs${MORE_LANGS:+,$MORE_LANGS}" | sort -u | paste -sd,)
# The other pairs are extra data for the stock task: they train, but validation is of PAIR alone.
others=$(tr ',' '\n' <<<"$pairs" | grep -vxF -e "$pair" | paste -sd, || true)
multilingual=(--user-dir fairseq_plugins --task translation_multi_simple_epoch --lang-pairs "$pair" --langs "$langs"
    --encoder-langtok src --decoder-langtok --sampling-method temperature --sampling-temperature 2
    --encoder-layers 3 --decoder-layers 3 --encoder-embed-dim 128 --decoder-embed-dim 128
    --encoder-ffn-embed-dim 512 --decoder-ffn-embed-dim 512 --encoder-attention-heads 4 --decoder-attention-heads 4
    --share-all-embeddings --dropout 0.2 --criterion label_smoothed_cross_entropy --label-smoothing 0.1
    --optimizer adam --adam-betas '(0.9, 0.98)' --lr-scheduler inverse_sqrt --max-tokens 2048 --num-workers 0
    --max-epoch 1000 --skip-invalid-size-inputs-valid-test --keep-best-checkpoints 5 --validate-interval-updates 500 --save-interval-updates 500
    --keep-interval-updates 1 --no-epoch-checkpoints --log-format json --log-interval 50)
if [ -n "$others" ]; then
    multilingual+=(--extra-data "{'others': '${out:?}/bin'}" --extra-lang-pairs "{'others': '$others'}"
        --langtoks "{'others': ('src', 'tgt')}")
fi
