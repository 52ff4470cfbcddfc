"""Parts that several papers share: what lies between their rooms and ``ops``, and registers nothing."""
