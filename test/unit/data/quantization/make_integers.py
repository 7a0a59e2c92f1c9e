# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""make_integers.py: writes TYPE.blocks, random blocks of each type of frontends/IntegerBlocks.h and of Q1_0, and TYPE.f32, what PyPI `gguf` makes of them; prints
the SHA-256 of each table of frontends/LatticePoints.h, from the grids of `gguf`. The scales reach from the smallest subnormal f16 to large ones.
"""
import hashlib
import pathlib

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T, quants

# Bytes into a block of its f16 scale; IQ1_M has four bits of it in each of four words.
SCALE = {T.IQ1_S: 0, T.IQ1_M: None, T.IQ2_XXS: 0, T.IQ2_XS: 0, T.IQ2_S: 0, T.IQ3_XXS: 0, T.IQ3_S: 0, T.TQ1_0: 52, T.TQ2_0: 64, T.Q1_0: 0}
HALVES = np.array([0x0001, 0x83ff, 0x1a53, 0xbc01], dtype=np.uint16)


def blocks(kind, rng):
    made = rng.integers(0, 256, (len(HALVES), gguf.GGML_QUANT_SIZES[kind][1]), dtype=np.uint8)
    if SCALE[kind] is not None:
        made[:, SCALE[kind]:SCALE[kind] + 2] = HALVES.view(np.uint8).reshape(-1, 2)
        return made
    for i in range(4):
        made[:, 49 + 2 * i] = made[:, 49 + 2 * i] & 15 | (HALVES >> 4 * i & 15) << 4
    return made


def numbers(made, kind):
    """Of Q1_0, which `gguf` does not dequantise: d where a bit is set, else -d."""
    if kind != T.Q1_0:
        return quants.dequantize(made, kind)
    return np.where(np.unpackbits(made[:, 2:], axis=1, bitorder="little"), 1, -1) * made[:, :2].copy().view(np.float16).astype(np.float32)


def points(grid):
    """A number for each point, its first coordinate lowest."""
    bits = 2 if grid.grid_shape[1] == 8 else 3
    grid.init_grid()
    coordinates = np.searchsorted(grid.grid_map, grid.grid.reshape(grid.grid_shape))
    return (coordinates << bits * np.arange(coordinates.shape[1])).sum(1).astype("<u2")


if __name__ == "__main__":
    folder, rng = pathlib.Path(__file__).parent, np.random.default_rng(3)
    for kind in SCALE:
        made = blocks(kind, rng)
        (folder / f"{kind.name.lower()}.blocks").write_bytes(made.tobytes())
        (folder / f"{kind.name.lower()}.f32").write_bytes(numbers(made, kind).astype("<f4").tobytes())
    for name in ("IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ1_S", "IQ3_XXS", "IQ3_S"):
        print(name, hashlib.sha256(points(getattr(quants, name)).tobytes()).hexdigest()[:16])
