# Sourced by the scripts for free generation: what each task is called, its languages and lengths.
# TASK: question_generation | data_to_text | summarisation | pairs
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export PYTHON=${PYTHON:-python}
MLM=${MLM:-examples/sga/masked_lm}
# The slots of ALIGNMENT=ctc, 2 per source token, must fit into the positions. Sources have half of them with either alignment, <s>
# and </s> counted, so that both read the same. prepare_free.sh cuts to it; the text of pairs it does not change, that is cut when read.
max_source=$((${POSITIONS:-512} / 2)) cut=
case ${task:?} in
    question_generation) source=passage target=question ;;
    data_to_text) source=triples target=text ;;
    summarisation) source=dialogue target=summary ;;
    pairs) source=${SOURCE:-source} target=${TARGET:-target} cut="--max-source-positions $max_source --truncate-source" ;;
    *)
        echo "TASK is '$task'; valid: question_generation, data_to_text, summarisation, pairs" >&2
        exit 2
        ;;
esac
# ALIGNMENT=ctc trains and decodes row 0 of the paper's Table 4.
alignment=${ALIGNMENT:-mask_predict}
case $alignment in
    mask_predict) criterion=sga_mask_predict ;;
    ctc) criterion=sga_ctc ;;
    *)
        echo "ALIGNMENT is '$alignment'; valid: mask_predict, ctc" >&2
        exit 2
        ;;
esac
