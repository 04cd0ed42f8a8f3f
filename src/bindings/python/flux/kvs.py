"""The key-value store of a session.

Keys are names with dots between them ("job.1.state"), values are bytes. Changes take effect as a
whole or not at all; each makes a new version of the store.

    kv = handle.kvs()
    kv.put("a.b", 42)
    kv.get("a.b", int)                  # 42
    with kv.txn() as txn:               # one commit, at the end of the block
        txn.put("a.c", {"x": [1, 2]}).unlink("a.b")
    for path, dirs, values in kv.walk("a"):
        ...
"""

import collections
import errno
import json
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Tuple,
)

from . import _c
from ._libflux import ffi, lib
from .errors import FluxError, checked, fail_with, make_error
from .future import Future

if TYPE_CHECKING:
    from .handle import Handle

__all__ = [
    "KVS",
    "Snapshot",
    "Transaction",
    "Info",
    "Entry",
    "Change",
    "Watched",
    "Version",
    "Namespace",
]

_TYPES = {lib.FLUX_KVS_VALUE: "value", lib.FLUX_KVS_DIR: "dir", lib.FLUX_KVS_LINK: "link"}
_CHANGES = {
    lib.FLUX_KVS_ADDED: "added",
    lib.FLUX_KVS_CHANGED: "changed",
    lib.FLUX_KVS_REMOVED: "removed",
}
_PIECE = lib.FLUX_KVS_STORE_MAX
_WINDOW = 4  # pieces of a large value under way
_MISSING = object()


class Version(NamedTuple):
    """A version of a store, and the reference of its root (for `KVS.at()`)."""

    version: int
    rootref: str


class Info(NamedTuple):
    """What is known of a key."""

    type: str  # "value", "dir" or "link"
    version: int  # at which that was so; 0 at a given root
    size: int  # bytes of the value, entries of the directory
    tag: str  # names this version of the key, for Transaction.guard()


class Entry(NamedTuple):
    """An entry of a directory."""

    name: str
    type: str
    size: int
    value: Optional[bytes]  # when it was asked for; of a link its target


class Change(NamedTuple):
    """What changed below a watched directory."""

    key: str  # from the directory on
    change: str  # "added", "changed" or "removed"
    type: str
    size: int
    value: Optional[bytes]


class Watched(NamedTuple):
    """What a watched key is now. `type` is None if it does not exist."""

    type: Optional[str]
    version: int
    value: Optional[memoryview]  # of a value; with append=True only what was added, unless `whole`
    whole: bool  # `value` begins at the beginning
    entries: Optional[Dict[str, Entry]]  # of a directory
    changes: Optional[List[Change]]  # of a directory, with diff=True


class Namespace(NamedTuple):
    """A namespace: a store with keys and versions of its own."""

    name: str
    owner: int
    rank: int
    lost: bool

    @staticmethod
    def _list(handle: "Handle", timeout: Optional[float]) -> List["Namespace"]:
        handle._check()
        with Future(handle, lib.flux_kvs_namespace_list(handle._h), Namespace._decode) as future:
            return future.get(timeout)

    @staticmethod
    def _decode(future: Future) -> List["Namespace"]:
        found = []
        for item in _each(future, lib.flux_kvs_namespace_next, "struct flux_kvs_namespace *"):
            found.append(Namespace(_c.string(item.name), item.owner, item.rank, item.lost))
        return found

    @staticmethod
    def _create(handle: "Handle", name: str, owner, rank: int, timeout) -> "KVS":
        handle._check()
        uid = lib.FLUX_KVS_OWNER_SELF if owner is None else owner
        pointer = lib.flux_kvs_namespace_create(handle._h, _c.text(name, "the name"), uid, rank)
        with Future(handle, pointer, lambda future: None) as future:
            future.get(timeout)
        return KVS(handle, name)

    @staticmethod
    def _remove(handle: "Handle", name: str, timeout) -> None:
        handle._check()
        pointer = lib.flux_kvs_namespace_remove(handle._h, _c.text(name, "the name"))
        with Future(handle, pointer, lambda future: None) as future:
            future.get(timeout)


class KVS:
    """The key-value store, or a namespace of it (`Handle.kvs()`).

    Methods wait, at most `timeout` seconds where they have this argument; those whose name ends in
    `_async` return a future.
    """

    def __init__(
        self, handle: "Handle", namespace: Optional[str] = None, rootref: Optional[str] = None
    ):
        self._handle = handle
        self._name = namespace
        self._ns = _c.text_or_null(namespace, "the namespace")
        self._rootref = rootref
        self._root = _c.text_or_null(rootref, "the root")

    @property
    def handle(self) -> "Handle":
        """The handle."""
        return self._handle

    @property
    def namespace(self) -> str:
        """The name of the namespace."""
        return self._name or "primary"

    @property
    def rootref(self) -> Optional[str]:
        """The root that is read, None for the newest."""
        return self._rootref

    def __repr__(self) -> str:
        at = f" at {self._rootref}" if self._rootref else ""
        return f"<flux.{type(self).__name__} {self.namespace!r}{at}>"

    def _open(self):
        self._handle._check()
        return self._handle._h

    # -- reading --

    def get(
        self,
        key: str,
        type: Any = str,
        *,
        default: Any = _MISSING,
        timeout: Optional[float] = None,
    ):
        """The value of a key, as `type` says.

        str, bytes, memoryview (of the message that brought it, without a copy); int, float; bool,
        dict, list or object (any of them): read from JSON. FluxError: ENOENT (no such key; with
        `default` that is returned), EISDIR, EFBIG (more than 16 MiB: see `read()`), EILSEQ (a
        value of another type).
        """
        with self.get_async(key, type) as future:
            try:
                return future.get(timeout)
            except FluxError as e:
                if e.errno == errno.ENOENT and default is not _MISSING:
                    return default
                raise

    def get_async(self, key: str, type: Any = str) -> Future:
        """The same as a future."""
        convert = _converter(type)
        pointer = lib.flux_kvs_lookup(
            self._open(), self._ns, _c.text(key, "the key"), 0, self._root
        )
        return Future(self._handle, pointer, lambda future: convert(key, _lookup_view(future)))

    def get_range(
        self, key: str, offset: int, count: int, *, timeout: Optional[float] = None
    ) -> memoryview:
        """Those of the `count` bytes of a value from `offset` on that exist; at most 1 MiB."""
        with self._range(key, self._root, offset, count) as future:
            return future.get(timeout)

    def _range(self, key: str, root, offset: int, count: int) -> Future:
        pointer = lib.flux_kvs_lookup_range(
            self._open(), self._ns, _c.text(key, "the key"), root, offset, count
        )
        return Future(self._handle, pointer, _lookup_view)

    def read(self, key: str, *, timeout: Optional[float] = None) -> Iterator[memoryview]:
        """The pieces of a value of any size, which does not change meanwhile."""
        if self._rootref is None:
            with self.snapshot(timeout=timeout) as snapshot:
                yield from snapshot.read(key, timeout=timeout)
            return
        size = self.info(key, timeout=timeout).size
        offsets = iter(range(0, size, _PIECE))
        under_way: collections.deque = collections.deque()
        while True:
            for offset in offsets:
                under_way.append(self._range(key, self._root, offset, min(_PIECE, size - offset)))
                if len(under_way) == _WINDOW:
                    break
            if not under_way:
                return
            with under_way.popleft() as future:
                piece = future.get(timeout)
            yield piece

    def info(self, key: str, *, link: bool = False, timeout: Optional[float] = None) -> Info:
        """Type, version, size and tag of a key; with `link` of a symbolic link itself."""
        flags = lib.FLUX_KVS_INFO | lib.FLUX_KVS_TAG | (lib.FLUX_KVS_READLINK if link else 0)
        pointer = lib.flux_kvs_lookup(
            self._open(), self._ns, _c.text(key, "the key"), flags, self._root
        )
        with Future(self._handle, pointer, _decode_info) as future:
            return future.get(timeout)

    def exists(self, key: str, *, timeout: Optional[float] = None) -> bool:
        """Does the key exist?"""
        try:
            self.info(key, timeout=timeout)
        except FluxError as e:
            if e.errno in (errno.ENOENT, errno.ENOTDIR):
                return False
            raise
        return True

    def readlink(self, key: str, *, timeout: Optional[float] = None) -> str:
        """The target of a symbolic link."""
        pointer = lib.flux_kvs_lookup(
            self._open(), self._ns, _c.text(key, "the key"), lib.FLUX_KVS_READLINK, self._root
        )
        with Future(self._handle, pointer, _decode_link) as future:
            return future.get(timeout)

    def iterdir(
        self,
        key: str = ".",
        *,
        values: bool = False,
        page: int = 1000,
        timeout: Optional[float] = None,
    ) -> Iterator[Entry]:
        """The entries of a directory ("." is the root), at one version of the store.

        `values`: with their values. `page`: how many are asked for at a time.
        """
        if self._rootref is None:
            with self.snapshot(timeout=timeout) as snapshot:
                yield from snapshot.iterdir(key, values=values, page=page, timeout=timeout)
            return
        flags = lib.FLUX_KVS_VALUES if values else 0
        after = ffi.NULL
        more = True
        while more:
            pointer = lib.flux_kvs_readdir_page(
                self._open(), self._ns, _c.text(key, "the key"), flags, self._root, after, page
            )
            with Future(self._handle, pointer, _decode_page) as future:
                entries, more = future.get(timeout)
            more = more and bool(entries)
            if more:
                after = entries[-1].name.encode()
            yield from entries

    def entries(
        self, key: str = ".", *, values: bool = False, timeout: Optional[float] = None
    ) -> Dict[str, Entry]:
        """The entries of a directory by their names."""
        return {e.name: e for e in self.iterdir(key, values=values, timeout=timeout)}

    def walk(
        self, key: str = ".", *, timeout: Optional[float] = None
    ) -> Iterator[Tuple[str, List[str], List[str]]]:
        """A directory and all below it, at one version: (key, names of directories, others).

        As with os.walk(), the caller can remove names of directories that are not to be entered.
        """
        if self._rootref is None:
            with self.snapshot(timeout=timeout) as snapshot:
                yield from snapshot.walk(key, timeout=timeout)
            return
        stack = [key]
        while stack:
            here = stack.pop()
            dirs: List[str] = []
            others: List[str] = []
            for entry in self.iterdir(here, timeout=timeout):
                (dirs if entry.type == "dir" else others).append(entry.name)
            yield here, dirs, others
            lead = "" if here == "." else here + "."
            stack.extend(lead + name for name in reversed(dirs))

    # -- versions --

    def version(self, *, timeout: Optional[float] = None) -> Version:
        """The version that the local broker has."""
        with Future(
            self._handle, lib.flux_kvs_version(self._open(), self._ns), _decode_version
        ) as future:
            return future.get(timeout)

    def wait_version(self, version: int, *, timeout: Optional[float] = None) -> Version:
        """Wait until the local broker has this version."""
        pointer = lib.flux_kvs_wait_version(self._open(), self._ns, version)
        with Future(self._handle, pointer, _decode_version) as future:
            return future.get(timeout)

    def snapshot(
        self, rootref: Optional[str] = None, *, timeout: Optional[float] = None
    ) -> "Snapshot":
        """The store as it is now (or at a root that is still kept), to be read from.

        It is kept until `release()`, or the end of a `with` statement.
        """
        pointer = lib.flux_kvs_snapshot(
            self._open(), self._ns, _c.text_or_null(rootref, "the root")
        )
        future = Future(self._handle, pointer, _decode_version)
        try:
            return Snapshot(self, future, future.get(timeout))
        except BaseException:
            future.destroy()
            raise

    def at(self, rootref: str) -> "KVS":
        """The store as it was at a root, which is not kept by this."""
        return KVS(self._handle, self._name, rootref)

    # -- watching --

    def watch(
        self, key: str, *, values: bool = False, append: bool = False, diff: bool = False
    ) -> Future:
        """Watch a key: a stream of `Watched`, for what it is now and after every change.

        A directory has its entries, with `values` their values. `append`: results after the first
        have only the bytes that were added to a value. `diff`: results have what changed below a
        directory, at any depth. Changes in quick succession may be merged into one result.
        """
        flags = (
            (lib.FLUX_KVS_VALUES if values else 0)
            | (lib.FLUX_KVS_WATCH_APPEND if append else 0)
            | (lib.FLUX_KVS_WATCH_DIFF if diff else 0)
        )
        pointer = lib.flux_kvs_watch(self._open(), self._ns, _c.text(key, "the key"), flags)
        return _Watch(self._handle, pointer, lambda future: _decode_watched(future, diff))

    # -- changes --

    def txn(self) -> "Transaction":
        """A transaction: changes that take effect as a whole or not at all."""
        return Transaction(self)

    def put(self, key: str, value: Any, *, timeout: Optional[float] = None) -> Version:
        """Store a value: buffers as they are, a str as UTF-8, anything else as JSON."""
        return self.txn().put(key, value).commit(timeout=timeout)

    def append(self, key: str, data, *, timeout: Optional[float] = None) -> Version:
        """Append bytes, or a str, to a value, which is made if it does not exist."""
        return self.txn().append(key, data).commit(timeout=timeout)

    def unlink(
        self,
        key: str,
        *,
        recursive: bool = False,
        must_exist: bool = False,
        timeout: Optional[float] = None,
    ) -> Version:
        """Remove a key; with `recursive` also a directory that is not empty."""
        return (
            self.txn()
            .unlink(key, recursive=recursive, must_exist=must_exist)
            .commit(timeout=timeout)
        )

    def mkdir(self, key: str, *, timeout: Optional[float] = None) -> Version:
        """Make an empty directory."""
        return self.txn().mkdir(key).commit(timeout=timeout)

    def symlink(self, key: str, target: str, *, timeout: Optional[float] = None) -> Version:
        """Make a symbolic link to a key, which need not exist."""
        return self.txn().symlink(key, target).commit(timeout=timeout)

    def copy(self, source: str, to: str, *, timeout: Optional[float] = None) -> Version:
        """Copy a value, a link or a directory with its contents, by reference."""
        return self.txn().copy(source, to).commit(timeout=timeout)

    def move(self, source: str, to: str, *, timeout: Optional[float] = None) -> Version:
        """Move a value, a link or a directory with its contents."""
        return self.txn().move(source, to).commit(timeout=timeout)

    def write(self, key: str, pieces: Iterable, *, timeout: Optional[float] = None) -> Version:
        """Store a value of any size from its pieces (buffers), in bounded memory.

        `pieces` may be a file that is open for reading bytes. `timeout` is for each step.
        """
        digests = bytearray()
        sizes = [0, 0]  # bytes; of a digest
        under_way: collections.deque = collections.deque()
        held = bytearray()

        def store(data) -> None:
            if len(under_way) == _WINDOW:
                finish()
            pointer = lib.flux_kvs_store(self._open(), self._ns, ffi.from_buffer(data), len(data))
            under_way.append(Future(self._handle, pointer, _decode_store))
            sizes[0] += len(data)

        def finish() -> None:
            with under_way.popleft() as future:
                more, sizes[1] = future.get(timeout)
            digests.extend(more)

        if hasattr(pieces, "read"):
            read = pieces.read
            pieces = iter(lambda: read(_PIECE), b"")
        for piece in pieces:
            with memoryview(piece) as view, view.cast("B") as plain:
                held += plain
            while len(held) >= _PIECE:
                store(bytes(held[:_PIECE]))
                del held[:_PIECE]
        if not under_way and not digests:
            return self.put(key, bytes(held), timeout=timeout)
        if held:
            store(held)
        while under_way:
            finish()
        txn = self.txn()
        txn._put_chunks(key, sizes[0], bytes(digests), sizes[1])
        return txn.commit(timeout=timeout)

    def fence(
        self,
        name: str,
        nprocs: int,
        *,
        ranks: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> Version:
        """Enter a fence without changes: see `Transaction.fence()`."""
        return self.txn().fence(name, nprocs, ranks=ranks, timeout=timeout)


class Snapshot(KVS):
    """The store at one version (`KVS.snapshot()`), kept until `release()`."""

    def __init__(self, kvs: KVS, future: Future, version: Version) -> None:
        super().__init__(kvs._handle, kvs._name, version.rootref)
        self._kept = future

    def release(self) -> None:
        """Do not keep it any longer."""
        self._kept.destroy()

    def __enter__(self) -> "Snapshot":
        return self

    def __exit__(self, *exc) -> None:
        self.release()


class Transaction:
    """Changes that take effect as a whole or not at all, in this order (`KVS.txn()`).

    The methods that add a change return the transaction, so that calls can be chained. In a `with`
    statement it is committed at the end of the block, unless that raises an exception.
    """

    def __init__(self, kvs: KVS) -> None:
        txn = lib.flux_kvs_txn_create()
        if not txn:
            raise MemoryError
        self._kvs = kvs
        self._txn = ffi.gc(txn, lib.flux_kvs_txn_destroy)

    def __len__(self) -> int:
        return lib.flux_kvs_txn_count(self._txn)

    def __enter__(self) -> "Transaction":
        return self

    def __exit__(self, kind, value, traceback) -> None:
        if kind is None:
            self.commit()

    def _add(self, function: Callable, key: str, *arguments) -> "Transaction":
        checked(function, self._txn, _c.text(key, "the key"), *arguments)
        return self

    def put(self, key: str, value: Any) -> "Transaction":
        """Store a value: buffers as they are, a str as UTF-8, anything else as JSON."""
        data = _to_bytes(value)
        return self._add(lib.flux_kvs_txn_put_raw, key, data, len(data))

    def append(self, key: str, data) -> "Transaction":
        """Append bytes, or a str, to a value, which is made if it does not exist."""
        if not isinstance(data, str) and not _c.is_raw(data):
            raise TypeError(f"a str or a buffer is appended, not {type(data).__name__}")
        data = _to_bytes(data)
        return self._add(lib.flux_kvs_txn_append, key, data, len(data))

    def unlink(
        self, key: str, *, recursive: bool = False, must_exist: bool = False
    ) -> "Transaction":
        """Remove a key; `must_exist`: fail if it does not exist."""
        flags = (lib.FLUX_KVS_RECURSIVE if recursive else 0) | (
            lib.FLUX_KVS_MUST_EXIST if must_exist else 0
        )
        return self._add(lib.flux_kvs_txn_unlink, key, flags)

    def mkdir(self, key: str) -> "Transaction":
        """Make an empty directory."""
        return self._add(lib.flux_kvs_txn_mkdir, key)

    def symlink(self, key: str, target: str) -> "Transaction":
        """Make a symbolic link to a key."""
        return self._add(lib.flux_kvs_txn_symlink, key, _c.text(target, "the target"))

    def copy(self, source: str, to: str) -> "Transaction":
        """Copy a value, a link or a directory with its contents."""
        return self._add(lib.flux_kvs_txn_copy, source, _c.text(to, "the key"))

    def move(self, source: str, to: str) -> "Transaction":
        """Move a value, a link or a directory with its contents."""
        return self._add(lib.flux_kvs_txn_move, source, _c.text(to, "the key"))

    def guard(self, key: str, tag: Optional[str]) -> "Transaction":
        """Fail with EAGAIN unless the key then has this tag (None: does not exist)."""
        return self._add(lib.flux_kvs_txn_guard, key, _c.text_or_null(tag, "the tag"))

    def _put_chunks(self, key: str, size: int, digests: bytes, dsize: int) -> None:
        count = len(digests) // dsize
        self._add(lib.flux_kvs_txn_put_chunks, key, size, digests, count, dsize)

    def clear(self) -> "Transaction":
        """Make it empty."""
        lib.flux_kvs_txn_clear(self._txn)
        return self

    def commit(self, *, durable: bool = False, timeout: Optional[float] = None) -> Version:
        """Let the changes take effect, and return the version that they made."""
        with self.commit_async(durable=durable) as future:
            return future.get(timeout)

    def commit_async(self, *, durable: bool = False) -> Future:
        """The same as a future. `durable`: the result comes when the change is on disk."""
        function = lib.flux_kvs_commit_durable if durable else lib.flux_kvs_commit
        kvs = self._kvs
        return Future(kvs._handle, function(kvs._open(), kvs._ns, self._txn), _decode_version)

    def fence(
        self,
        name: str,
        nprocs: int,
        *,
        ranks: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> Version:
        """Commit together with other participants: when `nprocs` calls with this name were made.

        `ranks`, an idset, says where they are: if one of these brokers is lost, the fence fails.
        """
        with self.fence_async(name, nprocs, ranks=ranks) as future:
            return future.get(timeout)

    def fence_async(self, name: str, nprocs: int, *, ranks: Optional[str] = None) -> Future:
        """The same as a future."""
        kvs = self._kvs
        pointer = lib.flux_kvs_fence_ranks(
            kvs._open(),
            kvs._ns,
            _c.text(name, "the name of the fence"),
            nprocs,
            _c.text_or_null(ranks, "the ranks"),
            self._txn,
        )
        return Future(kvs._handle, pointer, _decode_version)


class _Watch(Future):
    """A stream in which "the key does not exist" is a result like others."""

    def _result(self) -> Any:
        if lib.flux_kvs_watch_absent(self._pointer):
            return Watched(None, 0, None, True, None, None)
        return super()._result()


# -- values --


def _to_bytes(value: Any):
    if isinstance(value, str):
        return value.encode()
    if _c.is_raw(value):
        return ffi.from_buffer(value)
    return _c.to_json(value)


def _from_text(kind) -> Callable:
    def convert(key: str, view: memoryview):
        try:
            return kind(bytes(view).decode())
        except ValueError as e:
            raise make_error(
                errno.EILSEQ, f"the value of {key} is not {_NAMES[kind]}: {e}"
            ) from None

    return convert


def _read_json(kind) -> Callable:
    def convert(key: str, view: memoryview):
        try:
            value = json.loads(bytes(view))
        except ValueError as e:
            raise make_error(errno.EILSEQ, f"the value of {key} is not JSON: {e}") from None
        if not isinstance(value, kind):
            raise make_error(errno.EILSEQ, f"the value of {key} is not {_NAMES[kind]}")
        return value

    return convert


_NAMES = {
    str: "UTF-8 text",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    dict: "a JSON object",
    list: "a JSON array",
}
_CONVERTERS = {
    memoryview: lambda key, view: view,
    bytes: lambda key, view: bytes(view),
    str: _from_text(str),
    int: _from_text(int),
    float: _from_text(float),
    bool: _read_json(bool),
    dict: _read_json(dict),
    list: _read_json(list),
    object: _read_json(object),
}


def _converter(kind) -> Callable[[str, memoryview], Any]:
    try:
        return _CONVERTERS[kind]
    except (KeyError, TypeError):
        names = ", ".join(k.__name__ for k in _CONVERTERS)
        raise TypeError(f"the type of a value is one of {names}, not {kind!r}") from None


# -- results --


def _lookup_view(future: Future) -> memoryview:
    data = ffi.new("const char **")
    length = ffi.new("size_t *")
    checked(lib.flux_kvs_lookup_get, future._pointer, data, length)
    return _c.buffer_of(lib.flux_rpc_get_msg(future._pointer), data[0], length[0])


def _decode_link(future: Future) -> str:
    return bytes(_lookup_view(future)).decode()


def _decode_info(future: Future) -> Info:
    info = ffi.new("struct flux_kvs_info *")
    checked(lib.flux_kvs_lookup_get_info, future._pointer, info)
    return Info(_TYPES[info.type], info.version, info.size, _c.string(info.tag))


def _decode_version(future: Future) -> Version:
    version = ffi.new("uint64_t *")
    rootref = ffi.new("const char **")
    checked(lib.flux_kvs_commit_get, future._pointer, version, rootref)
    return Version(version[0], _c.string(rootref[0]) if rootref[0] else "")


def _decode_store(future: Future) -> Tuple[bytes, int]:
    digests = ffi.new("const uint8_t **")
    count = ffi.new("size_t *")
    size = ffi.new("size_t *")
    checked(lib.flux_kvs_store_get, future._pointer, digests, count, size)
    return bytes(ffi.buffer(digests[0], count[0] * size[0])), size[0]


def _each(future: Future, function: Callable, struct: str) -> Iterator[Any]:
    pos = ffi.new("size_t *")
    item = ffi.new(struct)
    err = ffi.new("errmsg_t *")
    while True:
        rc = function(future._pointer, pos, item, err)
        if rc < 0:
            fail_with(err)
        if rc == 0:
            return
        yield item


def _data(item) -> Optional[bytes]:
    return bytes(ffi.buffer(item.data, item.size)) if item.data else None


def _decode_entries(future: Future) -> List[Entry]:
    return [
        Entry(_c.string(e.name), _TYPES[e.type], e.size, _data(e))
        for e in _each(future, lib.flux_kvs_readdir_next, "struct flux_kvs_dirent *")
    ]


def _decode_page(future: Future) -> Tuple[List[Entry], bool]:
    return _decode_entries(future), lib.flux_kvs_readdir_more(future._pointer)


def _decode_watched(future: Future, diff: bool) -> Watched:
    info = _decode_info(future)
    whole = bool(lib.flux_kvs_watch_whole(future._pointer))
    if info.type != "dir":
        return Watched(info.type, info.version, _lookup_view(future), whole, None, None)
    if not diff:
        entries = {e.name: e for e in _decode_entries(future)}
        return Watched(info.type, info.version, None, whole, entries, None)
    changes = [
        Change(_c.string(c.key), _CHANGES[c.change], _TYPES[c.type], c.size, _data(c))
        for c in _each(future, lib.flux_kvs_change_next, "struct flux_kvs_change *")
    ]
    return Watched(info.type, info.version, None, whole, None, changes)
