"""Name languages in English by the codes that models use."""

NAMES = dict(
    item.split("=")
    for item in """
    af=Afrikaans ar=Arabic az=Azerbaijani be=Belarusian bg=Bulgarian bn=Bengali bs=Bosnian
    ca=Catalan cs=Czech cy=Welsh da=Danish de=German el=Greek en=English eo=Esperanto es=Spanish
    et=Estonian eu=Basque fa=Persian fi=Finnish fr=French ga=Irish gl=Galician gu=Gujarati
    he=Hebrew hi=Hindi hr=Croatian hu=Hungarian hy=Armenian id=Indonesian is=Icelandic
    it=Italian ja=Japanese ka=Georgian kk=Kazakh km=Khmer ko=Korean lt=Lithuanian lv=Latvian
    mk=Macedonian ml=Malayalam mn=Mongolian mr=Marathi ms=Malay my=Burmese nb=Norwegian
    ne=Nepali nl=Dutch pl=Polish ps=Pashto pt=Portuguese ro=Romanian ru=Russian si=Sinhala
    sk=Slovak sl=Slovenian sq=Albanian sr=Serbian sv=Swedish sw=Swahili ta=Tamil te=Telugu
    th=Thai tl=Tagalog tr=Turkish uk=Ukrainian ur=Urdu uz=Uzbek vi=Vietnamese xh=Xhosa
    zh=Chinese
    """.split()
)


def name(code: str) -> str:
    """Return the name of ``de`` or ``de_DE``; the code itself if it is unknown."""
    return NAMES.get(code.replace("-", "_").partition("_")[0].lower(), code)
