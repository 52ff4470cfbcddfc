"""Parts that several papers share; they lie between the papers and ``ops``."""
