"""The examples of the manual page flux-python(3), in their order; and the docstrings."""

import inspect
import pathlib
import pydoc
import textwrap
import unittest

import flux

PAGE = pathlib.Path(__file__).parents[2] / "doc" / "man3" / "flux-python.rst"


def examples(text):
    """The blocks of code of a page."""
    for part in text.split(".. code-block:: python\n")[1:]:
        lines = []
        for line in part.split("\n"):
            if line.strip() and not line.startswith("   "):
                break
            lines.append(line)
        yield textwrap.dedent("\n".join(lines))


class DocTest(unittest.TestCase):
    def test_examples(self):
        """the examples do what they say"""
        names = {}
        blocks = list(examples(PAGE.read_text()))
        self.assertGreater(len(blocks), 5)
        exec(compile(blocks[0], "synopsis", "exec"), names)
        names["h"] = flux.open()
        names["kv"] = names["h"].kvs()
        for number, block in enumerate(blocks[1:], 1):
            exec(compile(block, f"example {number}", "exec"), names)
        names["h"].close()

    def test_docstrings(self):
        """all that is public has a docstring, and pydoc prints it"""
        for name in flux.__all__:
            thing = getattr(flux, name)
            self.assertTrue(thing.__doc__, name)
            for member, value in vars(thing).items() if inspect.isclass(thing) else ():
                if not member.startswith("_") and (
                    inspect.isfunction(value) or isinstance(value, property)
                ):
                    self.assertTrue(value.__doc__, f"{name}.{member}")
        for module in (
            "flux",
            "flux.handle",
            "flux.kvs",
            "flux.job",
            "flux.jobspec",
            "flux.stream",
        ):
            self.assertIn("NAME", pydoc.plain(pydoc.render_doc(module)))
