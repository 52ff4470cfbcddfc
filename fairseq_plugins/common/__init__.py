"""Parts that several papers share. They lie between the papers and ``ops``, and register nothing."""
