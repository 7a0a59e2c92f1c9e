# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes ../gguf/f32.gguf with its matrices quantised by PyPI gguf (0.19), and the numbers and blocks of test/unit/data/quantization that the
quantisers are compared with. Run from anywhere: python make.py"""

import pathlib

import gguf
import numpy as np

here = pathlib.Path(__file__).parent
data = here.parent.parent / "unit/data/quantization"


def quantize_model(kind):
    reader = gguf.GGUFReader(here.parent / "gguf/f32.gguf")
    architecture = reader.get_field("general.architecture").contents()
    writer = gguf.GGUFWriter(here / f"{kind.name.lower()}.gguf", architecture)
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        kinds = field.types
        writer.add_key_value(name, field.contents(), kinds[0], sub_type=kinds[-1] if len(kinds) > 1 else None)
    for tensor in reader.tensors:
        values = np.array(tensor.data)
        if values.ndim < 2:
            writer.add_tensor(tensor.name, values)
        else:
            writer.add_tensor(tensor.name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_blocks():
    """Blocks of 256: of weights, far from zero, with one large number, of zeros, of small numbers, and with ties of magnitude."""
    random = np.random.default_rng(5)
    blocks = random.standard_normal((8, 256)).astype(np.float32) * 0.05
    blocks[1] += 1
    blocks[2] -= 0.2
    blocks[3, 77] = 40
    blocks[4] = 0
    blocks[5] *= 1e-4
    blocks[6] = np.tile(np.array([1, -1, 0.5, -0.25], np.float32), 64)
    blocks[7, ::3] *= 10
    blocks.tofile(data / "quantized.f32")
    for kind in [gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_0, gguf.GGMLQuantizationType.BF16]:
        gguf.quants.quantize(blocks, kind).tofile(data / f"quantized.{kind.name.lower()}")
    blocks.astype(np.float16).tofile(data / "quantized.f16")
    print("RMS of 4 bits from the least to the greatest number of each 32:", rms_of_rounding(blocks))


def rms_of_rounding(blocks):
    """What Q4_K is expected to be better than: each block of 32 from min(x, 0) to max(x), scales and mins to 6 bits of the greatest."""
    parts = blocks.reshape(8, 8, 32)
    low = np.minimum(parts.min(-1), 0)
    scale = (parts.max(-1) - low) / 15
    d = (scale.max(-1, keepdims=True) / 63).astype(np.float16).astype(np.float32)
    dmin = (-low.min(-1, keepdims=True) / 63).astype(np.float16).astype(np.float32)
    scale = d * np.round(scale / np.where(d, d, 1))
    low = dmin * np.round(low / np.where(dmin, dmin, 1))
    codes = np.clip(np.round((parts - low[..., None]) / np.where(scale, scale, 1)[..., None]), 0, 15)
    error = codes * scale[..., None] + low[..., None] - parts
    return [float(x) for x in np.sqrt((error.astype(np.float64) ** 2).mean((1, 2)))]


for kind in [gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_0]:
    quantize_model(kind)
write_blocks()
