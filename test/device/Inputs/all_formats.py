# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""all_formats.py FOLDER: writes model.gguf, a llama of random blocks whose matrices have each type that a GGUF file stores, two types to a layer: one of queries,
keys and values, one of the MLP's second matrix. prompts-N.safetensors are N tokens: of one row, of few, of a tile and of several.
"""
import array
import pathlib
import random
import struct
import sys

sys.path.append(str(pathlib.Path(__file__).parents[2] / "tools"))
import make_gguf
import safetensors

HIDDEN, HEADS, KV_HEADS, INNER, VOCABULARY = 256, 8, 1, 512, 131
PROMPTS = [1, 3, 37, 139]
# By name: GGUF's number, values and bytes of a block, and what its f16 fields hold, so that weights are about 1 / sqrt(HIDDEN).
BLOCKS = {
    "q4_0": (2, 32, 18, {0: .0136}), "q4_1": (3, 32, 20, {0: .0136, 2: -.1}), "q5_0": (6, 32, 22, {0: .0068}),
    "q5_1": (7, 32, 24, {0: .0068, 2: -.1}), "q8_0": (8, 32, 34, {0: .00085}), "q2_k": (10, 256, 84, {80: .005, 82: .005}),
    "q3_k": (11, 256, 110, {108: .0015}), "q4_k": (12, 256, 144, {0: .0004, 2: .003}), "q5_k": (13, 256, 176, {0: .0002, 2: .003}),
    "q6_k": (14, 256, 210, {208: .0001}), "iq4_nl": (20, 32, 18, {0: .0009}), "iq4_xs": (23, 256, 136, {0: .00008}),
    "mxfp4": (39, 32, 17, {}), "iq1_s": (19, 256, 50, {0: .008}), "iq1_m": (29, 256, 56, {}), "iq2_xxs": (16, 256, 66, {0: .001}),
    "iq2_xs": (17, 256, 74, {0: .001}), "iq2_s": (22, 256, 82, {0: .001}), "iq3_xxs": (18, 256, 98, {0: .0004}), "iq3_s": (21, 256, 110, {0: .0004}),
    "tq1_0": (34, 256, 54, {52: .08}), "tq2_0": (35, 256, 66, {64: .08}), "nvfp4": (40, 64, 36, {}), "q1_0": (41, 128, 18, {0: .08}),
}
TYPES, OTHERS = ["f32", "f16", "bf16", *BLOCKS, "q8_0"], "q5_0"


def matrix(rng, kind, rows, columns):
    """(shape, bytes, type), as make_gguf.write takes it."""
    if kind not in BLOCKS:
        values = [rng.gauss(0, columns ** -0.5) for _ in range(rows * columns)]
        if kind == "f16":
            return [rows, columns], struct.pack(f"<{len(values)}e", *values), 1
        whole = array.array("f", values).tobytes()
        return ([rows, columns], whole, 0) if kind == "f32" else ([rows, columns], b"".join(whole[i + 2:i + 4] for i in range(0, len(whole), 4)), 30)
    number, values, size, halves = BLOCKS[kind]
    blocks = bytearray()
    for _ in range(rows * columns // values):
        block = bytearray(rng.randbytes(size))
        for at, half in halves.items():
            struct.pack_into("<e", block, at, half * rng.uniform(0.5, 1))
        if kind == "mxfp4":
            block[0] = rng.choice((121, 122))
        if kind == "nvfp4":  # 2^-5 to 2^-4
            block[:4] = (16 + byte % 8 for byte in block[:4])
        if kind == "iq1_m":  # four bits of an f16 in each of four words: .008 to .016
            block[49::2] = (byte & 15 | half << 4 for byte, half in zip(block[49::2], (0, 0, rng.randrange(4), 2), strict=True))
        blocks += block
    return [rows, columns], bytes(blocks), number


def tensors(rng):
    def vector():
        return [HIDDEN], [rng.uniform(0.5, 1.5) for _ in range(HIDDEN)]

    head_dim = HIDDEN // HEADS
    yield "token_embd.weight", matrix(rng, "q8_0", VOCABULARY, HIDDEN)
    yield "output.weight", matrix(rng, "q4_k", VOCABULARY, HIDDEN)
    yield "output_norm.weight", vector()
    for layer, (joined, down) in enumerate(zip(TYPES[::2], TYPES[1::2], strict=True)):
        for name, kind, rows, columns in (("attn_q", joined, HIDDEN, HIDDEN), ("attn_k", joined, KV_HEADS * head_dim, HIDDEN),
                                          ("attn_v", joined, KV_HEADS * head_dim, HIDDEN), ("attn_output", OTHERS, HIDDEN, HIDDEN),
                                          ("ffn_gate", OTHERS, INNER, HIDDEN), ("ffn_up", OTHERS, INNER, HIDDEN), ("ffn_down", down, HIDDEN, INNER)):
            yield f"blk.{layer}.{name}.weight", matrix(rng, kind, rows, columns)
        yield f"blk.{layer}.attn_norm.weight", vector()
        yield f"blk.{layer}.ffn_norm.weight", vector()


def main(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(11)
    keys = {"context_length": 256, "embedding_length": HIDDEN, "block_count": len(TYPES) // 2, "feed_forward_length": INNER,
            "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS, "attention.layer_norm_rms_epsilon": 1e-5, "vocab_size": VOCABULARY}
    keys = {"general.architecture": "llama", "tokenizer.ggml.model": "no_vocab", **{f"llama.{key}": value for key, value in keys.items()}}
    make_gguf.write(folder / "model.gguf", keys, dict(tensors(rng)))
    for count in PROMPTS:
        ids = [rng.randrange(VOCABULARY) for _ in range(count)]
        safetensors.save(folder / f"prompts-{count}.safetensors", {"input_ids": ("I64", (1, count), ids), "attention_mask": ("I64", (1, count), [1] * count)})


if __name__ == "__main__":
    main(*sys.argv[1:])
