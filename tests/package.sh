#!/usr/bin/env bash
# What `make package` calls: builds both distributions, checks what is in them, installs them into empty environments outside the
# checkout, and trains, decodes and exports there. From the checkout: bash tests/package.sh PYTHON-WITH-build-AND-twine
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tools=$1
frozen=$root/examples/quickstart/masked_lm
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset PYTHONPATH
export PYTHONWARNINGS=ignore OMP_NUM_THREADS=1
step() { printf '\n[package] %s\n' "$*"; }
quiet() { "$@" >"$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; exit 1; }; }

step "1/5 sdist, and the wheel from the sdist: $(cd "$root" && git describe --always --dirty 2>/dev/null || echo no git)"
# setuptools would take what an older build listed.
rm -rf "$root"/dist "$root"/{.,runtime}/{build,*.egg-info}
for folder in . runtime; do quiet "$tools" -m build --outdir "$root/dist" "$root/$folder"; done
"$tools" -m twine --no-color check --strict "$root"/dist/*
wheel=$(echo "$root"/dist/fairseq_plugins-*.whl) runtime=$(echo "$root"/dist/fairseq_plugins_runtime-*.whl)
(cd "$root/dist" && wc -c ./*)

step "2/5 the wheels hold the files of their packages, all of them and no others"
contents() { "$tools" -m zipfile --list "$1" | awk 'NR > 1 { print $1 }' | grep -v '\.dist-info/' | LC_ALL=C sort; }
tracked() { (cd "$root/$1" && shift && git ls-files --cached --others --exclude-standard "$@" | LC_ALL=C sort); }
diff <(tracked . data_prep fairseq_plugins) <(contents "$wheel")
diff <(tracked runtime fairseq_plugins_runtime) <(contents "$runtime")

step "3/5 the wheels in empty environments: the package beside torch, the runtime without it"
make --no-print-directory -C "$root" install VENV="$work/venv" PACKAGE="'$wheel[onnx]'"
"$work/venv/bin/python" -m venv "$work/alone"
quiet "$work/alone/bin/python" -m pip install "$runtime"
"$work/alone/bin/python" -c 'import importlib.util as found; assert not found.find_spec("torch") and not found.find_spec("fairseq")'

step "4/5 fairseq-preprocess, -train, -generate with the installed plugins"
PATH=$work/venv/bin:$PATH
cd "$work"
quiet python -m data_prep.toy --out text --train 4000 --valid 50 --test 50 --langs en,de
plugins=$(fairseq-plugins --path)
[ "${plugins#"$work/venv/"}" != "$plugins" ] || { echo "package: $plugins is not the installed package" >&2; exit 1; }
fairseq-plugins
fairseq-plugins info
fairseq-plugins options | grep -c '^| `--'
python - "$frozen/sentencepiece.bpe.model" <<'END'
import sys
from pathlib import Path

import sentencepiece

pieces = sentencepiece.SentencePieceProcessor(model_file=sys.argv[1])
Path("pieces").mkdir()
for file in Path("text").glob("*.[ed]*"):
    if file.suffix in (".en", ".de"):
        lines = [" ".join(pieces.encode(line, out_type=str)) for line in file.read_text(encoding="utf-8").splitlines()]
        (Path("pieces") / file.name).write_text("\n".join(lines) + "\n", encoding="utf-8")
END
quiet fairseq-preprocess --source-lang en --target-lang de --trainpref pieces/train --validpref pieces/valid --testpref pieces/test \
    --srcdict "$frozen/dict.txt" --tgtdict "$frozen/dict.txt" --destdir bin
cp "$frozen/sentencepiece.bpe.model" bin/
train() {
    quiet fairseq-train bin --user-dir "$plugins" --source-lang en --target-lang de --optimizer adam --lr 0.003 --batch-size 64 \
        --cpu --num-workers 0 --seed 1 --no-epoch-checkpoints --log-format simple "$@"
    grep -E '\| valid \|' "$work/log" | tail -n 1 | grep -oE '\| loss [0-9.]+'
}
generate() {
    fairseq-generate bin --user-dir "$plugins" --source-lang en --target-lang de --remove-bpe sentencepiece --batch-size 50 --cpu \
        --path "$@" >"$work/log" 2>"$work/err" || { tail -n 30 "$work/err" >&2; exit 1; }
    [ "$(grep -c '^H-' "$work/log")" = 50 ]
    tail -n 1 "$work/log"
}
train --task sga_translation --arch sga_tiny --pretrained-mlm "$frozen" --criterion sga_ctc --max-update 150 --save-dir sga
generate sga/checkpoint_best.pt --task sga_translation
train --task translation --arch transformer_iwslt_de_en --criterion label_smoothed_linear_cross_entropy --encoder-layers 1 \
    --decoder-layers 1 --max-update 20 --save-dir stock
generate stock/checkpoint_best.pt

step "5/5 the exported model says in the environment without torch what the package says"
quiet fairseq-plugins export sga/checkpoint_best.pt exported --data bin
fairseq-plugins translate sga/checkpoint_best.pt --data bin --input text/test.en --output here.de --cpu 2>"$work/err" ||
    { tail -n 30 "$work/err" >&2; exit 1; }
"$work/alone/bin/python" -m fairseq_plugins_runtime translate exported --input text/test.en --output there.de
cmp here.de there.de && head -n 2 there.de
step "done: $(ls "$root/dist" | tr '\n' ' ')"
