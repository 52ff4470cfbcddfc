# Sourced by the scripts for free generation: what each task is called, its splits and lengths.
# TASK: question_generation | data_to_text | summarisation | pairs
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export PYTHON=${PYTHON:-python}
MLM=${MLM:-examples/sga/masked_lm}
case ${task:?} in
    question_generation) source=passage target=question ;;
    data_to_text) source=triples target=text ;;
    summarisation) source=dialogue target=summary ;;
    pairs) source=${SOURCE:-source} target=${TARGET:-target} ;;
    *)
        echo "TASK is '$task'; valid: question_generation, data_to_text, summarisation, pairs" >&2
        exit 2
        ;;
esac
# ALIGNMENT=ctc trains and decodes row 0 of the paper's Table 4; its slots are 2 per source token, and must fit into the positions.
alignment=${ALIGNMENT:-mask_predict} positions=${POSITIONS:-512}
case $alignment in
    mask_predict) criterion=sga_mask_predict max_source=$positions ;;
    ctc) criterion=sga_ctc max_source=$((positions / 2)) ;;
    *)
        echo "ALIGNMENT is '$alignment'; valid: mask_predict, ctc" >&2
        exit 2
        ;;
esac
