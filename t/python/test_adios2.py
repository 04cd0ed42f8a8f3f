"""Streams by the call names of adios2: in a session of 2 brokers."""

import errno
import threading
import unittest

import flux
from test_handle import Case

try:
    import numpy
except ImportError:
    numpy = None


class Comm:
    """What a stream asks of a communicator."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size

    def Get_rank(self):
        return self.rank

    def Get_size(self):
        return self.size


@unittest.skipIf(numpy is None, "there is no NumPy")
class Adios2Test(Case):
    def test_loop(self):
        """a program as it is written for adios2"""
        from flux.adios2 import Stream

        def simulation():
            with Stream("ad.a", "w") as s:
                self.assertRaises(RuntimeError, next, s.steps())
                s.write_attribute("units", "K", "T")
                s.write_attribute("nx", 10)
                for _ in s.steps(3):
                    n = s.current_step()
                    T = numpy.arange(20.0).reshape(4, 5) + 100 * n
                    s.write("T", T[:2], [4, 5], [0, 0], [2, 5])
                    s.write("n", n)
                    s.write("list", [1, 2, 3])
                    s.write("turned", T.T[::2])
                    s.write("text", "step %d" % n)
                    s.write("empty", "")

        thread = threading.Thread(target=simulation)
        thread.start()
        seen = []
        with Stream("ad.a", "r") as s:
            for step in s.steps(timeout=60.0):
                self.assertIs(step, s)
                n = s.current_step()
                seen.append(n)
                self.assertEqual(s.loop_index(), n)
                self.assertEqual((s.read("n"), s.read("text")), (n, f"step {n}"))
                self.assertEqual(len(s.read("empty")), 0)
                self.assertEqual(s.read("list").tolist(), [1, 2, 3])
                part = s.read("T", [1, 1], [1, 3])
                self.assertEqual(part.tolist(), [[100 * n + 6, 100 * n + 7, 100 * n + 8]])
                self.fails(errno.ENODATA, s.read, "T")
                self.assertEqual(s.read("T", block_id=0).shape, (2, 5))
                self.assertEqual(s.read("turned")[1, 1], 100 * n + 7)
                self.assertEqual(s.read_attribute("nx"), 10)
                self.assertEqual(s.read_attribute_string("units", "T"), "K")
                self.assertEqual(
                    s.available_attributes("T"), {"units": {"Type": "string", "Value": "K"}}
                )
                found = s.available_variables()
                self.assertEqual(sorted(found), ["T", "empty", "list", "n", "text", "turned"])
                self.assertEqual(
                    found["T"], {"Type": "double", "Shape": "4, 5", "SingleValue": "false"}
                )
                self.assertEqual(found["n"]["SingleValue"], "true")
                self.assertIsNone(s.inquire_variable("nope"))
                self.fails(errno.ENOENT, s.read, "nope")
                v = s.inquire_variable("T")
                v.set_selection([[0, 0], [1, 2]])
                self.assertEqual((v.name(), v.type(), v.shape()), ("T", "double", [4, 5]))
                self.assertEqual((v.start(), v.count()), ([0, 0], [1, 2]))
                self.assertEqual(s.read(v).tolist(), [[100 * n, 100 * n + 1]])
                v.set_block_selection(0)
                self.assertEqual(s.read(v).shape, (2, 5))
                for order, kind in ("C", "=f8"), ("F", "=f8"), ("C", ">f8"), ("C", "<f8"):
                    into = numpy.zeros((2, 2), kind, order=order)
                    s.read_in_buffer("T", into, [0, 0], [2, 2])
                    self.assertEqual(into.tolist()[1], [100 * n + 5, 100 * n + 6])
        thread.join()
        self.assertEqual(seen, [0, 1, 2])

    def test_steps(self):
        """begin_step and end_step; parameters; what goes wrong"""
        from flux.adios2 import Adios, StepStatus, Stream

        io = Adios().declare_io("sim")
        io.set_engine("SST")
        io.set_parameters(
            {"QueueLimit": 2, "QueueFullPolicy": "Discard", "RendezvousReaderCount": 0}
        )
        io.add_transport("File")
        self.assertEqual((io.engine_type(), io.parameters()["QueueLimit"]), ("SST", "2"))
        outs = [None, None]

        def writer(rank):
            outs[rank] = Stream(io, "ad.b", "w", Comm(rank, 2))

        writer(0)
        writer(1)
        with Stream(io, "ad.b", "r") as s:
            self.assertIs(s.begin_step(timeout=0.0), StepStatus.NotReady)
            self.fails(errno.EINVAL, s.read, "x")
            self.fails(errno.EINVAL, s.write, "x", 1)
            for n in range(5):
                for rank, out in enumerate(outs):
                    v = io.define_variable("x", None, [4], [2 * rank], [2])
                    self.assertIs(out.begin_step(), StepStatus.OK)
                    self.assertIs(out.begin_step(), StepStatus.OtherError)
                    out.write(v, numpy.array([n, rank], "i4"))
                    out.end_step()
            self.assertIs(s.begin_step(timeout=60.0), StepStatus.OK)
            self.assertEqual(s.current_step(), 3)  # the queue has 2 steps
            self.assertEqual(s.read("x").tolist(), [3, 0, 3, 1])
            self.assertEqual(s.read("x", block_id=1).tolist(), [3, 1])
            self.assertEqual(s.inquire_variable("x").type(), "int32_t")
            s.end_step()
            for out in outs:
                out.close()
                out.close()
            self.assertEqual([s.current_step() for _ in s], [4])
            self.assertIs(s.step_status(), StepStatus.EndOfStream)
        io.set_parameter("RendezvousReaderCount", 1)
        io.set_parameter("OpenTimeoutSecs", 0.1)
        self.assertRaises(TimeoutError, Stream, io, "ad.c", "w")
        self.assertRaises(TimeoutError, Stream, io, "ad.c", "r")
        self.assertRaises(ValueError, Stream, "ad.c", "a")
        self.assertRaises(TypeError, Stream, "ad.c")
