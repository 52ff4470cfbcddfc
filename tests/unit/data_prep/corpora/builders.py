"""Write tiny archives and corpora in the layouts of their releases."""

import gzip
import io
import json
import tarfile
import zipfile


def write_tar(path, files, mode="w:gz", **special):
    """Write an archive; ``special`` maps a name to a member type and its link."""
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for name, (kind, link) in special.items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, link
            archive.addfile(member)
    return path


def write_zip(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return path


def ted_archive(path):
    rows = [
        [f"talk{i}", f"hello {i} &apos;s", f"hallo {i}" if i % 3 else "__NULL__", f"ni {i}"]
        for i in range(9)
    ]
    rows += [["talk9", "a\u2028b", "", "x"], ["talk9", "c  d", "e", "__NULL__ "]]
    small = [["talk", "good day", "guten tag", "__NULL__"], ["talk", "one", "eins", "yi"]]
    files = {}
    for split, table in (("train", rows), ("dev", small), ("test", small)):
        lines = ["\t".join(row) for row in [["talk_name", "en", "de", "zh-cn"], *table]]
        files[f"all_talks_{split}.tsv"] = "".join(f"{line}\n" for line in lines).encode()
    return write_tar(path, files)


IWSLT_SETS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")


def iwslt_archive(path, count=46):
    files = {}
    for lang in ("de", "en"):
        lines = ["<url>http://www.ted.com/x</url>", "<keywords>talks</keywords>"]
        lines += ["<talkid>1</talkid>", f"<title>A title {lang}</title>"]
        lines += [f"<description>TED &amp; me {lang}</description>", " "]
        lines += [f"sentence {i} {lang}" for i in range(count)] + ["<reviewer></reviewer>"]
        files[f"de-en/train.tags.de-en.{lang}"] = "".join(f"{line}\n" for line in lines).encode()
        for name in IWSLT_SETS:
            lines = [f'<seg id="{i}"> {name} {i} &quot;{lang}&quot; </seg>\n' for i in (1, 2)]
            document = f'<doc docid="1">\n{"".join(lines)}</doc>'
            body = f'<?xml version="1.0"?>\n<mteval>\n{document}\n</mteval>\n'
            files[f"de-en/IWSLT14.{name}.de-en.{lang}.xml"] = body.encode()
    return write_tar(path, files)


def wmt_archives(folder, lang):
    """Write the archives of a language with English; French has two more."""

    def parallel(name, count):
        return {
            f"{name}.{code}": "".join(f"{name} {i} {code}\r\n" for i in range(count)).encode()
            for code in (lang, "en")
        }

    tests = {}
    for code in (lang, "en"):
        for role in ("src", "ref"):
            segment = f'<seg id="1">{role} {code}</seg>'
            body = f'<srcset setid="newstest2014">\n{segment}\n</srcset>\n'
            tests[f"test-full/newstest2014-{lang}en-{role}.{code}.sgm"] = body.encode()
    archives = {
        "training-parallel-europarl-v7.tgz": parallel(f"training/europarl-v7.{lang}-en", 150),
        "training-parallel-commoncrawl.tgz": parallel(f"commoncrawl.{lang}-en", 40),
        "training-parallel-nc-v9.tgz": parallel(f"training/news-commentary-v9.{lang}-en", 10),
        "test-full.tgz": tests,
        "dev.tgz": parallel("dev/newstest2013", 3),
    }
    if lang == "fr":
        giga = parallel("giga-fren.release2.fixed", 1200)
        archives["training-parallel-un.tgz"] = parallel("un/undoc.2000.fr-en", 5)
        archives["training-giga-fren.tar"] = {
            f"{name}.gz": gzip.compress(text) for name, text in giga.items()
        }
    return [
        write_tar(folder / name, files, "w:gz" if name.endswith("gz") else "w")
        for name, files in archives.items()
    ]


ML50_PAIRS = {"de_DE-en_XX": "de_DE", "en_XX-fr_XX": "fr_XX"}


def ml50_archive(path):
    """Write training sets with one duplicate and two sentences of other sets."""
    files = {}
    for pair, lang in ML50_PAIRS.items():
        for split, count in (("train", 6), ("valid", 2), ("test", 1)):
            for side in (lang, "en_XX"):
                lines = [f"{split} {pair} {i} {side}" for i in range(count)]
                if split == "train":
                    lines.append(lines[0])
                    if side == "en_XX":
                        lines += [f"{name} en_XX-fr_XX 0 en_XX" for name in ("test", "valid")]
                    else:
                        lines += ["other", "text"]
                files[f"raw/{split}.{pair}.{side}"] = ("\n".join(lines) + "\n").encode()
    return write_tar(path, files)


def squad(articles):
    """Return SQuAD's layout of title -> [(passage, [(question, answers)])]."""

    def paragraph(passage, questions):
        rows = []
        for question, answers in questions:
            answers = [{"text": text, "answer_start": 0} for text in answers]
            rows.append({"question": question, "answers": answers})
        return {"context": passage, "qas": rows}

    content = [
        {"title": title, "paragraphs": [paragraph(*row) for row in rows]}
        for title, rows in articles.items()
    ]
    return json.dumps({"data": content}, indent=1)
