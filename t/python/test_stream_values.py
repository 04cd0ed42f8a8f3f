"""What the steps of streams hold: in a session of 2 brokers."""

import array
import contextlib
import dataclasses
import errno
import gc
import json
import os
import resource
import subprocess
import tempfile
import time
import unittest
from typing import Annotated, List, Optional

import flux
from test_handle import Case


@dataclasses.dataclass
class Bond:
    to: int
    length: float


@dataclasses.dataclass
class Atom:
    id: int
    name: str
    at: Annotated[List[float], "f32[3]"]
    bonds: List[Bond]
    charge: Optional[float] = None
    next: Optional[Bond] = None


class StreamValuesTest(Case):
    def check_pinned(self, transport):
        name = f"py.p.{transport}"
        outs = [self.h.stream_writer(name, rank=n, size=2, transport=transport) for n in range(2)]
        for n, out in enumerate(outs):
            mesh = array.array("q", range(4 * n, 4 * n + 4))
            out.put("mesh", mesh, shape=(8,), offset=(4 * n,), pinned=True)
            out.put("note", b"first", pinned=n == 0)
            out.end_step()  # nobody reads
        with self.h.stream_reader(name, transport=transport, stay=True) as steps:
            outs[0].put("note", b"second")
            outs[0].end_step()
            outs[1].end_step()
            outs[1].put("mesh", mesh, shape=(8,), offset=(4,))
            outs[0].end_step()
            outs[1].end_step()
            box = array.array("q", bytes(64))
            step = steps.begin_step(timeout=60)
            self.assertEqual((step.variables(), step.pinned(1)), (["note"], ["mesh"]))
            self.assertEqual(step["note"], b"second")
            step.read_into("mesh", box)
            self.assertEqual(list(box), list(range(8)))
            self.fails(errno.ENOENT, step.get, "note", 1)
            step = steps.begin_step(timeout=60)
            self.assertEqual((step.variables(), step["note"]), ([], b"second"))
            self.assertEqual(sorted(step.pinned()), ["mesh", "note"])
            self.assertEqual(list(step.get("mesh", 1).cast("q")), [4, 5, 6, 7])
            self.assertEqual(step.inquire("mesh").count, (8,))
            steps.end_step()
            # A writer that takes the place of another one has pinned nothing yet.
            outs[0].close()
            outs[0] = self.h.stream_writer(name, rank=0, size=2, keep=2, transport=transport)
            self.assertEqual(outs[0].step, outs[1].step)
            self.assertEqual((outs[0].epoch, outs[1].epoch, step.epoch), (2, 1, 1))
            for value in (None, b"third"):
                if value:
                    outs[0].put("note", value, pinned=True)
                outs[0].end_step()
                outs[1].end_step()
                step = steps.begin_step(timeout=60)
                self.assertEqual(step.pinned(), ["note"] if value else [])
                self.assertEqual((step.pinned(1), step.epoch), (["mesh"], 2))
            self.assertEqual(step["note"], b"third")
            # The other one has been there in this epoch, although it has not joined in it.
            outs[1].close()
            outs[1] = self.h.stream_writer(name, rank=1, size=2, keep=2, transport=transport)
            self.assertEqual((outs[0].epoch, outs[1].epoch), (2, 3))
            for out in outs:
                out.end_step()
            self.assertEqual(steps.begin_step(timeout=60).epoch, 3)
        for out in outs:
            out.close()

    def test_pinned(self):
        """pinned variables are found by readers that join later"""
        for transport in ("ring", "tcp"):
            self.check_pinned(transport)

    def test_pinned_bound(self):
        """what is pinned has a bound, and is counted"""

        def counted() -> int:
            streams = self.h.rpc("stream.list")["streams"]
            return next(s["pinned"] for s in streams if s["name"] == "py.q")

        with self.h.stream_writer("py.q") as out:
            self.fails(errno.EINVAL, out.put, "a b", b"", pinned=True)
            out.put("x", b"small", pinned=True)
            out.end_step()
            out.put("x", bytes(64 << 20))
            self.fails(errno.ENOSPC, out.end_step)
            while counted() == 0:
                out.end_step()
            self.assertLess(counted(), 1000)
            with self.h.stream_reader("py.q") as steps:
                out.end_step()
                self.assertEqual(steps.begin_step(timeout=60)["x"], b"small")

    def test_pinned_copied(self):
        """put_all() pins what was pinned, and adds it once"""
        with self.h.stream_writer("py.r") as out:
            out.put("x", b"1", pinned=True)
            out.end_step()
            with self.h.stream_reader("py.r") as steps, self.h.stream_writer("py.s") as to:
                with self.h.stream_reader("py.s") as copies:
                    for names in (["y", "x"], ["y"]):
                        out.put("y", b"2")
                        out.end_step()
                        to.put_all(steps.begin_step(timeout=60))
                        to.end_step()
                        copy = copies.begin_step(timeout=60)
                        self.assertEqual((copy.variables(), copy.pinned()), (names, ["x"]))
                        self.assertEqual(copy["x"], b"1")
                    # A value that was pinned by a step that is not copied comes with the next.
                    out.put("x", b"2")
                    out.end_step()
                    steps.begin_step(timeout=60)
                    for names in (["y", "x"], ["y"]):
                        out.put("y", b"3")
                        out.end_step()
                        to.put_all(steps.begin_step(timeout=60))
                        to.end_step()
                        copy = copies.begin_step(timeout=60)
                        self.assertEqual((copy.variables(), copy["x"]), (names, b"2"))

    def test_pinned_recorded(self):
        """a recording has what was pinned, as readers of the stream, and of its replay, do"""
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "pinned.rec")
            with self.h.stream_writer("py.pr", keep=6) as out:
                out.put("mesh", b"m" * 5000, pinned=True)
                out.end_step()
                for n in range(6):
                    out.put("n", bytes([65 + n]))
                    if n == 4:
                        out.put("mesh", b"M" * 5000, pinned=True)
                    out.end_step()
                record = ["flux", "stream", "record", "--count=6", "py.pr", path]
                subprocess.run(record, check=True)
            with flux.Recording(path) as steps:
                self.assertEqual(len(steps), 6)
                for i in (5, 0, 3, 4):
                    step = steps.begin_step(i + 1)
                    self.assertEqual(step.pinned(), ["mesh"])
                    self.assertEqual(step["mesh"], (b"M" if i >= 4 else b"m") * 5000)
                    steps.end_step()
            # The value that did not change is there once: 6 steps, and two blocks of 5000 bytes.
            self.assertLess(os.path.getsize(path), 3 * 5000 + 6 * 1024)
            replay = subprocess.Popen(
                ["flux", "stream", "replay", "--rate=max", "--name=py.ps", path]
            )
            with self.h.stream_reader("py.ps") as steps:
                for n in range(6):
                    step = steps.begin_step(timeout=60)
                    self.assertEqual(step["n"], bytes([65 + n]))
                    self.assertEqual((step.pinned(), len(step["mesh"])), (["mesh"], 5000))
                    self.assertEqual(step["mesh"][:1], b"M" if n >= 4 else b"m")
                    self.assertEqual("mesh" in step.variables(), n in (0, 4))
                    steps.end_step()
            self.assertEqual(replay.wait(60), 0)
            cat = ["flux", "stream", "cat", "--file", "--raw", "--var=mesh", "--count=1", path]
            self.assertEqual(subprocess.check_output(cat), b"m" * 5000)

    def transform(self, text):
        """the name of a file with a transform"""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = os.path.join(directory.name, "t.lua")
        with open(path, "w", encoding="ascii") as f:
            f.write(f"transform(function(s) {text} end)")
        return path

    def test_transforms(self):
        """a reader, or a writer, transforms steps"""
        double = self.transform("s:keep('n') s:put('x', s:get('x'):scale(2))")
        odd = self.transform("s:keep() return s:get('x')[0] % 4 == 2")
        views = []
        with self.h.stream_writer("py.tr") as out, self.h.stream_reader(
            "py.tr", transforms=f"{double} | {odd}"
        ) as steps:
            for n in range(6):
                out.put("n", b"%d" % n, pinned=n == 0)
                out.put("x", array.array("d", [n, 1.5]), shape=(2,))
                out.put("y", b"")
                out.end_step()
            out.close()
            for step in steps:
                self.assertEqual((step.variables(), step.pinned()), (["x", "n"], ["n"]))
                self.fails(errno.ENOENT, step.get, "y")
                self.assertEqual(bytes(step["n"]), b"%d" % step.number)
                self.assertEqual(step.inquire("x").shape, (2,))
                views.append((step.number, step["x"].cast("d")))
        gc.collect()
        self.assertEqual([(n, list(v)) for n, v in views], [(n, [2.0 * n, 3.0]) for n in (1, 3, 5)])
        with self.h.stream_writer("py.tr", transforms=double, keep=1) as out:
            out.put("n", b"1", pinned=True)
            out.put("x", array.array("d", [4.0]), shape=(1,))
            out.put("y", bytes(1000))
            out.end_step()
            with self.h.stream_reader("py.tr") as steps:
                step = steps.begin_step(timeout=60)
                self.assertEqual((step.variables(), step.pinned()), (["n", "x"], ["n"]))
                self.assertEqual(list(step["x"].cast("d")), [8.0])
            self.assertIsNone(out.fault)

    def test_transforms_fail(self):
        """what fails ends a subscription, or leaves a writer as it was"""
        wrong = self.transform("s:get('none')")
        with self.h.stream_writer("py.tf", transforms=wrong) as out:
            with self.h.stream_reader("py.tf", transforms=wrong) as steps:
                out.put("x", b"as it was")
                out.end_step()
                self.assertRegex(out.fault, "step 0 of stream 'py.tf': .*no variable 'none'")
                for _ in range(2):
                    e = self.fails(errno.ENOTRECOVERABLE, steps.begin_step, timeout=60)
                    self.assertRegex(str(e), "step 0 of stream 'py.tf': .*t.lua:1: .*'none'")
                # The writer does not wait for the reader that has left.
                for _ in range(5):
                    out.put("x", b"more")
                    out.end_step(60)
            with self.h.stream_reader("py.tf") as steps:
                out.put("x", b"as it was")
                out.end_step()
                self.assertEqual(bytes(steps.begin_step(timeout=60)["x"]), b"as it was")
        self.fails(errno.EINVAL, self.h.stream_writer, "py.tf", transforms="|")
        self.fails(errno.ENOENT, self.h.stream_reader, "py.tf", transforms="/none/x.so")

    def test_transforms_records(self):
        """records are kept, and their fields are read, on both sides"""
        path = self.transform("s:keep('atoms') s:put('far', s:get('atoms.at'):max())")
        atoms = [Atom(i, str(i), [i, 2.0, 3.0], [Bond(i, 0.5)]) for i in range(5)]
        for side in range(2):
            with self.h.stream_writer("py.trr", transforms=(path, None)[side]) as out:
                with self.h.stream_reader("py.trr", transforms=(None, path)[side]) as steps:
                    out.put("atoms", atoms, format=Atom)
                    out.put("other", b"")
                    out.end_step()
                    self.assertIsNone(out.fault)
                    step = steps.begin_step(timeout=60)
                    self.assertEqual(sorted(step.variables()), ["atoms", "far"])
                    self.assertEqual(list(step["far"].cast("d")), [4.0])
                    self.assertEqual(step.records("atoms", format=Atom), atoms)

    def test_too_large(self):
        """a step for which there is no room is forgotten, and the next one is written"""
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
        try:
            out = self.h.stream_writer("py.n", keep=1)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        with out, self.h.stream_reader("py.n") as steps:
            out.put("x", bytes(2 << 20))
            self.fails(errno.ENOSPC, out.end_step)
            out.put("x", b"small")
            out.end_step()
            self.assertEqual(bytes(steps.begin_step(timeout=60)["x"]), b"small")

    def test_format(self):
        """the format of a stream is that of its present writers"""
        name = {"name": "py.m"}
        first = self.h.stream_writer("py.m")
        first.define("x")
        with self.h.stream_reader("py.m"):
            first.close()
            self.assertEqual(self.h.rpc("stream.format", name), {"format": "x"})
            with self.h.stream_writer("py.m"):
                self.fails(errno.ENODATA, self.h.rpc, "stream.format", name)

    def test_attributes(self):
        """attributes of variables, of the stream, and of records and their fields"""
        kind = flux.RecordFormat(
            'record point\nattr title "where"\nfield x f64\nattr units "m"\n'
            'record atom\nattr title "an atom"\nfield id u64\nattr note "\\"1\\""\nfield at point\n'
        )
        self.assertEqual(kind.attributes, {"title": "an atom"})
        self.assertEqual(kind.field_attributes("at.x"), {"units": "m"})
        self.assertEqual(kind.field_attributes("id"), {"note": '"1"'})
        self.assertRaises(KeyError, kind.field_attributes, "id.x")
        self.assertRaises(KeyError, kind.field_attributes, "nope")
        with self.h.stream_writer("py.attr", keep=1) as out:
            out.set_attribute("units", "K", "T")
            out.set_attribute("empty", "", "T")
            out.set_attribute("range", [0.5, 1.5], "T")
            out.set_attribute("count", 7)
            out.put("T", array.array("d", [1.0, 2.0]), shape=(2,))
            out.end_step()
            out.put("T", array.array("d", [1.0, 2.0]), shape=(2,))
            out.put("a", [{"id": 1, "at": {"x": 2.0}}], format=kind)
            out.end_step()
            with self.h.stream_reader("py.attr") as steps:
                step = steps.begin_step(timeout=60)
                self.assertEqual((step.number, step.variables()), (1, ["T", "a"]))
                self.assertEqual(step.attribute("units", "T"), "K")
                self.assertEqual(
                    step.attributes("T"), {"units": "K", "empty": "", "range": [0.5, 1.5]}
                )
                self.assertEqual((step.attribute("count"), step.attributes()), (7, {"count": 7}))
                self.assertEqual(step.attribute("title", "a"), "an atom")
                self.assertEqual(step.attributes("a"), {"title": "an atom"})
                self.assertEqual(step.attribute("units", "a.at.x"), "m")
                self.fails(errno.ENOENT, step.attribute, "units", "a.at")
                self.fails(errno.ENOENT, step.attribute, "units")
                self.refuses(errno.EINVAL, "no writer of rank 3", step.attribute, "units", "T", 3)
            # A new value hides the one before; other programs see it.
            out.set_attribute("units", "C", "T")
            out.put("T", array.array("d", [1.0, 2.0]), shape=(2,))
            out.end_step()
            with self.h.stream_reader("py.attr") as steps:
                self.assertEqual(steps.begin_step(timeout=60).attribute("units", "T"), "C")
            text = subprocess.check_output(["flux", "stream", "format", "py.attr"]).decode()
            self.assertIn('attr units "m"', text)
        with self.h.stream_writer("py.attr.b", keep=1) as out:
            out.set_attribute("units", "K", "T")
            out.set_attribute("title", "heat")
            while not self.h.rpc("stream.list", {"name": "py.attr.b"})["streams"][0]["step"]:
                out.put("T", array.array("d", [1.0, 2.0]), shape=(2,))
                out.end_step()
                time.sleep(0.01)
            command = ["flux", "stream", "format", "py.attr.b"]
            line = subprocess.check_output(command).decode().splitlines()
            self.assertRegex("\n".join(line), 'T +f64 +\\[2\\] +yes +1 +units="K"')
            self.assertIn('title="heat"', line)
            self.assertNotIn("@", "".join(line))
            found = json.loads(subprocess.check_output([*command, "--json"]))
            self.assertEqual(found["variables"][0]["attributes"], {"units": "K"})
            self.assertEqual(found["attributes"], {"title": "heat"})

    def test_pieces(self):
        """pieces of a global array, boxes of it"""
        outs = [self.h.stream_writer("py.i", rank=n, size=2) for n in range(2)]
        with self.h.stream_reader("py.i") as steps:
            for n, out in enumerate(outs):
                piece = memoryview(bytes(range(12 * n, 12 * n + 12))).cast("B", (3, 4))
                out.put("G", piece, shape=(6, 4), offset=(3 * n, 0))
                out.put("L", array.array("i", [n]))
                out.put("raw", b"123")
                if n == 0:
                    out.put("half", piece, shape=(6, 4), offset=(0, 0))
                self.assertRaises(ValueError, out.put, "x", piece, shape=(6,))
                self.assertRaises(ValueError, out.put, "x", piece, offset=(1, 1))
                self.assertRaises(TypeError, out.put, "x", b"abc", shape=(3,))
                self.fails(errno.EINVAL, out.put, "x", piece, shape=(6, 4), offset=(5, 0))
                out.end_step()
            step = steps.begin_step(timeout=60)
            whole = step.inquire("G")
            self.assertEqual((whole.type, whole.dtype, whole.shape), ("u8", "u1", (6, 4)))
            self.assertTrue(whole.is_global)
            piece = step.inquire("G", 1)
            self.assertEqual((piece.offset, piece.count), ((3, 0), (3, 4)))
            self.assertEqual(step.inquire("L", 1).type, "i32")
            self.fails(errno.EINVAL, step.inquire, "L")
            self.fails(errno.ENOENT, step.inquire, "raw", 0)
            box = bytearray(4)
            step.read_into("G", box, (2, 1), (2, 2), (2, 2))
            self.assertEqual(list(box), [9, 11, 17, 19])
            self.fails(errno.ENOBUFS, step.read_into, "G", bytearray(3))
            with self.assertRaises(flux.FluxError) as missing:
                step.read_into("half", bytearray(24))
            self.assertEqual(missing.exception.errno, errno.ENODATA)
            self.assertNotIsInstance(missing.exception, flux.EndOfStream)
            self.fails(errno.ERANGE, step.read_into, "G", box, (5, 0), (2, 2))
            self.assertRaises(ValueError, step.read_into, "G", box, (5,), (2,))
            self.assertRaises(BufferError, step.read_into, "G", b"1234", (0, 0), (2, 2))
            several = [bytearray(4), bytearray(12), bytearray(2), bytearray(4)]
            step.schedule("G", (2, 1), (2, 2), (2, 2), buffer=several[0])
            step.schedule("G", writer=1, buffer=several[1])
            step.schedule("G", stride=(3, 2), writer=0, buffer=several[2])
            step.schedule("L", writer=1, buffer=several[3])
            self.fails(errno.ENOBUFS, step.schedule, "G", buffer=bytearray(3))
            self.fails(errno.EINVAL, step.schedule, "G", (0, 0), (1, 1), writer=1, buffer=box)
            self.assertRaises(ValueError, step.schedule, "G", (5,), (2,), buffer=box)
            step.perform()
            self.assertEqual(list(several[0]), [9, 11, 17, 19])
            self.assertEqual(list(several[1]), list(range(12, 24)))
            self.assertEqual(list(several[2]), [0, 2])
            self.assertEqual(list(array.array("i", several[3])), [1])
            step.perform()  # nothing
            late = bytearray(24)
            step.schedule("G", buffer=late)
            steps.end_step()
            self.fails(errno.EINVAL, step.perform)
            self.assertEqual(late, bytearray(24))
        for out in outs:
            out.close()

    def record(self, name, path, *options):
        """What `flux stream record` makes of 3 steps of 2 writers."""
        outs = [self.h.stream_writer(name, rank=n, size=2, keep=3) for n in range(2)]
        outs[0].define("G: all of it")
        for step in range(3):
            for n, out in enumerate(outs):
                rows = memoryview(bytes(range(10 * step + 4 * n, 10 * step + 4 * n + 4)))
                out.put("G", rows.cast("B", (2, 2)), shape=(4, 2), offset=(2 * n, 0))
                out.end_step()
        subprocess.run(["flux", "stream", "record", "--count=3", name, path, *options], check=True)
        for out in outs:
            out.close()

    def test_recording(self):
        """a recording is read without a session, in any order"""
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "a.rec")
            self.record("py.o", path)
            began = time.time()
            with flux.Recording(path) as steps:
                self.assertEqual((steps.name, steps.writers, len(steps)), ("py.o", 2, 3))
                self.assertEqual((steps.format, steps.complete), ("G: all of it", True))
                self.assertEqual(steps.numbers, [0, 1, 2])
                self.assertLess(abs(steps.times[2] - began), 3600)
                self.assertEqual([step.number for step in steps], [0, 1, 2])
                self.assertIsNone(steps.begin_step("newest"))
                step = steps.begin_step(1)
                box = bytearray(4)
                step.read_into("G", box, (1, 0), (2, 2))
                self.assertEqual(list(box), [12, 13, 14, 15])
                view = step.get("G", 1)
                self.assertEqual(steps.begin_step().number, 2)
                self.fails(errno.EINVAL, step.get, "G")
                self.fails(errno.ENOENT, steps.begin_step, 3)
                self.assertEqual(steps.begin_step(0).variables(1), ["G"])
                with self.h.stream_writer("py.p", keep=1) as out:
                    out.put_all(steps.begin_step("newest"), 1)
                    out.end_step()
                    with self.h.stream_reader("py.p") as copy:
                        self.assertEqual(list(copy.begin_step(timeout=60)["G"]), [24, 25, 26, 27])
            self.assertTrue(steps.closed)
            self.fails(errno.ECANCELED, steps.begin_step)
            self.assertEqual(list(view), [14, 15, 16, 17])
            self.fails(errno.ENOENT, flux.Recording, os.path.join(directory, "none"))
            self.fails(errno.EPROTO, flux.Recording, __file__)

    def test_place(self):
        """values are made in the memory of a step, which outlives the stream"""
        try:
            import numpy
        except ImportError:
            raise unittest.SkipTest("no numpy") from None
        made = numpy.arange(12.0).reshape(3, 4)
        record = flux.RecordFormat("record r\nfield id i32\nfield x f64\n")
        h = flux.open()
        out = h.stream_writer("py.p", keep=4)
        where = "^variable 'T' in step 0 of stream 'py.p': "
        self.refuses(errno.EINVAL, where + "it has no place", out.at, "T")
        self.assertTrue(out.wanted)  # it is kept
        self.assertRaises(TimeoutError, out.wait_readers, 1, timeout=0.01)
        for wrong in ("text", ">f8", "U3", object):
            self.refuses(errno.EINVAL, where, out.reserve, "T", (3, 4), wrong)
        self.refuses(errno.ERANGE, where + "count has the neg", out.reserve, "T", (-1,), "f8")
        self.refuses(errno.EINVAL, "'T'.* not inside", out.reserve, "T", (3, 4), "f8", shape=(3, 3))
        arrays = []
        for n in range(2):
            out.reserve("T", (3, 4), "f64", shape=(6, 4), offset=(3, 0))
            out.reserve("F", (3, 4), numpy.float32, columns=True)
            out.reserve("n", (), int)
            out.reserve("none", (0, 2), "i8")
            out.reserve("r", (2,), record)
            out.put("put", n)
            self.fails(errno.EINVAL, out.end_step)
            self.fails(errno.EINVAL, out.end_step_later)
            out.place(60)
            self.fails(errno.EINVAL, out.place)
            self.assertIs(out.at("T"), out.at("T"))
            out.at("T")[:] = made + n
            out.at("F")[:] = made
            out.at("n")[()] = n
            out.at("r")["id"] = [n, n + 1]
            out.at("r")["x"] = 0.5
            self.assertEqual(out.at("none").shape, (0, 2))
            self.fails(errno.EINVAL, out.at, "put")
            arrays.append(out.at("T"))
            out.end_step(60)
            with self.assertRaises(ValueError):
                arrays[n][0, 0] = 1.0
        with self.h.stream_reader("py.p") as steps:
            out.wait_readers(1, timeout=60)
            out.close()  # also for readers, although the arrays are there
            for n, step in enumerate(steps):
                self.assertTrue((step.array("T") == made + n).all())
                self.assertTrue((step.read("T", (3, 0), (3, 4)) == made + n).all())
                self.assertTrue((step.array("F") == made).all())
                self.assertEqual(step.inquire("F", 0).type, "f32")
                self.assertEqual((step.array("n")[()], step.array("put")[()]), (n, n))
                self.assertEqual(step.array("r").tolist(), [(n, 0.5), (n + 1, 0.5)])
            self.assertEqual(n, 1)
        h.close()
        del out, h
        gc.collect()
        self.assertEqual(float(arrays[1].sum()), float(made.sum() + 12))

    def test_place_transformed(self):
        """what transforms make a step of is not in its place, and copied"""
        try:
            import numpy
        except ImportError:
            raise unittest.SkipTest("no numpy") from None
        with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
            script.write("transform(function(s) s:put('sum', s:get('T'):sum()) end)")
            script.flush()
            with self.h.stream_writer("py.pt", keep=1, transforms=script.name) as out:
                out.reserve("T", (3,), "f64")
                out.place()
                array = out.at("T")
                array[:] = (1.0, 2.0, 4.0)
                out.end_step()
                gc.collect()
                self.assertEqual(array.tolist(), [1.0, 2.0, 4.0])
                with self.h.stream_reader("py.pt") as steps:
                    step = steps.begin_step(timeout=60)
                    self.assertEqual(step.variables(), ["sum"])
                    self.assertEqual(float(step.array("sum")), 7.0)

    def view_like(self, step, name, made):
        """Boxes are views of the memory of the writer."""
        import numpy

        for start, count, stride, part in (
            (None, None, None, numpy.s_[:]),
            ((1, 0, 2), (2, 3, 1), None, numpy.s_[1:3, 0:3, 2:3]),
            ((0, 1, 0), (2, 1, 3), (2, 9, 2), numpy.s_[::2, 1:2, ::2]),
        ):
            got = step.view(name, start, count, stride)
            self.assertEqual(got.shape, made[part].shape)
            self.assertTrue((got == made[part]).all())
            self.assertTrue(numpy.shares_memory(got, step.array(name)))
            self.assertFalse(got.flags.writeable)

    def test_view(self):
        """boxes that are not in one place, or of a writer elsewhere, are copies"""
        try:
            import numpy
        except ImportError:
            raise unittest.SkipTest("no numpy") from None
        made = numpy.arange(24.0).reshape(4, 6)
        with contextlib.ExitStack() as ends:
            outs = [
                ends.enter_context(self.h.stream_writer("py.v", rank=n, size=2, keep=1))
                for n in (0, 1)
            ]
            for n, out in enumerate(outs):
                out.put("G", made[2 * n : 2 * n + 2], shape=(4, 6), offset=(2 * n, 0))
                out.end_step()
            for transport in ("ring", "tcp"):
                with self.h.stream_reader("py.v", transport=transport) as steps:
                    step = steps.begin_step(timeout=60)
                    for start in (0, 1, 2):  # of the first writer, both, and the second one
                        got = step.view("G", (start, 1), (2, 3))
                        self.assertTrue((got == made[start : start + 2, 1:4]).all())
                        self.assertFalse(got.flags.writeable)
                        shared = any(
                            numpy.shares_memory(got, step.array("G", n)) for n in (0, 1)
                        )
                        self.assertEqual(shared, transport == "ring" and start != 1)
                    self.fails(errno.ERANGE, step.view, "G", (3, 0), (2, 6))
                    # What no memory has room for is outside of the array, too.
                    for call in (step.read, step.schedule, step.view):
                        self.fails(errno.ERANGE, call, "G", (0, 0), (1 << 40, 1 << 20))

    def test_numpy(self):
        """arrays of NumPy: over the memory of a writer, and parts of global ones"""
        try:
            import numpy
        except ImportError:
            raise unittest.SkipTest("no numpy") from None
        made = numpy.arange(60.0).reshape(3, 4, 5)
        kinds = "i1 i2 i4 i8 u1 u2 u4 u8 f4 f8 c8 c16 ?".split()
        with self.h.stream_writer("py.h") as out, self.h.stream_reader("py.h") as steps:
            for kind in kinds:
                out.put(kind, made.astype(kind))
            out.put("fortran", numpy.asfortranarray(made))
            out.put("one", numpy.array(5.5))
            out.put("G", made, shape=(3, 4, 5))
            out.put("GF", numpy.asfortranarray(made), shape=(3, 4, 5))
            out.put("other", made.astype(">f8"))
            out.put("stride", made[:, ::2])
            out.put("nested", [[1, 2], [3, 4]])
            out.put("complex", 1 + 2j)
            self.assertRaises(TypeError, out.put, "x", numpy.array(["text"]))
            out.end_step()
            step = steps.begin_step(timeout=60)
            self.assertTrue((step.array("other") == made).all())
            self.assertTrue((step.array("stride") == made[:, ::2]).all())
            self.assertEqual(step.array("nested").tolist(), [[1, 2], [3, 4]])
            self.assertEqual(step.array("complex"), 1 + 2j)
            for kind in kinds:
                got = step.array(kind)
                self.assertEqual(got.dtype, numpy.dtype(kind))
                self.assertTrue((got == made.astype(kind)).all())
                self.assertFalse(got.flags.owndata or got.flags.writeable)
            self.assertTrue((step.array("fortran") == made).all())
            self.assertEqual((step.array("one").shape, step.array("one")[()]), ((), 5.5))
            self.fails(errno.EINVAL, step.read, "one")
            for name in ("G", "GF"):
                self.assertTrue((step.read(name) == made).all())
                self.view_like(step, name, made)
                whole, some = step.schedule(name), step.schedule(name, (1, 0, 2), (2, 3, 1))
                rows = step.schedule(name, stride=(2, 1, 1), writer=0)
                step.perform()
                self.assertTrue((whole == made).all())
                self.assertTrue((some == made[1:3, 0:3, 2:3]).all())
                self.assertTrue((rows == made[::2]).all())
                for part in (
                    numpy.s_[1:3, ::2, 1:5:3],
                    numpy.s_[-1],
                    numpy.s_[..., 2],
                    numpy.s_[0, ..., 1:2],
                    numpy.s_[:, 3],
                    numpy.s_[2, 3, 4],
                ):
                    got = step[(name, *part) if isinstance(part, tuple) else (name, part)]
                    self.assertEqual(got.shape, made[part].shape)
                    self.assertTrue((got == made[part]).all(), (name, part))
                for wrong in (numpy.s_[5], numpy.s_[::-1], numpy.s_[0, 0, 0, 0]):
                    with self.assertRaises(IndexError):
                        step[(name, *wrong) if isinstance(wrong, tuple) else (name, wrong)]

    def test_records(self):
        """records: dicts and dataclasses, of other versions, and structured arrays"""

        later = flux.RecordFormat(
            """
            record atom
              field charge f64 optional
              field id i64
              field n_bonds u64
              field mass f32
              attr default "12.5"
              field at f64[3]
            """
        )
        one = Atom(7, "C", [0.5, 1.5, 2.5], [Bond(8, 1.0), Bond(9, 2.0)], next=Bond(1, 0.5))
        two = Atom(8, "", [1.0, 2.0, 3.0], [], charge=-1.0)
        text = "record pair\n field n u8\n field x i32[n][2]\n field tag char[4]\n"
        pair = {"x": [[1, 2], [3, 4]], "tag": "ab"}
        with self.h.stream_writer("py.r") as out, self.h.stream_reader("py.r") as steps:
            out.put("one", one, format=Atom)
            out.put("all", [one, two], format=Atom)
            out.put("pair", pair, format=text)
            out.put("none", [], format=text)
            # Elements of a global array have one size.
            self.fails(errno.EOPNOTSUPP, out.put, "box", [one], shape=(1,), format=Atom)
            self.fails(errno.EOPNOTSUPP, out.put, "box", [pair], shape=(1,), format=text)
            out.end_step()
            step = steps.begin_step(timeout=60)
            self.assertEqual(step.records("one", format=Atom), one)
            self.assertEqual(step.records("all", format=Atom), [one, two])
            self.assertEqual(step.records("one")["bonds"][1], {"to": 9, "length": 2.0})
            self.assertEqual(
                step.records("all", format=later)[1],
                {"charge": -1.0, "id": 8, "n_bonds": 0, "mass": 12.5, "at": [1.0, 2.0, 3.0]},
            )
            self.assertEqual(
                step.records("pair"), {"n": 2, "x": [[1, 2], [3, 4]], "tag": b"ab\0\0"}
            )
            self.assertEqual(step.records("none"), [])
            self.assertEqual(step.inquire("all", 0).format, flux.RecordFormat.of(Atom).id)
            self.assertEqual(step.format("pair").text, flux.RecordFormat(text).text)
            wrong = flux.RecordFormat("record atom\nfield id i8\n")
            with self.assertRaisesRegex(flux.FluxError, "field atom.id"):
                step.records("one", format=wrong)
            for bad, why in (
                ({"x": [[1, 2], [3, 4]], "n": 3, "tag": ""}, "field pair.x has 2 elements, not 3"),
                ({"x": [], "tag": "abcde"}, "field pair.tag has 5"),
                ({"x": [[1, 1 << 40]], "tag": ""}, "field pair.x of type i32"),
                ({"x": []}, "field pair.tag has no value"),
                ({"x": [], "tag": "", "y": 1}, "no field y"),
            ):
                with self.assertRaisesRegex(ValueError, why):
                    out.put("bad", bad, format=text)
        self.fails(errno.EINVAL, flux.RecordFormat, "record r\nfield x f63\n")

    def test_structured(self):
        """structured arrays of NumPy: over the memory of a writer, and parts of global ones"""
        try:
            import numpy
        except ImportError:
            raise unittest.SkipTest("no numpy") from None
        inner = numpy.dtype([("x", "f4"), ("tag", "S3")])
        fields = [("id", "u8"), ("at", "f8", (2, 3)), ("in", inner), ("on", "?")]
        kind = numpy.dtype(fields, align=True)
        made = numpy.zeros(12, kind)
        made["id"] = numpy.arange(12)
        made["in"]["x"] = made["id"] / 2
        made["in"]["tag"] = b"ab"
        made["on"] = made["id"] % 2
        with self.h.stream_writer("py.n") as out, self.h.stream_reader("py.n") as steps:
            out.put("own", made.reshape(3, 4))
            out.put("G", made.reshape(3, 4), shape=(3, 4))
            self.assertRaises(TypeError, out.put, "x", made.astype(kind.newbyteorder()))
            out.end_step()
            step = steps.begin_step(timeout=60)
            self.assertTrue((step.array("own") == made.reshape(3, 4)).all())
            self.assertFalse(step.array("own").flags.owndata)
            self.assertTrue((step["G", 1:, ::2] == made.reshape(3, 4)[1:, ::2]).all())
            self.assertEqual(step.records("own")[5]["in"], {"x": 2.5, "tag": b"ab\0"})
