# Sourced by the scripts that use an mBART: its languages, and the stock architecture with its sizes.
# LANGS: every language of the mBART, in its order (mBART-50 has 52). MBART_ARGS: the released ones are
# '--arch mbart_large --encoder-normalize-before --decoder-normalize-before --layernorm-embedding'.
langs=${LANGS:-en,de,fr,es}
mbart_args=${MBART_ARGS:---arch mbart_base --encoder-layers 3 --decoder-layers 3 --encoder-embed-dim 192 --decoder-embed-dim 192
    --encoder-ffn-embed-dim 768 --decoder-ffn-embed-dim 768 --encoder-attention-heads 4 --decoder-attention-heads 4
    --encoder-normalize-before --decoder-normalize-before --layernorm-embedding --share-all-embeddings --max-source-positions 256
    --max-target-positions 256}
