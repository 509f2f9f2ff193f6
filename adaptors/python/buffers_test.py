"""Where elements lie, by buffer protocol, pointer and DLPack."""

import array
import ctypes
import unittest

from adaptors.python import installed  # pylint: disable=unused-import
from tools import unittest_main

from gradwire.buffers import (  # pylint: disable=wrong-import-order
    DATA_TYPES,
    Pointer,
    _DLTensor,
    _DLVersioned,
    _PyBuffer,
    as_buffer,
    data_type,
)

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_new_capsule.restype = ctypes.py_object
_new_view = ctypes.pythonapi.PyMemoryView_FromBuffer
_new_view.argtypes = [ctypes.POINTER(_PyBuffer)]
_new_view.restype = ctypes.py_object


class _OldExporter:
    """An array of 2 x 3 floats that has DLPack and nothing else, without its versions."""

    def __init__(self, strides=None, **fields):
        self.data = (ctypes.c_float * 6)(*range(6))
        self._shape = (ctypes.c_int64 * 2)(2, 3)
        self._strides = (ctypes.c_int64 * 2)(*strides) if strides else None
        facts = {"device_type": 1, "ndim": 2, "type_code": 2, "type_bits": 32, "type_lanes": 1}
        self._tensor = _DLTensor(data=ctypes.addressof(self.data), shape=self._shape,
                                 strides=self._strides, **{**facts, **fields})

    def __dlpack__(self):
        return _new_capsule(ctypes.addressof(self._tensor), b"dltensor", None)


class _Exporter(_OldExporter):
    """With them."""

    def __init__(self, version=1, flags=0, **options):
        super().__init__(**options)
        self._versioned = _DLVersioned(major=version, flags=flags, tensor=self._tensor)

    def __dlpack__(self, *, max_version):
        assert max_version == (1, 0)
        return _new_capsule(ctypes.addressof(self._versioned), b"dltensor_versioned", None)


class BufferProtocolTest(unittest.TestCase):
    def test_finds_the_elements(self):
        for code in "bBiIlLqQfd":
            with self.subTest(code):
                numbers = array.array(code, [1, 2, 3])
                place = as_buffer(numbers, writable=True)
                self.assertEqual((place.address, place.count), numbers.buffer_info())
                wanted = "float" if code in "fd" else "uint" if code.isupper() else "int"
                self.assertEqual(place.dtype, DATA_TYPES[f"{wanted}{8 * numbers.itemsize}"])

    def test_half_precision_has_a_format(self):
        halves, shape = (ctypes.c_uint16 * 3)(), (ctypes.c_ssize_t * 1)(3)
        # Neither array nor ctypes have them, but memoryview takes any format.
        view = _PyBuffer(buf=ctypes.addressof(halves), len=6, itemsize=2, ndim=1, format=b"e",
                         shape=ctypes.addressof(shape))
        place = as_buffer(_new_view(view), writable=True)
        self.assertEqual(place[:3], (ctypes.addressof(halves), 3, DATA_TYPES["float16"]))

    def test_bools_are_bytes_that_say_so(self):
        for format_, is_bool in (("?", True), ("B", False)):
            place = as_buffer(memoryview(bytearray(2)).cast(format_), writable=True)
            self.assertEqual((place.count, place.dtype, place.is_bool),
                             (2, DATA_TYPES["uint8"], is_bool))

    def test_read_only_data_is_for_sending(self):
        self.assertEqual(as_buffer(b"abc").count, 3)
        with self.assertRaisesRegex(BufferError, "bytes is read-only: pass a writable copy"):
            as_buffer(b"abc", writable=True)

    def test_gaps_are_refused(self):
        with self.assertRaisesRegex(BufferError, "ascontiguousarray"):
            as_buffer(memoryview(bytearray(8))[::2])

    def test_what_the_protocol_cannot_give_is_refused(self):
        """As of a type that it does not have, or no more."""
        released = memoryview(bytearray(8))
        released.release()
        with self.assertRaisesRegex(TypeError, "not supported: operation forbidden on released"):
            as_buffer(released)

    def test_an_array_cannot_be_resized_while_it_is_in_use(self):
        numbers = bytearray(8)
        place = as_buffer(numbers)
        with self.assertRaises(BufferError):
            numbers.append(1)
        del place
        numbers.append(1)
        self.assertEqual(len(numbers), 9)

    def test_what_is_no_array_is_told_the_remedy(self):
        with self.assertRaisesRegex(TypeError, "gradwire.Pointer"):
            as_buffer(7)


class DlpackTest(unittest.TestCase):
    def test_finds_the_elements(self):
        exporter = _Exporter(byte_offset=4)
        place = as_buffer(exporter, writable=True)
        self.assertEqual(place.address, ctypes.addressof(exporter.data) + 4)
        self.assertEqual((place.count, place.dtype), (6, DATA_TYPES["float32"]))

    def test_only_what_says_so_is_written(self):
        read_only = 1
        for exporter in (_OldExporter(), _Exporter(flags=read_only)):
            self.assertEqual(as_buffer(exporter).count, 6)
            with self.assertRaisesRegex(BufferError, "does not say"):
                as_buffer(exporter, writable=True)
        self.assertEqual(as_buffer(_Exporter(flags=2), writable=True).count, 6)

    def test_refuses_versions_that_do_not_exist_yet(self):
        with self.assertRaisesRegex(BufferError, "DLPack 2"):
            as_buffer(_Exporter(version=2))

    def test_strides_of_an_array_without_gaps_are_fine(self):
        self.assertEqual(as_buffer(_Exporter(strides=(3, 1))).count, 6)
        with self.assertRaisesRegex(BufferError, "contiguous"):
            as_buffer(_Exporter(strides=(1, 2)))

    def test_bfloat16(self):
        self.assertEqual(as_buffer(_Exporter(type_code=4, type_bits=16)).dtype,
                         DATA_TYPES["bfloat16"])

    def test_bools_are_bytes(self):
        for code, is_bool in ((6, True), (1, False)):
            place = as_buffer(_Exporter(type_code=code, type_bits=8))
            self.assertEqual((place.count, place.dtype, place.is_bool),
                             (6, DATA_TYPES["uint8"], is_bool))

    def test_refuses_other_devices_and_types(self):
        for fields in ({"device_type": 2}, {"type_code": 5, "type_bits": 64}, {"type_lanes": 4}):
            with self.subTest(fields), self.assertRaises(TypeError):
                as_buffer(_Exporter(**fields))


class DataTypeTest(unittest.TestCase):
    def test_names_and_pointers(self):
        self.assertEqual(data_type("bfloat16"), DATA_TYPES["bfloat16"])
        # As numpy.float32, a class, has it.
        self.assertEqual(data_type(type("float32", (), {})), DATA_TYPES["float32"])
        self.assertEqual(as_buffer(Pointer(64, 3, "float16"))[:3], (64, 3, DATA_TYPES["float16"]))
        with self.assertRaisesRegex(TypeError, "float33"):
            data_type("float33")


if __name__ == "__main__":
    unittest_main.main()
