"""Handles in the loop of asyncio: in a session of 2 brokers."""

import asyncio
import errno
import tempfile
import unittest

import flux
from test_handle import Case


class AsyncTest(Case):
    def run_async(self, main):
        return asyncio.run(asyncio.wait_for(main, 60))

    def test_await(self):
        """requests at the same time"""

        async def ping(n):
            return (await self.h.rpc_async("broker.ping", {"n": n}, rank=n % 2))["n"]

        async def main():
            return await asyncio.gather(*(ping(n) for n in range(200)))

        self.assertEqual(self.run_async(main()), list(range(200)))
        self.assertEqual(self.run_async(main()), list(range(200)))
        self.assertEqual(self.h.rpc("broker.ping", {"n": 1})["n"], 1)

    def test_end_step(self):
        """other tasks run while a step waits for a reader"""

        async def write(out):
            for n in range(20):
                out.put("n", b"%d" % n)
                await out.end_step_async()

        async def main():
            with self.h.stream_writer("py.end") as out:
                with self.h.stream_reader("py.end", depth=1) as steps:
                    writes = asyncio.ensure_future(write(out))
                    for n in range(20):
                        step = await steps.begin_step_async()
                        self.assertEqual((step.number, bytes(step["n"])), (n, b"%d" % n))
                        self.assertFalse(n < 17 and writes.done())
                        steps.end_step()
                    await writes

        self.run_async(main())

    def test_join(self):
        """steps of two streams, of which one waits for the other"""
        with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
            file.write("transform(function(s) s:keep() s:put('b', s:get('n', 2)) end)")
            file.flush()

            async def read():
                both = []
                with self.h.stream_reader("py.ja", join="py.jb", transforms=file.name) as steps:
                    opened.append(True)
                    async for step in steps:
                        both.append((step.number, bytes(step["n"]), bytes(step["b"])))
                return both

            async def main():
                with self.h.stream_writer("py.ja") as a, self.h.stream_writer("py.jb") as b:
                    task = asyncio.ensure_future(read())
                    while not opened:
                        await asyncio.sleep(0)
                    for n in range(20):
                        for out in (a, b) if n % 2 == 0 else (b, a):
                            out.put("n", b"%s%d" % (b"a" if out is a else b"b", n))
                            out.end_step()
                            await self.h.rpc_async("broker.ping")
                return await task

            opened = []
            self.assertEqual(
                self.run_async(main()), [(n, b"a%d" % n, b"b%d" % n) for n in range(20)]
            )

    def test_stream_steps(self):
        """steps of a stream, in tasks"""

        async def read(name):
            with self.h.stream_reader(name) as steps:
                opened.append(name)
                return [(step.number, bytes(step["n"])) async for step in steps]

        async def main():
            with self.h.stream_writer("py.aio", keep=1) as out:
                tasks = [asyncio.ensure_future(read("py.aio")) for _ in range(2)]
                for n in range(50):
                    out.put("n", b"%d" % n)
                    out.end_step()
                    await asyncio.sleep(0)
                    if n % 10 == 0:  # readers wait
                        await self.h.rpc_async("broker.ping")
            return await asyncio.gather(*tasks)

        async def two():
            outs = [self.h.stream_writer("py.two", rank=n, size=2) for n in range(2)]
            with self.h.stream_reader("py.two") as steps:
                waits = asyncio.ensure_future(steps.begin_step_async())
                for out in outs:
                    await self.h.rpc_async("broker.ping")
                    self.assertFalse(waits.done())
                    out.put("n", b"")
                    out.end_step()
                    out.close()
                self.assertEqual((await waits).number, 0)
                self.assertIsNone(await steps.begin_step_async())
                steps.close()
                with self.assertRaises(flux.FluxError):
                    await steps.begin_step_async()

        opened = []
        want = [(n, b"%d" % n) for n in range(50)]
        self.assertEqual(self.run_async(main()), [want, want])
        self.assertEqual(len(opened), 2)
        self.run_async(two())

    def test_errors(self):
        """errors, timeouts, cancellation"""

        async def main():
            with self.assertRaises(flux.FluxError) as caught:
                await self.h.rpc_async("nope.x")
            self.assertEqual(caught.exception.errno, errno.ENOSYS)
            waits = self.h.rpc_async("barrier.enter", {"name": "pytest.aio", "nprocs": 2})
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(waits.wait_async(), 0.01)
            task = asyncio.ensure_future(waits.wait_async())
            await self.h.rpc_async("broker.ping")
            with self.assertRaises(RuntimeError):
                await waits
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            task = asyncio.ensure_future(waits.wait_async())
            await self.h.rpc_async("broker.ping")
            self.h.close()
            with self.assertRaises(flux.FluxError) as caught:
                await task
            self.assertEqual(caught.exception.errno, errno.ECANCELED)

        self.run_async(main())

    def test_streams(self):
        """async for: results and events; callbacks come, too"""

        async def main():
            got, called = [], []
            kv = self.h.kvs()
            await kv.txn().put("aio.a", 0).commit_async()
            self.h.subscribe("pytest.aio", lambda event: called.append(event.payload))

            async def take():
                async for event in self.h.subscribe("pytest.aio"):
                    got.append(event.payload)
                    if len(got) == 3:
                        return

            taker = asyncio.ensure_future(take())
            async for result in kv.watch("aio.a"):
                n = int(bytes(result.value))
                if n == 3:
                    break
                await self.h.publish_async("pytest.aio", n)
                await kv.txn().put("aio.a", n + 1).commit_async()
            await taker
            self.assertEqual((got, called), ([0, 1, 2], [0, 1, 2]))
            self.assertEqual([rank async for rank, _ in self.h.mrpc("broker.ping", {}, "1")], [1])

        self.run_async(main())

    def test_large(self):
        """more output than the socket takes at once"""

        async def main():
            payload = b"x" * 1000000
            answers = await asyncio.gather(
                *(self.h.rpc_async("broker.ping", payload).wait_async() for _ in range(30))
            )
            return sum(len(f.get()) for f in answers)

        self.assertEqual(self.run_async(main()), 30000000)

    def test_job(self):
        """a job, while other tasks run"""

        async def main():
            jobs = self.h.jobs
            number = await jobs.submit_async("true")
            ended, _ = await asyncio.gather(jobs.wait_async(number).wait_async(), asyncio.sleep(0))
            return ended.get().result

        self.assertEqual(self.run_async(main()), "completed")


if __name__ == "__main__":
    unittest.main()
