#!/usr/bin/env bash
# Two text files to a translator: text, pieces, a masked language model, SGA and an autoregressive baseline, a table, a folder that translates.
#   bash examples/translator.sh SOURCE TARGET OUT [HOURS [SEED [MASKED_LM]]]     run again to continue
# SOURCE and TARGET are line by line translations, named by their languages: my.en my.cs. HOURS is the budget of everything (2);
# MASKED_LM the folder of a pretrained one, with its pieces and dictionary, in place of one that is trained here.
set -euo pipefail
[ $# -ge 3 ] && [ $# -le 6 ] || { sed -n 2,5p "$0" >&2; exit 2; }
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
full() { [ -z "$1" ] || realpath -m -- "$1"; }
source=$(full "$1") target=$(full "$2") out=$(full "$3") hours=${4:-2} seed=${5:-1} masked_lm=$(full "${6:-}")
snakemake=${SNAKEMAKE:-snakemake}
command -v "$snakemake" >/dev/null || { echo "translator: no $snakemake; run: make recipes" >&2; exit 2; }
export PYTHONPATH=$root:$root/examples${PYTHONPATH:+:$PYTHONPATH} PYTHONWARNINGS=ignore

mkdir -p "$out"
. "$root/data_prep/lock.sh"
lock_output translator "$out/.translator" "OUT=$3"
# Paths are settings in a file: on its command line Snakemake reads them as YAML, in which " #" would end one.
python -c 'import json, sys; print(json.dumps(dict(zip(("source", "target", "masked_lm"), sys.argv[1:]))))' \
    "$source" "$target" "$masked_lm" >"$out/.paths.json"
run() {
    "$snakemake" --snakefile "$root/examples/Snakefile" --directory "$out" --cores "$(env -u OMP_NUM_THREADS nproc)" --nolock --rerun-triggers mtime \
        --rerun-incomplete --quiet rules host reason --configfile "$out/.paths.json" --config "hours=$hours" "seed=$seed" -- "$@"
}
# The budget is divided before the long trainings begin, by the speed of short ones; a second call keeps what was decided.
# Each call compares HOURS with the speeds that are known by then.
[ -n "$masked_lm" ] || run speed/masked_lm.log
run speeds
run plan.json
python -m recipes.plan show "$out/plan.json"
run translator
python -m recipes.report --show="$3"
