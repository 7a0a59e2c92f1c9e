# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""passes_on_stages.py SOURCE HEDDLE HEDDLE_OPT FOLDER MODEL...: runs every pass of ours on each model as every stage leaves it.

On a module that keeps the contract of the stage that a pass of a Passes.td is for, it may say what it likes, but it must not die. On any
other it leaves a module that parses again, or fails in words of its own: never by a signal, nor by an op of its making that the verifier
refuses. On buffers, which passes up to bufferization know nothing of, those that are for another stage say which. FOLDER takes the modules.

A process takes a pass through all modules, which stand one behind the other in a file. Where it says less of one of them than alone, or dies, they are
taken one by one.
"""
import bisect
import functools
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
@functools.lru_cache(maxsize=None)
def is_behind(module, stage):
    return run(heddle_opt, str(module), f"--heddle-verify-stage={stage}", "-o", f"{module}.behind").returncode == 0


def fault_of(name, after, module, code, said, reparses):
    """What is wrong with the exit code of a pass on a module and with what it said; `reparses()`: what is said of what it left."""
    stage = module.stem.split("-")[1]
    refusal = f"error: '{name}' needs a module after stage {after}"
    if stage == "schedule" and after not in ("", "schedule") and refusal not in said:
        return f"does not say that it is for modules after stage {after}: {said.strip()[:300]}"
    if code == 0:
        again = reparses()
        return f"leaves what does not parse: {again.strip()[:300]}" if again else ""
    if code != 1 or "error: " not in said:
        return f"ends with exit code {code}: {said.strip()[:300]}"
    if refusal not in said and BAD_OP.search(said) and not is_behind(module, after):
        return f"makes an invalid op: {said.strip()[:300]}"
    return ""


def fault_alone(name, after, module, out):
    done = run(heddle_opt, str(module), f"--{name}", "-o", str(out))

    def reparses():
        again = run(heddle_opt, str(out), "-o", f"{out}.again")
        return again.stderr or "nothing is said" if again.returncode else ""
    return fault_of(name, after, module, done.returncode, done.stderr, reparses)


class Joined:
    """Modules in one file."""
    SPLIT = "\n// -----\n"

    def __init__(self, modules, path):
        texts = [module.read_text() for module in modules]
        self.modules, self.path = modules, path
        self.starts = [1]  # lines
        for text in texts[:-1]:
            self.starts.append(self.starts[-1] + (text + self.SPLIT).count("\n"))
        path.write_text(self.SPLIT.join(texts))

    def faults(self, name, after):
        done = run(heddle_opt, str(self.path), "--split-input-file", "--mlir-print-op-on-diagnostic=false", f"--{name}", "-o", "-")
        left = done.stdout.split(self.SPLIT.strip())
        said = [""] * len(self.modules)
        for line, text in re.findall(rf"^{re.escape(str(self.path))}:(\d+):\d+: (error: .*)$", done.stderr, re.MULTILINE):
            said[bisect.bisect_right(self.starts, int(line)) - 1] += text + "\n"
        # An error at another place may be of any of them, which are then run alone.
        whole = done.returncode in (0, 1) and len(left) == len(said) and done.stderr.count(" error: ") == sum(text.count("error: ") for text in said)
        if whole:
            again = self.path.with_suffix(".again")
            again.write_text(self.SPLIT.join(left))
            whole = run(heddle_opt, str(again), "--split-input-file", "-o", "/dev/null").returncode == 0
        for i, module in enumerate(self.modules):
            failed = whole and not left[i].strip()
            if not whole or (failed and not said[i]):
                fault = fault_alone(name, after, module, self.path.with_suffix(".out"))
            else:
                fault = fault_of(name, after, module, int(failed), said[i], lambda: "")
            if fault:
                yield module, fault


passes = [(name, after.lower()) for page in sorted(pathlib.Path(source).glob("compiler/*/Passes.td"))
          for name, after in PASS.findall(page.read_text())]
faults, modules = [], []
for i, model in enumerate(models):
    stages = pathlib.Path(folder) / str(i)
    stages.mkdir(parents=True, exist_ok=True)
    done = run(heddle, "compile", model, "--quiet", f"--dump-stages={stages}", "--stop-after=schedule", "-o", f"{stages}/out")
    if done.returncode:
        sys.exit(f"{model}: {done.stderr}")
    modules += sorted(stages.glob("?-*.mlir"))
joined = Joined(modules, pathlib.Path(folder) / "all.mlir")
for name, after in passes:
    faults += [f"{name} on {module.name} of {models[int(module.parent.name)]}: {fault}" for module, fault in joined.faults(name, after)]
print(*faults, sep="\n")
print(f"{len(passes)} passes on {len(modules)} modules, {len(faults)} faults")
sys.exit(bool(faults) or not passes or not modules)
