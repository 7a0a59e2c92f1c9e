# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Everything there is to know of the code for NVIDIA GPUs, on a machine that has one: correct first, then fast.

gpu.py pack BUNDLE [--targets T,…] [--models NAME,…] …  where Heddle is built: what the other machine needs, in one folder
gpu.py run BUNDLE OUT [--steps S,…]                     where the GPU is: report.json and report.md in the folder OUT

`run` needs Python, the driver, and for peers PyPI torch; no compiler, no network. Its steps, each written down as soon as it is done:

  machine    the GPU, its driver, torch; what it reads a second and multiplies in bf16, by torch's copies and products
  kernels    heddle-gpu-tests on the driver
  repeats    a part of them, each launch a thousand times, which must leave the same bits
  models     goldens of the tiny models, each target; what the compiler refuses is listed with its words
  tokens     what a token of these models asks the driver for: launches, graphs, waits, bytes
  peers      products and attention of real shapes beside torch's (cuBLAS; flash and cuDNN attention), in turns

Without a GPU all but `peers` runs on the emulated driver of test/ptx (LD_LIBRARY_PATH), a thousand times slower.
"""
import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import time

HERE = pathlib.Path(__file__).resolve().parent
TOOLS, MODELS = HERE.parent / "tools", HERE.parent / "models"

PROGRAMS = ("heddle-gpu-tests", "heddle-gpu-bench")
# Of the machine, not of the bundle: the C library, and the driver.
SYSTEM_LIBRARIES = ("linux-vdso", "ld-linux", "libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "libcuda.so")
REPEATED = "GpuMatmul.EveryTile:GpuGemv.EveryType:GpuAttention.RaggedBatchMeetsEveryPageBoundary"
REPEATS = 1000
# A test of a device compares what a step computes; generation and batches are the same code as on CPUs.
CHECKS = "forward,greedy,threads"
LINEAR = [(4096, 4096, 4096), (8192, 8192, 8192), *((rows, n, k) for rows in (512, 2048) for n, k in ((2048, 2048), (16384, 2048), (2048, 8192))), (128, 4096, 4096),
          (16, 16384, 2048)]
GEMV = [(rows, n, k, weights) for weights in ("bf16", "q8_0", "q4_0", "q4_k", "q6_k") for rows, n, k in ((1, 2048, 2048), (4, 16384, 2048), (1, 128256, 2048))]
ATTENTION = [(32, 8, 128, 0, 8192), (32, 8, 64, 0, 4096), (32, 8, 128, 32767, 1)]  # heads, KV heads, head_dim, past, rows
SPLITS = [(32, 8, 128, 32767, 1), (32, 8, 128, 4095, 1)]
ROUNDS = 20
COUNTS = ("launches", "graph_launches", "graph_kernels", "waits", "uploaded_bytes", "downloaded_bytes")


# --- pack -------------------------------------------------------------------------------------------------------------

def libraries_of(program):
    lines = subprocess.run(["ldd", program], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    found = [line.split("=>")[1].split("(")[0].strip() for line in lines if "=>" in line]
    return [path for path in found if not os.path.basename(path).startswith(SYSTEM_LIBRARIES)]


def copy_stripped(source, folder):
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / os.path.basename(source)
    if not target.exists():
        shutil.copy(os.path.realpath(source), target)
        subprocess.run(["strip", "--strip-unneeded", target], check=False)


def golden_models(names):
    """Those of `names` with goldens, all decoders without names; what a device cannot run, the compiler says."""
    for folder in sorted(MODELS.iterdir()):
        golden = folder / "golden.json"
        if golden.exists() and (folder.name in names if names else json.loads(golden.read_text()).get("task") == "causal-lm"):
            yield folder


def compile_goldens(heddle, folder, target, records):
    is_bf16 = json.loads((folder / "golden.json").read_text())["weights_dtype"] == "bfloat16"
    for flags in [["--precise", f"--target={target}"]] + [[f"--target={target}"]] * is_bf16:
        environment = os.environ | {"HEDDLE_RECORDS": str(records), "HEDDLE_RECORDER": str(heddle)}
        scratch = records / "scratch"
        subprocess.run([sys.executable, TOOLS / "recorded_heddle.py", "compile", folder, "-o", scratch, *flags], env=environment, stderr=subprocess.DEVNULL)
        scratch.unlink(missing_ok=True)


def pack(arguments):
    build = pathlib.Path(arguments.build)
    bundle = pathlib.Path(arguments.bundle)
    shutil.rmtree(bundle, ignore_errors=True)
    contents = bundle / "contents"
    for program in PROGRAMS if "kernels" in arguments.parts else ():
        copy_stripped(build / "bin" / program, contents / "bin")
        for library in libraries_of(build / "bin" / program):
            copy_stripped(library, contents / "lib")
    models = list(golden_models(arguments.models)) if "models" in arguments.parts else []
    for number, folder in enumerate(models):
        print(f"\r{number + 1} of {len(models)} models: {folder.name:40}", end="", file=sys.stderr, flush=True)
        target_folder = contents / "models" / folder.name
        shutil.copytree(folder, target_folder / "goldens")
        for target in arguments.targets:
            compile_goldens(build / "bin/heddle", folder, target, target_folder / target)
    print(file=sys.stderr)
    with tarfile.open(bundle / "contents.tar.xz", "w:xz", preset=arguments.preset) as archive:
        archive.add(contents, "contents")
    shutil.rmtree(contents)
    print(f"{bundle}: {(bundle / 'contents.tar.xz').stat().st_size / 2 ** 20:.1f} MiB")


# --- run --------------------------------------------------------------------------------------------------------------

class Run:
    def __init__(self, bundle, out):
        self.out = pathlib.Path(out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.contents = pathlib.Path(bundle) / "contents"
        if not self.contents.exists():
            with tarfile.open(pathlib.Path(bundle) / "contents.tar.xz") as archive:
                archive.extractall(bundle)
        self.report = {"date": datetime.date.today().isoformat()}
        self.environment = os.environ | {"HEDDLE_GPU_TESTS": "driver"}
        self.environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [str(self.contents / "lib"), os.environ.get("LD_LIBRARY_PATH")]))

    def program(self, name, *arguments, **environment):
        return dict(args=[str(self.contents / "bin" / name), *map(str, arguments)], env=self.environment | environment, text=True,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def write(self, step, found):
        self.report[step] = found
        (self.out / "report.json").write_text(json.dumps(self.report, indent=1) + "\n")
        (self.out / "report.md").write_text(markdown(self.report))

    def gtest(self, name, *arguments, **environment):
        """The tests in as many processes as there are jobs: most of their time is the compiler's and the driver's."""
        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            shards = list(pool.map(lambda shard: self.gtest_shard(name, shard, arguments, environment), range(self.jobs)))
        (self.out / f"{name}.log").write_text("".join(log for log, _, _ in shards))
        return {"tests": sum(count for _, count, _ in shards), "failed": {case: why for _, _, failed in shards for case, why in failed.items()},
                "seconds": round(time.monotonic() - start, 1)}

    def gtest_shard(self, name, shard, arguments, environment):
        """What its process printed, how many tests ran, and why those failed that did."""
        listed = self.out / f"{name}-{shard}.json"
        environment = {"GTEST_TOTAL_SHARDS": str(self.jobs), "GTEST_SHARD_INDEX": str(shard)} | environment
        done = subprocess.run(**self.program("heddle-gpu-tests", f"--gtest_output=json:{listed}", *arguments, **environment))
        if not listed.exists():
            last = " | ".join(done.stdout.strip().splitlines()[-3:])
            return done.stdout, 1, {f"heddle-gpu-tests, part {shard}": f"exit status {done.returncode}: {last}"}
        suites = json.loads(listed.read_text())["testsuites"]
        listed.unlink()
        ran = [(f"{suite['name']}.{case['name']}", case) for suite in suites for case in suite["testsuite"] if case["result"] == "COMPLETED"]
        return done.stdout, len(ran), {case: " | ".join(said["failures"][0]["failure"].splitlines()[:5])[:400] for case, said in ran if "failures" in said}

    def machine(self):
        found = {}
        found["gpu"] = gpu_name() or "no GPU: the emulated driver"
        torch = torch_on_gpu()
        if torch:
            found |= {"torch": torch.__version__, "copy_bytes_per_second": copied_per_second(torch),
                      "bf16_flops": 2 * 8192 ** 3 / best_seconds(torch, torch_linear(torch, 8192, 8192, 8192))}
        return found

    def kernels(self):
        resources = self.out / "resources.jsonl"
        resources.unlink(missing_ok=True)
        # Without a GPU its memory is this machine's, which operands of gigabytes would fill twice.
        chosen = [] if gpu_name() else ["--gtest_filter=-GpuLarge.*"]
        found = self.gtest("kernels", *chosen, HEDDLE_GPU_RESOURCES=str(resources))
        kernels = [json.loads(line) for line in resources.read_text().splitlines()] if resources.exists() else []
        by_name = {}
        for kernel in kernels:
            most = by_name.setdefault(kernel["kernel"], {"forms": 0, "registers": 0, "shared_bytes": 0, "spilling": 0})
            most["forms"] += 1
            most["spilling"] += kernel["local_bytes"] > 0
            for key in ("registers", "shared_bytes"):
                most[key] = max(most[key], kernel[key])
        return found | {"resources": by_name}

    def repeats(self):
        return self.gtest("repeats", f"--gtest_filter={REPEATED}", HEDDLE_GPU_REPEATS=str(self.count)) | {"each": self.count}

    def models(self):
        cases = [(folder, records) for folder in sorted((self.contents / "models").iterdir())
                 for records in sorted(path for path in folder.iterdir() if path.name != "goldens")]
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            answers = list(pool.map(lambda case: self.model(*case), cases))
        found = {}
        for (folder, records), answer in zip(cases, answers):
            found.setdefault(folder.name, {})[records.name] = answer
        return found

    def model(self, folder, records):
        environment = self.environment | {"HEDDLE_RECORDS": str(records)}
        done = subprocess.run([sys.executable, TOOLS / "check_golden.py", TOOLS / "recorded_heddle.py", folder / "goldens", f"--only={CHECKS}",
                               f"--target={records.name}"], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        refused = next((path.read_text().strip() for path in sorted(records.glob("*.refused"))), None)
        return f"refused: {refused.splitlines()[0].split(': ', 3)[-1]}" if refused else done.stdout.strip() or "passes"

    def tokens(self):
        """What a token of each model asks the driver for, of the first program that there is for each target."""
        found = {}
        for folder in sorted((self.contents / "models").iterdir()):
            for records in sorted(path for path in folder.iterdir() if path.name != "goldens"):
                program = next((path for path in sorted(records.iterdir()) if path.suffix != ".refused"), None)
                if not program:
                    continue
                done = subprocess.run([program, "--bench", "--json", *"--prompt 8 --depth 8 --generate 8 --rounds 1".split()],
                                      env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                counts = {"error": done.stdout.strip()[-400:]} if done.returncode else json.loads(done.stdout)["device"]["decode_step"]
                found.setdefault(folder.name, {})[records.name] = counts
        return found

    def peers(self):
        torch = torch_on_gpu()
        if not torch:
            return "no peer: torch sees no GPU"
        target = "cuda:sm_90a" if torch.cuda.get_device_capability() == (9, 0) else "cuda:sm_80"
        cases = {f"matmul {rows} {n} {k}": [("cuBLAS", torch_linear(torch, rows, n, k))] for rows, n, k in LINEAR}
        # cuBLAS has no codes: what they save it is the difference.
        cases |= {f"gemv {rows} {n} {k} {weights}": [("cuBLAS bf16", torch_linear(torch, rows, n, k))] for rows, n, k, weights in GEMV}
        cases |= {"attention " + " ".join(map(str, shape)): torch_attention(torch, *shape) for shape in ATTENTION}
        cases |= {"splits " + " ".join(map(str, shape)): torch_attention(torch, *shape) for shape in SPLITS}
        found = {}
        for case, theirs in cases.items():
            done = subprocess.run(input=case + "\n", **self.program("heddle-gpu-bench", target, ROUNDS))
            if done.returncode:
                found[case] = {"error": done.stdout.strip()[-400:]}
                continue
            ours = json.loads(done.stdout)
            found[case] = ours | {"peers": {name: 1e6 * best_seconds(torch, run) for name, run in theirs}}
            found[case]["ratio"] = min(found[case]["peers"].values()) / ours["microseconds"]
        return found


def gpu_name():
    """What nvidia-smi says of the GPU; empty where there is none."""
    return subprocess.run("nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,compute_cap --format=csv,noheader", shell=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.strip()


def torch_on_gpu():
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def best_seconds(torch, run):
    """Of ROUNDS runs after three, by events of the driver."""
    for _ in range(3):
        run()
    best = float("inf")
    for _ in range(ROUNDS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        best = min(best, begin.elapsed_time(end) / 1e3)
    return best


def copied_per_second(torch):
    source = torch.empty(2 ** 31, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.numel() / best_seconds(torch, lambda: target.copy_(source))


def torch_linear(torch, rows, n, k):
    x, w = (torch.randn(count, k, dtype=torch.bfloat16, device="cuda") for count in (rows, n))
    return lambda: torch.nn.functional.linear(x, w)


def torch_attention(torch, heads, kv_heads, head_dim, past, rows):
    """(name, run) of each implementation that takes the shape."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    draw = lambda count, tokens: torch.randn(1, count, tokens, head_dim, dtype=torch.bfloat16, device="cuda")
    q, k, v = draw(heads, rows), draw(kv_heads, past + rows), draw(kv_heads, past + rows)
    runs = []
    for name, backend in (("flash", SDPBackend.FLASH_ATTENTION), ("cuDNN", SDPBackend.CUDNN_ATTENTION)):
        def run(backend=backend):
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=past == 0, enable_gqa=True)
        try:
            run()
            runs.append((name, run))
        except RuntimeError:
            pass
    return runs


def markdown(report):
    lines = [f"{report.get('machine', {}).get('gpu', '?')}, {report['date']}."]
    for step in ("kernels", "repeats"):
        if step in report:
            found = report[step]
            lines += ["", f"{step}: {found['tests'] - len(found['failed'])} passed, {len(found['failed'])} failed."]
            lines += [f"- {name}: {why.splitlines()[0]}" for name, why in found["failed"].items()]
    for name, most in report.get("kernels", {}).get("resources", {}).items():
        lines.append(f"- `{name}`: {most['forms']} forms, at most {most['registers']} registers and {most['shared_bytes']} bytes shared; {most['spilling']} spill")
    if "models" in report:
        lines += ["", "| Model | Target | |", "|---|---|---|"]
        lines += [f"| {name} | {target} | {said.splitlines()[0]} |" for name, targets in report["models"].items() for target, said in targets.items()]
    if "tokens" in report:
        lines += ["", "| A token of | Target | Launches | Graphs | Kernels in them | Waits | Bytes up | Bytes down |", "|---|---|---|---|---|---|---|---|"]
        for name, targets in report["tokens"].items():
            for target, counts in targets.items():
                numbers = [counts.get("error", "").splitlines()[-1]] if "error" in counts else [f"{counts[key]:.4g}" for key in COUNTS]
                lines.append(f"| {name} | {target} | " + " | ".join(numbers) + " |")
    if isinstance(report.get("peers"), dict):
        lines += ["", "| Kernel | µs | TFLOP/s | GB/s | Best peer, µs | Peer ÷ ours |", "|---|---|---|---|---|---|"]
        for case, found in report["peers"].items():
            if "error" in found:
                lines.append(f"| {case} | {found['error']} | | | | |")
                continue
            name, theirs = min(found["peers"].items(), key=lambda item: item[1])
            lines.append(f"| {case} | {found['microseconds']:.1f} | {found['flops'] / found['microseconds'] / 1e6:.1f} | "
                         f"{found['bytes'] / found['microseconds'] / 1e3:.0f} | {theirs:.1f} {name} | {found['ratio']:.2f} |")
    return "\n".join(lines) + "\n"


STEPS = ("machine", "kernels", "repeats", "models", "tokens", "peers")


def run(arguments):
    here = Run(arguments.bundle, arguments.out)
    here.count, here.jobs = arguments.repeats, arguments.jobs
    for step in arguments.steps:
        start = time.monotonic()
        here.write(step, getattr(here, step)())
        print(f"{step}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    print((here.out / "report.md").read_text(), end="")


def main():
    words = lambda text: [word for word in text.split(",") if word]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    packing = commands.add_parser("pack", help="what the machine with the GPU needs")
    packing.add_argument("bundle")
    packing.add_argument("--build", default=HERE.parent.parent / "build", help="the folder of the build (build/)")
    packing.add_argument("--targets", type=words, default=["cuda:sm_80", "cuda:sm_90a"])
    packing.add_argument("--models", type=words, default=[], help="folders of test/models (all decoders)")
    packing.add_argument("--parts", type=words, default=["kernels", "models"], help="kernels,models: what of them is packed")
    packing.add_argument("--preset", type=int, default=6, help="of xz, 0 to 9: 6 takes minutes, 0 seconds and half as much room again")
    packing.set_defaults(run=pack)
    running = commands.add_parser("run", help="all steps, on the machine with the GPU")
    running.add_argument("bundle")
    running.add_argument("out")
    running.add_argument("--steps", type=words, default=list(STEPS), help=",".join(STEPS))
    running.add_argument("--repeats", type=int, default=REPEATS)
    running.add_argument("--jobs", type=int, default=max(1, min(8, os.cpu_count() // 2)), help="processes that share the GPU while nothing is timed, from 1")
    running.set_defaults(run=run)
    arguments = parser.parse_args()
    if getattr(arguments, "jobs", 1) < 1:
        sys.exit(f"gpu.py: --jobs is {arguments.jobs}, expected 1 or more")
    if unknown := set(getattr(arguments, "steps", [])) - set(STEPS):
        sys.exit(f"gpu.py: --steps: unknown {sorted(unknown)}; known: {', '.join(STEPS)}")
    arguments.run(arguments)


if __name__ == "__main__":
    main()
