"""Metal's classes over the simulator, behind an Objective-C runtime: the file that speaks to them runs.

The types of methods are written here from Apple's headers once more, so a message that is sent with
others lands wrong. Objects are counted: one that is used after its end, or never ends, is an error.
"""

from __future__ import annotations

import ctypes
import functools
import json
import mmap
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

from simt.metal_module import Metal31, MetalModule
from simt.metal_rules import broken_rules, threadgroup_bytes
from simt.simulator import HERE, SimulatorError, machine
from tegg.backends.metal import direct

ID, TEXT, NUMBER = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64
POINTER = ctypes.POINTER(ctypes.c_void_p)
failed: list[str] = []             # what went wrong behind the messages
sent: list[list[tuple[str, int]]] = []  # of every command buffer: functions and threadgroups
alive: dict[int, Object] = {}


class Settings:
    """The machine that is played, and what it refuses."""

    name = "Apple M2 Pro"
    memory, biggest, group = 1 << 28, 1 << 28, 0
    devices, queue, run_fails, no_pipeline, no_archive, most = True, True, "", "", "", 1024
    adopts = True
    lost: tuple[str, ...] = ()     # classes and functions that are not there


class Size(ctypes.Structure):
    _fields_ = [("width", NUMBER), ("height", NUMBER), ("depth", NUMBER)]


METHODS: dict[str, tuple[str, type]] = {}  # selector -> name of the method, type of the function


def method(selector: str, result, *kinds):
    """A method of an Objective-C object, in Python."""
    def mark(f):
        METHODS[selector] = (f.__name__, ctypes.CFUNCTYPE(result, ID, ID, *kinds))
        return f
    return mark


class Object:
    """An object; made by ``new...`` its maker owns it, else the pool."""

    def __init__(self) -> None:
        self.box = ctypes.create_string_buffer(16)
        self.id = ctypes.addressof(self.box)
        self.count = 1
        alive[self.id] = self

    def pooled(self) -> int:
        if not pools:
            failed.append(f"{type(self).__name__} is given to a pool, and there is none")
        else:
            pools[-1].append(self)
        return self.id

    @method("release", None)
    def release(self) -> None:
        self.count -= 1
        if self.count == 0:
            alive.pop(self.id)
            self.gone()

    def gone(self) -> None:
        """What ends with it."""


pools: list[list[Object]] = []


def tell(error, words: str) -> None:
    error[0] = Error(words).pooled()


def get(handle: int | None):
    if handle is None:
        return None
    if handle not in alive:
        raise SimulatorError(f"{handle:#x} is no object, or no longer one")
    return alive[handle]


class String(Object):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.bytes = ctypes.create_string_buffer(text.encode())

    @method("UTF8String", ID)
    def utf8(self):
        return ctypes.addressof(self.bytes)


class Error(Object):
    def __init__(self, words: str) -> None:
        super().__init__()
        self.words = words

    @method("localizedDescription", ID)
    def described(self):
        return String(self.words).pooled()


class Class(Object):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    @method("new", ID)
    def new(self):
        return {"MTLCompileOptions": CompileOptions,
                "MTLComputePipelineDescriptor": PipelineDescriptor,
                "MTLBinaryArchiveDescriptor": ArchiveDescriptor}[self.name]().id

    @method("stringWithUTF8String:", ID, TEXT)
    def string(self, text):
        assert self.name == "NSString"
        return String(text.decode()).pooled()

    @method("arrayWithObject:", ID, ID)
    def array(self, one):
        assert self.name == "NSArray"
        return Array([get(one)]).pooled()

    @method("fileURLWithPath:", ID, ID)
    def url(self, path):
        assert self.name == "NSURL"
        return String(get(path).text).pooled()


class Array(Object):
    def __init__(self, items) -> None:
        super().__init__()
        self.items = items


class CompileOptions(Object):
    fast, version = True, None

    @method("setFastMathEnabled:", None, ctypes.c_bool)
    def set_fast(self, yes):
        self.fast = yes

    @method("setLanguageVersion:", None, NUMBER)
    def set_version(self, number):
        self.version = number


class PipelineDescriptor(Object):
    function = None
    archives: tuple = ()

    @method("setComputeFunction:", None, ID)
    def set_function(self, function):
        self.function = get(function)

    @method("setBinaryArchives:", None, ID)
    def set_archives(self, array):
        self.archives = tuple(get(array).items)


class ArchiveDescriptor(Object):
    path = None

    @method("setUrl:", None, ID)
    def set_url(self, url):
        self.path = Path(get(url).text)


class Archive(Object):
    def __init__(self, held) -> None:
        super().__init__()
        self.held = held

    @method("addComputePipelineFunctionsWithDescriptor:error:", ctypes.c_bool, ID, POINTER)
    def add(self, descriptor, error):
        if Settings.no_pipeline:
            tell(error, "Compute function exceeds available registers")
            return False
        self.held.append(get(descriptor).function.name)
        return True

    @method("serializeToURL:error:", ctypes.c_bool, ID, POINTER)
    def serialize(self, url, error):
        if Settings.no_archive == "write":
            tell(error, "the disk is full")
            return False
        Path(get(url).text).write_text(json.dumps(self.held))
        return True


class Library(Object):
    def __init__(self, module, source: str) -> None:
        super().__init__()
        self.module, self.source = module, source

    @method("newFunctionWithName:", ID, ID)
    def function(self, name):
        name = get(name).text
        if name in Settings.lost or name not in self.module.kernels:
            return None
        return Function(self, name).id


class Function(Object):
    def __init__(self, library: Library, name: str) -> None:
        super().__init__()
        self.module, self.source, self.name = library.module, library.source, name
        self.head = library.module.kernels[name]


class Pipeline(Object):
    found: list[bool] = []  # whether an archive had it

    def __init__(self, descriptor: PipelineDescriptor) -> None:
        super().__init__()
        self.function = descriptor.function
        Pipeline.found.append(any(self.function.name in a.held for a in descriptor.archives))

    @method("maxTotalThreadsPerThreadgroup", NUMBER)
    def most(self):
        return min(Settings.most, self.function.head.threads or Settings.most)


class Buffer(Object):
    """Memory of its own, or pages that lie at an address."""

    def __init__(self, nbytes: int, address: int | None = None) -> None:
        super().__init__()
        self.size, self.adopted = nbytes, address is not None
        if address is None:
            self.memory = mmap.mmap(-1, nbytes)
            self.memory[:] = bytes([0x5a]) * nbytes
            address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.address = address
        where, size = ctypes.c_void_p(self.address), ctypes.c_size_t(nbytes)
        machine().simt_add(where, size, b"a buffer", 0)
        machine().simt_known(where, size)

    @method("contents", ID)
    def contents(self):
        return self.address

    def gone(self) -> None:
        if not any(isinstance(o, Buffer) and o.address == self.address for o in alive.values()):
            machine().simt_drop(ctypes.c_void_p(self.address))


class Device(Object):
    @method("name", ID)
    def named(self):
        return String(Settings.name).pooled()

    @method("maxBufferLength", NUMBER)
    def longest(self):
        return Settings.biggest

    @method("newCommandQueue", ID)
    def queue(self):
        return Queue().id if Settings.queue else None

    @method("newBufferWithLength:options:", ID, NUMBER, NUMBER)
    def buffer(self, nbytes, options):
        assert options == 0, "not shared with the host"
        return Buffer(nbytes).id if 0 < nbytes <= Settings.memory else None

    @method("newBufferWithBytesNoCopy:length:options:deallocator:", ID, ctypes.c_void_p, NUMBER, NUMBER,
            ID)
    def adopted(self, address, nbytes, options, deallocator):
        assert options == 0 and deallocator is None
        assert address % mmap.PAGESIZE == 0, f"{address:#x} is not page-aligned"
        assert nbytes and nbytes % mmap.PAGESIZE == 0, f"{nbytes} bytes are no whole pages"
        assert nbytes <= Settings.biggest
        return Buffer(nbytes, address).id if Settings.adopts else None

    @method("newLibraryWithSource:options:error:", ID, ID, ID, POINTER)
    def library(self, source, options, error):
        source, options = get(source).text, get(options)
        assert not options.fast and options.version in (0x20003, 0x30001)
        module = MetalModule if options.version == 0x20003 else Metal31
        wrong = broken_rules(source)
        try:
            if wrong:
                raise SimulatorError("\n".join(wrong))
            return Library(module(source), source).id
        except SimulatorError as e:
            tell(error, str(e))
            return None

    @method("newComputePipelineStateWithDescriptor:options:reflection:error:", ID, ID, NUMBER, ID,
            POINTER)
    def pipeline(self, descriptor, options, reflection, error):
        function = get(descriptor).function
        if function is None or Settings.no_pipeline == function.name:
            tell(error, "Compute function exceeds available registers")
            return None
        if threadgroup_bytes(function.source, function.name) > 32768:
            tell(error, "Threadgroup memory size exceeds the maximum")
            return None
        return Pipeline(get(descriptor)).id

    @method("newBinaryArchiveWithDescriptor:error:", ID, ID, POINTER)
    def archive(self, descriptor, error):
        path = get(descriptor).path
        if Settings.no_archive == ("open" if path else "new"):
            tell(error, "the archive is damaged")
            return None
        return Archive([] if path is None else json.loads(path.read_text())).id


class Queue(Object):
    @method("commandBuffer", ID)
    def commands(self):
        return Commands().pooled() if Settings.queue else None


class Commands(Object):
    state, encoder = 0, None

    @method("computeCommandEncoderWithDispatchType:", ID, NUMBER)
    def encode(self, kind):
        assert self.encoder is None and self.state == 0 and kind in (0, 1)
        self.encoder = Encoder(kind == 1)
        return self.encoder.pooled()

    @method("commit", None)
    def commit(self):
        assert self.state == 0 and self.encoder.ended, "committed twice, or while it is written"
        self.state = 2

    @method("waitUntilCompleted", None)
    def wait(self):
        assert self.state == 2, "nothing was committed"
        sent.append([(w[0].function.name, w[1]) for group in self.encoder.work for w in group])
        # what no barrier orders comes in another order than it was written
        for number, (pipeline, blocks, buffers) in enumerate(
                w for group in self.encoder.work for w in reversed(group)):
            f = pipeline.function
            f.module.run(f.name, blocks, Settings.group or f.head.threads,
                         [b.address + at for b, at in buffers], number % 3)
        self.state = 5 if Settings.run_fails else 4

    @method("status", NUMBER)
    def status(self):
        return self.state

    @method("error", ID)
    def error(self):
        return Error(Settings.run_fails).pooled() if self.state == 5 else None

    @method("GPUStartTime", ctypes.c_double)
    def start(self):
        return 1.0

    @method("GPUEndTime", ctypes.c_double)
    def end(self):
        return 1.5


class Encoder(Object):
    """work: groups of dispatches that barriers part; in a serial encoder each is one."""

    def __init__(self, concurrent: bool) -> None:
        super().__init__()
        self.pipeline, self.buffers, self.ended = None, {}, False
        self.concurrent, self.work = concurrent, [[]]

    @method("memoryBarrierWithScope:", None, NUMBER)
    def barrier(self, scope):
        assert self.concurrent and scope == 1, "a barrier of buffers, between concurrent dispatches"
        self.work.append([])

    @method("setComputePipelineState:", None, ID)
    def set_pipeline(self, pipeline):
        self.pipeline = get(pipeline)

    @method("setBuffer:offset:atIndex:", None, ID, NUMBER, NUMBER)
    def set_buffer(self, buffer, offset, index):
        buffer = get(buffer)
        assert offset < buffer.size and index < 31
        assert offset % 16 == 0, f"{offset} does not divide by the widest access"
        self.buffers[index] = buffer, offset

    @method("dispatchThreadgroups:threadsPerThreadgroup:", None, Size, Size)
    def dispatch(self, groups, threads):
        head = self.pipeline.function.head
        assert (groups.height, groups.depth, threads.height, threads.depth) == (1, 1, 1, 1)
        assert 0 < groups.width < 1 << 31 and threads.width == head.threads <= Settings.most
        for p in head.parameters:  # offsets in the constant address space divide by 256
            assert not p.type.startswith("constant") or self.buffers[p.index][1] % 256 == 0
        if not self.concurrent:
            self.work.append([])
        self.work[-1].append((self.pipeline, groups.width, [self.buffers[i] for i in head.buffers]))

    @method("endEncoding", None)
    def end(self):
        self.ended = True


# ---- the runtime behind the messages
@functools.cache
def _library():
    """The entry points, compiled."""
    path = Path(tempfile.mkdtemp()) / "objc.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", f"{HERE}/objc.c", "-o", str(path)], check=True)
    return ctypes.CDLL(str(path))


def _message(name: str, kind):
    """The function of a method; what it raises is remembered, and the answer is nothing."""
    def call(to, _selector, *given):
        try:
            return getattr(get(to), name)(*given)
        except (AssertionError, AttributeError, KeyError, TypeError, SimulatorError) as e:
            failed.append(f"{name}: {type(e).__name__}: {e}")
            return None if kind._restype_ in (None, ID) else 0
    return kind(call)


_FUNCTIONS = {selector: _message(*m) for selector, m in METHODS.items()}
_nothing = ctypes.CFUNCTYPE(ID, ID, ID)(lambda to, selector: None)


@ctypes.CFUNCTYPE(ID, ID, TEXT)
def _find(to, selector):
    selector = selector.decode()
    thing = alive.get(to)
    if selector not in METHODS or thing is None or not hasattr(thing, METHODS[selector][0]):
        failed.append(f"{type(thing).__name__} at {to} does not know {selector}")
        return ctypes.cast(_nothing, ctypes.c_void_p).value
    return ctypes.cast(_FUNCTIONS[selector], ctypes.c_void_p).value


_classes: dict[str, Class] = {}


@ctypes.CFUNCTYPE(ID, TEXT)
def _class(name):
    name = name.decode()
    if name in Settings.lost:
        return None
    if name not in _classes or _classes[name].id not in alive:
        _classes[name] = Class(name)
    return _classes[name].id


@ctypes.CFUNCTYPE(ID)
def _push():
    pools.append([])
    return len(pools)


@ctypes.CFUNCTYPE(None, ID)
def _pop(pool):
    if pool != len(pools):
        failed.append(f"pool {pool} ends, and {len(pools)} is the last")
    for thing in pools.pop():
        thing.release()


@ctypes.CFUNCTYPE(ID)
def _device():
    return Device().id if Settings.devices else None


@contextmanager
def installed():
    """A Mac whose Metal is the simulated GPU. Wrong messages, and objects left over, are errors."""
    library = _library()
    for name, f in (("find", _find), ("class", _class), ("push", _push), ("pop", _pop),
                    ("device", _device)):
        ctypes.c_void_p.in_dll(library, f"simt_{name}").value = ctypes.cast(f, ID).value
    saved = direct.libraries
    direct.libraries = lambda: (library, library)
    direct.open_direct.cache_clear()
    for table in (failed, sent, alive, pools, Pipeline.found):
        table.clear()
    try:
        yield library
        assert not failed, failed[0]
        assert not pools, "a pool was not ended"
    finally:
        direct.open_direct.cache_clear()
        direct.libraries = saved


def kept() -> dict[str, int]:
    """How many objects of which class there are."""
    out: dict[str, int] = {}
    for thing in alive.values():
        out[type(thing).__name__] = out.get(type(thing).__name__, 0) + 1
    return out


def types(kind) -> list[tuple[int, bool]]:
    """Bytes of the result and of each argument of a message, and whether they are a double."""
    return [(0 if k is None else ctypes.sizeof(k), k is ctypes.c_double)
            for k in (kind._restype_, *kind._argtypes_)]
