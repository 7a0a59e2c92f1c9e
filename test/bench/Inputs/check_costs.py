# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_costs.py BUILD MODEL FOLDER: costs.py sees memory, bytes of code, a first token and allocations of a compiled model."""
import pathlib
import sys

sys.path[1:1] = [str(pathlib.Path(__file__).resolve().parent.parent), str(pathlib.Path(__file__).resolve().parents[2] / "tools")]
import costs

build, model, folder = map(pathlib.Path, sys.argv[1:])
compile_to = lambda out, *flags: costs.measure_command([build / "bin/heddle", "compile", model, "-o", folder / out, "--quiet", *flags])
seconds, memory = compile_to("costs")
compile_to("costs.o", "--emit=object")
compile_to("costs-apart", "--sidecar")
if not (0 < seconds and 1e6 < memory < 1e9):
    sys.exit(f"a compile took {seconds} s and {memory} bytes")
code, program, apart = (costs.loaded_bytes(folder / name) for name in ("costs.o", "costs", "costs-apart"))
if not 1e3 < code < program == apart:
    sys.exit(f"{code} bytes of code, {program} of the program, {apart} with its weights apart")
command = [folder / "costs", "--prompt-ids", "1,2,3", "--temp", "0", "--ignore-eos", "--print-ids", "--threads", "1", "-n"]
if not 0 < costs.seconds_to_output([*command, "1"]) < 60:
    sys.exit("no first token")
counter = build / "lib/heddle-count-allocations.so"
few, many = (costs.allocations([*command, count], counter) for count in ("4", "36"))
if not 0 < few <= many:
    sys.exit(f"{few} allocations for 4 tokens, {many} for 36")
if (many - few) / 32 >= 1:
    sys.exit(f"{many - few} allocations for 32 tokens")
try:
    costs.measure_command([build / "bin/heddle", "compile", folder / "missing", "-o", folder / "none"])
except RuntimeError as said:
    sys.exit("missing" not in str(said))
sys.exit("a command that failed was measured")
