# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""model_table.py SOURCE [--write]: README's table of models, as the tests that compare with goldens have it.

A cell is a target for which a test compiles a model of the family from files of that kind and compares what it computes with goldens of
another implementation. Which there are is read from the RUN lines of test/: check_golden.py says all of that itself; the program of a
golden_logits.py is one that 'heddle compile' made in the lines before. Loops of a shell are unrolled. What a CPU lacks to run a line does not count: the
table says what tests cover, wherever they run.

Prints what README.md has otherwise between its markers, exit status 1 if that is anything; --write puts the table there.
"""
import json
import pathlib
import re
import shlex
import sys

BEGIN, END = "<!-- models: begin -->", "<!-- models: end -->"
SOURCES = ["Hugging Face", "GGUF", "ONNX"]
TARGETS = ["CPU", "AArch64", "OpenCL", "CUDA"]
GGUF_WORDS = {"deepseek2": "deepseek_v2", "qwen3moe": "qwen3_moe"}  # that are no model_type
LOOP = re.compile(r"for (\w+) in ([^;]*); do ((?:(?!\bfor \w+ in ).)*?); done")


def run_lines(test):
    """The commands of a test, continued lines joined and those of a 'for' once for each word."""
    lines, defined, open_line = [], {}, False
    for line in test.read_text(errors="replace").splitlines():
        found = re.match(r"^(?:# |// )?(RUN|DEFINE|REDEFINE): ?(.*)$", line)
        if not found:
            continue
        kind, text = found.groups()
        if kind != "RUN":
            name, value = re.match(r"(?:(%{[^}]*}) =)?(.*)", text).groups()
            key = name or key
            defined[key] = ((defined[key] if not name else "") + " " + value.rstrip("\\")).strip()
            continue
        for _ in defined:
            text = re.sub(r"%{[^}]*}", lambda found: defined.get(found.group(), found.group()), text)
        if open_line:
            lines[-1] += " " + text.strip()
        else:
            lines.append(text)
        open_line = lines[-1].endswith("\\")
        lines[-1] = lines[-1].rstrip("\\").rstrip()
    for line in lines:
        while loop := LOOP.search(line):
            name, words, body = loop.groups()
            bodies = [re.sub(rf"\${name}\b|\${{{name}}}", lambda _: word, body) for word in words.split()]
            line = line[:loop.start()] + "; ".join(bodies) + line[loop.end():]
        yield from re.split(r";|&&|\|", re.sub(r"^bash -e?c '|(?<=\w)'$", "", line))


def words_of(command):
    try:
        return shlex.split(command.replace("'", " "))
    except ValueError:
        return []


def family_of(folder, known):
    """The model_type of a checkpoint, or of the one that goldens without a checkpoint are of: by golden.json, their name, or a GGUF file's word."""
    if (folder / "config.json").exists():
        return json.loads((folder / "config.json").read_text()).get("model_type")
    if (folder / "golden.json").exists():
        about = json.loads((folder / "golden.json").read_text())
        return about.get("model_type") or about.get("family")
    if folder.name in known:
        return folder.name
    file = folder.with_name(folder.name + ".gguf") if folder.is_dir() else folder
    if file.suffix != ".gguf" or not file.exists():
        return None
    found = re.search(rb"general\.architecture\x08\0\0\0(.)\0{7}", file.read_bytes(), re.S)
    word = file.read_bytes()[found.end():found.end() + found.group(1)[0]].decode()
    return GGUF_WORDS.get(word, word)


def source_of(path):
    return "ONNX" if path.endswith(".onnx") else "GGUF" if path.endswith(".gguf") else "Hugging Face"


def target_of(name, command=()):
    if any("qemu-aarch64" in word for word in command):
        return "AArch64"
    kind = name.split(":")[0]
    return {"opencl": "OpenCL", "cuda": "CUDA"}.get(kind, "AArch64" if kind == "aarch64" else "CPU")


def flag(words, name, absent):
    return next((word.split("=", 1)[1] for word in words if word.startswith(name + "=")), absent)


def covered(source):
    """(family, source, target) of every comparison."""
    known = {json.loads(file.read_text())["model_type"] for file in (source / "test/unit/data/families").glob("*/config.json")}
    for test in sorted((source / "test").rglob("*.test")):
        path_of = lambda text: pathlib.Path(text.replace("%S", str(test.parent)).replace("%source", str(source)))
        made = {}
        for command in run_lines(test):
            words = words_of(command)
            tool = next((i for i, word in enumerate(words) if word.endswith(("/check_golden.py", "/golden_logits.py"))), None)
            if "%heddle" in words and "compile" in words and "-o" in words[:-1]:
                made[words[words.index("-o") + 1]] = (words[words.index("compile") + 1], flag(words, "--target", "native"))
            texts = next((i for i, word in enumerate(words) if word.endswith("/check_gguf_texts.py")), None)
            if texts is not None:  # with the numbers of a folder whose own test has a golden
                yield family_of(path_of(words[texts + 2]), known), "GGUF", "CPU"
            if tool is None:
                continue
            given = [word for word in words[tool + 1:] if not word.startswith("--")]
            if words[tool].endswith("/check_golden.py"):
                folder, target = given[1], target_of(flag(words, "--target", "native"))
                model = flag(words, "--model", flag(words, "--file", folder))
            else:
                folder = given[0]
                program = next((word for word in given if word in made), None)
                if not program:
                    continue
                model, target = made[program][0], target_of(made[program][1], given)
            family = family_of(path_of(folder), known) or family_of(path_of(model), known)
            if family:
                yield family, source_of(model), target


def table(source):
    cells = {}
    for family, kind, target in covered(source):
        cells.setdefault(family, {}).setdefault(kind, set()).add(target)
    rows = {}
    for family, of in sorted(cells.items()):
        row = tuple(", ".join(target for target in TARGETS if target in of.get(kind, ())) or "–" for kind in SOURCES)
        rows.setdefault(row, []).append(family)
    lines = ["| Family (`model_type`) | " + " | ".join(SOURCES) + " |", "|---" * (len(SOURCES) + 1) + "|"]
    for row, families in sorted(rows.items(), key=lambda item: (item[0][1] == "–", -sum(map(len, item[0])), item[1])):
        lines.append(f"| {', '.join(families)} | {' | '.join(row)} |")
    return "\n".join(lines)


def main():
    source = pathlib.Path(sys.argv[1])
    readme = source / "README.md"
    text = readme.read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        sys.exit(f"README.md: expected one line {BEGIN} and one {END}")
    before, rest = text.split(BEGIN)
    there, after = rest.split(END)
    wanted = table(source)
    if sys.argv[2:] == ["--write"]:
        readme.write_text(f"{before}{BEGIN}\n{wanted}\n{END}{after}")
        return 0
    has, wants = there.strip().splitlines(), wanted.splitlines()
    faults = [f"README.md: no test has: {line}" for line in has if line not in wants]
    faults += [f"README.md: tests have: {line}" for line in wants if line not in has]
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
