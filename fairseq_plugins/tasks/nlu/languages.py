"""The languages of an understanding task: which one a subset has, and its symbol."""

from typing import Any, Dict


class Languages:
    """The ``names`` of --langs in their order, and their ``symbols`` in the dictionary."""

    def __init__(self, cfg: Any):
        self.names = [name for name in cfg.langs.split(",") if name]
        if "{}" not in cfg.language_template:
            raise ValueError(
                f"--language-template must hold {{}}, where the language goes; got {cfg.language_template!r}"
            )
        twice = sorted({name for name in self.names if self.names.count(name) > 1})
        if twice:
            raise ValueError(
                f"--langs names {', '.join(twice)} more than once; valid: every language once, in the model's order"
            )
        self.symbols = [cfg.language_template.format(name) for name in self.names]
        self.codes = _read_codes(cfg.language_codes)

    def symbol(self, subset: str) -> str:
        """Symbol of a subset's language; ValueError where it has none, or --langs lacks it or has several of its name."""
        code = language_of(subset)
        wanted = self.codes.get(code, code)
        found = [name for name in self.names if name == wanted]
        if not found and code not in self.codes:
            found = [name for name in self.names if name.split("_")[0] == wanted]
        if len(found) != 1:
            wrong = f"has {', '.join(found)}" if found else "does not have it"
            raise ValueError(
                f"subset {subset}: language {wanted or '(none)'}, --langs {wrong}; valid: name it in --language-codes, as "
                f"{code or 'de'}=CODE with a CODE of {', '.join(self.names)}"
            )
        return self.symbols[self.names.index(found[0])]


def language_of(subset: str) -> str:
    """``de`` of ``test.de``; empty for ``test``."""
    return subset.rpartition(".")[2] if "." in subset else ""


def _read_codes(text: str) -> Dict[str, str]:
    codes = {}
    for part in (part for part in text.split(",") if part):
        key, equals, value = part.partition("=")
        if not (key and equals and value):
            raise ValueError(f"--language-codes must look like de=deu_Latn,fr=fra_Latn; got {part!r}")
        codes[key] = value
    return codes
