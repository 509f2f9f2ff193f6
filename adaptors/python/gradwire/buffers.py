"""Where the elements of an array lie: for whatever has Python's buffer protocol or DLPack."""

import ctypes
import math
from typing import NamedTuple

from gradwire._bindings import gwDataType_t
from gradwire._library import fitting

# "float32": gwFloat32, ...
DATA_TYPES = {kind.name[2:].lower(): kind for kind in gwDataType_t}


_GAPS = ("the array is not contiguous: pass a copy that is, as numpy.ascontiguousarray(array) or "
         "tensor.contiguous()")


class Pointer(NamedTuple):
    """Elements at an address; the caller keeps them alive until the operation is complete."""

    address: int
    count: int
    dtype: gwDataType_t


class Buffer(NamedTuple):
    """Elements and the object that keeps them where they are.

    ctypes takes it for the address; a call that is given it keeps the elements.
    """

    address: int
    count: int
    dtype: gwDataType_t
    owner: object
    is_bool: bool = False  # dtype is that of its bytes

    @property
    def _as_parameter_(self):
        return self.address


def type_name(dtype):
    """As numpy and torch call a gwDataType_t: "float32"."""
    return dtype.name[2:].lower()


def data_type(dtype):
    """gwDataType_t of one, its name ("float32"), one of numpy (also numpy.float32) or of torch."""
    if isinstance(dtype, gwDataType_t):
        return dtype
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", str(dtype)).rpartition(".")[2]
    if name not in DATA_TYPES:
        raise TypeError(f"elements of type {dtype} are not supported; use {', '.join(DATA_TYPES)}")
    return DATA_TYPES[name]


# ---- the buffer protocol, by the C API: memoryview does not tell addresses of read-only data ----

_C_CONTIGUOUS, _FORMAT, _WRITABLE = 0x38, 0x4, 0x1
_INTEGER_FORMATS = "bBhHiIlLqQ?c"
_FLOAT_FORMATS = {"e": gwDataType_t.gwFloat16, "f": gwDataType_t.gwFloat32,
                  "d": gwDataType_t.gwFloat64}


class _PyBuffer(ctypes.Structure):
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p), ("suboffsets", ctypes.c_void_p),
                ("internal", ctypes.c_void_p)]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [ctypes.POINTER(_PyBuffer)]
_release_buffer.restype = None


class _Exported:
    """Holds a buffer of an object's, which must not be resized meanwhile."""

    def __init__(self, obj, writable):
        self.view = _PyBuffer()
        flags = _C_CONTIGUOUS | _FORMAT | (_WRITABLE if writable else 0)
        _get_buffer(obj, ctypes.byref(self.view), flags)

    def __del__(self):
        if self.view.buf is not None:
            _release_buffer(ctypes.byref(self.view))


def _format_type(text, item_bytes):
    code = text.lstrip("@=<")
    if code in _FLOAT_FORMATS:
        return _FLOAT_FORMATS[code]
    if len(code) == 1 and code in _INTEGER_FORMATS:
        kind = f"{'int' if code.islower() and code != 'c' else 'uint'}{8 * item_bytes}"
        if kind in DATA_TYPES:
            return DATA_TYPES[kind]
    raise TypeError(f"elements of format '{text}' are not supported")


def _from_buffer_protocol(obj, seen, writable):
    """seen: its memoryview."""
    if not seen.c_contiguous:
        raise BufferError(_GAPS)
    if writable and seen.readonly:
        raise BufferError(f"the {type(obj).__name__} is read-only: pass a writable copy")
    exported = _Exported(obj, writable)
    view = exported.view
    text = (view.format or b"B").decode()
    kind = _format_type(text, view.itemsize)
    return Buffer(view.buf or 0, view.len // view.itemsize, kind, exported, text.endswith("?"))


# ---- DLPack, as its C header has it ----

_DLPACK_CPU, _DLPACK_CUDA_HOST = 1, 3
_DLPACK_BOOL = 6
_DLPACK_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", _DLPACK_BOOL: "uint"}
_DLPACK_VERSION, _DLPACK_READ_ONLY = (1, 0), 1


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("type_code", ctypes.c_uint8), ("type_bits", ctypes.c_uint8),
                ("type_lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _DLVersioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", _DLTensor)]


_capsule_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is_valid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule_pointer.restype = ctypes.c_void_p


def _is_contiguous(tensor):
    if not tensor.strides:
        return True
    expected = 1
    for i in reversed(range(tensor.ndim)):
        if tensor.shape[i] > 1 and tensor.strides[i] != expected:
            return False
        expected *= tensor.shape[i]
    return True


def _capsule_of(obj):
    """One that nobody takes over frees what it holds when it goes."""
    try:
        return obj.__dlpack__(max_version=_DLPACK_VERSION)
    except TypeError:
        return obj.__dlpack__()  # it is older than versions


def _tensor_in(capsule):
    """(its _DLTensor, whether it may be written)

    Before versions nobody could say so, and arrays that must not change came just the same.
    """
    name = b"dltensor_versioned"
    if not _capsule_is_valid(capsule, name):
        return _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor")), False
    versioned = _DLVersioned.from_address(_capsule_pointer(capsule, name))
    if versioned.major != _DLPACK_VERSION[0]:
        raise BufferError(f"the array comes by DLPack {versioned.major}, which may be anything: "
                          "pass gradwire.Pointer(address, count, dtype)")
    return versioned.tensor, not versioned.flags & _DLPACK_READ_ONLY


def _from_dlpack(obj, writable):
    capsule = _capsule_of(obj)
    tensor, may_be_written = _tensor_in(capsule)
    if tensor.device_type not in (_DLPACK_CPU, _DLPACK_CUDA_HOST):
        raise TypeError("this build takes host buffers only: move the array to the CPU")
    kind = f"{_DLPACK_KINDS.get(tensor.type_code, 'unknown')}{tensor.type_bits}"
    if kind not in DATA_TYPES or tensor.type_lanes != 1:
        raise TypeError(f"elements of DLPack's type {tensor.type_code}, {tensor.type_bits} bits, "
                        "are not supported")
    count = math.prod(tensor.shape[: tensor.ndim])
    if count > 0 and not _is_contiguous(tensor):
        raise BufferError(_GAPS)
    if writable and not may_be_written:
        raise BufferError(f"{type(obj).__name__} does not say by DLPack that it may be written: "
                          "pass a writable copy, or gradwire.Pointer(address, count, dtype)")
    return Buffer((tensor.data or 0) + tensor.byte_offset, count, DATA_TYPES[kind], capsule,
                  tensor.type_code == _DLPACK_BOOL)


def as_buffer(obj, writable=False):
    """The elements of an array, contiguous and in host memory.

    Takes a Pointer, what has the buffer protocol (numpy, array, bytearray) and what has DLPack
    (torch, jax, cupy). TypeError, BufferError: it has neither, lies elsewhere, has elements of
    another kind, is not contiguous or, where it is to be written, is read-only or does not say that
    it is not (by DLPack before 1.0). InvalidArgument: a Pointer whose numbers are too large.
    """
    if isinstance(obj, Pointer):
        return Buffer(fitting(obj.address, "address", ctypes.c_size_t),
                      fitting(obj.count, "count", ctypes.c_size_t), data_type(obj.dtype), None)
    try:
        seen = memoryview(obj)
    except TypeError:
        if not hasattr(obj, "__dlpack__"):
            raise TypeError(f"{type(obj).__name__} has neither the buffer protocol nor DLPack; "
                            "pass gradwire.Pointer(address, count, dtype)") from None
        return _from_dlpack(obj, writable)
    except ValueError as error:
        # numpy's, for types that the buffer protocol does not have.
        raise TypeError(f"{type(obj).__name__} has elements that are not supported: "
                        f"{error}") from error
    with seen:
        return _from_buffer_protocol(obj, seen, writable)
