"""The words of the toy corpus: one table per part of speech, one meaning per line.

Turkish plurals and their accusatives follow vowel harmony; all other forms are listed. ``-`` means
"by rule". Tags of nouns: p person, a animal, f food, t movable thing, x fixed thing; o can be
opened, b breaks, m can be repaired, c can be cooked, w can be washed.
"""

from typing import Dict, Iterator, List, NamedTuple, Tuple


class Noun(NamedTuple):
    """A noun: its forms in the three languages and its tags (one letter each)."""

    en: str
    en_plural: str
    gender: str
    de: str
    de_accusative: str
    de_plural: str
    tr: str
    tr_accusative: str
    tr_plural: str
    tr_plural_accusative: str
    tags: str


class Adjective(NamedTuple):
    """An adjective (the German one without its ending), and tags of nouns that it goes with."""

    en: str
    de_stem: str
    tr: str
    tags: str


class Verb(NamedTuple):
    """A transitive verb in the third person, with tags of its possible subjects and objects."""

    en: str
    en_plural: str
    en_past: str
    de: str
    de_plural: str
    de_past: str
    de_past_plural: str
    tr: str
    tr_past: str
    subjects: str
    objects: str


class Adverb(NamedTuple):
    """A time adverb and the tenses it goes with: ``=`` present, ``<`` past."""

    en: str
    de: str
    tr: str
    tenses: str


class Place(NamedTuple):
    """A phrase that says where; its last word is the noun (Turkish: in the locative)."""

    en: str
    de: str
    tr: str


BACK_VOWELS = "aıou"
FRONT_VOWELS = "eiöü"

# en      plural    gender de  accusative plural          tr  accusative plural  tags
_NOUNS = """
man       men       m Mann             -          Männer             adam      adamı      - p
woman     women     f Frau             -          Frauen             kadın     kadını     - p
child     children  n Kind             -          Kinder             çocuk     çocuğu     - pw
boy       boys      m Junge            Jungen     Jungen             oğlan     oğlanı     - p
girl      girls     n Mädchen          -          Mädchen            kız       kızı       - p
teacher   teachers  m Lehrer           -          Lehrer             öğretmen  öğretmeni  - p
doctor    doctors   m Arzt             -          Ärzte              doktor    doktoru    - p
student   students  m Student          Studenten  Studenten          öğrenci   öğrenciyi  - p
farmer    farmers   m Bauer            Bauern     Bauern             çiftçi    çiftçiyi   - p
neighbor  neighbors m Nachbar          Nachbarn   Nachbarn           komşu     komşuyu    - p
king      kings     m König            -          Könige             kral      kralı      - p
queen     queens    f Königin          -          Königinnen         kraliçe   kraliçeyi  - p
baker     bakers    m Bäcker           -          Bäcker             fırıncı   fırıncıyı  - p
soldier   soldiers  m Soldat           Soldaten   Soldaten           asker     askeri     - p
friend    friends   m Freund           -          Freunde            arkadaş   arkadaşı   - p
mother    mothers   f Mutter           -          Mütter             anne      anneyi     - p
father    fathers   m Vater            -          Väter              baba      babayı     - p
guest     guests    m Gast             -          Gäste              misafir   misafiri   - p
hunter    hunters   m Jäger            -          Jäger              avcı      avcıyı     - p
nurse     nurses    f Krankenschwester -          Krankenschwestern  hemşire   hemşireyi  - p
dog       dogs      m Hund             -          Hunde              köpek     köpeği     - aw
cat       cats      f Katze            -          Katzen             kedi      kediyi     - a
horse     horses    n Pferd            -          Pferde             at        atı        - aw
cow       cows      f Kuh              -          Kühe               inek      ineği      - aw
bird      birds     m Vogel            -          Vögel              kuş       kuşu       - a
mouse     mice      f Maus             -          Mäuse              fare      fareyi     - a
lion      lions     m Löwe             Löwen      Löwen              aslan     aslanı     - a
bear      bears     m Bär              Bären      Bären              ayı       ayıyı      - a
goat      goats     f Ziege            -          Ziegen             keçi      keçiyi     - aw
duck      ducks     f Ente             -          Enten              ördek     ördeği     - a
monkey    monkeys   m Affe             Affen      Affen              maymun    maymunu    - a
rabbit    rabbits   n Kaninchen        -          Kaninchen          tavşan    tavşanı    - a
wolf      wolves    m Wolf             -          Wölfe              kurt      kurdu      - a
snake     snakes    f Schlange         -          Schlangen          yılan     yılanı     - a
frog      frogs     m Frosch           -          Frösche            kurbağa   kurbağayı  - a
apple     apples    m Apfel            -          Äpfel              elma      elmayı     - fw
egg       eggs      n Ei               -          Eier               yumurta   yumurtayı  - fbc
potato    potatoes  f Kartoffel        -          Kartoffeln         patates   patatesi   - fcw
cake      cakes     m Kuchen           -          Kuchen             kek       keki       - f
soup      soups     f Suppe            -          Suppen             çorba     çorbayı    - fc
tomato    tomatoes  f Tomate           -          Tomaten            domates   domatesi   - fcw
pear      pears     f Birne            -          Birnen             armut     armudu     - fw
carrot    carrots   f Karotte          -          Karotten           havuç     havucu     - fcw
mushroom  mushrooms m Pilz             -          Pilze              mantar    mantarı    - fcw
book      books     n Buch             -          Bücher             kitap     kitabı     - to
letter    letters   m Brief            -          Briefe             mektup    mektubu    - to
door      doors     f Tür              -          Türen              kapı      kapıyı     - xom
window    windows   n Fenster          -          Fenster            pencere   pencereyi  - xobmw
table     tables    m Tisch            -          Tische             masa      masayı     - tmw
chair     chairs    m Stuhl            -          Stühle             sandalye  sandalyeyi - tm
car       cars      n Auto             -          Autos              araba     arabayı    - xomw
bicycle   bicycles  n Fahrrad          -          Fahrräder          bisiklet  bisikleti  - tmw
clock     clocks    f Uhr              -          Uhren              saat      saati      saatler tm
cup       cups      f Tasse            -          Tassen             fincan    fincanı    - tbw
plate     plates    m Teller           -          Teller             tabak     tabağı     - tbw
bottle    bottles   f Flasche          -          Flaschen           şişe      şişeyi     - tobw
knife     knives    n Messer           -          Messer             bıçak     bıçağı     - tw
key       keys      m Schlüssel        -          Schlüssel          anahtar   anahtarı   - t
lamp      lamps     f Lampe            -          Lampen             lamba     lambayı    - tbm
hat       hats      m Hut              -          Hüte               şapka     şapkayı    - tw
"""

# en      German stem (before the ending) tr      goes with
_ADJECTIVES = """
big       groß       büyük     paftx
small     klein      küçük     paftx
old       alt        yaşlı     pa
new       neu        yeni      tx
young     jung       genç      pa
red       rot        kırmızı   ftx
white     weiß       beyaz     atx
black     schwarz    siyah     atx
green     grün       yeşil     tx
beautiful schön      güzel     paftx
clever    klug       akıllı    pa
strong    stark      güçlü     pa
tired     müd        yorgun    pa
hungry    hungrig    aç        pa
happy     glücklich  mutlu     p
poor      arm        fakir     p
heavy     schwer     ağır      tx
expensive teur       pahalı    tx
fresh     frisch     taze      f
dirty     schmutzig  kirli     tx
"""

# English: 3sg plural past; German: 3sg plural past-3sg past-plural; Turkish: present past; tags of
# subjects and objects
_VERBS = """
sees    see    saw     sieht      sehen      sah        sahen       görüyor     gördü     pa paftx
loves   love   loved   liebt      lieben     liebte     liebten     seviyor     sevdi     p  pa
finds   find   found   findet     finden     fand       fanden      buluyor     buldu     pa paftx
takes   take   took    nimmt      nehmen     nahm       nahmen      alıyor      aldı      p  ft
sells   sell   sold    verkauft   verkaufen  verkaufte  verkauften  satıyor     sattı     p  ftx
hears   hear   heard   hört       hören      hörte      hörten      duyuyor     duydu     pa pa
carries carry  carried trägt      tragen     trug       trugen      taşıyor     taşıdı    p  ft
eats    eat    ate     isst       essen      aß         aßen        yiyor       yedi      p  f
washes  wash   washed  wäscht     waschen    wusch      wuschen     yıkıyor     yıkadı    p  w
draws   draw   drew    zeichnet   zeichnen   zeichnete  zeichneten  çiziyor     çizdi     p  paftx
opens   open   opened  öffnet     öffnen     öffnete    öffneten    açıyor      açtı      p  o
repairs repair repaired repariert reparieren reparierte reparierten onarıyor    onardı    p  m
cooks   cook   cooked  kocht      kochen     kochte     kochten     pişiriyor   pişirdi   p  c
hides   hide   hid     versteckt  verstecken versteckte versteckten saklıyor    sakladı   p  ft
steals  steal  stole   stiehlt    stehlen    stahl      stahlen     çalıyor     çaldı     pa ft
chases  chase  chased  verfolgt   verfolgen  verfolgte  verfolgten  kovalıyor   kovaladı  pa pa
feeds   feed   fed     füttert    füttern    fütterte   fütterten   besliyor    besledi   p  a
knows   know   knew    kennt      kennen     kannte     kannten     tanıyor     tanıdı    p  p
bites   bite   bit     beißt      beißen     biss       bissen      ısırıyor    ısırdı    a  pa
forgets forget forgot  vergisst   vergessen  vergaß     vergaßen    unutuyor    unuttu    p  pt
loses   lose   lost    verliert   verlieren  verlor     verloren    kaybediyor  kaybetti  p  t
brings  bring  brought bringt     bringen    brachte    brachten    getiriyor   getirdi   p  ft
breaks  break  broke   zerbricht  zerbrechen zerbrach   zerbrachen  kırıyor     kırdı     pa b
watches watch  watched beobachtet beobachten beobachtete beobachteten izliyor   izledi    pa pa
catches catch  caught  fängt      fangen     fing       fingen      yakalıyor   yakaladı  pa a
"""

# en      de         tr         tenses
_ADVERBS = """
today     heute      bugün      =<
yesterday gestern    dün        <
now       jetzt      şimdi      =
sometimes manchmal   bazen      =<
often     oft        sıkça      =<
usually   gewöhnlich genellikle =<
suddenly  plötzlich  aniden     =<
recently  neulich    geçenlerde <
"""

_PLACES = """
in the garden  | im Garten     | bahçede
in the kitchen | in der Küche  | mutfakta
in the park    | im Park       | parkta
in the school  | in der Schule | okulda
in the forest  | im Wald       | ormanda
in the village | im Dorf       | köyde
in the city    | in der Stadt  | şehirde
at the market  | auf dem Markt | pazarda
at the station | am Bahnhof    | istasyonda
on the beach   | am Strand     | plajda
"""

# number -> English, German, Turkish
NUMERALS: Dict[int, Tuple[str, str, str]] = {
    2: ("two", "zwei", "iki"),
    3: ("three", "drei", "üç"),
    4: ("four", "vier", "dört"),
    5: ("five", "fünf", "beş"),
}
BECAUSE: Tuple[str, str, str] = ("because", "weil", "çünkü")


def _lines(table: str) -> Iterator[str]:
    return (line for line in table.splitlines() if line.strip())


def _is_back(word: str) -> bool:
    """Return True if the last vowel of a Turkish word is a back vowel."""
    last = [letter for letter in word if letter in BACK_VOWELS + FRONT_VOWELS][-1]
    return last in BACK_VOWELS


def _read_noun(line: str) -> Noun:
    en, en_plural, gender, de, de_acc, de_plural, tr, tr_acc, tr_plural, tags = line.split()
    if tr_plural == "-":
        tr_plural = tr + ("lar" if _is_back(tr) else "ler")
    tr_plural_acc = tr_plural + ("ı" if _is_back(tr_plural) else "i")
    if de_acc == "-":
        de_acc = de
    german, turkish = (gender, de, de_acc, de_plural), (tr, tr_acc, tr_plural, tr_plural_acc)
    return Noun(en, en_plural, *german, *turkish, tags)


NOUNS = tuple(_read_noun(line) for line in _lines(_NOUNS))
ADJECTIVES = tuple(Adjective(*line.split()) for line in _lines(_ADJECTIVES))
VERBS = tuple(Verb(*line.split()) for line in _lines(_VERBS))
ADVERBS = tuple(Adverb(*line.split()) for line in _lines(_ADVERBS))
PLACES = tuple(Place(*map(str.strip, line.split("|"))) for line in _lines(_PLACES))


def gold_entries() -> List[Tuple[str, str, str]]:
    """Return a row (English, German, Turkish) per meaning, in forms that occur in the corpus.

    Nouns stand in the nominative singular, verbs in the third person singular present, German
    adjectives as after `der`, Turkish places in the locative.
    """
    entries = [(noun.en, noun.de, noun.tr) for noun in NOUNS]
    entries += [(adjective.en, adjective.de_stem + "e", adjective.tr) for adjective in ADJECTIVES]
    entries += [(verb.en, verb.de, verb.tr) for verb in VERBS]
    entries += [(adverb.en, adverb.de, adverb.tr) for adverb in ADVERBS]
    for place in PLACES:
        entries.append((place.en.split()[-1], place.de.split()[-1], place.tr))
    entries += list(NUMERALS.values()) + [BECAUSE]
    return entries
