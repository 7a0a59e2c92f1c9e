# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes model files with holes, whose tensors lie on both sides of bytes 2^28, 2^31 and 2^32 and across them.

  sparse_model.py gguf IN.gguf OUT.gguf     the same tensors, moved apart
  sparse_model.py safetensors FOLDER OUT    two shards and their index; the first holds tensors that no model reads, as wide as the gaps
  sparse_model.py onnx OUT                  OUT/model.onnx: y = x @ m + w0 + w1 + w2 with external data, and OUT/expected: y for an x of ones
  sparse_model.py words FOLDER OUT N        the model with N words, whose embedding is also its head, of bf16 zeros
  sparse_model.py heads FOLDER OUT N D      the model with N heads of D, keys and values alike, of zeros

The gaps take no room on the disk.
"""
import array
import json
import math
import os
import pathlib
import shutil
import struct
import sys

BORDERS = [1 << 28, 1 << 31, 1 << 32]


def place(sizes, start, alignment):
    """Offsets of tensors of these sizes, in order: a quarter of them from `start`, and the others around the borders."""
    offsets, quarter = [], -(-len(sizes) // 4)
    for index, size in enumerate(sizes):
        if index % quarter == 0 and index:
            # The first of the group lies across the border, and the rest behind it.
            start = BORDERS[index // quarter - 1] - size // 2 // alignment * alignment
        offsets.append(start)
        start = -(-(start + size) // alignment) * alignment
    assert all(any(o < border < o + s for o, s in zip(offsets, sizes)) for border in BORDERS), "no tensor lies across a border"
    return offsets


def write_sparse(path, parts):
    """`parts`: (offset, bytes)."""
    with open(path, "wb") as file:
        for offset, data in parts:
            file.seek(offset)
            file.write(data)
        file.truncate()
    held = 512 * os.stat(path).st_blocks
    print(f"{os.path.basename(path)}: {os.stat(path).st_size} bytes, {held} on the disk")
    assert held < 16 << 20, "the disk holds the gaps"


# --- GGUF: magic, version, counts, metadata pairs, infos (name, dimensions, type, offset), then the tensors.

GGUF_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
GGUF_STRING, GGUF_ARRAY, GGUF_ALIGNMENT = 8, 9, 32


class GgufCursor:
    def __init__(self, image):
        self.image, self.at = image, 0

    def number(self, code):
        value, = struct.unpack_from("<" + code, self.image, self.at)
        self.at += struct.calcsize(code)
        return value

    def skip_string(self):
        length = self.number("Q")
        self.at += length

    def skip_value(self, kind):
        if kind == GGUF_STRING:
            self.skip_string()
        elif kind == GGUF_ARRAY:
            element, count = self.number("I"), self.number("Q")
            for _ in range(count):
                self.skip_value(element)
        else:
            self.at += GGUF_SIZES[kind]


def sparse_gguf(source, target):
    image = bytearray(pathlib.Path(source).read_bytes())
    cursor = GgufCursor(image)
    cursor.at = 8
    tensors, pairs = cursor.number("Q"), cursor.number("Q")
    for _ in range(pairs):
        cursor.skip_string()
        cursor.skip_value(cursor.number("I"))
    fields = []  # where each offset stands
    for _ in range(tensors):
        cursor.skip_string()
        dimensions = cursor.number("I")
        cursor.at += 8 * dimensions + 4
        fields.append(cursor.at)
        cursor.at += 8
    head, data = cursor.at, -(-cursor.at // GGUF_ALIGNMENT) * GGUF_ALIGNMENT
    order = sorted(fields, key=lambda field: struct.unpack_from("<Q", image, field))
    begins = [data + struct.unpack_from("<Q", image, field)[0] for field in order]
    ends = begins[1:] + [len(image)]
    bodies = [bytes(image[begin:end]) for begin, end in zip(begins, ends)]
    offsets = place([len(body) for body in bodies], data, GGUF_ALIGNMENT)
    for field, offset in zip(order, offsets):
        struct.pack_into("<Q", image, field, offset - data)
    write_sparse(target, [(0, image[:head]), *zip(offsets, bodies)])


# --- safetensors: the length of the header, the header, tensors without gaps.

def sparse_safetensors(folder, out):
    image = pathlib.Path(folder, "model.safetensors").read_bytes()
    length, = struct.unpack_from("<Q", image)
    tensors = {name: entry for name, entry in json.loads(image[8:8 + length]).items() if name != "__metadata__"}
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(pathlib.Path(folder, "config.json"), out / "config.json")

    def body(name):
        begin, end = tensors[name]["data_offsets"]
        return image[8 + length + begin:8 + length + end]

    names = sorted(tensors, key=lambda name: tensors[name]["data_offsets"])
    shards = {"model-00001-of-00002.safetensors": names[:-3], "model-00002-of-00002.safetensors": names[-3:]}
    weight_map = {}
    for number, (shard, held) in enumerate(shards.items()):
        base = 4096  # the header is padded: offsets in the file are then those that place() gives
        offsets = place([len(body(name)) for name in held], base, 8) if number == 0 else []
        header, parts, at = {}, [], base
        for index, name in enumerate(held):
            begin = offsets[index] if offsets else at
            if begin > at:  # frequencies of a rotary embedding: models compute them
                filler = f"model.layers.{len(header)}.self_attn.rotary_emb.inv_freq"
                header[filler] = {"dtype": "U8", "shape": [begin - at], "data_offsets": [at - base, begin - base]}
                weight_map[filler] = shard
            at = begin + len(body(name))
            header[name] = dict(tensors[name], data_offsets=[begin - base, at - base])
            weight_map[name] = shard
            parts.append((begin, body(name)))
        text = json.dumps(header).encode().ljust(base - 8)
        assert len(text) == base - 8, "a longer header"
        write_sparse(out / shard, [(0, struct.pack("<Q", len(text)) + text), *parts])
    (out / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


# Tensors of `changed`, name → (type, shape), become zeros, or go where it is None; the others stay.
def with_zeros(folder, out, config, changed):
    image = pathlib.Path(folder, "model.safetensors").read_bytes()
    length, = struct.unpack_from("<Q", image)
    base, at, header, parts = 4096, 4096, {}, []
    for name, entry in json.loads(image[8:8 + length]).items():
        if name == "__metadata__" or name in changed and changed[name] is None:
            continue
        begin, end = entry["data_offsets"]
        kind, shape = changed.get(name, (entry["dtype"], entry["shape"]))
        size = math.prod(shape) * {"BF16": 2, "F32": 4}[kind]
        if name not in changed:
            parts.append((at, image[8 + length + begin:8 + length + end]))
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at - base, at - base + size]}
        at += size
    text = json.dumps(header).encode().ljust(base - 8)
    assert len(text) == base - 8, "a longer header"
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    write_sparse(out / "model.safetensors", [(0, struct.pack("<Q", len(text)) + text), *parts, (at, b"")])
    values = json.loads(pathlib.Path(folder, "config.json").read_text())
    (out / "config.json").write_text(json.dumps({**values, **config}))


def many_words(folder, out, words):
    hidden = json.loads(pathlib.Path(folder, "config.json").read_text())["hidden_size"]
    with_zeros(folder, out, {"vocab_size": int(words), "tie_word_embeddings": True},
               {"model.embed_tokens.weight": ("BF16", [int(words), hidden]), "lm_head.weight": None})


def wide_heads(folder, out, heads, dim):
    config = json.loads(pathlib.Path(folder, "config.json").read_text())
    heads, dim, hidden, changed = int(heads), int(dim), config["hidden_size"], {}
    for layer in range(config["num_hidden_layers"]):
        attention = f"model.layers.{layer}.self_attn."
        changed |= {f"{attention}{role}_proj.weight": ("F32", [heads * dim, hidden]) for role in "qkv"}
        changed[attention + "o_proj.weight"] = ("F32", [hidden, heads * dim])
    with_zeros(folder, out, {"num_attention_heads": heads, "num_key_value_heads": heads, "head_dim": dim}, changed)


# --- ONNX, as protobuf messages: each field is its number and kind, then a varint or a length and bytes.

def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def node(op, inputs, output):
    return field(1, b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, op))


def value_info(name, shape):
    dims = b"".join(field(1, field(1, size)) for size in shape)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, dims)))


def external(name, shape, offset, size):
    entries = {"location": "weights.bin", "offset": str(offset), "length": str(size)}
    data = b"".join(field(13, field(1, key) + field(2, value)) for key, value in entries.items())
    return field(5, b"".join(field(1, size) for size in shape) + field(2, 1) + field(8, name) + data + field(14, 1))


def sparse_onnx(out):
    width = 64
    values = {"m": [float((i + j) % 3 == 0) for i in range(width) for j in range(width)]}
    for k in range(3):
        values[f"w{k}"] = [float(10 ** k * ((j + k) % 10)) for j in range(width)]
    bodies = {name: array.array("f", numbers).tobytes() for name, numbers in values.items()}
    offsets = dict(zip(bodies, place([len(body) for body in bodies.values()], 0, 4)))
    graph = node("MatMul", ["x", "m"], "s0")
    for k in range(3):
        graph += node("Add", [f"s{k}", f"w{k}"], f"s{k + 1}" if k < 2 else "y")
    graph += field(2, "g")
    for name, body in bodies.items():
        graph += external(name, [width, width] if name == "m" else [width], offsets[name], len(body))
    graph += field(11, value_info("x", [2, width])) + field(12, value_info("y", [2, width]))
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "model.onnx").write_bytes(field(1, 8) + field(2, "sparse") + field(8, field(2, 18)) + field(7, graph))
    write_sparse(out / "weights.bin", [(offsets[name], body) for name, body in bodies.items()])
    row = [sum(values["m"][i * width + j] for i in range(width)) + sum(values[f"w{k}"][j] for k in range(3)) for j in range(width)]
    (out / "expected").write_text(" ".join(["y F32[2,64]"] + [f"{value:.4g}" for value in row * 2]) + "\n")


if __name__ == "__main__":
    commands = {"gguf": sparse_gguf, "safetensors": sparse_safetensors, "onnx": sparse_onnx, "words": many_words, "heads": wide_heads}
    commands[sys.argv[1]](*sys.argv[2:])
