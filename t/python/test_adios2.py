"""Streams by the call names of adios2: in a session of 2 brokers."""

import concurrent.futures
import contextlib
import errno
import os
import subprocess
import tempfile
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

    def __init__(self, rank, size, shared=None):
        self.rank, self.size, self.shared = rank, size, shared

    def bcast(self, value, root):
        if self.rank == root:
            self.shared.set_result(value)
        return self.shared.result(60)

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

    def test_queue(self):
        """a writer that discards waits for nobody; a limit of the writer holds for readers"""
        from flux.adios2 import IO, Stream

        io = IO()
        io.set_parameters(
            {"QueueLimit": 2, "QueueFullPolicy": "Discard", "RendezvousReaderCount": 0}
        )
        plain = IO()
        plain.set_parameter("QueueLimit", 100)
        with Stream(io, "ad.q", "w") as out, Stream(plain, "ad.q", "r") as s:
            for n in range(10):
                out.begin_step()
                out.write("n", n)
                out.write_attribute("last", n)
                out.end_step()
            self.assertEqual(out.current_step(), 10)
            for n in (0, 1):
                s.begin_step(timeout=60.0)
                self.assertEqual((s.read("n"), s.read_attribute("last")), (n, n))
                s.end_step()
            out.begin_step()
            out.write("n", 10)
            out.end_step()
            s.begin_step(timeout=60.0)
            self.assertEqual((s.current_step(), s.read("n"), s.read_attribute("last")), (10, 10, 9))
        for wrong in ({"QueueFullPolicy": "Often"}, {"QueueLimit": -1}):
            io = IO()
            io.set_parameters(wrong)
            self.assertRaises(ValueError, Stream, io, "ad.q", "w")

    def test_team(self):
        """readers with a communicator see the same steps, although some are dropped"""
        from flux.adios2 import IO, Stream

        io = IO()
        io.set_parameters({"QueueLimit": 2, "QueueFullPolicy": "Discard"})
        shared = concurrent.futures.Future()
        first = threading.Barrier(2)

        def read(rank):
            seen = []
            with Stream(io, "ad.t", "r", Comm(rank, 2, shared)) as s:
                for _ in s.steps():
                    self.assertEqual(s.read("n"), s.current_step())
                    seen.append(s.current_step())
                    if rank == 0 and len(seen) == 1:
                        first.wait(60)  # while this one has the first step, its queue is full
            return seen

        with concurrent.futures.ThreadPoolExecutor() as pool:
            readers = [pool.submit(read, rank) for rank in (0, 1)]
            with Stream("ad.t", "w") as out:  # waits for both
                for n in out.steps(20):
                    out.write("n", out.current_step())
                first.wait(60)
            steps = [reader.result(60) for reader in readers]
        self.assertEqual(steps[0], steps[1])
        self.assertEqual(steps[0][0], 0)
        self.assertLess(len(steps[0]), 20)

    def test_blocks(self):
        """blocks of writers, attributes, and what is not there"""
        from flux.adios2 import Adios, Stream

        io = Adios().declare_io("blocks")
        io.set_parameter("RendezvousReaderCount", 0)
        a = io.define_attribute("units", "K", "T")
        self.assertEqual((a.name(), a.type(), a.data_string()), ("T/units", "string", "K"))
        self.assertEqual(io.inquire_attribute("units", "T").data_string(), "K")
        io.define_attribute("range", [0.5, 1.5])
        self.assertEqual(io.inquire_attribute("range").type(), "double")
        self.assertEqual(io.available_attributes("T"), {"units": {"Type": "string", "Value": "K"}})
        outs = [Stream(io, "ad.bl", "w", Comm(rank, 2)) for rank in range(2)]
        with Stream("ad.bl", "r") as s:
            for rank, out in enumerate(outs):
                out.begin_step()
                self.assertEqual(out.inquire_attribute("units", "T").data_string(), "K")
                out.write("T", numpy.arange(2.0) + rank, [4], [2 * rank], [2])
                if rank == 1:
                    out.write("n", 5)
                    out.write("text", "none")
                    out.write("gaps", numpy.array([numpy.nan, 3.0, -1.5]))
                out.end_step()
            self.assertIs(next(s), s)
            one, two = s.all_blocks_info("T")[0]
            self.assertEqual((one["Start"], one["Count"], one["Shape"]), ("0", "2", "4"))
            self.assertEqual((two["Start"], two["BlockID"], two["IsValue"]), ("2", "1", "0"))
            self.assertNotIn("Min", one)  # it is not computed before
            self.assertEqual((one["Min"], one["Max"]), ("0.0", "1.0"))
            self.assertEqual((two["Max"], two["Min"]), ("2.0", "1.0"))
            gaps = s.all_blocks_info("gaps")[0][0]
            self.assertEqual((gaps["Max"], gaps["Min"]), ("3.0", "-1.5"))
            late, number = s.all_blocks_info("gaps")[0][0], s.all_blocks_info("n")[0][0]
            self.assertEqual((number["IsValue"], number["Min"], number["Max"]), ("1", "5", "5"))
            for name, key in (("text", "Min"), ("n", "Mean")):
                self.assertRaises(KeyError, s.all_blocks_info(name)[0][0].__getitem__, key)
            self.fails(errno.ENOENT, s.all_blocks_info, "nope")
            found = s.inquire_attribute("range")
            self.assertEqual((found.data().tolist(), found.single_value()), ([0.5, 1.5], False))
            self.assertIsNone(s.inquire_attribute("nope"))
            self.assertEqual(
                s.available_attributes()["range"], {"Type": "double", "Value": "[0.5, 1.5]"}
            )
            v = s.inquire_variable("T")
            self.assertEqual((v.sizeof(), v.steps(), v.selection_size()), (8, 1, 4))
            v.set_step_selection([0, 1])
            self.assertRaises(NotImplementedError, v.set_step_selection, [0, 2])
            self.assertRaises(NotImplementedError, s.read, "T", step_selection=[0, 2])
            self.assertRaises(NotImplementedError, v.add_operation, "zfp")
            self.assertRaisesRegex(NotImplementedError, "ad.bl", s.num_steps)
            for out in outs:
                out.close()
            self.assertRaises(StopIteration, next, s)
            self.fails(errno.EINVAL, late.__getitem__, "Min")  # its step has ended
        self.assertRaises(NotImplementedError, io.open, "ad.bl", "r")
        for mode in ("a", "rra"):
            self.assertRaises(NotImplementedError, Stream, "ad.bl", mode)
        self.assertTrue(io.remove_attribute("range"))
        self.assertFalse(io.remove_attribute("range"))

    def test_file(self):
        """a recording has steps, which are selected"""
        from flux.adios2 import FileReader, Stream

        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "ad.rec")

            def write():
                with contextlib.suppress(ValueError), Stream("ad.f", "w") as s:
                    for n in s.steps(4):
                        s.write("T", numpy.arange(3.0) + 10 * s.current_step(), [3], [0], [3])
                        s.write("n", s.current_step())
                        s.write("text", f"step {s.current_step()}")
                        s.write_attribute("units", "K", "T")
                        if s.current_step() == 3:
                            raise ValueError("the last step is not ended")

            thread = threading.Thread(target=write)
            thread.start()
            record = subprocess.run(
                ["flux", "stream", "record", "ad.f", path], stderr=subprocess.PIPE, timeout=60
            )
            thread.join()
            self.assertIn(b"rank 0 of the writers has failed in step 3", record.stderr)
            with FileReader(path) as f:
                self.assertEqual((f.num_steps(), f.read("n")), (3, 0))
                self.assertEqual(f.read("n", step_selection=[1, 2]).tolist(), [1, 2])
                self.assertEqual(f.read("text", step_selection=[0, 2]), ["step 0", "step 1"])
                self.assertEqual(
                    f.read("T", [1], [2], step_selection=[1, 2]).tolist(), [11, 12, 21, 22]
                )
                self.fails(errno.ERANGE, f.read, "n", step_selection=[2, 2])
                self.assertEqual(f.read_attribute("units", "T"), "K")
                self.assertEqual(sorted(f.available_variables()), ["T", "n", "text"])
                self.assertEqual([s.read("n") for s in f], [0, 1, 2])
                self.assertEqual([s.read("n") for s in f.steps()], [])
            f.close()
            self.fails(errno.ECANCELED, f.read, "n")

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
        self.assertRaises(ValueError, Stream, "ad.c", "x")
        self.assertRaises(TypeError, Stream, "ad.c")
