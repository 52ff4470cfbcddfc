"""The version of this distribution: that of fairseq_plugins, which writes the folders that it reads."""

VERSION = "0.1.0"
