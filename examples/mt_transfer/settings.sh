# Sourced by the scripts beside it: languages, the shape of the mBART, and the understanding tasks.
# TASK: xnli | ner | pos
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
export PYTHON=${PYTHON:-python}
# LANGS: every language of the mBART, in its order (mBART-50 has 52); TEXTS: those that are translated and tested.
langs=${LANGS:-en,de,fr,es} texts=${TEXTS:-en,de,fr,es}
# The stock architecture of the mBART that is continued, and its sizes. The released ones:
# MBART_ARGS='--arch mbart_large --encoder-normalize-before --decoder-normalize-before --layernorm-embedding'.
mbart_args=${MBART_ARGS:---arch mbart_base --encoder-layers 3 --decoder-layers 3 --encoder-embed-dim 192 --decoder-embed-dim 192
    --encoder-ffn-embed-dim 768 --decoder-ffn-embed-dim 768 --encoder-attention-heads 4 --decoder-attention-heads 4
    --encoder-normalize-before --decoder-normalize-before --layernorm-embedding --share-all-embeddings --max-source-positions 256
    --max-target-positions 256}
case ${task:=} in
    '') ;;
    xnli)
        plugin=(--task cross_lingual_classification --criterion sentence_prediction)
        tests=test.en,test.de,test.fr,test.es metric=accuracy
        ;;
    ner)
        # Italian and Dutch are no languages of the small mBART: they borrow the symbols of Spanish and German.
        plugin=(--task token_classification --criterion token_classification --language-codes it=es,nl=de)
        tests=test.en,test.de,test.fr,test.es,test.it,test.nl metric=f1
        ;;
    pos)
        plugin=(--task token_classification --criterion token_classification)
        tests=test.en,test.de,test.fr,test.es metric=accuracy
        ;;
    *)
        echo "TASK is '$task'; valid: xnli, ner, pos" >&2
        exit 2
        ;;
esac
