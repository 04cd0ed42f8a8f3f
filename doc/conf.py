"""Sphinx configuration: HTML of everything here, and a man page for each file of man1/, man3/ and man5/."""
import os
import re
import sys

_here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, _here)

extensions = ["drawing", "headers"]
project = "flux"
author = "the flux developers"
copyright = "the flux developers, LGPL-3.0-or-later"
release = version = os.environ.get("FLUX_VERSION", "")

root_doc = "index"
exclude_patterns = ["build", "doctrees", "html", "man"]
html_theme = "alabaster"
html_theme_options = {"description": "sessions of brokers that run parallel programs"}
html_show_sourcelink = False
nitpicky = True
smartquotes = False  # a dash in a man page is an option, not typography
man_show_urls = True


def _summary(path):
    """The one-line summary of a man page: the field `:summary:` at its very top."""
    with open(path, encoding="utf-8") as page:
        match = re.match(r":summary: (.+)\n", page.read())
    if match is None:
        raise ValueError(path + ": the first line has to be `:summary: one line`")
    return match.group(1)


man_pages = [
    (f"man{section}/{name[:-4]}", name[:-4], _summary(os.path.join(_here, f"man{section}", name)),
     [], section)
    for section in (1, 3, 5)
    for name in sorted(os.listdir(os.path.join(_here, f"man{section}")))
    if name.startswith("flux") and name.endswith(".rst")
]
