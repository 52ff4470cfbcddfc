#!/usr/bin/env bash
# Average the 5 best checkpoints of a run (BEST=N: the N best) and generate for the test set, with each number of mask-predict iterations.
#   bash examples/sga/generate_free.sh TASK OUT NAME "ITERATIONS ..." [fairseq-generate options, as --length-beam 3]
# Writes OUT/NAME/ITERATIONS-PASSES.TARGET (KEEP=FOLDER: there). PASSES=10 denoising passes at most, PASSES=0 without the denoiser;
# for a run of ALIGNMENT=ctc ITERATIONS is 0.
set -euo pipefail
[ $# -ge 4 ] || { sed -n 2,5p "$0" >&2; exit 2; }
task=$1 out=$2 name=$3 iterations=$4 passes=${PASSES:-10}
shift 4
. "$(dirname "${BASH_SOURCE[0]}")/settings_free.sh"
keep=${KEEP:-$out/$name}
bin=$out/bin
mkdir -p "$keep"
if [ "$task" = pairs ]; then
    # The sources alone: fairseq-generate would leave out a sentence whose reference is longer than the model's outputs can be.
    bin=$out/$name/sources
    mkdir -p "$bin"
    for file in "$out/bin"/dict.*.txt "$out/bin"/*."$source-$target.$source".{bin,idx}; do ln -sf "$(realpath "$file")" "$bin/"; done
fi
"$PYTHON" -m fairseq_plugins.checkpoints.average --directory "$out/$name" --best "${BEST:-5}" --allow-fewer --output "$out/$name/average.pt"
lines=()
[ ! -f "$out/bin/pieces/test.$source" ] || lines=(--lines-of "$out/bin/pieces/test.$source")
for iteration in $iterations; do
    log=$out/$name/generate-$iteration-$passes
    fairseq-generate "$bin" --user-dir fairseq_plugins --task sga_translation --source-lang "$source" --target-lang "$target" \
        --gen-subset test --path "$out/$name/average.pt" --mask-predict-iterations "$iteration" --iter-decode-max-iter "$passes" \
        $cut --skip-invalid-size-inputs-valid-test \
        --print-step --remove-bpe sentencepiece --batch-size 32 "$@" >"$log.log" 2>"$log.err" ||
        { tail -n 20 "$log.err" >&2; exit 1; }
    "$PYTHON" -m data_prep.hypotheses --input "$log.log" ${lines[@]+"${lines[@]}"} --output "$keep/$iteration-$passes.$target"
done
