# Sourced by the scripts beside it: the masked LM that VECO starts from, languages and shape.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
export PYTHON=${PYTHON:-python}
MLM=${MLM:-examples/sga/masked_lm}
source=${SOURCE:-en} target=${TARGET:-de} test_split=test_2016_flickr
arch=${ARCH:-veco_tiny}
