# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Speed and memory of a compiled ONNX graph beside onnxruntime (PyPI onnxruntime) on the same file and the same tensors.

compare_onnxruntime.py BINARY MODEL.onnx [--dims batch=8,sequence=128] [--threads 1,2] [--rounds 5] [--json FILE]

BINARY is `heddle compile MODEL.onnx -o BINARY`. Dimensions that the file names and --dims does not are 1; integers are drawn below 100, masks are
ones. The two take turns; of each the best round counts. Memory is what a run takes beside the loaded model: ours from BIN --bench (what the arena holds
at most), onnxruntime's from its process (the most resident bytes while it ran, less those before, heap trimmed).
"""
import argparse
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, str(pathlib.Path(__file__).parent.parent / "tools"))


# Of each, before the other's turn. Of three, our threads, which are new each time, still shared a core.
RUNS = 20


def resident_bytes():
    """(now, most since the last reset) of this process."""
    lines = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
    return tuple(1024 * int(lines[key].split()[0]) for key in ("VmRSS", "VmHWM"))


def draw_inputs(session, dims):
    """{name: array} for the session's inputs, the same for every process."""
    import numpy
    random, inputs = numpy.random.default_rng(1), {}
    for value in session.get_inputs():
        shape = [size if isinstance(size, int) else dims.get(size, 1) for size in value.shape]
        if "float" in value.type:
            inputs[value.name] = random.standard_normal(shape).astype(numpy.float32)
        elif "mask" in value.name:
            inputs[value.name] = numpy.ones(shape, numpy.int64)
        else:
            inputs[value.name] = random.integers(0, 100 if "type" not in value.name else 2, shape)
    return inputs


def serve_peer(options):
    """Writes the inputs, then answers one round per line on stdin: {"seconds": …, "peak_bytes": …}."""
    import onnxruntime
    import safetensors
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = int(options.threads)
    session = onnxruntime.InferenceSession(options.peer, settings, providers=["CPUExecutionProvider"])
    inputs = draw_inputs(session, options.dims)
    safetensors.save(options.inputs, {name: ("F32" if value.dtype == "float32" else "I64", list(value.shape), value.ravel().tolist())
                                      for name, value in inputs.items()})
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    before = resident_bytes()[0]
    print("ready", flush=True)
    for _ in sys.stdin:
        started = time.perf_counter()
        session.run(None, inputs)
        print(json.dumps({"seconds": time.perf_counter() - started, "peak_bytes": resident_bytes()[1] - before}), flush=True)


def compare(options, threads, box):
    """The best rounds of both with this number of threads."""
    inputs = f"{box}/inputs-{threads}.safetensors"
    peer = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--peer", options.model, "--inputs", inputs, "--threads", str(threads),
                             "--dims", ",".join(f"{name}={size}" for name, size in options.dims.items())],
                            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if peer.stdout.readline().strip() != "ready":
        sys.exit("compare_onnxruntime.py: onnxruntime does not run this file")
    ours, theirs = [], []
    for _ in range(options.rounds):
        time.sleep(1)  # onnxruntime's threads spin for a while after a run, on the cores that ours would have
        command = [os.path.abspath(options.binary), "--bench", "--input", inputs, "--rounds", str(RUNS), "--threads",
                   str(threads), "--json"]
        ours.append(json.loads(subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout))
        for _ in range(RUNS):
            print(file=peer.stdin, flush=True)
            theirs.append(json.loads(peer.stdout.readline()))
    peer.stdin.close()
    peer.wait()
    best = lambda rounds: {"seconds": min(r["seconds"] for r in rounds), "peak_bytes": max(r["peak_bytes"] for r in rounds)}
    return {"threads": threads, "ours": best(ours), "onnxruntime": best(theirs)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", nargs="?")
    parser.add_argument("model", nargs="?")
    parser.add_argument("--dims", default="", type=lambda text: {n: int(s) for n, s in (d.split("=") for d in text.split(",") if d)})
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    parser.add_argument("--inputs", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        return serve_peer(options)
    if not options.model:
        parser.error("expected a binary and a model")
    with tempfile.TemporaryDirectory() as box:
        results = [compare(options, int(threads), box) for threads in options.threads.split(",")]
    for result in results:
        ours, theirs = result["ours"], result["onnxruntime"]
        print(f"{result['threads']} threads: {1e3 * ours['seconds']:.1f} ms, onnxruntime {1e3 * theirs['seconds']:.1f} ms, "
              f"ratio {theirs['seconds'] / ours['seconds']:.2f}; activations {ours['peak_bytes'] / 1e6:.1f} MB, "
              f"onnxruntime {theirs['peak_bytes'] / 1e6:.1f} MB, ratio {ours['peak_bytes'] / theirs['peak_bytes']:.2f}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results) + "\n")


main()
