"""Jobspecs: what a job is, as it is submitted (flux-jobspec(5))."""

import datetime
import json
import os
import re
import resource
import shlex
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Union

from . import _c
from ._libflux import ffi, lib
from .errors import fail_with

__all__ = ["Program", "make_jobspec"]

_Duration = Union[int, float, str, datetime.timedelta]
_Size = Union[int, str]
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SOFT = ("as", "core", "cpu", "data", "fsize", "nofile", "stack")


class Program(NamedTuple):
    """One of several programs of a job."""

    command: Sequence[str]
    ntasks: int = 1
    env: Optional[Mapping[str, Optional[str]]] = None  # changes for its tasks; None unsets


def make_jobspec(
    command: Union[None, str, Sequence] = None,
    *,
    programs: Sequence[Program] = (),
    nodes: int = 0,
    ntasks: int = 0,
    tasks_per_node: int = 0,
    cores_per_task: int = 1,
    gpus_per_task: int = 0,
    mem: _Size = 0,
    exclusive: bool = False,
    overcommit: bool = False,
    pools: Optional[Mapping[str, int]] = None,
    requires: Iterable[str] = (),
    ranks: Optional[str] = None,
    hosts: Optional[str] = None,
    cwd: Union[None, str, bytes, os.PathLike] = None,
    layout: str = "block",
    cpu_affinity: str = "on",
    gpu_affinity: str = "on",
    kill_on_bad_exit: bool = False,
    survive_node_loss: bool = False,
    requeue: bool = False,
    rlimits: Optional[Mapping[str, Union[int, str]]] = None,
    soft_limits: bool = True,
    mpi: str = "both",
    grace: Optional[_Duration] = None,
    input: Union[None, str, bytes, os.PathLike] = None,
    output: Union[None, str, bytes, os.PathLike] = None,
    error: Union[None, str, bytes, os.PathLike] = None,
    label_io: bool = False,
    stdin: Optional[str] = None,
    output_limit: Optional[_Size] = None,
    time_limit: Optional[_Duration] = None,
    name: Optional[str] = None,
    dependencies: Union[str, Iterable[str]] = (),
    begin_time: Union[None, int, float, datetime.datetime] = None,
    files: Optional[Mapping[str, str]] = None,
    attributes: Optional[Mapping[str, Any]] = None,
    options: Optional[Mapping[str, Any]] = None,
) -> Dict[str, Any]:
    """The jobspec of a command, with the options of flux-submit(1) as arguments.

    command         its words; of a str they are split as by a shell, without expansion
    programs        in place of a command: several programs, which share one MPI_COMM_WORLD
    nodes, ntasks, tasks_per_node, cores_per_task, gpus_per_task, exclusive, overcommit, ranks,
    hosts           as the options of the command
    mem             memory for each task: bytes, or "500M", "4G"
    pools           {name: quantity}
    requires        properties that nodes must have ("^x": must not have)
    cwd             working directory of the tasks, by default the present one
    rlimits         {"nofile": 1024, "core": "unlimited"}
    survive_node_loss
                    the loss of a node ends only the tasks on it
    requeue         a job that is ended by the loss of a node runs again
    soft_limits     pass on the soft limits of this process
    grace, time_limit
                    seconds (unlike a number given to the option -t, which is minutes), or a
                    timedelta; a str is read as by the command: "90s", "1:30:00", and a time_limit
                    of "30" is 30 minutes
    input, output, error
                    files; in their names {{id}}, {{task}}, {{node}}, {{name}} are replaced
    stdin           tasks that read the input: "first" (the default with `input`), "all", "none"
    output_limit    output kept in the key-value store: bytes, or "64M"
    dependencies    "afterok:7", or several of them: after, afterany, afterok, afternotok
    begin_time      seconds since 1970, or a datetime
    files           {name: text}: made in the directory of the job before tasks start
    attributes      {"user.project": ...}: attributes of the jobspec by their paths
    options         {"nested": True}: options of the launcher
    """
    keep: List[Any] = []  # what the struct points to

    def c_text(value: Optional[str], what: str):
        return c_bytes(_c.text(value, what)) if value is not None else ffi.NULL

    def c_bytes(data: bytes):
        keep.append(ffi.new("char[]", data))
        return keep[-1]

    def c_path(value, what: str):
        if value is None:
            return ffi.NULL
        return c_bytes(_c.path(os.path.join(os.getcwd(), os.fsdecode(value)), what))

    def c_array(kind: str, items: list):
        if not items:
            return ffi.NULL
        keep.append(ffi.new(kind, items))
        return keep[-1]

    def c_argv(words):
        if isinstance(words, str):
            words = shlex.split(words)
        array, kept = _c.string_array([_c.path(word, "an argument") for word in words])
        keep.extend((array, kept))
        return array

    def c_json(value):
        if value is None:
            return ffi.NULL
        data = _c.to_json(value)
        obj = lib.pyflux_json(data, len(data))
        if not obj:
            raise MemoryError
        keep.append(ffi.gc(obj, lib.json_decref))
        return obj

    def parse(function, value: str, what: str) -> int:
        number = function(_c.text(value, what))
        if number < 0:
            raise ValueError(f"'{value}' is not a value of {what}")
        return number

    parts = ffi.new("struct jobspec_parts *")
    lib.jobspec_parts_init(parts)
    if bool(command) == bool(programs):
        raise ValueError("a job needs a command, or programs")
    if programs:
        if ntasks:
            raise ValueError("with programs, each has its number of tasks")
        ntasks = sum(p.ntasks for p in programs)
        array = [
            {
                "argv": c_argv(p.command),
                "ntasks": p.ntasks,
                "env": c_json(dict(p.env) if p.env else None),
            }
            for p in programs
        ]
        parts.programs, parts.nprograms = c_array("struct jobspec_program[]", array), len(array)
    else:
        parts.argv = c_argv(command)
    _shape(parts, nodes, ntasks, tasks_per_node, exclusive, overcommit)
    parts.cores = cores_per_task
    parts.gpus = gpus_per_task
    parts.memory = -(-_bytes(mem) >> 20) if mem else 0
    parts.exclusive = exclusive
    array = [{"name": c_text(k, "the pool"), "count": v} for k, v in (pools or {}).items()]
    parts.pools, parts.npools = c_array("struct jobspec_pool[]", array), len(array)
    if time_limit is not None:
        parts.duration = _seconds(time_limit, lib.job_limit_parse, "time_limit")
    if begin_time is not None:
        if isinstance(begin_time, datetime.datetime):
            begin_time = begin_time.timestamp()
        parts.begin = begin_time
    parts.cwd = c_path(os.getcwd() if cwd is None else cwd, "the directory")
    parts.name = c_text(name, "the name")
    parts.ranks = c_text(ranks, "the ranks")
    parts.hosts = c_text(hosts, "the hosts")
    requires = [requires] if isinstance(requires, str) else list(requires)
    if requires:
        parts.properties = c_argv(requires)
    if isinstance(dependencies, str):
        dependencies = dependencies.split(",")
    array = []
    for dependency in dependencies:
        scheme, colon, number = dependency.partition(":")
        if not colon or not number.isdecimal():
            raise ValueError(f"'{dependency}' is not a dependency: afterok:7")
        array.append({"scheme": parse(lib.job_dep_parse, scheme, "the scheme"), "id": int(number)})
    parts.deps, parts.ndeps = c_array("struct jobspec_dep[]", array), len(array)
    parts.files = c_json(dict(files) if files else None)

    o = parts.options
    o.input = c_path(input, "the input")
    o.output = c_path(output, "the output")
    o.error = c_path(error, "the error output")
    o.label = label_io
    o.kill_on_bad_exit = kill_on_bad_exit
    o.survive_node_loss = survive_node_loss
    o.requeue = requeue
    if stdin is None:
        stdin = "none" if input is None else "first"
    o.stdin_mode = parse(lib.job_stdin_parse, stdin, "stdin")
    o.layout = parse(lib.job_layout_parse, layout, "layout")
    o.cpu_affinity = parse(lib.job_affinity_parse, cpu_affinity, "cpu_affinity")
    o.gpu_affinity = parse(lib.job_affinity_parse, gpu_affinity, "gpu_affinity")
    o.mpi = parse(lib.job_mpi_parse, mpi, "mpi")
    if grace is not None:
        o.grace = _seconds(grace, lib.job_grace_parse, "grace")
    if output_limit is not None:
        o.output_limit = _bytes(output_limit)
    given = dict(rlimits or {})
    soft = {}
    if soft_limits:
        for limit in _SOFT:
            if limit not in given:
                value = resource.getrlimit(getattr(resource, "RLIMIT_" + limit.upper()))[0]
                soft[limit] = "unlimited" if value == resource.RLIM_INFINITY else value
    for field, limits in (("rlimits", given), ("softlimits", soft)):
        array = [
            {
                "resource": parse(lib.job_rlimit_parse, limit, "the limits"),
                "name": c_text(limit, "the limit"),
                "value": lib.JOBSPEC_NO_LIMIT if value == "unlimited" else value,
            }
            for limit, value in limits.items()
        ]
        setattr(o, field, c_array("struct job_rlimit[]", array))
        setattr(o, "n" + field, len(array))
    o.umask = _umask()

    err = ffi.new("errmsg_t *")
    spec = lib.jobspec_build(parts, err)
    if not spec:
        fail_with(err)
    spec = ffi.gc(spec, lib.json_decref)
    text = lib.jobspec_encode(spec, ffi.NULL)
    if not text:
        raise MemoryError
    made = json.loads(ffi.string(ffi.gc(text, lib.free)))
    for path, value in (options or {}).items():
        _set(made, "system.shell.options." + path, value)
    for path, value in (attributes or {}).items():
        _set(made, path if path.startswith(("user.", "system.")) else "user." + path, value)
    return made


def _shape(
    parts, nodes: int, ntasks: int, per_node: int, exclusive: bool, overcommit: bool
) -> None:
    """Nodes, slots and tasks, as flux-submit(1) makes them."""
    if min(nodes, ntasks, per_node) < 0:
        raise ValueError("numbers of nodes and tasks are not negative")
    if per_node and not nodes and not ntasks:
        raise ValueError("tasks_per_node requires nodes or ntasks")
    if per_node and nodes and ntasks and per_node * nodes != ntasks:
        raise ValueError(f"{per_node} tasks on each of {nodes} nodes are not {ntasks}")
    if nodes and ntasks and ntasks < nodes:
        raise ValueError(f"{nodes} nodes require at least {nodes} tasks, one each")
    if per_node and not nodes:
        nodes = -(-ntasks // per_node)
    if exclusive and not nodes:
        raise ValueError("exclusive requires nodes")
    parts.nnodes = nodes
    slots = (per_node or -(-ntasks // nodes) or 1) if nodes else ntasks or 1
    parts.nslots = slots
    if overcommit:
        parts.ntasks = ntasks or (nodes * slots if nodes else 1)
        parts.min_slots = 1
    elif ntasks and nodes and nodes * slots != ntasks:
        parts.ntasks = ntasks
    else:
        parts.per_slot = 1


def _set(spec: Dict[str, Any], path: str, value: Any) -> None:
    at = spec.setdefault("attributes", {})
    *lead, last = path.split(".")
    for key in lead:
        at = at.setdefault(key, {})
        if not isinstance(at, dict):
            raise ValueError(f"'{key}' of {path} is not an object")
    at[last] = value


def _seconds(value: _Duration, parse, what: str) -> float:
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if not isinstance(value, str):
        return float(value)
    err = ffi.new("errmsg_t *")
    seconds = ffi.new("double *")
    if parse(_c.text(value, what), seconds, err) < 0:
        raise ValueError(f"{what}: {_c.string(err.text)}")
    return seconds[0]


def _bytes(value: _Size) -> int:
    if isinstance(value, int):
        return value
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)", value)
    if not match:
        raise ValueError(f"'{value}' is not a size: 500M, 4G")
    return int(float(match[1]) * _UNITS[match[2]])


def _umask() -> int:
    """The file mode creation mask, which umask(2) tells only when it is changed."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        for line in status:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return -1
