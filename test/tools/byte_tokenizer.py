# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""byte_tokenizer.py FOLDER [PATTERN]: writes vocab.json and merges.txt of a byte-level tokenizer whose token of byte b is b; with a pattern of words,
tokenizer.json.

Bytes are spelled as GPT-2 spells them: printable ones as they are, the others as letters from U+0100 on.
"""
import json
import pathlib
import sys


def main():
    folder = pathlib.Path(sys.argv[1])
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    spelled = {byte: chr(byte) for byte in printable} | {byte: chr(0x100 + i) for i, byte in enumerate(others)}
    vocabulary = {spelled[byte]: byte for byte in range(256)}
    if len(sys.argv) > 2:
        split = {"type": "Split", "pattern": {"Regex": sys.argv[2]}, "behavior": "Isolated", "invert": False}
        spell = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
        (folder / "tokenizer.json").write_text(json.dumps({
            "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "post_processor": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, spell]}, "decoder": spell,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "vocab": vocabulary, "merges": []}}))
        return
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\n")


main()
