"""The package fairseq_plugins, what it needs, and its optional parts."""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parent
INIT = (ROOT / "fairseq_plugins" / "__init__.py").read_text(encoding="utf-8")
VERSION = re.search(r'^__version__ = "([^"]+)"', INIT, re.MULTILINE).group(1)

# Where the README stands alone, links and pictures of the checkout lead nowhere: their words stay.
README = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## More")[0]
DESCRIPTION = re.sub(r"!?\[([^]]*)\]\((?!https:)[^)]*\)", r"\1", README)

# fairseq's own releases end at 0.12.2, which does not import on Python 3.11; fairseq-fixed is the
# same code, patched. Both compile C++ against the installed torch: install torch first and pass
# --no-build-isolation (see the Makefile). Both require torchaudio, for speech only; if it cannot be
# loaded beside this torch, the Makefile removes it again.
REQUIREMENTS = [
    'fairseq-fixed==0.12.3.1; python_version >= "3.11"',
    'fairseq==0.12.2; python_version < "3.11"',
    "torch>=2.6",
    "numpy>=1.21.3",
    "sentencepiece>=0.2.0",
    "sacrebleu>=2.3",
    "regex>=2021.8.3",
    "fastBPE==0.1.0",
    "subword-nmt>=0.3.8",
    "safetensors>=0.4",
    "filelock>=4.1",
    'gensim>=4.3; python_version < "3.14"',  # for data_prep/lexicon.sh; newer Pythons have no wheel
]

MATPLOTLIB = "matplotlib>=3.5"
TRANSFORMERS = "transformers>=4.40"

SCIPY = "scipy>=1.7"  # tables of studies; fairseq's scikit-learn brings it
PROTOBUF = "protobuf>=3.20"  # to read the scores of pieces: tokenizer.json
JSONSCHEMA = "jsonschema>=4.18"
LANGID = "py3langid>=0.4"  # languages of outputs
SKLEARN = "scikit-learn>=1.0"  # fairseq 0.12.3 brings it

ONNX = ["onnx>=1.16", "onnxscript>=0.5"]
# Before 1.25 some products of 8 bits are wrong on processors with AMX; Python 3.10 has no newer one
# than 1.23.
ONNX += [
    'onnxruntime>=1.25; python_version >= "3.11"',
    'onnxruntime>=1.18; python_version < "3.11"',
]
CLIENTS = ["httpx>=0.27", "libretranslatepy>=2.1", "deep-translator>=1.11"]  # of the service

TEST = ["pytest>=7.0", "pytest-xdist>=3.2", JSONSCHEMA, MATPLOTLIB, TRANSFORMERS, SCIPY, SKLEARN]
TEST += [LANGID, *ONNX, *CLIENTS, PROTOBUF]

EXTRAS = {
    # transformers: only to compare logits with it; matplotlib: plots
    "test": TEST,
    # mutmut exactly: tests/mutants/ calls parts of it that may change
    "mutants": [*TEST, "mutmut==3.8.1"],
    "check": ["ruff>=0.5", "mypy>=1.8"],
    "docs": ["sphinx>=7.3", "myst-parser>=3.0", "furo>=2024.5", "sphinx-autoapi>=3.1"],
    "huggingface": [TRANSFORMERS, PROTOBUF],
    "onnx": ONNX,
    "plots": [MATPLOTLIB, SCIPY],
    "peers": [MATPLOTLIB, SCIPY, *ONNX, "ctranslate2>=4.5"],  # of benchmarks
    "probe": [SKLEARN],
    "recipes": [JSONSCHEMA],  # of examples/, in the workflow's environment too
    "study": [JSONSCHEMA, MATPLOTLIB, SCIPY, LANGID],  # pages with plots, languages of outputs
    "release": ["build>=1.2", "twine>=6.1"],  # 6.1 knows the metadata of today's setuptools
    "comet": ["unbabel-comet>=2.2"],  # needs numpy < 2: install it in a separate environment
}

setup(
    name="fairseq-plugins",
    version=VERSION,
    description="fairseq plugins that bridge multilingual language understanding and generation",
    long_description=DESCRIPTION,
    long_description_content_type="text/markdown",
    author="The fairseq_plugins authors",
    license="MIT",
    license_files=["LICENSE", "NOTICE"],
    python_requires=">=3.10",
    packages=find_packages(
        include=["fairseq_plugins", "fairseq_plugins.*", "data_prep", "data_prep.*"]
    ),
    package_data={"fairseq_plugins": ["py.typed"], "data_prep": ["*.sh"]},
    entry_points={"console_scripts": ["fairseq-plugins = fairseq_plugins.__main__:main"]},
    install_requires=REQUIREMENTS,
    extras_require=EXTRAS,
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
        "Typing :: Typed",
    ],
    zip_safe=False,
)
