"""Sphinx directive `drawing`: a drawing of a source file, as a picture where the output can show one.

    .. drawing:: src/broker/core.h session

In the source the drawing stands in a comment, below a line `Drawing (session): caption`, indented by three
columns. HTML shows it as SVG, made by aafigure (Debian: python3-aafigure); a man page, or HTML where aafigure is
missing, shows the text.
"""
import io
import os
import re
from html import escape

from docutils import nodes
from docutils.parsers.rst import Directive

try:
    import aafigure
except ImportError:
    aafigure = None


class drawing(nodes.General, nodes.Element):
    """A drawing: its text, and its caption."""


def find(path, name):
    """The caption and the lines of the drawing `name` in a source file."""
    caption, lines = None, []
    with open(path, encoding="utf-8") as source:
        for line in source:
            line = re.sub(r"^ \* ?", "", line.rstrip("\n"))
            match = re.match(r"Drawing \(" + re.escape(name) + r"\): (.*)", line)
            if match:
                caption = match.group(1)
            elif caption is not None and line.startswith("  "):
                lines.append(line[2:])
            elif lines and line.strip():
                break
            elif lines:
                lines.append("")
    if not lines:
        raise ValueError(f"{path} has no drawing '{name}'")
    return caption, "\n".join(lines).rstrip()


# aafigure draws a square for each character; ours are WIDE as wide as high.
CELL, LEFT, BASE, WIDE = 9.8, 3.0, 11.33, 0.62


def split(text):
    """The lines of a drawing without its words, and the words as (row, column, word): aafigure would take equal
    letters in two lines for a pattern, and a + in a word for a corner."""
    lines, words = text.split("\n"), []
    for row, line in enumerate(lines):
        above = lines[row - 1] if row else ""
        for match in re.finditer(r"[^\s|<>]*[A-Za-z0-9][^\s|<>]*(?: [^\s|<>+-][^\s|<>]*)*", line):
            start, word = match.start(), match.group()
            if word == "v" and above[start:start + 1] in ("|", "+"):
                continue
            words.append((row, start, word))
            lines[row] = lines[row][:start] + " " * len(word) + lines[row][start + len(word):]
    return "\n".join(lines), words


def to_svg(text):
    """The drawing as SVG."""
    out = io.BytesIO()
    lines, words = split(text)
    aafigure.render(lines, output=out, options={"format": "svg", "textual": True, "scale": 0.7, "line_width": 1.2})
    body = re.search(r"<svg[^>]*>(.*)</svg>", out.getvalue().decode("utf-8"), re.S).group(1)
    body = body.replace("<line ", "<line vector-effect=\"non-scaling-stroke\" ")
    width = WIDE * (2 * LEFT + CELL * max(len(line) for line in text.split("\n")))
    height = BASE + CELL * text.count("\n") + LEFT
    texts = "".join(f"<text x=\"{WIDE * (LEFT + CELL * column):.2f}\" y=\"{BASE + CELL * row:.2f}\">{escape(word)}</text>\n"
                    for row, column, word in words)
    return (f"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.2f} {height:.2f}\" width=\"{width:.0f}\">\n"
            f"<g transform=\"scale({WIDE} 1)\">{body}</g>\n"
            f"<g font-family=\"monospace\" font-size=\"{CELL * WIDE / 0.6:.2f}\" xml:space=\"preserve\">{texts}</g></svg>\n")


def visit_html(self, node):
    """The picture, or the text, with its caption below."""
    self.body.append(self.starttag(node, "div", CLASS="figure"))
    if aafigure:
        self.body.append(to_svg(node["text"]))
    else:
        self.body.append("<pre>" + self.encode(node["text"]) + "</pre>")
    self.body.append("<p class=\"caption\">" + self.encode(node["caption"]) + "</p></div>\n")
    raise nodes.SkipNode


def visit_man(self, node):
    """The text, then the caption."""
    block = nodes.literal_block(node["text"], node["text"])
    self.visit_literal_block(block)
    self.body.append(self.deunicode(node["text"].replace("\\", "\\e")))
    self.depart_literal_block(block)
    self.body.append("\n" + self.deunicode(node["caption"]) + "\n")
    raise nodes.SkipNode


class Drawing(Directive):
    """The directive; its arguments are the path of a source file from the top, and the name of the drawing."""

    required_arguments = 2

    def run(self):
        here = os.path.dirname(os.path.abspath(__file__))
        path = os.path.join(here, "..", self.arguments[0])
        caption, text = find(path, self.arguments[1])
        self.state.document.settings.record_dependencies.add(path)
        made = drawing()
        made["text"] = text
        made["caption"] = caption[0].upper() + caption[1:]
        return [made]


def setup(app):
    """Called by Sphinx."""
    app.add_node(drawing, html=(visit_html, None), man=(visit_man, None))
    app.add_directive("drawing", Drawing)
    return {"parallel_read_safe": True}
