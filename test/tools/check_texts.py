# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_texts.py BIN FOLDER BOX: what BIN makes of texts is what FOLDER/golden.json says (make_text_golden.py wrote it).

The texts as arguments and as lines of standard input, all at once and one by one, by one thread and by three: the same bytes. Embeddings also
as an array of NumPy. Prints one line per broken promise; exit status 1 if there is any.
"""
import json
import pathlib
import struct
import subprocess
import sys

LIMIT = 1e-5


def run(binary, *words, text=None):
    done = subprocess.run([binary, *words], input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def close(got, want):
    """Whether two values of JSON are equal but for the last digits of their numbers."""
    if isinstance(want, float):
        return isinstance(got, (int, float)) and abs(got - want) <= LIMIT
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(map(close, got, want))
    if isinstance(want, dict):
        return isinstance(got, dict) and got.keys() == want.keys() and all(close(got[key], want[key]) for key in want)
    return got == want


def read_npy(path):
    data = path.read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00" and struct.unpack("<H", data[8:10])[0] % 64 == 54
    header = eval(data[10:10 + struct.unpack("<H", data[8:10])[0]], {"__builtins__": {}})
    assert header["descr"] == "<f4" and not header["fortran_order"]
    rows, width = header["shape"]
    numbers = struct.unpack(f"<{rows * width}f", data[-4 * rows * width:])
    return [list(numbers[row * width:(row + 1) * width]) for row in range(rows)]


def check_embeddings(binary, golden, box):
    texts, faults = golden["texts"], []
    given = run(binary, "--embed", "--threads", "1", *texts)
    values = [json.loads(line) for line in given.splitlines()]
    if not close(values, golden["embeddings"]):
        faults.append(f"--embed: {json.dumps(values)[:400]}, expected {json.dumps(golden['embeddings'])[:400]}")
    if run(binary, "--embed", "--threads", "3", text="".join(text + "\n" for text in texts)) != given:
        faults.append("--embed: lines of standard input give something else")
    if "".join(run(binary, "--embed", text) for text in texts) != given:
        faults.append("--embed: texts alone give something else")
    run(binary, "--embed", "--npy", str(box / "out.npy"), *texts)
    if read_npy(box / "out.npy") != [[struct.unpack("f", struct.pack("f", x))[0] for x in row] for row in values]:
        faults.append("--npy: other numbers than in JSON")
    return faults


def check_case(binary, command, texts, answers):
    """A text is a string, or two that belong together. The first text of --rerank belongs to all others."""
    words = lambda text: [text] if isinstance(text, str) else \
        ["--question", text[0], "--context", text[1]] if command[0] == "--answer" else text
    lines = lambda texts: "".join((text if isinstance(text, str) else "\t".join(text)) + "\n" for text in texts)
    faults, name = [], " ".join(command)
    if command[0] == "--rerank":
        given = run(binary, *command, "--json", "--threads", "1", *texts)
        others = {"lines of standard input": run(binary, *command, "--json", "--threads", "3", texts[0], text=lines(texts[1:]))}
    else:
        given = run(binary, *command, "--json", "--threads", "3", text=lines(texts))
        others = {"texts alone": "".join(run(binary, *command, "--json", "--threads", "1", *words(text)) for text in texts)}
    if command[0] not in ("--rerank", "--answer"):
        others["arguments"] = run(binary, *command, "--json", *(word for text in texts for word in words(text)))
    for what, other in others.items():
        if other != given:
            faults.append(f"{name}: {what} give something else")
    found = [json.loads(line) for line in given.splitlines()]
    for answer in found:
        del answer["schema"]
    if len(found) != len(answers):
        faults.append(f"{name}: {len(found)} lines, expected {len(answers)}")
    for text, one, wanted in zip(texts, found, answers):
        if not close(one, wanted):
            faults.append(f"{name}: {text}: {json.dumps(one)[:600]}, expected {json.dumps(wanted)[:600]}")
    return faults


def main():
    binary, folder, box = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    golden = json.loads((folder / "golden.json").read_text())
    faults = check_embeddings(binary, golden, box) if "embeddings" in golden else []
    for case in golden.get("cases", []):
        faults += check_case(binary, **case)
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
