"""Sphinx directive `public-header`: the reference of a public header, made from its comments.

    .. public-header:: libflux/attr.h

The first comment of the header becomes the description. After it, each comment that begins a line at the
margin explains the declarations that follow it up to the next such comment: they are shown first, then the
comment. A comment `/* --- title --- */` becomes a heading. What is indented deeper than its paragraph is
shown as it stands.
"""
import os
import re
import textwrap

from docutils import nodes
from docutils.parsers.rst import Directive

PREPROCESSOR = re.compile(r"#(ifndef|ifdef|endif|include|pragma|undef)|extern \"C\"|#define [A-Z_]+_H$")
TITLE = re.compile(r"-{3,}\s*(.+?)\s*-{3,}$", re.S)


def comment_text(raw):
    """The words of a comment, without its delimiters and the stars at the margin."""
    lines = raw.strip()[2:-2].split("\n")
    return "\n".join([lines[0].strip()] + [re.sub(r"^ ?\*? ?", "", line).rstrip() for line in lines[1:]]).strip("\n")


def without_bodies(code):
    """Declarations as a reader needs them: no include guards, no bodies of macros, no blank lines at the ends."""
    kept = []
    continued = False
    for line in code.split("\n"):
        if continued:
            continued = line.endswith("\\")
        elif line.startswith("#define ") and line.endswith("\\"):
            kept.append(line[:-1].rstrip())
            continued = True
        elif not PREPROCESSOR.match(line) and not line.startswith("}") or line.startswith("} ") or line == "};":
            kept.append(line)
    return "\n".join(kept).strip("\n")


def parts(text):
    """The header as a list of (comment, code): a comment at the margin and the code up to the next one."""
    found = []
    at = 0
    for match in re.finditer(r"^/\*.*?\*/[ \t]*\n", text, re.S | re.M):
        if found:
            found[-1][1] = text[at:match.start()]
        found.append([comment_text(match.group()), ""])
        at = match.end()
    if found:
        found[-1][1] = text[at:]
    return found


def prose(text):
    """Paragraphs and blocks of a comment."""
    out = []
    for block in re.split(r"\n[ \t]*\n", text):
        lines = block.split("\n")
        if all(line.startswith("  ") for line in lines):
            out.append(nodes.literal_block(text=textwrap.dedent(block)))
        elif any(line.startswith("   ") for line in lines[1:]):
            first = next(i for i, line in enumerate(lines) if i > 0 and line.startswith("   "))
            out.append(nodes.paragraph(text=" ".join(lines[:first])))
            out.append(nodes.literal_block(text=textwrap.dedent("\n".join(lines[first:]))))
        else:
            out.append(nodes.paragraph(text=re.sub(r"\s+", " ", block)))
    return out


def section(title, identifier):
    """A section with its title."""
    made = nodes.section(ids=[nodes.make_id(identifier + "-" + title)])
    made += nodes.title(text=title)
    return made


class PublicHeader(Directive):
    """The directive; its argument is the header's path below src/common, and `:include:` how a program names it,
    where that differs."""

    required_arguments = 1
    option_spec = {"include": str}

    def run(self):
        name = self.arguments[0]
        here = os.path.dirname(os.path.abspath(__file__))
        path = os.path.join(here, "..", "src", "common", name)
        with open(path, encoding="utf-8") as header:
            found = parts(header.read())
        self.state.document.settings.record_dependencies.add(path)

        synopsis = section("Synopsis", name)
        code = f"#include <{self.options.get('include', name)}>"
        synopsis += nodes.literal_block(code, code, language="c")
        description = section("Description", name)
        description += prose(found[0][0])
        current = section("Declarations", name)
        sections = [synopsis, description, current]
        items = [("", found[0][1])] + [tuple(item) for item in found[1:]]
        for comment, code in items:
            title = TITLE.match(comment)
            if title:
                current = section(title.group(1)[0].upper() + title.group(1)[1:], name)
                sections.append(current)
                comment = ""
            if comment.startswith("clang-format"):
                comment = ""
            code = without_bodies(code)
            if code:
                current += nodes.literal_block(code, code, language="c")
            if comment:
                current += prose(comment)
        return [made for made in sections if len(made.children) > 1]


def setup(app):
    """Called by Sphinx."""
    app.add_directive("public-header", PublicHeader)
    return {"parallel_read_safe": True}
