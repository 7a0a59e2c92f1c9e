# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""byte_tokenizer.py FOLDER: writes vocab.json and merges.txt of a byte-level tokenizer whose token of byte b is b.

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
    (folder / "vocab.json").write_text(json.dumps({spelled[byte]: byte for byte in range(256)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")


main()
