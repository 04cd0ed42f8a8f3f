#!/usr/bin/env python3
"""Look at a page that flux sim --report has written, as a parser of XML and one of HTML see it.

    report.py FILE outside            what it would load from elsewhere, and scripts: must print nothing
    report.py FILE title              its title
    report.py FILE ids                ids of tables and figures, sorted
    report.py FILE table ID           cells of a table, rows as lines, columns separated by "|"
    report.py FILE repeated           ids that stand for several elements: must print nothing
"""
import html.parser
import sys
import xml.etree.ElementTree as ElementTree


def local(e):
    return e.tag.split("}")[-1]


class Outside(html.parser.HTMLParser):
    def handle_starttag(self, tag, attrs):
        if tag in ("script", "link", "iframe", "object", "embed", "img", "image", "use", "base"):
            print(tag)
        for name, value in attrs:
            if name.startswith("on") or name.split(":")[-1] in ("href", "src"):
                print(name, value)


path, what = sys.argv[1:3]
with open(path, encoding="utf-8") as f:
    text = f.read()
root = ElementTree.fromstring(text)
ids = [e.get("id") for e in root.iter() if e.get("id")]
parts = {e.get("id"): e for e in root.iter() if local(e) in ("table", "figure") and e.get("id")}
if what == "outside":
    Outside().feed(text)
elif what == "title":
    print(root.find(".//{*}title").text)
elif what == "ids":
    print(" ".join(sorted(parts)))
elif what == "repeated":
    print("\n".join(sorted(i for i in set(ids) if ids.count(i) > 1)), end="")
else:
    for row in parts[sys.argv[3]].iter("{http://www.w3.org/1999/xhtml}tr"):
        print("|".join(cell.text for cell in row))
