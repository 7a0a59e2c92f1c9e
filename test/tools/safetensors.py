# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads and writes safetensors files of plain numbers, with Python's standard library alone.

A tensor is (type, shape, values): type "F32", "I64", …; values an array in row-major order.
"""
import array
import json
import math
import struct

TYPE_CODES = {"F64": "d", "F32": "f", "F16": "e", "I64": "q", "I32": "i", "I16": "h", "I8": "b", "U64": "Q", "U32": "I", "U16": "H", "U8": "B",
              "BOOL": "B"}


def encode(kind, values):
    if kind == "BF16":  # the upper half of an f32
        return b"".join(struct.pack("<f", value)[2:] for value in values)
    if kind == "F16":  # no type of array
        return struct.pack(f"<{len(values)}e", *values)
    return array.array(TYPE_CODES[kind], values).tobytes()


def decode(kind, data):
    if kind == "BF16":
        return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
    if kind == "F16":
        return list(struct.unpack(f"<{len(data) // 2}e", data))
    values = array.array(TYPE_CODES[kind])
    values.frombytes(data)
    return values


def save(path, tensors):
    """`tensors`: name → (type, shape, values)."""
    header, body = {}, bytearray()
    for name, (kind, shape, values) in tensors.items():
        data = encode(kind, values)
        if len(values) != math.prod(shape):
            raise ValueError(f"{name}: {len(values)} values for shape {shape}")
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + bytes(body))


def load(path):
    """name → (type, shape, values)."""
    with open(path, "rb") as file:
        image = file.read()
    length, = struct.unpack_from("<Q", image)
    header = json.loads(image[8:8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        tensors[name] = (entry["dtype"], entry["shape"], decode(entry["dtype"], image[8 + length + begin:8 + length + end]))
    return tensors
