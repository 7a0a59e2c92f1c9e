# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""family_names.py SOURCE: what tells one family from another stands in its file in frontends/families/.

Reads the names of the families, in both formats, from their rows. Prints each place in the readers and in the compiler that has such a name as a
string, and exits with 1. The tokenizers of GGUF and Hugging Face have names of their own, some of them those of families: their folder is
left out.
"""
import pathlib
import re
import sys

FOLDERS = ["bytes", "dialect", "frontends", "compiler", "runtime"]
OWN = ["frontends/families", "frontends/tokenizer"]
# An attribute of ONNX's ops, and what GGUF calls files of towers; the stage of the compiler.
HOMONYMS = {"clip": ["frontends/onnx/import/RecurrentLayers.cpp", "frontends/gguf/GgufModel.h"], "codegen": ["compiler/WriteBinary.cpp", "compiler/contract/VerifyStage.cpp"]}
# row.modelType = "llama"; describeQwen("qwen2", "qwen2", 32)
NAMES = re.compile(r'\b(?:modelType|gguf|wrapper) = "([^"]+)"|\bdescribe\w*\("([^"]+)"(?:, "([^"]+)")?')


def main():
    source = pathlib.Path(sys.argv[1])
    names, rows = set(), 0
    for path in sorted((source / "frontends/families").glob("*.cpp")):
        text = path.read_text()
        rows += len(re.findall(r"^const Family family::", text, re.MULTILINE))
        for match in NAMES.finditer(text):
            names |= {name for name in match.groups() if name}
    listed = (source / "frontends/families/Families.def").read_text().count("\nHEDDLE_FAMILY(")
    if not rows or rows != listed or len(names) < rows:
        sys.exit(f"{source}: {rows} rows, {listed} of them listed, {len(names)} names")
    literal = re.compile('"(' + "|".join(map(re.escape, sorted(names))) + ')"')
    found = False
    for folder in FOLDERS:
        for path in sorted((source / folder).rglob("*")):
            file = path.relative_to(source)
            if path.suffix not in (".h", ".cpp", ".c") or str(file.parent) in OWN:
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = literal.search(line.split("//")[0])
                if match and str(file) not in HOMONYMS.get(match.group(1), []):
                    print(f"{file}:{number}: '{match.group(1)}' names a family outside of its file")
                    found = True
    sys.exit(found)


main()
