"""Streams: in a session of 2 brokers."""

import array
import contextlib
import errno
import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from unittest import mock

import flux
from test_handle import Case, asleep


class StreamTest(Case):
    def test_team(self):
        """members of a team get the same steps, from when all of them are there"""
        def member(rank):
            return self.h.stream_reader("py.team", team="t", rank=rank, size=2, policy="latest")

        with self.h.stream_writer("py.team", keep=1) as out:
            with member(0) as first:
                out.put("n", b"0")
                out.end_step()
                self.assertRaises(TimeoutError, first.begin_step, timeout=0.01)
                self.fails(errno.EEXIST, member, 0)
                with member(1) as second:
                    for reader in (first, second):
                        self.assertEqual(bytes(reader.begin_step(timeout=60)["n"]), b"0")
            self.fails(errno.EINVAL, self.h.stream_reader, "py.team", rank=1, size=2)

    def test_resume(self):
        """a member of a group that comes again in time misses nothing"""
        self.fails(errno.EINVAL, self.h.stream_reader, "py.resume", resume=5.0)
        with self.h.stream_writer("py.resume") as out:
            with self.h.stream_reader("py.resume", group="g", resume=600.0) as steps:
                for _ in range(2):
                    out.end_step()
                self.assertEqual(steps.begin_step(timeout=60).number, 0)
                steps.end_step()
                self.assertEqual(steps.begin_step(timeout=60).number, 1)
            out.end_step()
            with self.h.stream_reader("py.resume", group="g") as steps:
                self.assertEqual(steps.begin_step(timeout=60).number, 1)
                self.assertEqual(steps.begin_step(timeout=60).number, 2)

    def test_rank(self):
        """rank and size of a writer come from the environment by default"""
        self.assertEqual(self.h.stream_rank(), (0, 1))
        with mock.patch.dict(os.environ, PMI_RANK="1", PMI_SIZE="2"):
            self.assertEqual(self.h.stream_rank(), (1, 2))
            with self.h.stream_writer("py.rank", keep=1):
                with self.h.stream_writer("py.rank", rank=0, size=2, keep=1):
                    with self.h.stream_reader("py.rank") as steps:
                        self.assertEqual(steps.writers, 2)
                self.fails(errno.EINVAL, self.h.stream_writer, "py.rank", rank=0, size=3)
        with mock.patch.dict(os.environ, PMI_RANK="2", PMI_SIZE="2"):
            self.fails(errno.EINVAL, self.h.stream_rank)
            self.fails(errno.EINVAL, self.h.stream_writer, "py.rank")
        self.fails(errno.EINVAL, self.h.stream_writer, "py.rank", rank=1)

    def test_steps(self):
        """steps go from writer to reader"""
        with self.h.stream_writer("py.a") as out, self.h.stream_reader("py.a") as steps:
            self.assertEqual((out.step, steps.writers, steps.name), (0, 1, "py.a"))
            out.define("T: float64[3]")
            out.put("T", array.array("d", [1.0, 2.0, 3.0]))
            out.put("note", b"first")
            out.end_step()
            step = steps.begin_step(timeout=60)
            self.assertEqual((step.number, step.variables()), (0, ["T", "note"]))
            view = step["T"]
            self.assertTrue(view.readonly)
            self.assertEqual(list(view.cast("d")), [1.0, 2.0, 3.0])
            self.assertEqual(step.get("note", 0), b"first")
            self.fails(errno.ENOENT, step.get, "nope")
            self.fails(errno.EINVAL, step.get, "T", 5)
            self.assertRaises(TimeoutError, steps.begin_step, timeout=0.01)
            self.fails(errno.EINVAL, step.get, "T")
            for n in range(2):
                out.put("n", b"%d" % n)
                out.end_step()
            out.close()
            self.assertEqual([bytes(step["n"]) for step in steps], [b"0", b"1"])
            self.assertIsNone(steps.begin_step())
            self.assertIn("py.a", repr(steps))

    def test_newest(self):
        """the newest step, and a number; policies"""
        with self.h.stream_writer("py.b", keep=8) as out:
            for n in range(4):
                out.put("n", b"%d" % n)
                out.end_step()
            with self.h.stream_reader("py.b", policy="drop-oldest", depth=8) as steps:
                self.assertEqual(bytes(steps.begin_step(1, 60)["n"]), b"1")
                self.assertEqual(steps.begin_step("newest", 60).number, 3)
                out.put("n", b"4")
                out.end_step()
                self.fails(errno.ENOENT, steps.begin_step, 2, 60)
                self.assertRaises(ValueError, steps.begin_step, "last")
        self.fails(errno.EINVAL, self.h.stream_reader, "py.b", policy="x")
        self.fails(errno.ETIMEDOUT, self.h.stream_writer, "py.b", readers=1, timeout=0.01)

    def test_writers(self):
        """several writers: a step is complete or not seen"""
        outs = [self.h.stream_writer("py.c", rank=n, size=2) for n in range(2)]
        with self.h.stream_reader("py.c") as steps:
            outs[0].put("x", b"a")
            outs[0].end_step()
            self.assertRaises(TimeoutError, steps.begin_step, timeout=0)
            outs[1].put("x", b"b")
            outs[1].end_step()
            step = steps.begin_step(timeout=60)
            self.assertEqual([bytes(step.get("x", n)) for n in range(steps.writers)], [b"a", b"b"])
        for out in outs:
            out.close()

    def test_group(self):
        """each step at one member of a group, and at another one if the first does not end it"""
        with self.h.stream_writer("py.group", keep=3) as out:
            for n in range(3):
                out.put("n", b"%d" % n)
                out.end_step()
            self.fails(errno.EINVAL, self.h.stream_reader, "py.group", group="a b")
            first = self.h.stream_reader("py.group", group="g", key="n")
            with self.h.stream_reader("py.group", group="g", key="n") as other:
                self.fails(errno.EINVAL, other.begin_step, "newest")
                self.assertEqual(first.begin_step(timeout=60).number, 0)
                self.assertEqual(other.begin_step(timeout=60).number, 1)
                self.assertRaises(TimeoutError, out.drain, timeout=0.01)
                first.close()
                self.assertEqual(other.begin_step(timeout=60).number, 0)
                self.assertEqual(other.begin_step(timeout=60).number, 2)
                other.end_step()
                out.drain(timeout=60)

    def test_group_by_record(self):
        """members of a group divide the records of a step"""
        with self.h.stream_writer("py.part", keep=1) as out:
            out.put("r", [{"id": n % 7} for n in range(100)], format="record r\nfield id u32")
            out.put("n", array.array("i", range(10)))
            out.end_step()
            self.fails(errno.EINVAL, self.h.stream_reader, "py.part", group="g", by="atom")
            self.fails(errno.EINVAL, self.h.stream_reader, "py.part", by="record")
            with self.assertRaisesRegex(OSError, "cannot stay: .*; share by step, or open the"):
                self.h.stream_reader("py.part", group="g", by="record", stay=True)
            first = self.h.stream_reader("py.part", group="g", by="record")
            self.assertEqual(first.begin_step(timeout=60).mine("r"), [range(100)])
            with self.h.stream_reader("py.part", group="g", by="record") as other:
                out.put("r", [{"id": n} for n in range(10)], format="record r\nfield id u32")
                out.put("n", array.array("i", range(5)))
                out.end_step()
                step = other.begin_step(timeout=60)
                self.assertEqual((step.number, step.mine("r")), (1, [range(5)]))
                self.assertEqual(step.mine("n"), [range(3)])
                self.fails(errno.ENOENT, step.mine, "x")
                first.close()
                step = other.begin_step(timeout=60)
                self.assertEqual((step.number, step.mine("r")), (0, [range(100)]))
                step = other.begin_step(timeout=60)
                self.assertEqual((step.number, step.mine("r")), (1, [range(5, 10)]))
                self.assertEqual(step.mine("n"), [range(3, 5)])
                other.end_step()
                out.drain(timeout=60)
        with self.h.stream_writer("py.part2", keep=1) as out:
            out.put("r", [{"id": n % 7} for n in range(100)], format="record r\nfield id u32")
            out.end_step()
            with self.h.stream_reader("py.part2", group="g", by="record", key="x") as steps:
                step = steps.begin_step(timeout=60)
                self.fails(errno.ENOENT, step.mine, "r")

    def test_group_by_record_again(self):
        """a member that shares by record opens the stream again when the writer has failed"""
        for _ in range(2):
            with self.h.stream_writer("py.part3", keep=1) as out:
                out.put("r", [{"id": k} for k in range(10)], format="record r\nfield id u32")
                out.end_step()
                with self.h.stream_reader("py.part3", group="g", by="record") as steps:
                    step = steps.begin_step(timeout=60)
                    self.assertEqual(step.mine("r"), [range(10)])
                    steps.end_step()
                    out.fail()
                    self.fails(errno.ECONNRESET, steps.begin_step, timeout=60)

    def test_writer_leaves(self):
        """one of several writers closes its end while the first one is silent: the end"""
        outs = [self.h.stream_writer("py.j", rank=n, size=2) for n in range(2)]
        with self.h.stream_reader("py.j") as steps:
            outs[1].close()
            self.assertIsNone(steps.begin_step(timeout=20))
        outs[0].close()

    def test_first_step(self):
        """ranks of a group begin with the same step; one that comes again goes on"""

        def counted() -> int:
            streams = self.h.rpc("stream.list")["streams"]
            return next(s["step"] for s in streams if s["name"] == "py.l")

        first = self.h.stream_writer("py.l", rank=0, size=2)
        while counted() == 0:
            first.end_step()
        late = self.h.stream_writer("py.l", rank=1, size=2)
        self.assertEqual(late.step, 0)
        reached = first.step
        first.close()
        first = self.h.stream_writer("py.l", rank=0, size=2)
        self.assertEqual(first.step, reached)
        first.close()
        late.close()

    def test_later(self):
        """a step is ended without waiting, and published when there is room"""
        with self.h.stream_writer("py.t") as out:
            out.put("n", b"nobody")
            self.assertTrue(out.end_step_later())
            for transport in ("ring", "tcp"):
                self.check_later(out, transport)

    def check_later(self, out, transport):
        n = array.array("q", [0])

        def put():
            n[0] = out.step
            out.put("n", n, pinned=True)

        def read():
            step = steps.begin_step(timeout=60)
            self.assertEqual(list(step["n"].cast("q")), [step.number])
            steps.end_step()
            return step.number

        options = {"depth": 1, "transport": transport}
        with self.h.stream_reader("py.t", **options) as steps:
            put()
            self.assertTrue(out.end_step_later())
            out.wait_step(0)
            put()
            first = out.step
            self.assertFalse(out.end_step_later())
            n[0] = -1  # it was copied
            self.assertEqual(out.step, first + 1)
            self.assertRaises(TimeoutError, out.wait_step, 0)
            put()
            self.fails(errno.EBUSY, out.end_step_later)
            self.assertRaises(TimeoutError, out.end_step, 0)
            self.assertEqual(read(), first - 1)
            out.wait_step(60)
            self.assertFalse(out.end_step_later())  # the one that was refused
            self.assertEqual([read(), read()], [first, first + 1])
            out.wait_step(60)
            # It waits as long as the stream is paused, and is lost when that is removed.
            self.h.rpc("stream.pause", {"name": "py.t", "paused": True})
            while True:  # a writer looks for it now and then
                put()
                try:
                    if not out.end_step_later():
                        out.wait_step(0.2)
                except TimeoutError:
                    break
                read()
            self.h.rpc("stream.pause", {"name": "py.t", "paused": False})
            out.wait_step(60)
            self.assertEqual(read(), out.step - 1)
        # Nobody reads any more: what is pending is given up, or not needed.
        with self.h.stream_reader("py.t", **options) as steps:
            put()
            out.end_step()
            put()
            self.assertFalse(out.end_step_later())
        out.wait_step(60)

    def test_later_lost(self):
        """a step that is pending is lost with its stream, and does not keep a writer"""
        out = self.h.stream_writer("py.u")
        with self.h.stream_reader("py.u", depth=1):
            for _ in range(2):
                out.put("n", b"")
                pending = not out.end_step_later()
            self.assertTrue(pending)
            self.h.rpc("stream.remove", {"name": "py.u"})
            out.put("n", b"")
            self.fails(errno.ECANCELED, out.end_step, 60)
            out.wait_step()
        out.close()

    def test_errors(self):
        """errors, and ends that were closed"""
        self.fails(errno.ETIMEDOUT, self.h.stream_reader, "py.nobody", timeout=0.01)
        with self.assertRaisesRegex(TimeoutError, "within 0.001 s"):
            self.h.stream_reader("py.nobody", timeout=0)
        self.fails(errno.EINVAL, self.h.stream_writer, "a b")
        with self.h.stream_writer("py.d") as out:
            self.fails(errno.EEXIST, self.h.stream_writer, "py.d")
            out.put("x", b"")
            self.fails(errno.EEXIST, out.put, "x", b"")
            for wrong in (None, object(), ["a"], {"a": 1}):
                with self.assertRaisesRegex(TypeError, "^variable 'y' in step 0 of .* 'py.d': "):
                    out.put("y", wrong)
            with self.assertRaisesRegex(OverflowError, "^variable 'y' in step 0 .* 64 bits"):
                out.put("y", 1 << 64)
        out.close()
        self.assertTrue(out.closed)
        self.fails(errno.ECANCELED, out.put, "z", b"")

    def test_wrong_arguments(self):
        """arguments that are not possible: stream, step and variable are named"""
        grid = array.array("d", range(4))
        with self.h.stream_writer("py.wr") as out, self.h.stream_reader("py.wr") as steps:
            put, where = out.put, "^variable 'G' in step 0 of stream 'py.wr': "
            self.refuses(
                errno.ERANGE, where + "offset has the negative number -1$",
                put, "G", grid, shape=(4,), offset=(-1,)
            )
            self.refuses(
                errno.ERANGE, where + "shape has the number .* of more than 64 bits$",
                put, "G", grid, shape=(1 << 64,)
            )
            self.refuses(errno.EINVAL, where + ".*float", put, "G", grid, shape=(4.5,))
            self.refuses(
                errno.EINVAL,
                where + "the length of shape is 2, and the number of dimensions is 1$",
                put, "G", grid, shape=(4, 1)
            )
            self.refuses(errno.EINVAL, where, put, "G", object())
            self.refuses(errno.EINVAL, "the name is a str, not int$", put, 5, grid)
            put("G", grid, shape=(4,))
            out.end_step()
            step = steps.begin_step(timeout=60)
            for call in (step.get, step.inquire):
                self.refuses(errno.ERANGE, where + "-1 is not the rank of a writer$", call, "G", -1)
                self.refuses(errno.EINVAL, where, call, "G", "first")
            self.refuses(
                errno.ERANGE, "^step 0 of stream 'py.wr': -1 is not", step.variables, -1
            )
            self.refuses(errno.ERANGE, "^step 0 of stream 'py.wr': -1", out.put_all, step, -1)
            box = bytearray(32)
            for call, args in ((step.read_into, ["G", box]), (step.schedule, ["G"])):
                self.refuses(
                    errno.ERANGE, where + "start has the negative number -2$",
                    call, *args, (-2,), (1,)
                )
                self.refuses(
                    errno.EINVAL, where + "the length of count is 0,", call, *args, (1,), ()
                )
            for index, number, text in (
                (4, errno.ERANGE, "index 4 is outside of 4 elements$"),
                (-5, errno.ERANGE, "index -5 is outside of 4 elements$"),
                (1.5, errno.EINVAL, ".*float"),
                (slice(0.5), errno.EINVAL, "slice indices"),
                (slice(3, 0, -1), errno.ERANGE, "the step of a slice is at least 1$"),
            ):
                self.refuses(number, where + text, step.__getitem__, ("G", index))
            with self.assertRaises(IndexError):
                step["G", 0, 0]
            self.refuses(errno.EINVAL, "^step 0 of stream 'py.wr': ", step.__getitem__, 5)
            steps.end_step()
            self.refuses(errno.EINVAL, "^step 0 of stream 'py.wr' was released$", step.get, "G")
            self.refuses(errno.EINVAL, "^stream 'py.wr': '-3' is not a step", steps.begin_step, -3)
            self.refuses(errno.EINVAL, "^stream 'py.wr': ", steps.begin_step, 1.5)
        open_reader = self.h.stream_reader
        self.refuses(errno.ERANGE, "^stream 'py.wr': ", self.h.stream_writer, "py.wr", keep=-1)
        self.refuses(errno.EINVAL, "^stream 'py.wr': a key is for", open_reader, "py.wr", key="k")
        policy = {"policy": "no"}
        self.refuses(errno.EINVAL, "^stream 'py.wr': 'no' is not a", open_reader, "py.wr", **policy)
        open_writer = self.h.stream_writer
        for call in (open_reader, open_writer):
            self.refuses(
                errno.EINVAL, "^stream 'py.wr' cannot be opened: 'air' is not a transport",
                call, "py.wr", transport="air"
            )
            self.refuses(
                errno.EINVAL, "^stream 'py.wr': .*none.lua", call, "py.wr", transforms="/none.lua"
            )
        self.refuses(errno.EINVAL, "^stream 'py.wr': .* evict", open_writer, "py.wr", evict=-1)
        self.refuses(
            errno.ETIMEDOUT, "^stream 'py.wr': 0 of 1 readers have come",
            open_writer, "py.wr", readers=1, timeout=0.01
        )
        with open_writer("py.wr"):
            self.refuses(
                errno.EINVAL, "^stream 'py.wr' is written by a group of size 1",
                open_writer, "py.wr", rank=1, size=2
            )

    def test_evicted(self):
        """a reader that is evicted is told by which writer, of which stream, and in which step"""
        for transport in ("ring", "tcp"):
            with self.h.stream_writer("py.ev", evict=0.01) as out:
                with self.h.stream_reader("py.ev", depth=1, transport=transport) as steps:
                    out.end_step()
                    self.assertEqual(steps.begin_step(timeout=60).number, 0)
                    for _ in range(3):
                        out.put("n", b"")
                        out.end_step(60)
                    with self.assertRaises(flux.FluxError) as caught:
                        while True:
                            steps.begin_step(timeout=60)
                    self.assertEqual(caught.exception.errno, errno.ESTALE)
                    why = "^stream 'py.ev', step [0-9]+, rank 0 of the writers: .* evicted this"
                    self.assertRegex(str(caught.exception), why)

    def test_memory_outlives(self):
        """what was got stays mapped when the stream and the handle are closed"""
        h = flux.open()
        out = self.h.stream_writer("py.e")
        steps = h.stream_reader("py.e")
        out.put("x", b"x" * 100000)
        out.end_step()
        view = steps.begin_step(timeout=60)["x"]
        steps.close()
        h.close()
        del steps, h
        gc.collect()
        self.assertEqual(bytes(view[99990:]), b"x" * 10)
        del view
        gc.collect()
        out.close()
        h = flux.open()
        out = h.stream_writer("py.f")
        h.close()
        self.assertTrue(out.closed)
        self.fails(errno.ECANCELED, out.put, "x", b"")

    def test_view_outlives(self):
        """a view that outlives its stream, or its handle, does not keep a writer waiting"""
        for close_handle in (False, True):
            h = flux.open()
            with self.h.stream_writer("py.k") as out:
                steps = h.stream_reader("py.k", depth=2)
                out.put("x", b"x" * 10000)
                out.end_step()
                view = steps.begin_step(timeout=60)["x"]
                (h if close_handle else steps).close()
                for _ in range(5):
                    out.put("x", b"y" * 10000)
                    out.end_step(timeout=20)
            self.assertEqual(len(bytes(view)), 10000)
            h.close()

    def test_stay(self):
        """a reader that stays goes on with the next writer; what it got before stays mapped"""
        for transport in ("ring", "tcp"):
            views = []
            out = self.h.stream_writer("py.stay", keep=1, transport=transport)
            with flux.open() as h, h.stream_reader("py.stay", stay=True, transport=transport) as r:
                for n in range(2):
                    out.put("x", b"x" * 100000)
                    out.end_step()
                    step = r.begin_step(timeout=60)
                    self.assertEqual(step.number, n)
                    views.append(step["x"])
                    r.end_step()
                    out.close()
                    out = self.h.stream_writer("py.stay", keep=1, transport=transport)
                self.assertEqual([len(bytes(view)) for view in views], [100000] * 2)
                self.assertRaises(TimeoutError, r.begin_step, timeout=0.01)
                out.close()
                self.assertRaises(TimeoutError, r.begin_step, timeout=0.01)
                self.h.rpc("stream.remove", {"name": "py.stay"})
                self.assertIsNone(r.begin_step(timeout=60))

    def test_interrupt(self):
        """KeyboardInterrupt ends a wait for a step, and for a stream"""
        begin = "import flux; h = flux.open();"
        programs = (
            begin + "s = h.stream_reader('py.g'); print(1, flush=True); s.begin_step()",
            begin + "print(1, flush=True); h.stream_reader('py.nobody', timeout=None)",
        )
        with self.h.stream_writer("py.g"):
            for program in programs:
                child = subprocess.Popen(
                    [sys.executable, "-c", program],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                child.stdout.readline()
                while not asleep(child.pid):
                    time.sleep(0.001)
                child.send_signal(signal.SIGINT)
                text = child.communicate(timeout=120)[1]
                self.assertIn("KeyboardInterrupt", text)
                self.assertNotIn("FluxError", text)

    def test_plain(self):
        """numbers, texts, lists, and arrays that are not contiguous, without NumPy"""
        values = {
            "int": (3, "i64"),
            "negative": (-(1 << 63), "i64"),
            "large": ((1 << 64) - 1, "u64"),
            "float": (3.5, "f64"),
            "bool": (True, "bool"),
            "ints": ([1, -2, 3], "i64"),
            "mixed": ([1, 2.5], "f64"),
            "bools": ([True, False], "bool"),
        }
        codes = {"i32": "i", "i64": "q", "u64": "Q", "f64": "d", "bool": "?"}
        stride = memoryview(array.array("i", range(10)))[::3]

        def got(name):
            kind = step.inquire(name, 0).type
            return kind, memoryview(bytes(step[name])).cast(codes[kind]).tolist()

        with self.h.stream_writer("py.p") as out, self.h.stream_reader("py.p") as steps:
            for name, (value, _) in values.items():
                out.put(name, value)
            out.put("text", "Grüße")
            out.put("stride", stride)
            out.end_step()
            step = steps.begin_step(timeout=60)
            for name, (value, kind) in values.items():
                with self.subTest(name):
                    expected = value if isinstance(value, list) else [value]
                    self.assertEqual(got(name), (kind, expected))
            self.assertEqual(bytes(step["text"]).decode(), "Grüße")
            self.assertEqual(got("stride"), ("i32", [0, 3, 6, 9]))

    def test_left(self):
        """a program ends without closing its stream: in order, in garbage, or as it has failed"""
        write = """
import flux, gc, os, sys
def forget():
    return h
h = flux.Handle()
o = h.stream_writer("py.left", readers=1)
for i in range(5):
    o.put("d", b"x")
    o.end_step()
"""
        cycle = """
class Cycle:
    pass
c = Cycle()
c.me, c.h, c.o = c, h, o
del c, h, o
gc.collect()
"""
        failed = "rank 0 of the writers has failed in step 5"
        for how, status, why in (
            ("", 0, None),
            (cycle, 0, None),
            ("sys.exit(0)", 0, None),
            ("raise RuntimeError('it has failed')", 1, failed),
            ("sys.exit(3)", 3, failed),
            ("sys.exit('it has failed')", 1, failed),
            (cycle + "sys.exit(3)", 3, None),  # it was closed before
            ("os._exit(0)", 0, "rank 0 of the writers has died in step 5"),
        ):
            program = [sys.executable, "-c", write + how]
            child = subprocess.Popen(program, stderr=subprocess.PIPE, text=True)
            got, error = 0, None
            with self.subTest(how), self.h.stream_reader("py.left", timeout=60) as steps:
                try:
                    for _ in steps:
                        got += 1
                except flux.FluxError as e:
                    error = e
                text = child.communicate(timeout=60)[1]
                self.assertEqual((got, child.returncode), (5, status))
                self.assertEqual("it has failed" in how, "it has failed" in text)
                self.assertEqual(error and error.errno, why and errno.ECONNRESET)
                self.assertIn(why or "None", str(error))

    def test_drop(self):
        """a step that has no room is dropped; a writer limits the queue of its readers"""
        for transport in ("ring", "tcp"):
            with self.h.stream_writer("py.drop", depth=1) as out:
                with self.h.stream_reader("py.drop", depth=100, transport=transport) as steps:
                    out.put("n", b"0")
                    out.end_step()
                    out.put("n", b"1")
                    self.assertRaises(TimeoutError, out.end_step, 0.0)
                    out.drop_step()
                    out.put("n", b"2")
                    self.assertFalse(out.end_step_later())
                    out.put("n", b"3")
                    out.drop_step()
                    self.assertEqual(bytes(steps.begin_step(timeout=60)["n"]), b"0")
                    steps.end_step()
                    out.wait_step(60)
                    step = steps.begin_step(timeout=60)
                    self.assertEqual((step.number, bytes(step["n"])), (out.step - 2, b"2"))
                    steps.end_step()
                    out.put("n", b"4")
                    out.end_step(60)
                    step = steps.begin_step(timeout=60)
                    self.assertEqual((step.number, bytes(step["n"])), (out.step - 1, b"4"))

    @contextlib.contextmanager
    def leaves(self, exception, by_handle=False):
        """a thread writes 3 steps, and an exception leaves the `with` of its stream, or handle"""
        def write():
            with contextlib.suppress(BaseException), flux.open() as h:
                out = h.stream_writer("py.fail", readers=1, timeout=60)
                with contextlib.nullcontext() if by_handle else out:
                    for n in range(3):
                        out.put("n", b"%d" % n)
                        out.end_step()
                    out.put("n", b"not ended")
                    raise exception

        thread = threading.Thread(target=write)
        thread.start()
        try:
            yield
        finally:
            thread.join()

    def read_failed(self, **options):
        got = []
        with self.h.stream_reader("py.fail", timeout=60, **options) as steps:
            with self.assertRaises(flux.FluxError) as caught:
                while True:
                    got.append(steps.begin_step(timeout=60).number)
        self.assertEqual((len(got), caught.exception.errno), (3, errno.ECONNRESET))
        self.assertIn(f"0 of the writers has failed in step {got[-1] + 1}", str(caught.exception))

    def test_failed(self):
        """readers of a writer that fails get its steps, and then an error"""
        for options in ({}, {"transport": "tcp"}):
            for exception in (ValueError("no"), SystemExit(1), KeyboardInterrupt()):
                for by_handle in (False, True):
                    with self.leaves(exception, by_handle):
                        self.read_failed(**options)
        # A recording of it is not complete.
        with tempfile.TemporaryDirectory() as directory, self.leaves(ValueError("no")):
            path = os.path.join(directory, "failed.rec")
            record = ["flux", "stream", "record", "py.fail", path]
            done = subprocess.run(record, stderr=subprocess.PIPE, timeout=60)
            self.assertIn(b"rank 0 of the writers has failed", done.stderr)
            with flux.Recording(path) as steps:
                self.assertEqual((len(steps), steps.complete), (3, False))
        # What ends a program in order ends its streams in order.
        for exception in (SystemExit(0), SystemExit(), GeneratorExit()):
            with self.leaves(exception), self.h.stream_reader("py.fail", timeout=60) as steps:
                self.assertEqual(len([step.number for step in steps]), 3)

    def test_failed_alone(self):
        """a writer says that it has failed; a stream that was removed ends"""
        with self.h.stream_writer("py.fail.a", keep=1) as out:
            out.end_step()
            with self.h.stream_reader("py.fail.a") as steps:
                out.fail()
                out.fail()
                self.assertEqual(steps.begin_step(timeout=60).number, 0)
                self.fails(errno.ECONNRESET, steps.begin_step, timeout=60)
        out = self.h.stream_writer("py.fail.b")
        with self.h.stream_reader("py.fail.b", policy="drop-newest") as steps:
            with self.assertRaises(flux.FluxError), out:
                self.h.rpc("stream.remove", {"name": "py.fail.b"})
                while True:  # a writer looks for it now and then
                    out.end_step(60)
            while steps.begin_step(timeout=60):
                pass

    def as_task(self, job, task=0, size=2):
        """From now on this process is a task of a job; 0: of none."""
        names = ("FLUX_JOB_ID", "FLUX_TASK_RANK", "FLUX_JOB_SIZE")
        for name, value in zip(names, (job, task, size)):
            os.environ.pop(name, None)
            if job:
                os.environ[name] = str(value)

    def run_of(self, name, job, steps, **options):
        """Two writers of a job write, and end: the number of their first step, and their epoch."""
        self.as_task(job)
        outs = [self.h.stream_writer(name, rank=n, size=2, keep=4, **options) for n in (0, 1)]
        first = (outs[0].step, outs[0].epoch)
        for _ in range(steps):
            for out in outs:
                out.put("job", array.array("i", [job]))
                out.end_step()
        return outs, first

    def close_all(self, outs):
        for out in outs:
            out.close()

    def expect(self, steps, job, numbers, epoch):
        """A reader begins these steps."""
        for number in numbers:
            step = steps.begin_step(timeout=60)
            self.assertEqual((step.number, step.epoch), (number, epoch))
            self.assertEqual(list(array.array("i", bytes(step.get("job", 1)))), [job])

    def test_start(self):
        """a stream of another job is continued, or begun anew, by who says so"""
        self.addCleanup(self.as_task, 0)
        name = "py.run"
        outs, first = self.run_of(name, 7, 3)
        self.assertEqual(first, (0, 1))
        # Not by TCP, where closing waits for a reader that has steps: t/stream-wrong.t does that.
        with self.h.stream_reader(name, stay=True, transport="ring") as steps:
            self.close_all(outs)
            error = self.fails(errno.EEXIST, self.run_of, name, 8, 0)
            self.assertIn("start=append", str(error))
            self.expect(steps, 7, [0, 1], 1)
            outs, first = self.run_of(name, 7, 1)  # it was restarted
            self.assertEqual(first, (3, 2))
            self.expect(steps, 7, [2], 1)
            self.expect(steps, 7, [3], 2)
            self.close_all(outs)
            self.fails(errno.EEXIST, self.run_of, name, 8, 0)
            self.fails(errno.EEXIST, self.run_of, name, 0, 0)
            self.fails(errno.EINVAL, self.run_of, name, 8, 0, start="again")
            outs, first = self.run_of(name, 8, 2, start="append")
            self.assertEqual(first, (4, 3))
            self.expect(steps, 8, [4], 3)
            self.close_all(outs)
            outs, first = self.run_of(name, 9, 3, start="anew")
            self.assertEqual(first, (0, 4))
            self.expect(steps, 8, [5], 3)  # what has come of the former run
            self.expect(steps, 9, [0, 1], 4)
            outs[0].close()
            error = self.fails(errno.EBUSY, self.run_of, name, 9, 0, start="anew")
            self.assertIn("another rank", str(error))
            outs[1].close()
            self.expect(steps, 9, [2], 4)
            outs, first = self.run_of(name, 9, 1)
            self.assertEqual(first, (3, 5))
            self.expect(steps, 9, [3], 5)
            self.close_all(outs)

    def test_start_tasks(self):
        """the tasks of one job do not take the ranks of another one's"""
        self.addCleanup(self.as_task, 0)
        self.as_task(7)
        with self.h.stream_writer("py.tasks"):
            self.as_task(8, 1)
            error = self.fails(errno.EEXIST, self.h.stream_writer, "py.tasks")
            self.assertIn("by job 7", str(error))
            self.as_task(7, 1)
            self.h.stream_writer("py.tasks").close()

    def test_start_group(self):
        """no run begins while members of groups count the steps of another one"""
        out = self.h.stream_writer("py.count", size=1)
        with self.h.stream_reader("py.count", group="g", stay=True):
            out.close()
            self.fails(errno.EBUSY, self.h.stream_writer, "py.count", size=1, start="anew")

    def test_switch(self):
        """a reader is turned on and off"""
        with self.h.stream_writer("py.q") as out:
            with self.h.stream_reader("py.q", switch="py.on") as steps:
                out.put("n", b"0")
                out.end_step()
                self.assertRaises(TimeoutError, steps.begin_step, timeout=0.01)
                self.h.stream_switch("py.on", True)
                step = None
                while not step:  # the writer looks for it now and then
                    out.put("n", b"1")
                    out.end_step()
                    try:
                        step = steps.begin_step(timeout=0)
                    except TimeoutError:
                        pass
                self.assertEqual(bytes(step["n"]), b"1")
                self.h.stream_switch("py.on", False)
