# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""passes_on_stages.py SOURCE HEDDLE HEDDLE_OPT FOLDER MODEL...: runs every pass of ours on each model as every stage leaves it.

On a module that keeps the contract of the stage that a pass of a Passes.td is for, it may say what it likes, but it must not die. On any
other it leaves a module that parses again, or fails in words of its own: never by a signal, nor by an op of its making that the verifier
refuses. On buffers, which passes up to bufferization know nothing of, those that are for another stage say which. FOLDER takes the modules.
"""
import pathlib
import re
import subprocess
import sys

source, heddle, heddle_opt, folder, *models = sys.argv[1:]
PASS = re.compile(r'^def \w+ : \w*Pass<"(heddle-[\w-]+)", "[\w:]+"(?:, "(\w+)")?>', re.MULTILINE)
BAD_OP = re.compile(r"error: '[\w.]+' op |redefinition of symbol")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


# A graph that optimize finds nothing to do in is behind it before it has run.
def is_behind(module, stage):
    return run(heddle_opt, str(module), f"--heddle-verify-stage={stage}", "-o", f"{module}.behind").returncode == 0


def fault_of(name, after, module, out):
    stage = module.stem.split("-")[1]
    done = run(heddle_opt, str(module), f"--{name}", "-o", str(out))
    refusal = f"error: '{name}' needs a module after stage {after}"
    if stage == "schedule" and after not in ("", "schedule") and refusal not in done.stderr:
        return f"does not say that it is for modules after stage {after}: {done.stderr.strip()[:300]}"
    if done.returncode == 0:
        again = run(heddle_opt, str(out), "-o", f"{out}.again")
        return "" if again.returncode == 0 else f"leaves what does not parse: {again.stderr.strip()[:300]}"
    if done.returncode != 1 or "error: " not in done.stderr:
        return f"ends with exit code {done.returncode}: {done.stderr.strip()[:300]}"
    if refusal not in done.stderr and BAD_OP.search(done.stderr) and not is_behind(module, after):
        return f"makes an invalid op: {done.stderr.strip()[:300]}"
    return ""


passes = [(name, after.lower()) for page in sorted(pathlib.Path(source).glob("compiler/*/Passes.td"))
          for name, after in PASS.findall(page.read_text())]
faults, modules = [], 0
for i, model in enumerate(models):
    stages = pathlib.Path(folder) / str(i)
    stages.mkdir(parents=True, exist_ok=True)
    done = run(heddle, "compile", model, "--quiet", f"--dump-stages={stages}", "--stop-after=schedule", "-o", f"{stages}/out")
    if done.returncode:
        sys.exit(f"{model}: {done.stderr}")
    for module in sorted(stages.glob("?-*.mlir")):
        modules += 1
        for name, after in passes:
            if fault := fault_of(name, after, module, stages / "out"):
                faults.append(f"{name} on {module.name} of {model}: {fault}")
print(*faults, sep="\n")
print(f"{len(passes)} passes on {modules} modules, {len(faults)} faults")
sys.exit(bool(faults) or not passes or not modules)
