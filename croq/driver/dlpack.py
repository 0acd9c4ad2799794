"""The DLPack structures by ctypes: reading a capsule, and making one.

Both forms of the protocol are read, the versioned one (DLPack 1.x) and the one before it. A capsule that is only looked
at keeps its name, so that its own destructor releases the tensor when the capsule goes away.

Source: dlpack.h of DLPack 1.1, and "Python Specification for DLPack".
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

KIND_CPU, KIND_CUDA, KIND_CUDA_HOST, KIND_CUDA_MANAGED = 1, 2, 3, 13
DEVICE_KINDS: dict[int, Literal["cpu", "cuda"]] = {
    KIND_CPU: "cpu",
    KIND_CUDA: "cuda",
    KIND_CUDA_HOST: "cpu",
    KIND_CUDA_MANAGED: "cuda",
}
CODE_INT, CODE_UINT, CODE_FLOAT, CODE_BFLOAT, CODE_BOOL, CODE_E4M3FN, CODE_E5M2 = 0, 1, 2, 4, 6, 10, 12
TYPE_NAMES = {
    (CODE_BFLOAT, 16): "bf16",
    (CODE_FLOAT, 16): "f16",
    (CODE_FLOAT, 32): "f32",
    (CODE_FLOAT, 64): "f64",
    (CODE_E4M3FN, 8): "f8_e4m3",
    (CODE_E5M2, 8): "f8_e5m2",
    (CODE_INT, 8): "s8",
    (CODE_INT, 16): "s16",
    (CODE_INT, 32): "s32",
    (CODE_INT, 64): "s64",
    (CODE_UINT, 8): "u8",
    (CODE_UINT, 16): "u16",
    (CODE_UINT, 32): "u32",
    (CODE_UINT, 64): "u64",
    (CODE_BOOL, 8): "bool",
}
TYPE_CODES = {name: code for code, name in TYPE_NAMES.items()}
FLAG_READ_ONLY = 1
MAX_VERSION = (1, 1)
NO_SYNCHRONISATION = -1  # as `stream`: the producer orders nothing


class ExportRefused(Exception):
    """The array's library does not export it; the text says why."""


class Tensor(NamedTuple):
    """The fields of a DLTensor; `strides` in elements, None for row-major. `capsule` keeps the memory alive."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    code: int
    bits: int
    lanes: int
    device_type: int
    device_index: int
    read_only: bool
    capsule: Any


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _DLTensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))


class _ManagedVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", _Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    )


_api = ctypes.pythonapi
_api.PyCapsule_IsValid.restype = ctypes.c_int
_api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

_LEGACY, _VERSIONED = b"dltensor", b"dltensor_versioned"


def read(array: Any) -> Tensor:
    """Export `array` and read its capsule. Raises ExportRefused."""
    capsule = _export(array)
    if _api.PyCapsule_IsValid(capsule, _VERSIONED):
        managed = _ManagedVersioned.from_address(_api.PyCapsule_GetPointer(capsule, _VERSIONED))
        if managed.major != MAX_VERSION[0]:
            raise ExportRefused(f"DLPack version {managed.major}.{managed.minor}, of which only 1.x is understood")
        return _tensor(managed.tensor, bool(managed.flags & FLAG_READ_ONLY), capsule)
    if _api.PyCapsule_IsValid(capsule, _LEGACY):
        return _tensor(_Managed.from_address(_api.PyCapsule_GetPointer(capsule, _LEGACY)).tensor, False, capsule)
    raise ExportRefused("`__dlpack__` did not return a DLPack capsule")


def _export(array: Any) -> Any:
    """The capsule, without any synchronisation, in the newest form that the library knows."""
    try:
        on_device = DEVICE_KINDS.get(int(array.__dlpack_device__()[0])) == "cuda"
        stream = NO_SYNCHRONISATION if on_device else None
        try:
            return array.__dlpack__(stream=stream, max_version=MAX_VERSION)
        except TypeError:  # a library from before versions
            return array.__dlpack__(stream=stream)
    except Exception as error:  # whatever kind of error the library chose
        raise ExportRefused(f"{type(error).__name__}: {error}") from error


def _tensor(raw: _DLTensor, read_only: bool, capsule: Any) -> Tensor:
    rank = raw.ndim
    shape = tuple(raw.shape[:rank]) if rank else ()
    strides = (tuple(raw.strides[:rank]) if rank else ()) if raw.strides else None
    pointer = (raw.data or 0) + raw.byte_offset
    return Tensor(
        pointer, shape, strides, raw.code, raw.bits, raw.lanes, raw.device_type, raw.device_id, read_only, capsule
    )


# ------------------------------------------------------------------------------------------------------------- export

_tickets = itertools.count(1)
_exported: dict[int, tuple[Any, ...]] = {}  # what each capsule that is out keeps alive, by its `context`


def _release(managed: int) -> None:
    _exported.pop(int(_Managed.from_address(managed).context or 0), None)


def _destroy(capsule_address: int) -> None:
    """Called when a capsule goes away; one that nobody consumed still has its name and releases the tensor."""
    is_valid = _destructor_api("PyCapsule_IsValid", ctypes.c_int)
    if is_valid(capsule_address, _LEGACY):
        managed = _destructor_api("PyCapsule_GetPointer", ctypes.c_void_p)(capsule_address, _LEGACY)
        _release(managed)


def _destructor_api(name: str, result: Any) -> Callable[[int, bytes], int]:
    """A capsule function that takes the capsule by address: in its destructor it can no longer be a Python object."""
    prototype: Any = ctypes.PYFUNCTYPE(result, ctypes.c_void_p, ctypes.c_char_p)
    function: Callable[[int, bytes], int] = prototype((name, _api))
    return function


_deleter = _Deleter(_release)
_destructor = _Deleter(_destroy)


def make_capsule(
    owner: Any, pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: str, device: tuple[int, int]
) -> Any:
    """A DLPack capsule (unversioned form) over memory that `owner` keeps alive. `device`: DLPack type and index."""
    rank = len(shape)
    shape_array = (ctypes.c_int64 * max(rank, 1))(*shape)
    stride_array = (ctypes.c_int64 * max(rank, 1))(*strides)
    ticket = next(_tickets)
    code, bits = TYPE_CODES[dtype]
    as_pointer = ctypes.POINTER(ctypes.c_int64)
    tensor = _DLTensor(
        pointer,
        device[0],
        device[1],
        rank,
        code,
        bits,
        1,
        ctypes.cast(shape_array, as_pointer),
        ctypes.cast(stride_array, as_pointer),
        0,
    )
    managed = _Managed(tensor, ticket, _deleter)
    _exported[ticket] = (owner, shape_array, stride_array, managed)
    return _api.PyCapsule_New(ctypes.addressof(managed), _LEGACY, ctypes.cast(_destructor, ctypes.c_void_p))
