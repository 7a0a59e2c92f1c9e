# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_parts.py PROGRAM PART,…: the program holds these parts of the runtime (runtime/README.md, "Parts") and no others.
check_parts.py --at-most BYTES PROGRAM OBJECT: sections that are loaded of the program have at most so many bytes more than the model's object.

A part is known by the symbols that PARTS names for it.
"""
import re
import sys

import elf

PARTS = {
    "regex": r"^pcre2_match_8$",
    "unicode": r"^utf8proc_",
    "devices": r"OpenClDevice|CudaDevice|^_ZN6heddle10DeviceStep6createE",
    "encoder": r"^_ZN6heddle7Encoder(3run|8allocate|7compute)E",
    "given": r"^_ZN6heddle9GivenRows3addE",
    "speech": r"LogMel|WavFile|runTranscribe",
    "generating": r"runGenerate|searchBeams",
    "chat": r"TemplateEvaluator|TemplateParser|runChat",
    "images": r"runSimilarity|runClassifyImages",
    "pixels": r"heddle_decode_image|stbi_|computePixelValues",
    "texts": r"runFillMask|runAnswer|runRerank|runClassifyTokens",
    "encoding": r"runEncodeBench",
    "graphs": r"runGraphBench",
    "attention": r"runAttentionMap|AttentionRecorder|heddle_attention_page",
    "sessions": r"^_ZN6heddle7Session(8allocate|9runChunks|7compute)E",
    "functions": r"GraphRunner",
}


def main():
    if sys.argv[1] == "--at-most":
        most, program, model = int(sys.argv[2]), *(elf.Elf(path).loaded_bytes() for path in sys.argv[3:])
        if not 50000 < program - model <= most:
            sys.exit(f"{program - model} bytes of runtime, expected at most {most}")
        return
    names = [symbol.name for symbol in elf.Elf(sys.argv[1]).symbols(elf.SHT_SYMTAB)]
    expected = set(sys.argv[2].split(","))
    if expected - set(PARTS):
        sys.exit(f"unknown: {expected - set(PARTS)}")
    for part, pattern in PARTS.items():
        found = [name for name in names if re.search(pattern, name)]
        if bool(found) != (part in expected):
            sys.exit(f"{part}: " + (f"is there, with {', '.join(found[:5])}" if found else "is not there"))


main()
