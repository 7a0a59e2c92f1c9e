# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""refuse_schedules.py FILE FOLDER EXPECT_REFUSAL COMMAND…: a good file of schedules, changed in one place, is refused in one line."""
import json
import pathlib
import subprocess
import sys

MATMUL, ATTENTION = 0, 1


def at(*path):
    """A change: sets (or, without a value, removes) what is at `path` of the file."""

    def change(value=None):
        def apply(file):
            *folders, last = path
            for key in folders:
                file = file[key]
            if value is None:
                del file[last]
            else:
                file[last] = value

        return apply

    return change


def schedule(entry, body):
    return at("entries", entry, "schedule")(f"#heddle.schedule<{body}>")


CASES = [
    (at("schema")("heddle-schedules-9"), "schema is 'heddle-schedules-9', expected 'heddle-schedules-1'"),
    (at("schema")(), "schema is missing, expected"),
    (at("colour")("red"), "the file: 'colour' is none of schema, cpu, target, entries"),
    (at("target")("x86"), "target: an object with name, lanes, registers, features is expected"),
    (at("target", "features")(3), "target: lanes and registers, two numbers, and features, a list of names, are expected"),
    (at("entries")({}), "entries: a list is expected"),
    (at("entries", 1)(7), "entry 2: the entry: an object with match, schedule, evidence is expected"),
    (at("entries", 0, "speed")(1), "entry 1: the entry: 'speed' is none of match, schedule, evidence"),
    (at("entries", 0, "evidence")(1), "entry 1: evidence: a string is expected"),
    (at("entries", 0, "match", "kernel")("matmul"), "entry 1: match: kernel 'matmul' is none of packed_matmul, expert_matmul, online_attention"),
    (at("entries", 0, "match", "group")(2), "entry 1: match: 'group' is none of kernel, format, n, k, input"),
    (at("entries", 0, "match", "format")("q4_9"), "entry 1: match: format 'q4_9' is no packed layout"),
    (at("entries", 0, "match", "input")("f64"), "entry 1: match: input 'f64' is none of f32, bf16, int8, int16, int16_bf16"),
    (at("entries", 0, "match", "k")("64"), "entry 1: match: k .* a positive number is expected"),
    (at("entries", 0, "match", "k")(-1), "entry 1: match: k -1: a positive number is expected"),
    (at("entries", 1, "match", "head_dim")(), "entry 2: match: online_attention needs head_dim"),
    (at("entries", 0, "schedule")(), "entry 1: schedule: a string"),
    (at("entries", 0, "schedule")("64 : i64"), "entry 1: schedule: #heddle.schedule<.*> is expected"),
    (at("entries", 0, "schedule")("#heddle.schedule<tiles = ["), "entry 1: schedule: unbalanced '.' character"),
    (schedule(MATMUL, "tiles = [], kBlock = 64> 3"), "entry 1: schedule: .*trailing"),
    (schedule(MATMUL, "tiles = [], kBlock = -64"), "entry 1: schedule: a number of a schedule .-64. must not be negative"),
    (schedule(MATMUL, "tiles = [], kBlock = 48"), "entry 1: schedule: kBlock .48. must be a multiple of 32, 32 to 1024"),
    (schedule(MATMUL, "tiles = [], rowBlock = 1"), "entry 1: schedule: rowBlock .1. must be 8 to 2048"),
    (schedule(MATMUL, "tiles = [], rowBlock = 2048"), "entry 1: schedule: kBlock .128., rowBlock .2048., .* bytes of stack, a kernel may take"),
    (schedule(MATMUL, "tiles = [], splitKv = 512, blockKv = 64"), "entry 1: schedule: blockKv and splitKv are the model's"),
    (schedule(MATMUL, "tiles = [], scratchBytes = 4096"), "entry 1: schedule: the kernel has no scratchBytes on this target"),
    (schedule(MATMUL, "tiles = [<role = rows, rows = [1], columns = 16>]"), "entry 1: schedule: the kernel has no tile rows"),
    (schedule(MATMUL, "tiles = [<role = int8, rows = [1], columns = 16>, <role = int8, rows = [1], columns = 16>]"), "entry 1: schedule: tile int8 is there twice"),
    (schedule(MATMUL, "tiles = [<role = many_rows, rows = [4], columns = 16>]"), "entry 1: schedule: tile many_rows: rows must fall to 1"),
    (schedule(MATMUL, "tiles = [<role = many_rows, rows = [33, 1], columns = 16>]"), "entry 1: schedule: tile many_rows: rows .33. must be 1 to 32"),
    (schedule(MATMUL, "tiles = [<role = many_rows, rows = [4, 1], columns = 24>]"), "entry 1: schedule: tile many_rows: columns .24. must be a multiple of 16, 16 to 128"),
    (schedule(MATMUL, "tiles = [<role = many_rows, rows = [32, 1], columns = 64>]"), "entry 1: schedule: tile many_rows: rows x panels of 16 columns .128. must be 1 to 64"),
    (schedule(MATMUL, "tiles = [<role = many_rows, rows = [4, 1], columns = 16, maxRows = 4>]"), "entry 1: schedule: tile many_rows has no maxRows"),
    (schedule(MATMUL, "tiles = [<role = many_rows, rows = [4, 1], columns = 16, k = 4>]"), "entry 1: schedule: tile many_rows has no k"),
    (schedule(MATMUL, "tiles = [<role = many_rows, rows = [4, 1], columns = 16, warps = [1, 2]>]"), "entry 1: schedule: tile many_rows: warps and stages are of GPUs"),
    (schedule(MATMUL, "tiles = [<role = tile_unit, rows = [16], columns = 32, maxRows = 512, k = 512>]"), "entry 1: schedule: tile tile_unit: rows and columns are those of the hardware"),
    (schedule(MATMUL, "tiles = [<role = tile_unit, rows = [32, 16], columns = 32, maxRows = 512, k = 256>]"), "entry 1: schedule: tile tile_unit: k says which columns are added up first, which no schedule decides: k = 512"),
    (schedule(ATTENTION, "tiles = [], kBlock = 64"), "entry 2: schedule: the kernel has no kBlock"),
    (schedule(ATTENTION, "tiles = [<role = rows, rows = [48], columns = 8>]"), "entry 2: schedule: tile rows: columns .8. must be head_dim .16."),
    (schedule(ATTENTION, "tiles = [<role = rows, rows = [1000], columns = 16>]"), "entry 2: schedule: tile rows: rows .1000. must be 1 to 384"),
    (schedule(ATTENTION, "tiles = [<role = registers, rows = [6, 1], columns = 16>]"), "entry 2: schedule: tile registers: one number of rows is expected"),
    (schedule(ATTENTION, "tiles = [<role = registers, rows = [6], columns = 24>]"), "entry 2: schedule: tile registers: columns .24. must be a divisor of 64"),
    (schedule(ATTENTION, "tiles = [<role = registers, rows = [6], columns = 16, k = 2>]"), "entry 2: schedule: tile registers: k says what is multiplied"),
]


def main():
    good, folder, expect, *command = sys.argv[1:]
    folder = pathlib.Path(folder)
    folder.mkdir()
    bad = folder / "bad.json"
    texts = [("{", "bad.json: not valid JSON: byte 1"), ('{"schema": 1, "schema": 1}', "bad.json: .*schema")]
    for change, pattern in CASES:
        file = json.loads(pathlib.Path(good).read_text())
        change(file)
        texts.append((json.dumps(file), "bad.json: " + pattern))
    failed = 0
    for text, pattern in texts:
        bad.write_text(text)
        out = str(folder / "out")
        command_line = [sys.executable, expect, out, pattern, *command, "-o", out, f"--schedules={bad}"]
        done = subprocess.run(command_line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            failed += 1
            print(f"{pattern}: {done.stdout}")
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
