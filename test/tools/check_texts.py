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


def main():
    binary, folder, box = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    golden = json.loads((folder / "golden.json").read_text())
    texts = golden.pop("texts")
    (what, wanted), = golden.items()
    command = {"embeddings": "--embed", "labels": "--classify", "tokens": "--classify-tokens"}[what]
    given = run(binary, command, "--threads", "1", *texts)
    faults = []
    answers = [json.loads(line) for line in given.splitlines()]
    values = answers if what == "embeddings" else [answer[what] for answer in answers]
    if not close(values, wanted):
        faults.append(f"{command}: {json.dumps(values)[:400]}, expected {json.dumps(wanted)[:400]}")
    if run(binary, command, "--threads", "3", text="".join(text + "\n" for text in texts)) != given:
        faults.append(f"{command}: lines of standard input give something else")
    if "".join(run(binary, command, text) for text in texts) != given:
        faults.append(f"{command}: texts alone give something else")
    if what == "embeddings":
        run(binary, command, "--npy", str(box / "out.npy"), *texts)
        if read_npy(box / "out.npy") != [[struct.unpack("f", struct.pack("f", x))[0] for x in row] for row in values]:
            faults.append("--npy: other numbers than in JSON")
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
