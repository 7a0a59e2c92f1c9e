# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""stage_contracts.py SOURCE [--write]: the pages that list ops and contracts say what the code says.

compiler/README.md shows the table of compiler/contract/VerifyStage.cpp; dialect/README.md names every file of dialect/ and, beside each .td file,
every op, attribute and type of it and no other. Prints what differs and exits with 1; with --write the table is made to agree.
"""
import pathlib
import re
import sys

ROW = re.compile(r'\{Stage::(\w+), Place::(\w+), "([^"]*)",\s+"([^"]*)"\}')
BEGIN, END = "<!-- contracts: written by test/tools/stage_contracts.py -->\n", "<!-- end of contracts -->\n"
PLACES = {"Anywhere": "", "Graph": " (a graph)", "Kernel": " (a kernel's body)", "Host": " (host code)"}
GROUPS = {"weight": "`weight`", "model": "model ops", "cache": "cache ops", "append": "`kv_append`", "kernel": "kernel ops",
          "flash": "`flash_attention`"}
MNEMONICS = [re.compile(r': Heddle_\w*Op<"(\w+)"'), re.compile(r': Heddle_(?:Enum)?Attr<.*?, "(\w+)">', re.DOTALL),
             re.compile(r'TypeDef<.*?let mnemonic = "(\w+)"', re.DOTALL)]


def contracts(source):
    lines = ["| At the end of | Dialects | Ops of ours |", "|---|---|---|"]
    for stage, place, dialects, groups in ROW.findall((source / "compiler/contract/VerifyStage.cpp").read_text()):
        ops = ", ".join(GROUPS[group] for group in groups.split()) or "none"
        lines.append(f"| {stage.lower()}{PLACES[place]} | `{dialects}` | {ops} |")
    return "\n".join(lines) + "\n"


def dialect_faults(source):
    folder = source / "dialect"
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (.*) \|$", (folder / "README.md").read_text(), re.MULTILINE))
    for name in rows:
        if not (folder / name).exists():
            yield f"dialect/README.md: there is no {name}"
    for path in sorted(folder.glob("*.td")):
        text = re.sub(r"^class .*?^(?=def |class |#endif)", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
        defined = {name for pattern in MNEMONICS for name in pattern.findall(text)}
        listed = {name for words in re.findall(r"`([a-z_][\w ]*)`", rows.get(path.name, "")) for name in words.split()}
        for name in sorted(defined ^ listed):
            yield f"dialect/README.md: {path.name} {'has' if name in defined else 'has no'} {name}"


def main():
    source = pathlib.Path(sys.argv[1])
    page = source / "compiler/README.md"
    text = page.read_text()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    wanted = contracts(source)
    if "--write" in sys.argv:
        page.write_text(text[:begin] + wanted + text[end:])
        text, end = page.read_text(), begin + len(wanted)
    faults = list(dialect_faults(source))
    if text[begin:end] != wanted:
        have, want = set(text[begin:end].splitlines()), set(wanted.splitlines())
        faults += [f"compiler/README.md: - {line}" for line in sorted(have - want)]
        faults += [f"compiler/README.md: + {line}" for line in sorted(want - have)]
    print(*faults, sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
