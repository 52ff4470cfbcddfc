"""Check a built site: ``check_links.py FOLDER``.

Every local link and anchor must exist, and no page may load anything from another host.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

LOADED = {"img": "src", "script": "src", "iframe": "src", "source": "src", "link": "href"}
"""Tag -> attribute of what a browser fetches by itself."""


class Page(HTMLParser):
    """The anchors, links and loaded resources of a page."""

    def __init__(self, path: Path):
        super().__init__()
        self.anchors, self.links, self.loaded = {""}, set(), set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        """Collect anchors, and links to pages and resources."""
        given = dict(attributes)
        self.anchors.update(given[name] for name in ("id", "name") if given.get(name))
        if tag == "a" and given.get("href"):
            self.links.add(given["href"])
        if tag in LOADED and given.get(LOADED[tag]):
            self.loaded.add(given[LOADED[tag]])


def broken(root: Path):
    """List ``page: link`` for every broken local link and for every resource of another host."""
    pages = {path.resolve(): Page(path) for path in sorted(root.rglob("*.html"))}
    for path, page in pages.items():
        for link in sorted(page.links | page.loaded):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loaded and parts.scheme != "data":
                    yield f"{path.relative_to(root)}: loads {link}"
                continue
            target, anchor = urldefrag(link)
            file = (path.parent / unquote(target.partition("?")[0])).resolve() if target else path
            file = file / "index.html" if file.is_dir() else file
            missing_anchor = file in pages and unquote(anchor) not in pages[file].anchors
            if not file.exists() or missing_anchor:
                yield f"{path.relative_to(root)}: {link}"


def main() -> int:
    """1 where something is broken."""
    root = Path(sys.argv[1]).resolve()
    lines = list(broken(root))
    for line in lines:
        print(line, file=sys.stderr)
    print(f"{root.name}: {len(list(root.rglob('*.html')))} pages, {len(lines)} broken links")
    return bool(lines)


if __name__ == "__main__":
    raise SystemExit(main())
