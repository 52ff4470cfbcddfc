# Sourced by the scripts beside it: languages, the shape of the mBART, and the understanding tasks.
# TASK: xnli | ner | pos
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
export PYTHON=${PYTHON:-python}
. examples/miniature/mbart/settings.sh
# TEXTS: the languages that are translated and tested.
texts=${TEXTS:-en,de,fr,es}
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
