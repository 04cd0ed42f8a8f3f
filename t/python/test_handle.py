"""Handles, requests, futures, events: in a session of 2 brokers."""

import array
import ctypes
import errno
import gc
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
import weakref

import flux


class Case(unittest.TestCase):
    def setUp(self):
        self.h = flux.open()
        self.addCleanup(self.h.close)

    def fails(self, number, function, *arguments, **options):
        """The call raises FluxError with this errno and a sentence."""
        with self.assertRaises(flux.FluxError) as caught:
            function(*arguments, **options)
        self.assertEqual(errno.errorcode[caught.exception.errno], errno.errorcode[number])
        self.assertGreater(len(str(caught.exception)), 4)
        return caught.exception

    def refuses(self, number, pattern, call, *args, **options):
        """the error of an argument, which has a number and a sentence"""
        with self.assertRaisesRegex(flux.FluxError, pattern) as caught:
            call(*args, **options)
        self.assertEqual(caught.exception.errno, number)


class HandleTest(Case):
    def test_open(self):
        """rank, size, the end of a with statement"""
        self.assertEqual((self.h.rank, self.h.size), (0, 2))
        with flux.open(os.environ["FLUX_URI"]) as h:
            self.assertFalse(h.closed)
            self.assertIn("rank 0 of 2, open", repr(h))
        self.assertTrue(h.closed)
        h.close()
        self.fails(errno.ECANCELED, h.rpc, "broker.ping")
        self.assertRegex(flux.__version__, r"^\d+\.\d+")

    def test_open_errors(self):
        """addresses that lead nowhere"""
        e = self.fails(errno.ENOENT, flux.open, "local:///no/such/socket")
        self.assertIn("/no/such/socket", str(e))
        self.assertIsInstance(e, OSError)
        self.assertIn("ENOENT", repr(e))
        self.fails(errno.EINVAL, flux.open, "what?")
        self.assertRaises(TypeError, flux.open, 5)
        self.assertRaises(ValueError, flux.open, "local:///a\0b")

    def test_attributes(self):
        """a mapping of attributes"""
        attributes = self.h.attributes
        self.assertEqual(attributes["size"], "2")
        self.assertEqual(attributes.get("nope", "-"), "-")
        self.assertRaises(KeyError, lambda: attributes["nope"])
        attributes["python.test"] = "x y"
        self.assertEqual(dict(attributes)["python.test"], "x y")
        self.assertIn("rank", attributes)
        self.assertGreater(len(attributes), 5)
        self.fails(errno.EPERM, attributes.__setitem__, "rank", "7")
        self.assertRaises(TypeError, attributes.__delitem__, "rank")

    def test_log(self):
        """lines of the log"""
        self.h.log("info", "100% of %s", source="pytest")
        text = ""
        while "100% of %s" not in text:  # it has no response
            text = subprocess.run(
                ["flux", "dmesg"], stdout=subprocess.PIPE, check=True, text=True
            ).stdout
        self.assertIn("pytest", text)
        self.assertRaises(ValueError, self.h.log, "loud", "x")
        self.assertRaises(ValueError, self.h.log, 8, "x")

    def test_thread(self):
        """a handle is for one thread"""
        caught = []

        def use():
            try:
                self.h.rpc("broker.ping")
            except RuntimeError as e:
                caught.append(e)
            with flux.open() as h:
                caught.append(h.rpc("broker.ping", {"n": 1})["n"])

        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        self.assertIn("thread", str(caught[0]))
        self.assertEqual(caught[1], 1)

    def test_other_threads_run(self):
        """a call that waits lets other threads run"""
        steps = []

        def publish():
            with flux.open() as h:
                steps.append(1)
                h.publish("pytest.thread")

        with self.h.subscribe("pytest.thread") as events:
            thread = threading.Thread(target=publish)
            thread.start()
            self.assertEqual(events.next(60).topic, "pytest.thread")
            thread.join()
        self.assertEqual(steps, [1])

    def test_barrier(self):
        """a barrier of two clients"""
        with flux.open() as other:
            first = other.rpc_async("barrier.enter", {"name": "pytest", "nprocs": 2})
            self.assertRaises(TimeoutError, first.get, 0)
            self.h.barrier("pytest", 2, timeout=60)
            first.get(60)


class RpcTest(Case):
    def test_payloads(self):
        """JSON, bytes, buffers and nothing go both ways"""
        answer = self.h.rpc("broker.ping", {"n": 1, "list": ["a", None, 0.5, "\u00e9"]}, rank=1)
        self.assertEqual(
            (answer["n"], answer["list"], answer["rank"]), (1, ["a", None, 0.5, "\u00e9"], 1)
        )
        self.assertIsNone(self.h.rpc("broker.ping"))
        for raw in (
            b"raw\0bytes",
            bytearray(b"x" * 70000),
            memoryview(b"abc")[1:],
            array.array("d", [1, 2]),
        ):
            view = self.h.rpc("broker.ping", raw)
            self.assertIsInstance(view, memoryview)
            self.assertTrue(view.readonly)
            self.assertEqual(view, bytes(raw))

    def test_view_outlives(self):
        """a payload lives as long as its view"""
        h = flux.open()
        future = h.rpc_async("broker.ping", b"0123456789" * 1000)
        part = future.get()[10:20]
        future.destroy()
        h.close()
        gc.collect()
        self.assertEqual(bytes(part), b"0123456789")

    def test_errors(self):
        """errors of services, and of arguments"""
        e = self.fails(errno.ENOSYS, self.h.rpc, "nope.ping", {})
        self.assertIn("nope", str(e))
        self.fails(errno.EHOSTUNREACH, self.h.rpc, "broker.ping", {}, rank=9)
        self.fails(errno.EINVAL, self.h.rpc, "a b")
        self.assertRaises(TypeError, self.h.rpc, "broker.ping", {1, 2})
        self.assertRaises(ValueError, self.h.rpc, "broker.ping", float("nan"))
        self.assertRaises(ValueError, self.h.rpc, "broker.ping", "\ud800")
        self.assertRaises(ValueError, self.h.rpc, "a\0b")
        self.assertRaises(OverflowError, self.h.rpc, "broker.ping", rank=-1)

    def test_future(self):
        """wait, get, next, destroy"""
        f = self.h.rpc_async("broker.ping", {"n": 2})
        self.assertIs(f.wait(60), f)
        self.assertTrue(f.ready)
        self.assertEqual(f.get()["n"], 2)
        self.assertEqual(f.get()["n"], 2)
        self.assertFalse(f.next())
        self.assertRaises(flux.EndOfStream, f.get)
        f.destroy()
        f.destroy()
        self.fails(errno.ECANCELED, f.get)
        self.assertEqual([r["n"] for r in self.h.rpc_async("broker.ping", {"n": 3})], [3])

    def test_timeout(self):
        """a wait ends in time"""
        with self.h.rpc_async("barrier.enter", {"name": "pytest.alone", "nprocs": 2}) as f:
            e = self.fails(errno.ETIMEDOUT, f.get, 0.01)
            self.assertIsInstance(e, TimeoutError)
            self.assertFalse(f.ready)
            self.assertRaises(flux.FluxTimeoutError, f.get, 0)

    def test_many(self):
        """many requests at a time"""
        futures = [self.h.rpc_async("broker.ping", {"n": n}, rank=n % 2) for n in range(500)]
        self.assertEqual([f.get()["n"] for f in futures], list(range(500)))

    def test_mrpc(self):
        """a request to many ranks"""
        answers = dict(self.h.mrpc("broker.ping", {"n": 1}))
        self.assertEqual({rank: a["rank"] for rank, a in answers.items()}, {0: 0, 1: 1})
        self.assertEqual([rank for rank, _ in self.h.mrpc("broker.ping", {}, "1")], [1])
        f = self.h.mrpc("broker.ping", {}, [1, 7])
        got = []
        more = True
        while more:
            try:
                got.append((f.wait().rank, f.get() is not None))
            except flux.FluxError as e:
                got.append((f.rank, errno.errorcode[e.errno]))
            more = f.next()
        self.assertEqual(sorted(got), [(1, True), (7, "EHOSTUNREACH")])
        self.fails(errno.EINVAL, self.h.mrpc, "broker.ping", {}, "x")
        self.fails(errno.EINVAL, self.h.mrpc, "broker.ping", {}, [])

    def test_send(self):
        """requests without response"""
        self.h.send("broker.ping", {})
        self.fails(errno.EINVAL, self.h.send, "a b")

    def test_then(self):
        """callbacks come from run(), and only from there"""
        got = []
        for n in range(3):
            self.h.rpc_async("broker.ping", {"n": n}).then(lambda f: got.append(f.get()["n"]))
        early = self.h.rpc_async("broker.ping", {"n": 3}).wait()
        early.then(lambda f: got.append(f.get()["n"]))
        self.h.rpc("broker.ping")
        self.assertEqual(got, [])
        gc.collect()  # nobody else keeps these futures
        self.h.run(60)
        self.assertEqual(sorted(got), [0, 1, 2, 3])
        self.h.run()

    def test_then_error(self):
        """an exception of a callback ends run(), the rest comes later"""
        got = []

        def wrong(f):
            raise KeyError("wrong")

        self.h.rpc_async("broker.ping").wait().then(wrong)
        self.h.rpc_async("broker.ping").wait().then(lambda f: got.append(1))
        self.assertRaises(KeyError, self.h.run)
        self.h.run(60)
        self.assertEqual(got, [1])
        self.assertRaises(TypeError, self.h.rpc_async("broker.ping").then, 5)

    def test_then_close(self):
        """a callback may close the handle"""
        self.h.rpc_async("broker.ping").then(lambda f: self.h.close())
        self.h.rpc_async("broker.ping").then(lambda f: self.h.close())
        self.h.run(60)
        self.assertTrue(self.h.closed)

    def test_stop(self):
        """stop() and the timeout end run()"""
        f = self.h.rpc_async("barrier.enter", {"name": "pytest.never", "nprocs": 2})
        f.then(lambda f: self.fail("it was not complete"))
        self.assertRaises(TimeoutError, self.h.run, 0.01)
        self.h.rpc_async("broker.ping").then(lambda f: self.h.stop())
        self.h.run(60)
        f.destroy()
        self.h.run(60)

    def test_own_loop(self):
        """a loop of the program's own, with poll()"""
        got = []
        for n in range(100):
            self.h.rpc_async("broker.ping", b"x" * 2000).then(lambda f: got.append(len(f.get())))
        while len(got) < 100:
            poller = select.poll()
            poller.register(self.h, self.h.events)
            self.assertTrue(poller.poll(60000))
            self.assertTrue(self.h.dispatch())
        self.assertEqual(got, [2000] * 100)


class EventTest(Case):
    def test_events(self):
        """subscribe, publish, take"""
        with self.h.subscribe("pytest.a") as events:
            self.assertEqual(events.prefix, "pytest.a")
            seq = self.h.publish("pytest.a.1", {"x": [1]})
            self.h.publish("pytest.b", {})
            self.h.send_event("pytest.a.2", b"\0raw")
            self.h.publish_async("pytest.a.3").get(60)
            got = [events.next(60) for _ in range(3)]
            self.assertEqual([e.topic for e in got], ["pytest.a.1", "pytest.a.2", "pytest.a.3"])
            self.assertEqual([e.payload for e in got], [{"x": [1]}, b"\0raw", None])
            self.assertEqual((got[0].seq, got[0].rank, got[0].userid), (seq, 0, os.geteuid()))
            self.assertRaises(TimeoutError, events.next, 0)
        self.fails(errno.ECANCELED, events.next)
        self.fails(errno.EINVAL, self.h.publish, "a b")
        self.fails(errno.EINVAL, self.h.send_event, "a b")

    def test_iterate(self):
        """a loop over events"""
        with self.h.subscribe("pytest.it") as events:
            for n in range(5):
                self.h.send_event("pytest.it", {"n": n})
            for event in events:
                if event.payload["n"] == 4:
                    break
            self.assertEqual(event.topic, "pytest.it")

    def test_callback(self):
        """events by callback, until it closes the subscription"""
        got = []

        def take(event):
            got.append(event.payload)
            if len(got) == 3:
                events.close()

        events = self.h.subscribe("pytest.cb", take)
        for n in range(5):
            self.h.publish("pytest.cb", n)
        self.h.run(60)
        self.assertEqual(got, [0, 1, 2])

    def test_bounded(self):
        """the oldest events are dropped, and this is told once"""
        with self.h.subscribe("pytest.many", max_events=3) as events:
            for n in range(5):
                self.h.publish("pytest.many", n)
            self.h.rpc("broker.ping")
            e = self.fails(errno.ENOBUFS, events.next, 60)
            self.assertIn("2 events", str(e))
            self.assertEqual([events.next(60).payload for _ in range(3)], [2, 3, 4])
        with self.h.subscribe("pytest.large", max_bytes=10) as events:
            self.h.publish("pytest.large", b"x" * 1000)
            self.assertEqual(len(events.next(60).payload), 1000)

    def test_lost_events(self):
        """the broker tells of events that it has dropped"""
        h, theirs = fake_broker()
        with h, theirs:
            some, every = (flux.Subscription(h, prefix, 9, 1000) for prefix in ("pytest.", ""))
            theirs.send(event("event.lost", {"from": 7, "to": 9}))
            theirs.send(event("event.lost", {"from": 12, "to": 0}))
            theirs.send(event("pytest.a", {"n": 1}, 15))
            self.assertIn("from 7 to 9", str(self.fails(errno.ENOBUFS, some.next, 60)))
            self.assertIn("from 12 on", str(self.fails(errno.ENOBUFS, some.next, 60)))
            self.assertEqual((some.next(60).seq, every.next(60).topic), (15, "event.lost"))


def fake_broker():
    """A handle, and the socket of a broker that does nothing but greet as a true one does."""
    ours, theirs = socket.socketpair()
    with socket.socket(socket.AF_UNIX) as broker:
        broker.connect(os.environ["FLUX_URI"][len("local://") :])
        theirs.send(broker.recv(4096))
    return flux.open(f"fd://{ours.detach()}"), theirs


def event(topic, payload, seq=0):
    """The frame of an event, made by libflux."""
    lib = ctypes.CDLL(str(pathlib.Path(flux.__file__).parents[4] / ".libs" / "libflux.so"))
    lib.flux_msg_create.restype = ctypes.c_void_p
    lib.flux_msg_encoded_size.restype = ctypes.c_size_t
    msg = ctypes.c_void_p(lib.flux_msg_create(4, topic.encode()))
    lib.flux_msg_set_json(msg, json.dumps(payload).encode())
    lib.flux_msg_set_seq(msg, ctypes.c_uint64(seq))
    data = ctypes.create_string_buffer(lib.flux_msg_encoded_size(msg))
    lib.flux_msg_encode(msg, data)
    lib.flux_msg_destroy(msg)
    return data.raw


class EndTest(Case):
    def test_dies_before_futures(self):
        """a handle that was closed or collected before what belongs to it"""
        h = flux.open()
        future, events = h.rpc_async("broker.ping"), h.subscribe("pytest.end")
        called = h.rpc_async("broker.ping").then(lambda f: None)
        h.close()
        self.fails(errno.ECANCELED, future.get)
        self.fails(errno.ECANCELED, events.next)
        events.close()
        future.destroy()
        del future, events, called, h

        def make():
            h = flux.open()
            kept = [h.subscribe("pytest.end"), h.kvs()]
            kept.append(h.rpc_async("broker.ping").then(lambda f: kept.append(h.rank)))
            return weakref.ref(h)

        gone = make()
        gc.collect()
        self.assertIsNone(gone())

    def test_fork(self):
        """a child process leaves the connection to its parent"""
        futures = [self.h.rpc_async("broker.ping", {"n": n}) for n in range(10)]
        child = os.fork()
        if child == 0:
            code = 1
            try:
                self.h.rpc("broker.ping")
            except flux.FluxError as e:
                code = e.errno
            futures.clear()
            with flux.open() as h:
                h.rpc("broker.ping")
            os._exit(code)
        self.assertEqual(os.WEXITSTATUS(os.waitpid(child, 0)[1]), errno.ECANCELED)
        self.assertEqual([f.get()["n"] for f in futures], list(range(10)))

    def test_collected_elsewhere(self):
        """a future that another thread collects"""
        futures = [self.h.rpc_async("broker.ping") for _ in range(100)]
        thread = threading.Thread(target=futures.clear)
        thread.start()
        thread.join()
        self.assertEqual(len(self.h._connection.dead), 100)
        self.assertEqual(self.h.rpc("broker.ping", b"x"), b"x")
        self.assertEqual(len(self.h._connection.dead), 0)

    def test_drop_subscription(self):
        """a subscription that is dropped ends, when the thread of its handle can end it"""
        events = [self.h.subscribe("pytest.drop")]
        thread = threading.Thread(target=events.clear)
        thread.start()
        thread.join()
        self.assertEqual(len(self.h._connection.dead), 1)
        self.h.publish("pytest.drop")
        self.assertEqual(len(self.h._connection.dead), 0)

    def test_no_leaks(self):
        """neither objects, nor descriptors, nor memory are left"""

        def work(count):
            for _ in range(count):
                with flux.open() as h:
                    view = h.rpc("broker.ping", b"x" * 100000)
                    h.rpc_async("broker.ping").then(lambda f: f.get())
                    h.run(60)
                    with h.subscribe("pytest.leak") as events:
                        h.publish("pytest.leak", view)
                        h.publish("pytest.leak", view)
                        events.next(60)
                    h.kvs().put("pytest.leak", view)
                    h.kvs().get("pytest.leak", memoryview)
                    h.rpc_async("broker.ping")

        def used():
            gc.collect()
            with open("/proc/self/statm") as statm:
                pages = int(statm.read().split()[1])
            return len(gc.get_objects()), len(os.listdir("/proc/self/fd")), pages

        work(30)
        objects, fds, pages = used()
        work(150)
        after = used()
        self.assertLess(after[0] - objects, 50)
        self.assertEqual(after[1], fds)
        # One leaked payload in each round would be 3600 pages.
        if not os.environ.get("LD_PRELOAD"):
            self.assertLess(after[2] - pages, 1200)

    def test_lost(self):
        """the broker goes away"""
        h, theirs = fake_broker()
        waits = h.rpc_async("x.wait")
        events = flux.Subscription(h, "x", 9, 1000).then(lambda event: None)
        theirs.close()
        for call in (waits.get, lambda: events.next(60), h.run, lambda: h.rpc("x.y"), h.fileno):
            self.assertIn("was lost", str(self.fails(errno.EPIPE, call)))
        self.assertIn("lost", repr(h))
        self.assertFalse(h.dispatch())
        h.close()

    def test_interrupt(self):
        """KeyboardInterrupt ends calls that wait"""
        barrier = "f = h.rpc_async('barrier.enter', {'name': 'i', 'nprocs': 2})"
        calls = {
            "get": (barrier, "f.get()"),
            "get with timeout": (barrier, "f.get(600)"),
            "event": ("e = h.subscribe('pytest.none')", "e.next()"),
            "run": ("h.subscribe('pytest.none', print)", "h.run()"),
        }
        for name, (first, call) in calls.items():
            with self.subTest(name):
                program = f"import flux; h = flux.open(); {first}; h.dispatch(); "
                program += f"print(1, flush=True); {call}"
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
                self.assertIn("KeyboardInterrupt", child.communicate(timeout=120)[1])


def asleep(pid):
    """Does the process wait?"""
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0] == "S"
