"""Jobs: in a session of 2 brokers."""

import datetime
import errno
import os
import signal
import subprocess
import tempfile
import json

import flux
from test_handle import Case


class JobTest(Case):
    def setUp(self):
        super().setUp()
        self.jobs = self.h.jobs

    def test_submit(self):
        """submit a command, wait, read its output"""
        number = self.jobs.submit(
            ["sh", "-c", "echo out $PYTEST; echo err >&2"], nodes=2, env={"PYTEST": "a b"}
        )
        ended = self.jobs.wait(number, timeout=60)
        self.assertEqual((ended.id, ended.result, ended.code), (number, "completed", 0))
        output = sorted(self.jobs.output(number))
        self.assertEqual(
            output,
            sorted((task, s, d) for task in (0, 1) for s, d in ((1, b"out a b\n"), (2, b"err\n"))),
        )
        self.assertEqual(sorted(self.jobs.output(number, follow=False)), output)
        info = self.jobs.get(number)
        self.assertEqual(
            (info.status, info.state, info.nnodes, info.name), ("completed", "INACTIVE", 2, "sh")
        )
        self.assertEqual(self.jobs.jobspec(number)["tasks"][0]["command"][0], "sh")
        names = [event["name"] for event in self.jobs.events(number)]
        self.assertEqual((names[0], names[-1]), ("submit", "clean"))
        self.assertEqual([event["name"] for event in self.jobs.events(number, follow=True)], names)

    def test_failed(self):
        """how jobs end"""
        number = self.jobs.submit("sh -c 'exit 3'")
        ended = self.jobs.wait(number, timeout=60)
        self.assertEqual((ended.result, ended.code, ended.failed["count"]), ("failed", 3, 1))
        self.fails(errno.ENOENT, self.jobs.wait, 99999)
        self.fails(errno.ENOENT, self.jobs.get, 99999)
        self.fails(errno.ENOENT, lambda: list(self.jobs.output(99999)))
        self.fails(errno.ENOENT, lambda: list(self.jobs.events(99999)))
        self.fails(errno.ENOENT, lambda: list(self.jobs.events(99999, follow=True)))

    def test_follow(self):
        """output and events while the job runs"""
        with tempfile.TemporaryDirectory() as directory:
            fifo = os.path.join(directory, "fifo")
            os.mkfifo(fifo)
            number = self.jobs.submit(["sh", "-c", f"echo one; read line <{fifo}; echo $line"])
            output = self.jobs.output(number, timeout=60)
            self.assertEqual(next(output), (0, 1, b"one\n"))
            events = self.jobs.events(number, follow=True, timeout=60)
            self.assertEqual(next(events)["name"], "submit")
            with open(fifo, "w") as pipe:
                pipe.write("two\n")
            self.assertEqual(list(output), [(0, 1, b"two\n")])
            self.assertEqual(list(events)[-1]["name"], "clean")

    def test_many(self):
        """many jobs, lists, their ends"""
        numbers = self.jobs.submit_many(
            [["true", str(n)] for n in range(70)], urgency="hold", name="many"
        )
        self.assertEqual(len(set(numbers)), 70)
        self.assertEqual(numbers, sorted(numbers))
        listed = list(self.jobs.list(name="many"))
        self.assertEqual(sorted(job.id for job in listed), numbers)
        self.assertEqual({job.status for job in listed}, {"held"})
        self.assertEqual(len(list(self.jobs.list(name="many", max=5, user=os.geteuid()))), 5)
        self.assertEqual(list(self.jobs.list(name="many", states=["RUN"])), [])
        self.assertEqual(self.jobs.set_urgency(numbers[:3], 31), 3)
        ended = {job.id: job.result for job in self.jobs.wait_all(numbers[:3], timeout=60)}
        self.assertEqual(ended, dict.fromkeys(numbers[:3], "completed"))
        self.assertEqual(self.jobs.cancel(numbers[3:], "not needed"), 67)
        results = {job.result for job in self.jobs.wait_all(numbers[3:], timeout=60)}
        self.assertEqual(results, {"canceled"})
        e = self.fails(errno.EINVAL, self.jobs.cancel, [numbers[0], 99999])
        self.assertEqual((sorted(e.errors)[-1], e.count), (99999, 0))

    def test_rejected(self):
        """jobs that are rejected"""
        e = self.fails(errno.ENOSPC, self.jobs.submit, "true", nodes=50)
        self.assertIn("50", str(e))
        with self.assertRaises(flux.JobsError) as caught:
            self.jobs.submit_many(["true", {"version": 1}, "true"], urgency="hold")
        e = caught.exception
        self.assertEqual((list(e.errors), e.ids[1], e.count), ([1], None, 2))
        self.jobs.cancel([e.ids[0], e.ids[2]])
        self.fails(errno.EINVAL, self.jobs.submit, {"version": 1})
        for wrong in (
            {},
            {"nodes": 2, "ntasks": 1},
            {"tasks_per_node": 2},
            {"exclusive": True},
            {"layout": "x"},
            {"dependencies": "afterok"},
            {"dependencies": "x:1"},
            {"mem": "5X"},
            {"rlimits": {"x": 1}},
        ):
            command = "true" if wrong else None
            self.assertRaises(ValueError, self.jobs.submit, command, **wrong)
        self.assertRaises(ValueError, self.jobs.submit, "true", urgency=32)
        self.assertRaises(TypeError, self.jobs.submit, "true", nodez=1)
        self.assertRaises(TypeError, self.jobs.submit, {"version": 1}, nodes=1)

    def test_acts(self):
        """signals, exceptions, cancel, transitions"""
        number = self.jobs.submit(["sleep", "600"])
        states = self.jobs.watch(number, timeout=60)
        for transition in states:
            if transition.state == "RUN":
                break
        self.assertEqual(transition.id, number)
        for event in self.jobs.events(number, follow=True, timeout=60):
            if event["name"] == "start":
                break
        self.assertEqual(self.jobs.raise_exception(number, "note", 7, "only a note"), 1)
        self.assertEqual(self.jobs.kill(number, signal.SIGTERM), 1)
        self.assertEqual(self.jobs.wait(number, timeout=60).code, 128 + signal.SIGTERM)
        self.assertEqual([t.state for t in states][-1], "INACTIVE")
        self.assertEqual([t.state for t in self.jobs.watch([number], timeout=60)], ["INACTIVE"])
        self.assertIn("exception", [event["name"] for event in self.jobs.events(number)])

    def test_async(self):
        """ids and ends by callback"""
        got = []

        def submitted(future):
            self.jobs.wait_async(future.get()).then(lambda f: got.append(f.get().result))

        self.jobs.submit_async("true").then(submitted)
        self.h.run(60)
        self.assertEqual(got, ["completed"])

    def test_queue(self):
        """the state of the queue"""
        self.assertTrue(self.jobs.queue()["scheduling"])
        self.assertEqual(self.jobs.queue("stop", "a test")["reason"], "a test")
        self.assertTrue(self.jobs.queue("start")["accepting"])
        self.fails(errno.EINVAL, self.jobs.queue, "jump")

    def test_files(self):
        """input and output files, limits, attributes"""
        with tempfile.TemporaryDirectory() as directory:
            out = os.path.join(directory, "out")
            with open(out, "w") as old:
                old.write("old\n")
            with open(os.path.join(directory, "in"), "w") as given:
                given.write("from a file\n")
            number = self.jobs.submit(
                ["sh", "-c", "cat; ulimit -n; pwd"],
                cwd=directory,
                input=os.path.join(directory, "in"),
                output=out,
                rlimits={"nofile": 99},
                attributes={"project": "x", "user.n": 5},
            )
            self.assertEqual(self.jobs.wait(number, timeout=60).result, "completed")
            with open(out) as written:
                self.assertEqual(written.read().split("\n")[:3], ["from a file", "99", directory])
            self.assertEqual(
                self.jobs.jobspec(number)["attributes"]["user"], {"project": "x", "n": 5}
            )
            self.assertEqual(list(self.jobs.output(number)), [])

    def test_same_as_command(self):
        """the jobspec is that of flux submit --dry-run"""
        when = datetime.datetime(2033, 5, 18, 3, 33, 20, tzinfo=datetime.timezone.utc)
        cases = (
            ([], {}),
            (["-N2"], {"nodes": 2}),
            (["-n3", "-c2", "-g1"], {"ntasks": 3, "cores_per_task": 2, "gpus_per_task": 1}),
            (["-N2", "-n3"], {"nodes": 2, "ntasks": 3}),
            (
                ["-N2", "--tasks-per-node=2", "-x"],
                {"nodes": 2, "tasks_per_node": 2, "exclusive": True},
            ),
            (["-n5", "--tasks-per-node=2"], {"ntasks": 5, "tasks_per_node": 2}),
            (["-n16", "--overcommit"], {"ntasks": 16, "overcommit": True}),
            (["-N2", "--overcommit"], {"nodes": 2, "overcommit": True}),
            (["--mem=1500K"], {"mem": "1500K"}),
            (["--mem=2G", "--pool=power=5"], {"mem": 2 << 30, "pools": {"power": 5}}),
            (["--requires=a,^b", "--ranks=0-1"], {"requires": ["a", "^b"], "ranks": "0-1"}),
            (["--hosts=n[0-3]", "--layout=cyclic"], {"hosts": "n[0-3]", "layout": "cyclic"}),
            (
                ["--cpu-affinity=per-task", "--gpu-affinity=off"],
                {"cpu_affinity": "per-task", "gpu_affinity": "off"},
            ),
            (
                ["--kill-on-bad-exit", "--mpi=pmix", "--stdin=none"],
                {"kill_on_bad_exit": True, "mpi": "pmix", "stdin": "none"},
            ),
            (["--survive-node-loss"], {"survive_node_loss": True}),
            (["--requeue"], {"requeue": True}),
            (
                ["--grace=3s", "-t", "90s"],
                {"grace": 3, "time_limit": datetime.timedelta(seconds=90)},
            ),
            (["-t", "90s"], {"time_limit": 90}),
            (["-t", "30"], {"time_limit": "30"}),
            (["-t", "1:30:00"], {"time_limit": "1:30:00"}),
            (["--grace=1.5m", "-t", "inf"], {"grace": "1.5m", "time_limit": "inf"}),
            (
                ["-i", "in", "-O", "/o/{{id}}", "-E", "e{{task}}", "-l"],
                {"input": "in", "output": "/o/{{id}}", "error": "e{{task}}", "label_io": True},
            ),
            (["--output-limit=1.5M", "--name=x"], {"output_limit": "1.5M", "name": "x"}),
            (["--dependency=afterok:7,after:8"], {"dependencies": "afterok:7,after:8"}),
            (["--begin-time=2033-05-18T03:33:20"], {"begin_time": when}),
            (
                ["--rlimit=nofile=99", "--rlimit=core=unlimited"],
                {"rlimits": {"nofile": 99, "core": "unlimited"}},
            ),
            (["--rlimit=none"], {"soft_limits": False}),
            (
                ["-o", "nested=true", "--setattr=a.b=[1]"],
                {"options": {"nested": True}, "attributes": {"a.b": [1]}},
            ),
        )
        for words, options in cases:
            with self.subTest(words):
                made = subprocess.run(
                    ["flux", "submit", "--dry-run", *words, "prog", "an arg"],
                    stdout=subprocess.PIPE,
                    check=True,
                    env={**os.environ, "TZ": "UTC"},
                )
                self.assertEqual(
                    flux.make_jobspec(["prog", "an arg"], **options), json.loads(made.stdout)
                )
        made = subprocess.run(
            ["flux", "submit", "--dry-run", "-N2", "a", ":", "-n3", "--env=X=1", "b", "c"],
            stdout=subprocess.PIPE,
            check=True,
        )
        programs = [flux.Program(["a"]), flux.Program(["b", "c"], 3, {"X": "1"})]
        self.assertEqual(flux.make_jobspec(programs=programs, nodes=2), json.loads(made.stdout))
