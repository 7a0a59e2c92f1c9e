# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""add_decoder_inputs.py SOURCE.onnx TARGET.onnx: the same decoder with inputs that exporters add: attention_mask hides keys where the
boolean causal mask is used, position_ids are what is rotated. The names are those of the export of test/models/llama.

An ONNX file is a protobuf message; fields are read and written by their numbers in onnx-ml.proto.
"""
import sys

GRAPH, NODE, INITIALIZER, INPUT = 7, 1, 5, 11  # of ModelProto and GraphProto
IN, OUT, OP_TYPE, ATTRIBUTE = 1, 2, 4, 5       # of NodeProto


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def fields(data):
    """[(number, bytes of a length-delimited field, or an integer)]"""
    out, at = [], 0
    while at < len(data):
        tag, at = read_varint(data, at)
        if tag & 7 == 0:
            value, at = read_varint(data, at)
        elif tag & 7 == 2:
            size, at = read_varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            sys.exit(f"wire type {tag & 7} is not expected here")
        out.append((tag >> 3, value))
    return out


def message(parts):
    out = bytearray()
    for number, value in parts:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            value = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return bytes(out)


def node(op_type, inputs, output, *attributes):
    return NODE, message([(IN, name) for name in inputs] + [(OUT, output), (OP_TYPE, op_type)] + [(ATTRIBUTE, a) for a in attributes])


def replace_input(data, old, new):
    return message([(number, new.encode() if number == IN and value == old.encode() else value) for number, value in fields(data)])


def change(part):
    """What stands for one field of the graph."""
    number, value = part
    if number == INPUT:
        named = lambda name: (INPUT, message([(n, name if n == 1 else v) for n, v in fields(value)]))
        return [part, named("attention_mask"), named("position_ids")]
    if number != NODE:
        return [part]
    content = fields(value)
    if (OP_TYPE, b"Where") in content and (IN, b"bitwise_and_1") in content:
        boolean = message([(1, "to"), (3, 9), (20, 2)])  # AttributeProto: name, i = BOOL, type = INT
        return [node("Cast", ["attention_mask"], "mask_bool", boolean), node("Unsqueeze", ["mask_bool", "mask_axes"], "mask_4d"),
                node("And", ["bitwise_and_1", "mask_4d"], "masked"), (NODE, replace_input(value, "bitwise_and_1", "masked"))]
    if (OUT, b"unsqueeze_13") in content:
        return [(NODE, replace_input(value, "unsqueeze", "position_ids"))]
    return [part]


source, target = sys.argv[1:]
with open(source, "rb") as file:
    model = fields(file.read())
axes = message([(1, 2), (2, 7), (8, "mask_axes"), (9, b"".join(axis.to_bytes(8, "little") for axis in (1, 2)))])
out = []
for number, value in model:
    if number == GRAPH:
        parts = [new for part in fields(value) for new in change(part)]
        if len(parts) != len(fields(value)) + 5:
            sys.exit("the graph has no mask, or not the one that is expected")
        value = message(parts + [(INITIALIZER, axes)])
    out.append((number, value))
with open(target, "wb") as file:
    file.write(message(out))
