# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""make_mmproj_seeds.py: writes seeds/mmproj/KIND, what the target mmproj of fuzz/Targets.h is fed with, of each tiny folder with images whose files can be a pair of GGUF files.

A seed is the length of the decoder's file, that file and the mmproj, both without the numbers of their tensors, which stand at the end, and without what joins tokens. The
tests need only its output.
"""
import math
import pathlib
import struct
import sys
import tempfile

TEST = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TEST / "tools"))

import make_gguf
import make_mmproj

KINDS = ["gemma3", "idefics3", "internvl", "llava", "llava_next", "llava_pixtral", "mistral3", "qwen2_5_vl", "qwen2_vl", "qwen3_vl", "qwen3_vl_moe"]
heads, whole = [], make_gguf.write


def write_head(path, keys, tensors, alignment=32):
    keys.pop("tokenizer.ggml.merges", None)
    whole(path, keys, tensors, alignment)
    numbers = sum(-(-4 * math.prod(shape) // alignment) * alignment for shape, _ in tensors.values())
    heads.append(path.read_bytes()[:-numbers])


make_gguf.write = write_head
for kind in KINDS:
    heads.clear()
    with tempfile.TemporaryDirectory() as box:
        make_mmproj.main(TEST / "models" / kind, f"{box}/text", f"{box}/mmproj")
    text, mmproj = heads
    (TEST / "fuzz/seeds/mmproj" / kind).write_bytes(struct.pack("<H", len(text)) + text + mmproj)
