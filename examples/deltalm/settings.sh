# Sourced by the scripts beside it: what each fine-tuning task is called, its languages, splits and lengths.
# TASK: toy | translation | data_to_text | question_generation | summarisation
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
export PYTHON=${PYTHON:-python}
MLM=${MLM:-examples/sga/masked_lm}
test_split=test max_source=512 max_target=512 metrics=bleu,rouge,meteor_exact
# The paper's limit on the outputs of generation tasks is 80 tokens.
generation=(--beam 5 --max-len-a 0 --max-len-b 80)
case ${task:?} in
    toy) source=en target=de MLM=examples/quickstart/masked_lm max_source=128 max_target=128 metrics=bleu,chrf generation=(--beam 5) ;;
    translation) source=${SOURCE:-en} target=${TARGET:-de} test_split=test_2016_flickr metrics=bleu,chrf generation=(--beam 5) ;;
    data_to_text) source=triples target=text ;;
    question_generation) source=passage target=question ;;
    summarisation) source=dialogue target=summary ;;
    *)
        echo "TASK is '$task'; valid: toy, translation, data_to_text, question_generation, summarisation" >&2
        exit 2
        ;;
esac
