# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Speed of a compiled model beside llama.cpp (PyPI llama-cpp-python) on the same GGUF file.

compare_llama.py BINARY MODEL.gguf [--threads 2] [--prompt 512] [--generate 64] [--rounds 5] [--json FILE]

The two take turns, so that both meet the same machine; of each the best round counts, since everything that disturbs makes
slower. Without llama-cpp-python only our figures are printed. llama.cpp runs in a process of its own, as `peer` below.
"""
import argparse
import json
import os
import subprocess
import sys
import time

MEASURES = ("prefill", "decode")


def measure_ours(options):
    """Tokens per second of one round: {"prefill": …, "decode": …}."""
    command = [options.binary, "--bench", "--prompt", str(options.prompt), "--generate", str(options.generate), "--rounds", "1",
               "--threads", str(options.threads), "--json"]
    answer = json.loads(subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout)
    return {name: float(answer[name]) for name in MEASURES}


def start_peer(options):
    """llama.cpp with the model loaded, waiting for lines; None where it is not installed."""
    command = [options.python, os.path.abspath(__file__), "--peer", options.model, "--threads", str(options.threads),
               "--prompt", str(options.prompt), "--generate", str(options.generate)]
    process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if process.stdout.readline().strip() == "ready":
        return process
    process.wait()
    return None


def measure_peer(process):
    process.stdin.write("\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def serve_peer(options):
    """One round per line on stdin; answers in JSON. The ids are arbitrary: speed does not depend on them."""
    try:
        import llama_cpp
    except ImportError:
        return 1
    model = llama_cpp.Llama(options.peer, n_ctx=options.prompt + options.generate + 8, n_threads=options.threads,
                            n_threads_batch=options.threads, n_batch=512, verbose=False)
    prompt = [1000 + 7 * i % 20000 for i in range(options.prompt)]
    print("ready", flush=True)
    for _ in sys.stdin:
        model.reset()
        started = time.perf_counter()
        model.eval(prompt)
        middle = time.perf_counter()
        for i in range(options.generate):
            model.eval([2000 + i])
        ended = time.perf_counter()
        print(json.dumps({"prefill": options.prompt / (middle - started), "decode": options.generate / (ended - middle)}),
              flush=True)
    return 0


def compare(options):
    peer = start_peer(options)
    best = {"heddle": dict.fromkeys(MEASURES, 0.0), "llama.cpp": dict.fromkeys(MEASURES, 0.0)}
    for _ in range(options.rounds):
        rounds = {"heddle": measure_ours(options)}
        if peer:
            rounds["llama.cpp"] = measure_peer(peer)
        for name, result in rounds.items():
            best[name] = {measure: max(best[name][measure], result[measure]) for measure in MEASURES}
    report = {"threads": options.threads, "prompt": options.prompt, "generate": options.generate, "rounds": options.rounds,
              "heddle": best["heddle"]}
    if peer:
        peer.stdin.close()
        peer.wait()
        report["llama.cpp"] = best["llama.cpp"]
        report["ratio"] = {measure: best["heddle"][measure] / best["llama.cpp"][measure] for measure in MEASURES}
    return report


def show(report):
    for measure in MEASURES:
        line = f"{measure:>8}: heddle {report['heddle'][measure]:9.1f} tokens/s"
        if "ratio" in report:
            line += f", llama.cpp {report['llama.cpp'][measure]:9.1f}, ratio {report['ratio'][measure]:.2f}"
        print(line)
    if "ratio" not in report:
        print("llama.cpp was not measured: install llama-cpp-python, or name an interpreter that has it with --python")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", nargs="?", help="a compiled model")
    parser.add_argument("model", nargs="?", help="the GGUF file that it was compiled from")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--generate", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--python", default=sys.executable, help="interpreter with llama-cpp-python")
    parser.add_argument("--json", metavar="FILE", help="write the report there as well")
    parser.add_argument("--peer", metavar="MODEL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        return serve_peer(options)
    if not options.model:
        parser.error("BINARY and MODEL are needed")
    report = compare(options)
    show(report)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report, file, indent=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
