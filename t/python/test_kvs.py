"""The key-value store: in a session of 2 brokers."""

import array
import errno
import io
import unittest

import flux
from test_handle import Case


class KvsTest(Case):
    def setUp(self):
        super().setUp()
        self.kv = self.h.kvs()

    def test_values(self):
        """values of all types"""
        kv = self.kv
        for value, stored in (
            ("h\u00e9llo", "h\u00e9llo".encode()),
            (b"\0\xff", b"\0\xff"),
            (bytearray(b"ab"), b"ab"),
            (array.array("i", [1]), b"\1\0\0\0"),
            (42, b"42"),
            (1.5, b"1.5"),
            (True, b"true"),
            (None, b"null"),
            ({"a": [1]}, b'{"a":[1]}'),
            ([1, "x"], b'[1,"x"]'),
            ("", b""),
        ):
            version = kv.put("v.x", value)
            self.assertEqual(kv.get("v.x", bytes), stored)
            self.assertGreater(version.version, 0)
            self.assertIn("-", version.rootref + "-")
        kv.put("v.i", 42)
        self.assertEqual(
            [kv.get("v.i", t) for t in (str, int, float, object)], ["42", 42, 42.0, 42]
        )
        view = kv.get("v.i", memoryview)
        self.assertTrue(view.readonly)
        self.assertEqual(view, b"42")
        kv.put("v.d", {"a": 1})
        self.assertEqual((kv.get("v.d", dict), kv.get("v.d", object)), ({"a": 1}, {"a": 1}))
        kv.put("v.b", False)
        self.assertIs(kv.get("v.b", bool), False)
        for key, kind in (("v.d", int), ("v.d", list), ("v.i", bool), ("v.i", dict)):
            self.assertIn("is not ", str(self.fails(errno.EILSEQ, kv.get, key, kind)))
        kv.put("v.raw", b"\xff")
        self.fails(errno.EILSEQ, kv.get, "v.raw")
        self.fails(errno.EILSEQ, kv.get, "v.raw", object)
        self.assertRaises(TypeError, kv.get, "v.d", set)
        self.assertRaises(TypeError, kv.put, "v.x", {1})
        self.assertRaises(TypeError, kv.append, "v.x", 5)

    def test_errors(self):
        """errors, and defaults"""
        kv = self.kv
        self.fails(errno.ENOENT, kv.get, "nope")
        self.assertEqual(kv.get("nope", int, default=7), 7)
        kv.mkdir("e.dir")
        self.fails(errno.EISDIR, kv.get, "e.dir", default=7)
        self.fails(errno.EINVAL, kv.get, "a..b")
        self.fails(errno.EINVAL, kv.put, "a..b", 1)
        self.fails(errno.ENOENT, kv.unlink, "e.nope", must_exist=True)
        self.assertEqual(
            (kv.exists("e.dir"), kv.exists("e.nope"), kv.exists("e.nope.x")), (True, False, False)
        )
        self.fails(errno.EINVAL, self.h.kvs("a b").get, "x")

    def test_changes(self):
        """append, unlink, links, copy, move, info"""
        kv = self.kv
        kv.put("c.a", "12")
        kv.append("c.a", b"34")
        kv.append("c.a", "56")
        self.assertEqual(kv.get("c.a"), "123456")
        self.assertEqual(kv.get_range("c.a", 1, 3), b"234")
        kv.symlink("c.l", "c.a")
        self.assertEqual((kv.get("c.l"), kv.readlink("c.l")), ("123456", "c.a"))
        self.assertEqual((kv.info("c.l").type, kv.info("c.l", link=True).type), ("value", "link"))
        kv.copy("c.a", "c.b")
        kv.move("c.b", "c.d")
        self.assertEqual((kv.get("c.d"), kv.exists("c.b")), ("123456", False))
        info = kv.info("c.a")
        self.assertEqual((info.type, info.size), ("value", 6))
        kv.txn().guard("c.a", info.tag).guard("c.none", None).put("c.a", 1).commit()
        self.fails(errno.EAGAIN, kv.txn().guard("c.a", info.tag).put("c.a", 2).commit)
        kv.unlink("c.a")
        self.fails(errno.ENOTEMPTY, kv.unlink, "c")
        kv.unlink("c", recursive=True)
        self.assertFalse(kv.exists("c"))

    def test_transactions(self):
        """several changes, or none of them"""
        kv = self.kv
        with kv.txn() as txn:
            txn.put("t.a", 1).put("t.b", 2).mkdir("t.d")
            self.assertEqual(len(txn), 3)
        self.assertEqual(kv.get("t.b", int), 2)
        with self.assertRaises(KeyError):
            with kv.txn() as txn:
                txn.put("t.c", 1)
                raise KeyError
        self.assertFalse(kv.exists("t.c"))
        self.assertEqual(len(txn.clear()), 0)
        future = kv.txn().put("t.c", 3).commit_async(durable=True)
        self.assertEqual(kv.wait_version(future.get(60).version).version, kv.version().version)

    def test_fence(self):
        """a fence of two participants"""
        with flux.open() as other:
            first = other.kvs().txn().put("f.a", 1).fence_async("pytest", 2, ranks="0-1")
            version = self.kv.txn().put("f.b", 2).fence("pytest", 2, timeout=60)
            self.assertEqual(first.get(60).version, version.version)
        self.assertEqual(sorted(self.kv.entries("f")), ["a", "b"])
        self.kv.fence("pytest.one", 1)

    def test_directories(self):
        """entries, pages, walk"""
        kv = self.kv
        with kv.txn() as txn:
            for n in range(25):
                txn.put(f"d.k{n}", n)
            txn.symlink("d.link", "d.k0").put("d.sub.x", 1).put("d.sub.deep.y", 1)
        entries = kv.entries("d", values=True)
        self.assertEqual(len(entries), 27)
        self.assertEqual(
            (entries["k7"].value, entries["k7"].type, entries["k7"].size), (b"7", "value", 1)
        )
        self.assertEqual((entries["link"].type, entries["sub"].type), ("link", "dir"))
        self.assertIsNone(kv.entries("d")["k7"].value)
        paged = [e.name for e in kv.iterdir("d", page=4)]
        self.assertEqual(sorted(paged), sorted(entries))
        self.fails(errno.ENOTDIR, kv.entries, "d.k7")
        walked = {key: (sorted(dirs), len(others)) for key, dirs, others in kv.walk("d")}
        self.assertEqual(
            walked, {"d": (["sub"], 26), "d.sub": (["deep"], 1), "d.sub.deep": ([], 1)}
        )
        for key, dirs, _ in kv.walk("."):
            if key == ".":
                self.assertIn("d", dirs)
                dirs[:] = ["d"]
            self.assertTrue(key == "." or key.split(".")[0] == "d")

    def test_snapshot(self):
        """the store as it was"""
        kv = self.kv
        kv.put("s.a", "old")
        with kv.snapshot() as snapshot:
            kv.put("s.a", "new")
            self.assertEqual((snapshot.get("s.a"), kv.get("s.a")), ("old", "new"))
            self.assertEqual(kv.at(snapshot.rootref).get("s.a"), "old")
            self.assertEqual(list(snapshot.entries("s")), ["a"])
        self.assertIn("primary", repr(kv))

    def test_large(self):
        """values of any size"""
        kv = self.kv
        data = bytes(range(256)) * 4096 * 20 + b"end"
        kv.write("l.a", io.BytesIO(data))
        pieces = list(kv.read("l.a"))
        self.assertEqual(b"".join(pieces), data)
        self.assertEqual(len(pieces), 21)
        self.fails(errno.EFBIG, kv.get, "l.a", bytes)
        self.assertEqual(kv.info("l.a").size, len(data))
        kv.write("l.b", [b"x" * 700, array.array("d", [0.0] * 200000), b"y"])
        self.assertEqual(kv.info("l.b").size, 1600701)
        kv.write("l.c", [b"small"])
        self.assertEqual(kv.get("l.c"), "small")
        kv.write("l.d", [])
        self.assertEqual(list(kv.read("l.d")), [])
        kv.unlink("l", recursive=True)

    def test_watch(self):
        """what a key is, and after every change"""
        kv = self.kv
        with kv.watch("w.a") as watch:
            results = watch.results(60)
            self.assertIsNone(next(results).type)
            kv.put("w.a", "1")
            result = next(results)
            self.assertEqual((result.type, bytes(result.value)), ("value", b"1"))
            kv.unlink("w.a")
            self.assertIsNone(next(results).value)
        kv.put("w.log", "ab")
        with kv.watch("w.log", append=True) as watch:
            results = watch.results(60)
            first = next(results)
            kv.append("w.log", "cd")
            second = next(results)
            self.assertEqual((bytes(first.value), first.whole), (b"ab", True))
            self.assertEqual((bytes(second.value), second.whole), (b"cd", False))
        with kv.watch("w", values=True) as watch:
            self.assertEqual(watch.get(60).entries["log"].value, b"abcd")
        with kv.watch("w", diff=True) as watch:
            results = watch.results(60)
            self.assertEqual(
                [(c.key, c.change) for c in next(results).changes], [("log", "added")]
            )
            kv.txn().put("w.log", 1).put("w.sub.x", 2).commit()
            self.assertIn(("sub.x", "added"), [(c.key, c.change) for c in next(results).changes])

    def test_watch_callback(self):
        """a watch by callback"""
        got = []

        def changed(future):
            got.append(bytes(future.get().value))
            if len(got) == 3:
                future.destroy()
            else:
                self.kv.txn().put("wc", len(got)).commit_async()

        self.kv.put("wc", 0)
        self.kv.watch("wc").then(changed)
        self.h.run(60)
        self.assertEqual(got, [b"0", b"1", b"2"])

    def test_namespaces(self):
        """stores of their own"""
        kv = self.h.namespace_create("pytest", rank=1)
        kv.put("a", 1)
        self.assertFalse(self.kv.exists("a"))
        self.assertEqual(self.h.kvs("pytest").get("a", int), 1)
        self.assertEqual([n.rank for n in self.h.namespaces() if n.name == "pytest"], [1])
        self.fails(errno.EEXIST, self.h.namespace_create, "pytest")
        self.h.namespace_remove("pytest")
        self.fails(errno.ENOENT, kv.get, "a")


class NumpyTest(Case):
    def test_array(self):
        """arrays are values, and views of them, without a copy"""
        try:
            import numpy
        except ImportError:
            raise unittest.SkipTest("no numpy") from None
        kv = self.h.kvs()
        made = numpy.arange(1000.0).reshape(10, 100)
        kv.put("np.a", made)
        got = numpy.frombuffer(kv.get("np.a", memoryview)).reshape(10, 100)
        self.assertTrue((got == made).all())
        self.assertFalse(got.flags.owndata)
