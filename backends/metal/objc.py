"""Messages to Metal's objects, by ctypes: the Objective-C runtime, and the methods that are used.

``objc_msgSend`` is no function of many arguments: each message is a call of the method's own type,
which ``METHODS`` states as Apple's headers do.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from tegg.errors import BackendError

LEAST = 14  # the release of macOS that MSL 3.1 came with
ID, SELECTOR, TEXT = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p
ERROR, BOOL, NUMBER, SECONDS = ctypes.c_void_p, ctypes.c_bool, ctypes.c_ulong, ctypes.c_double


class Size(ctypes.Structure):
    """MTLSize: an extent in three dimensions."""

    _fields_ = (("width", NUMBER), ("height", NUMBER), ("depth", NUMBER))


METHODS = MappingProxyType({  # selector -> type of the result, then of the arguments
    "new": (ID,),
    "release": (None,),
    "UTF8String": (TEXT,),
    "stringWithUTF8String:": (ID, TEXT),
    "arrayWithObject:": (ID, ID),
    "fileURLWithPath:": (ID, ID),
    "localizedDescription": (ID,),
    # MTLDevice
    "name": (ID,),
    "maxBufferLength": (NUMBER,),
    "newCommandQueue": (ID,),
    "newBufferWithLength:options:": (ID, NUMBER, NUMBER),
    "newBufferWithBytesNoCopy:length:options:deallocator:": (
        ID, ctypes.c_void_p, NUMBER, NUMBER, ID),
    "newLibraryWithSource:options:error:": (ID, ID, ID, ERROR),
    "newComputePipelineStateWithDescriptor:options:reflection:error:": (
        ID, ID, NUMBER, ID, ERROR),
    "newBinaryArchiveWithDescriptor:error:": (ID, ID, ERROR),
    # MTLCompileOptions, MTLComputePipelineDescriptor, MTLBinaryArchiveDescriptor
    "setFastMathEnabled:": (None, BOOL),
    "setLanguageVersion:": (None, NUMBER),
    "setComputeFunction:": (None, ID),
    "setBinaryArchives:": (None, ID),
    "setUrl:": (None, ID),
    # MTLLibrary, MTLComputePipelineState, MTLBinaryArchive, MTLBuffer
    "newFunctionWithName:": (ID, ID),
    "maxTotalThreadsPerThreadgroup": (NUMBER,),
    "addComputePipelineFunctionsWithDescriptor:error:": (BOOL, ID, ERROR),
    "serializeToURL:error:": (BOOL, ID, ERROR),
    "contents": (ctypes.c_void_p,),
    # MTLCommandQueue, MTLCommandBuffer, MTLComputeCommandEncoder
    "commandBuffer": (ID,),
    "computeCommandEncoderWithDispatchType:": (ID, NUMBER),
    "memoryBarrierWithScope:": (None, NUMBER),
    "setComputePipelineState:": (None, ID),
    "setBuffer:offset:atIndex:": (None, ID, NUMBER, NUMBER),
    "dispatchThreadgroups:threadsPerThreadgroup:": (None, Size, Size),
    "endEncoding": (None,),
    "commit": (None,),
    "waitUntilCompleted": (None,),
    "status": (NUMBER,),
    "error": (ID,),
    "GPUStartTime": (SECONDS,),
    "GPUEndTime": (SECONDS,),
})


def libraries() -> tuple[Any, Any]:
    """The Objective-C runtime, and Metal. Raises BackendError where there is no macOS."""
    if sys.platform != "darwin":
        raise BackendError("tegg.Metal(through='metal') speaks to Apple's Metal framework, and "
                           "this machine does not run macOS; use device='cpu', or device='cuda' "
                           "with an NVIDIA GPU")
    release = platform.mac_ver()[0]
    if release and int(release.partition(".")[0]) < LEAST:
        raise BackendError(f"tegg.Metal(through='metal') compiles kernels in MSL 3.1, which macOS "
                           f"{LEAST} has first, and this is macOS {release}: update it, or use "
                           f"device='cpu'")
    frameworks = "/System/Library/Frameworks"
    try:
        # without CoreGraphics a program of the command line is given no device
        ctypes.CDLL(f"{frameworks}/CoreGraphics.framework/CoreGraphics")
        return (ctypes.CDLL("/usr/lib/libobjc.A.dylib"),
                ctypes.CDLL(f"{frameworks}/Metal.framework/Metal"))
    except OSError as e:
        raise BackendError(f"Metal does not load ({e}); it is part of macOS: use "
                           f"tegg.Metal() or device='cpu'") from None


class Runtime:
    """Sends messages. Objects are addresses; those of methods called ``new...`` are the caller's
    to release, others live until the pool around them ends."""

    def __init__(self, objc: Any) -> None:
        self._class = _function(objc, "objc_getClass", ID, TEXT)
        self._selector = _function(objc, "sel_registerName", SELECTOR, TEXT)
        self._push = _function(objc, "objc_autoreleasePoolPush", ctypes.c_void_p)
        self._pop = _function(objc, "objc_autoreleasePoolPop", None, ctypes.c_void_p)
        address = ctypes.cast(objc.objc_msgSend, ctypes.c_void_p).value
        self._methods = {
            name: (ctypes.CFUNCTYPE(result, ID, SELECTOR, *kinds)(address),
                   self._selector(name.encode()))
            for name, (result, *kinds) in METHODS.items()}

    def class_named(self, name: str) -> int:
        """A class, to which ``new`` and the like are sent."""
        found = self._class(name.encode())
        if not found:
            raise BackendError(f"this macOS has no class {name}; macOS {LEAST} is the least: use "
                               f"tegg.Metal() or device='cpu'")
        return found

    def send(self, to: int, message: str, *given: Any) -> Any:
        """What a method of an object gives."""
        method, selector = self._methods[message]
        return method(to, selector, *given)

    @contextmanager
    def pool(self) -> Iterator[None]:
        """Objects that nobody owns live until the end."""
        held = self._push()
        try:
            yield
        finally:
            self._pop(held)

    def string(self, text: str) -> int:
        """An NSString, of the pool."""
        found: int = self.send(self.class_named("NSString"), "stringWithUTF8String:", text.encode())
        return found

    def text(self, string: int | None) -> str:
        """What an NSString says; of nothing, nothing."""
        return self.send(string, "UTF8String").decode() if string else ""

    def why(self, error: int | None) -> str:
        """What an NSError says."""
        return self.text(self.send(error, "localizedDescription")) if error else "no reason given"


def _function(library: Any, name: str, result: Any, *kinds: Any) -> Any:
    found = library[name]
    found.restype, found.argtypes = result, list(kinds)
    return found
