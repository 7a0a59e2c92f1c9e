# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Speed of compiled models beside the limits of the machine and beside other engines, in interleaved rounds.

suite.py [MODEL] [--quick] [--cases REGEX] [--list] …

Without MODEL: SmolLM2 and files of real shapes with random weights (model_files.py makes them once). Of each model that generates: a prompt,
and generation behind each of --depths and with each of --batches sequences; of encoders one run of a shape. Engines take turns, each in
its own process; of each the best round counts, and a round during which other processes used the CPU is repeated. Then kernels alone, and what
compiling, starting and generating cost beside speed. Writes report.json, report.md and roofline.svg into --out after each model, and prints the
table; Ctrl-C ends it early with what it has. What cannot be measured here is said and left out.
"""
import argparse
import datetime
import json
import math
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
import zlib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(1, str(HERE.parent / "tools"))
import costs
import goals
import machine
import model_files
import report as reports
import safetensors
from processes import Peer, Unmeasured, run

QUIET_CORES = 0.1  # that other processes may use in a round that counts
ATTEMPTS = 3       # times --rounds, to find quiet ones
REST = 0.5         # seconds between engines: threads of some spin for a while after their last run
SMOLLM2 = ROOT / ".setup/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GENERATING = ("smollm2", "1b-q4_0", "1b-q8_0", "1b-q4_k_m", "1b-bf16")
SHAPES = {"minilm": ((1, 128), (8, 128)), "bert-base": ((1, 128), (8, 128), (1, 512)), "vit-b": ((1,), (8,)), "whisper-tiny-encoder": ((1,),),
          "whisper-tiny-decoder": ((1,),)}
# Encoders that are also compiled with matrices of bf16; peers stay f32.
NARROWED = ("minilm", "bert-base", "vit-b")
WHISPER_PAST = 64  # tokens before the decoder's step
# Of a batch of ragged texts: how many, of how many tokens, and into how many at a time they are sorted by length.
TEXTS, TEXT_LENGTHS, SORTED = 64, (5, 200), (4, 16)
# Kernels alone, in Llama-3.2-1B's sizes: linear layers over a prompt (type, rows, n, k), on one thread; causal attention of a long prompt, by head_dim.
LINEAR = [(kind, 512, n, k) for kind in ("bf16", "f32") for n, k in ((2048, 2048), (16384, 2048), (2048, 8192))]
ATTENTION_DIMS, ATTENTION_ROWS, HEADS, KV_HEADS = (64, 128), 4096, 32, 8
# Latent attention in DeepSeek-V2-Lite's shape: what is measured of it, and the queries that the choice between its bodies is judged by.
LATENT = ("decode at 4096", "prefill 512", "prefill 2048")
LATENT_QUERIES, LATENT_KEYS = [2 ** power for power in range(12)], 4096
SHARING_KEYS = 8192  # of a token whose heads share them, and do not
LAYERS = (16, 32)  # of two models whose code is compiled
FIRST_TOKEN_PROMPT = 32
QUICK = r"^(smollm2|1b-q4_0)/depth 0/batch 1/|^minilm/1x128/"
ENCODER_PEERS = ("onnxruntime", "openvino", "torch")
RAGGED_PEERS = ("onnxruntime", "openvino")  # torch needs several times as long, and minutes to compile all shapes


class Suite:
    def __init__(self, options):
        self.options, self.cases, self.skipped, self.limits = options, [], [], {}
        options.out.mkdir(parents=True, exist_ok=True)

    def skip(self, line):
        if line not in self.skipped:
            self.skipped.append(line)
            print(f"not measured: {line}", flush=True)

    def wants(self, name):
        return re.search(self.options.cases, name)

    # What the machine can do with so many threads: the best that was seen of it in this run.
    def add_limits(self, threads, measured):
        known = self.limits.setdefault(str(threads), {})
        for name, value in measured.items():
            known[name] = max(known.get(name, 0), value)

    def measure_limits(self, threads):
        peaks = self.options.heddle.with_name("heddle-peaks")
        if peaks.exists():
            measured = json.loads(run([peaks, threads]))
            self.add_limits(threads, {name: value for name, value in measured.items() if name != "threads"})

    def peak(self, threads, arithmetic):
        """(operations per second, name) of the fastest way to multiply such numbers; f32 serves for any."""
        names = {"f32": ("f32",), "bf16": ("amx-bf16", "bf16", "f32")}[arithmetic]
        limits = self.limits.get(str(threads), {})
        return max(((limits[name], name) for name in names if name in limits), default=(0, None))

    def file_of(self, model):
        """A model's file, made where it is missing."""
        if self.options.model:
            return self.options.model
        if model == "smollm2":
            if not SMOLLM2.exists():
                raise Unmeasured("smollm2: ./dev setup fetches it")
            return SMOLLM2
        made = [path for path in (self.options.out / "models").glob(f"{model}.*") if path.suffix in (".gguf", ".onnx")]
        try:
            return made[0] if made else pathlib.Path(run([self.options.python, HERE / "model_files.py", model, self.options.out / "models"]).strip())
        except Unmeasured as why:
            raise Unmeasured(f"{model}: {why}") from None

    def program_of(self, model, path, *flags):
        # Models of the same name may lie in several folders.
        name = f"{model}-{zlib.crc32(bytes(path.resolve())):08x}" if self.options.model else "".join((model, *flags))
        program = self.options.out / "programs" / name
        program.parent.mkdir(exist_ok=True)
        newest = max(file.stat().st_mtime for file in (path, self.options.heddle))
        if not program.exists() or program.stat().st_mtime < newest:
            print(f"compiling {model}", flush=True)
            run([self.options.heddle, "compile", path, "-o", program, "--quiet", *flags])
        return program

    def start(self, what, command):
        """A peer, or None with a note where it is not installed."""
        if self.options.no_peers:
            return None
        try:
            return Peer(what, [self.options.python, *command])
        except Unmeasured as why:
            self.skip(str(why))
            return None

    def interleave(self, threads, ours, peers):
        """({side: [answer of each round that counts]}, cores that others used in the busiest of them). `peers`: Peer → a function of the round's number."""
        answers, busiest = {"ours": [], **{peer.name: [] for peer in peers}}, 0.0
        attempts = self.options.rounds * (ATTEMPTS if self.options.rounds > 1 else 1)
        for attempt in range(attempts):
            kept = len(answers["ours"])
            taken, cores = {}, 0.0
            for name, peer, ask in [("ours", None, ours), *((peer.name, peer, ask) for peer, ask in peers.items())]:
                time.sleep(REST if peers else 0)
                with machine.Others(peer) as others:
                    taken[name] = ask(kept)
                cores = max(cores, others.cores)
            if cores > QUIET_CORES and attempts - attempt > self.options.rounds - kept:
                print(f"{threads} threads: a round is repeated, other processes used {cores:.1f} cores", flush=True)
                continue
            busiest = max(busiest, cores)
            for name, answer in taken.items():
                answers[name].append(answer)
            if kept + 1 == self.options.rounds:
                break
        return answers, busiest

    def add_case(self, model, what, threads, unit, ours, peers, busiest, cost=None, name=None, **more):
        """`cost`: (bytes, operations) of what the unit counts, and the arithmetic whose peak bounds it. `less`: less is better. `name`: what
        --cases and goals find."""
        case = {"model": model, "what": what, "threads": threads, "unit": unit, "ours": ours, "peers": peers, "others_cores": round(busiest, 3), **more}
        if peers:
            case["ratio"] = reports.ratio(case)
        if name:
            case["name"] = name
        if cost:
            case["bytes"], case["flops"], case["arithmetic"] = cost
        self.cases.append(case)
        peer, theirs = reports.best_peer(case)
        print(f"{model}, {what}, {threads} threads: {reports.figure(ours)} {unit}" +
              (f", {peer} {reports.figure(theirs)}, ratio {case['ratio']:.2f}" if peer else ""), flush=True)

    def finish_cases(self):
        """Limits are known at the end: what was measured later may be the faster."""
        for case in self.cases:
            bandwidth = self.limits.get(str(case["threads"]), {}).get("read_bandwidth")
            peak, name = self.peak(case["threads"], case["arithmetic"]) if "arithmetic" in case else (0, None)
            if not bandwidth or not peak:
                continue
            reading, computing = case["bytes"] / bandwidth, case["flops"] / peak
            case["limit"], case["bound"] = 1 / max(reading, computing), "read_bandwidth" if reading > computing else name
            case["share"] = case["ours"] / case["limit"]
        for case in self.cases:
            if found := goals.find(case.get("name", "") + (f" by {case['bound']}" if "bound" in case else ""), case):
                case["goals"] = found

    # --- models that generate -----------------------------------------------------------------------------------------

    def bench(self, program, threads, depth, batch, rounds, *flags):
        options = self.options
        answer = json.loads(run([program, "--bench", "--prompt", options.prompt, "--generate", options.generate, "--depth", depth, "--batch", batch,
                                 "--threads", threads, "--rounds", rounds, "--json", *flags]))
        self.add_limits(threads, {"read_bandwidth": answer["read_bandwidth"], **answer.get("peaks", {})})
        return answer

    def generating_cases(self, model):
        """(depth, batch, threads), those of one number of threads together."""
        shapes = [(depth, 1) for depth in self.options.depths] + [(0, batch) for batch in self.options.batches if batch > 1]
        return [(depth, batch, threads) for threads in self.options.threads for depth, batch in shapes
                if self.wants(f"{model}/depth {depth}/batch {batch}/threads {threads}")]

    def measure_generating(self, model):
        cases = self.generating_cases(model)
        if not cases:
            return
        path = self.file_of(model)
        program = self.program_of(model, path)
        for threads in self.options.threads:
            shapes = [(depth, batch) for depth, batch, of in cases if of == threads]
            if not shapes:
                continue
            self.measure_limits(threads)
            peer = self.start("llama.cpp", [HERE / "peer_llama.py", path, threads]) if path.suffix == ".gguf" else None
            try:
                for depth, batch in shapes:
                    self.measure_shape(model, program, peer, threads, depth, batch)
            finally:
                if peer:
                    peer.close()

    def measure_shape(self, model, program, peer, threads, depth, batch):
        reads_prompt = depth == 0 and batch == 1
        flash = {}  # whether flash attention is on → the speed of the first round, which tries both

        def ask(number):
            rounds = []
            for on in (True, False) if number == 0 else (max(flash, key=flash.get),):
                answer = peer.ask({"prompt": self.options.prompt if reads_prompt else 0, "generate": self.options.generate, "depth": depth,
                                   "batch": batch, "flash": on})
                flash[on] = answer["decode"]
                rounds.append(answer)
            return {key: max(answer[key] for answer in rounds) for key in rounds[0]}

        answers, busiest = self.interleave(threads, lambda _: self.bench(program, threads, depth, batch, 1), {peer: ask} if peer else {})
        profile = self.bench(program, threads, depth, batch, 1, "--profile")
        phases = {"decode": ("generation" + (f" behind {depth}" if depth else "") + (f", {batch} sequences" if batch > 1 else ""),
                             self.options.generate * batch)}
        if reads_prompt:
            phases = {"prefill": (f"prompt of {self.options.prompt}", self.options.prompt), **phases}
        for phase, (what, tokens) in phases.items():
            spent = profile[f"{phase}_profile"]
            flops = sum(kernels["flops"] for kernels in spent["classes"]) / tokens
            # A prompt reads the weights once in each of its steps; its activations and its own keys need not leave the caches.
            steps = min(kernel["launches"] for kernel in spent["kernels"] if kernel["launches"])
            bytes_read = profile["bytes_per_token"] * (1 if phase == "decode" else steps / tokens)
            best = {side: max(answer[phase] for answer in given) for side, given in answers.items()}
            self.add_case(model, what, threads, "tokens/s", best.pop("ours"), best, busiest, (bytes_read, flops, "bf16"),
                          f"{model}/depth {depth}/batch {batch}/threads {threads}/{phase}", profile=spent)

    # --- encoders -----------------------------------------------------------------------------------------------------

    def save_inputs(self, name, tensors):
        """A file of tensors that all sides read."""
        path = self.options.out / f"{name}.safetensors"
        safetensors.save(path, tensors)
        return path

    def encoder_inputs(self, model, shape):
        numbers = random.Random(1)

        def floats(*size):
            # Few numbers, again and again: drawing them all takes longer than the run.
            count, some = math.prod(size), [numbers.gauss(0, 1) for _ in range(9973)]
            return "F32", list(size), (some * (count // len(some) + 1))[:count]
        if model == "vit-b":
            tensors = {"pixel_values": floats(shape[0], 3, 224, 224)}
        elif model == "whisper-tiny-encoder":
            tensors = {"input_features": floats(shape[0], model_files.WHISPER["mels"], model_files.WHISPER["frames"])}
        elif model == "whisper-tiny-decoder":
            sizes = model_files.WHISPER
            of_cache = lambda length: floats(shape[0], sizes["heads"], length, sizes["hidden"] // sizes["heads"])
            tensors = {"input_ids": ("I64", [shape[0], 1], [numbers.randrange(sizes["vocab"]) for _ in range(shape[0])])}
            tensors |= {f"{part}_{layer}": of_cache(WHISPER_PAST if "past" in part else sizes["frames"] // 2) for layer in range(sizes["layers"])
                        for part in ("past_key", "past_value", "encoder_key", "encoder_value")}
        else:
            return self.save_texts(f"{model}-{'x'.join(map(str, shape))}", [shape[1]] * shape[0])
        return self.save_inputs(f"{model}-{'x'.join(map(str, shape))}", tensors)

    def save_texts(self, name, lengths):
        """A batch of texts, padded to the longest and masked."""
        numbers, longest = random.Random(1), max(lengths)
        ids = [numbers.randrange(1000, 30000) if at < length else 0 for length in lengths for at in range(longest)]
        mask = [int(at < length) for length in lengths for at in range(longest)]
        size = [len(lengths), longest]
        return self.save_inputs(name, {"input_ids": ("I64", size, ids), "attention_mask": ("I64", size, mask)})

    @staticmethod
    def encoder_cost(model, lengths):
        """(bytes, operations) of a run over sequences of such lengths: all weights once, embeddings left out; products and attention."""
        sizes = model_files.ENCODERS[model]
        weights = sizes["layers"] * (4 * sizes["hidden"] ** 2 + 2 * sizes["hidden"] * sizes["ffn"])
        weights += sizes["hidden"] * 3 * sizes["patch"] ** 2 if "patch" in sizes else 0
        attention = 4 * sizes["layers"] * sizes["hidden"]
        return 4.0 * weights, float(sum(2 * weights * tokens + attention * tokens * tokens for tokens in lengths)), "f32"

    @staticmethod
    def whisper_cost(model):
        sizes = model_files.WHISPER
        hidden, ffn, heard, layers = sizes["hidden"], sizes["ffn"], sizes["frames"] // 2, sizes["layers"]
        if model == "whisper-tiny-encoder":
            convolved = 3 * sizes["mels"] * hidden, 3 * hidden * hidden  # the first over twice as many frames
            weights = layers * (4 * hidden ** 2 + 2 * hidden * ffn)
            operations = 2 * heard * (2 * convolved[0] + convolved[1] + weights) + 4 * layers * heard * heard * hidden
            return 4.0 * (weights + sum(convolved)), float(operations), "f32"
        weights, keys = layers * (6 * hidden ** 2 + 2 * hidden * ffn) + hidden * sizes["vocab"], layers * (WHISPER_PAST + heard)
        return 4.0 * (weights + 2 * keys * hidden), float(2 * weights + 4 * keys * hidden), "f32"

    def cost_of(self, model, shape):
        if model.startswith("whisper"):
            return self.whisper_cost(model)
        sizes = model_files.ENCODERS[model]
        return self.encoder_cost(model, [shape[1] if len(shape) > 1 else (sizes["image"] // sizes["patch"]) ** 2 + 1] * shape[0])

    def encoder_cases(self, model):
        """(name, threads, shape or None for ragged texts, flags of the compiler)."""
        cases = [("x".join(map(str, shape)) + suffix, shape, flags) for shape in SHAPES[model]
                 for suffix, flags in (("", ()), *([(" bf16", ("--weights=bf16",))] if model in NARROWED else []))]
        cases += [("ragged", None, ()), ("ragged graph", None, ())] if model == "minilm" else []
        return [(name, threads, shape, flags) for name, shape, flags in cases for threads in self.options.threads
                if self.wants(f"{model}/{name}/threads {threads}")]

    def measure_encoder(self, model):
        for name, threads, shape, flags in self.encoder_cases(model):
            if shape:
                inputs = [[self.encoder_inputs(model, shape)]]
                self.measure_encoder_case(model, name, threads, self.program_of(model, self.file_of(model), *flags), inputs, inputs,
                                          self.cost_of(model, shape))
            else:
                self.measure_ragged(model, name, threads)

    def measure_ragged(self, model, name, threads):
        """Ours, from a checkpoint, takes all texts as one batch and runs no padding; as a graph, it and the peers run padding, of one batch or of batches of
        near-equal length, whichever each is faster with."""
        numbers = random.Random(2)
        lengths = [numbers.randint(*TEXT_LENGTHS) for _ in range(TEXTS)]
        whole, ascending = self.save_texts(f"{model}-ragged", lengths), sorted(lengths)
        ways = [[whole]] + [[self.save_texts(f"{model}-ragged-{at}-{count}", ascending[at:at + count]) for at in range(0, TEXTS, count)]
                            for count in SORTED]
        own = f"{model}-bert" if name == "ragged" else model
        self.measure_encoder_case(model, name, threads, self.program_of(own, self.file_of(own)), [[whole]] if name == "ragged" else ways, ways,
                                  self.encoder_cost(model, lengths))

    def measure_encoder_case(self, model, name, threads, program, our_ways, peer_ways, cost):
        """A way is a list of files that are run one after the other. Each side tries all of them in its first round and keeps to the fastest."""
        self.measure_limits(threads)
        path = self.file_of(model)
        peers = [peer for engine in (ENCODER_PEERS if len(peer_ways) == 1 else RAGGED_PEERS)
                 if (peer := self.start(engine, [HERE / "peer_encoder.py", engine, path, threads]))]
        runs = 10 if len(peer_ways) == 1 else 2

        def ours(way):
            return sum(json.loads(run([program, "--bench", "--input", file, "--rounds", runs + 1, "--threads", threads, "--json"]))["seconds"]
                       for file in way)

        def turns(ways, seconds_of):
            best = {}

            def ask(number):
                for index in range(len(ways)) if number == 0 else (min(best, key=best.get),):
                    best[index] = seconds = min(seconds_of(ways[index]), best.get(index, math.inf) if number else math.inf)
                return {"seconds": min(best.values()) if number == 0 else seconds, "way": min(best, key=best.get)}
            return ask

        try:
            answers, busiest = self.interleave(threads, turns(our_ways, ours), {
                peer: turns(peer_ways, lambda way, peer=peer: peer.ask({"inputs": list(map(str, way)), "runs": runs})["seconds"]) for peer in peers})
        finally:
            for peer in peers:
                peer.close()
        best = {side: 1 / min(answer["seconds"] for answer in given) for side, given in answers.items()}
        more = {"batches": {side: len((our_ways if side == "ours" else peer_ways)[given[-1]["way"]]) for side, given in answers.items()}}
        self.add_case(model, name, threads, "runs/s", best.pop("ours"), best, busiest, cost, f"{model}/{name}/threads {threads}",
                      **(more if len(peer_ways) > 1 else {}))

    # --- kernels ------------------------------------------------------------------------------------------------------

    def kernel_cases(self):
        """(name, threads, what is asked of the peer)."""
        cases = [(f"kernels/linear {kind} {rows}x{n}x{k}/threads 1", 1, {"kind": "linear", "type": kind, "rows": rows, "n": n, "k": k})
                 for kind, rows, n, k in LINEAR if 1 in self.options.threads]
        cases += [(f"kernels/attention {ATTENTION_ROWS} D {dim}/threads {threads}", threads,
                   {"kind": "attention", "type": "bf16", "rows": ATTENTION_ROWS, "heads": HEADS, "kv_heads": KV_HEADS, "head_dim": dim})
                  for dim in ATTENTION_DIMS for threads in self.options.threads]
        forms = [(f"shared heads at {SHARING_KEYS}, D {dim}", "sharing", "shared") for dim in ATTENTION_DIMS]
        forms += [(f"latent {what}", "latent", "absorbed" if "decode" in what else "materialised") for what in LATENT]
        forms += [(f"latent {count} of {LATENT_KEYS}", "latent", "automatic") for count in LATENT_QUERIES]
        cases += [(f"kernels/{what}{', automatic' if form == 'automatic' else ''}/threads {threads}", threads,
                   {"kind": "forms", "of": of, "only": what, "ours": form}) for what, of, form in forms for threads in self.options.threads]
        return [case for case in cases if self.wants(case[0])]

    def run_forms(self, threads, asked):
        """Form → its answer; they take turns inside."""
        bench = self.options.heddle.with_name("attention-bench")
        if not bench.exists():
            raise Unmeasured(f"kernels: {bench.name} is not built")
        answers = json.loads(run([bench, "--threads", threads, "--rounds", 3, "--only", asked["only"]]))[asked["of"]]
        return {answer["form"]: answer for answer in answers}

    def measure_forms(self, name, threads, asked):
        """The form that ought to be faster beside the other, or the choice beside both. Bytes and operations are those of what ran."""
        self.measure_limits(threads)
        answers, busiest = self.interleave(threads, lambda _: self.run_forms(threads, asked), {})
        best = {form: min((answer[form] for answer in answers["ours"]), key=lambda answer: answer["seconds"]) for form in answers["ours"][0]}
        speeds, ours = {form: 1 / answer["seconds"] for form, answer in best.items()}, asked["ours"]
        peers = {form: speed for form, speed in speeds.items() if form not in (ours, "automatic")}
        self.add_case("kernels", f"{asked['only']}, {ours}", threads, "calls/s", speeds[ours], peers, busiest,
                      (best[ours]["bytes"], best[ours]["flops"], "f32" if asked["of"] == "latent" else "bf16"), name, forms=best)

    def run_kernel(self, threads, asked):
        """Operations per second of ours."""
        bench = self.options.heddle.with_name("heddle-kernel-bench" if asked["kind"] == "linear" else "attention-bench")
        if not bench.exists():
            raise Unmeasured(f"kernels: {bench.name} is not built")
        if asked["kind"] == "linear":
            answer = json.loads(run([bench, asked["type"], asked["type"], asked["n"], asked["k"], asked["rows"]]))
            return {"speed": 1e9 * answer["gigaflops"]}
        only = f"prefill {asked['rows']}, D {asked['head_dim']}, bf16"
        return {"speed": 1e9 * json.loads(run([bench, "--threads", threads, "--only", only]))["attention"][0]["gflops"]}

    @staticmethod
    def kernel_cost(asked):
        """(bytes, operations): matrices once, and a multiply-add of visible keys as two operations in each of two products."""
        if asked["kind"] == "linear":
            rows, n, k = asked["rows"], asked["n"], asked["k"]
            return (2 if asked["type"] == "bf16" else 4) * n * k + 4 * rows * (n + k), 2 * rows * n * k
        rows, dim = asked["rows"], asked["head_dim"]
        return 8 * rows * HEADS * dim + 4 * rows * KV_HEADS * dim, 2 * HEADS * dim * rows * (rows + 1)

    def measure_kernels(self, _):
        for name, threads, asked in self.kernel_cases():
            if asked["kind"] == "forms":
                self.measure_forms(name, threads, asked)
                continue
            self.measure_limits(threads)
            peer = self.start("torch", [HERE / "peer_kernels.py", threads])
            read, flops = self.kernel_cost(asked)
            try:
                answers, busiest = self.interleave(threads, lambda _: self.run_kernel(threads, asked),
                                                   {peer: lambda _: {"speed": flops / peer.ask(asked)["seconds"]}} if peer else {})
            finally:
                if peer:
                    peer.close()
            best = {side: max(answer["speed"] for answer in given) / 1e9 for side, given in answers.items()}
            self.add_case("kernels", name.split("/")[1], threads, "GFLOP/s", best.pop("ours"), best, busiest, (1e9 * read / flops, 1e9, asked["type"]), name)

    # --- what else it costs -------------------------------------------------------------------------------------------

    def cost_cases(self):
        """(name, threads, who measures it)."""
        most = max(self.options.threads)
        cases = [(f"{model}/compile", most, self.measure_compile) for model in ("smollm2", "1b-q4_0")]
        cases += [("layers/compile", most, self.measure_layers)]
        cases += [(f"1b-q4_0/first token/threads {threads}", threads, self.measure_first_token) for threads in self.options.threads]
        cases += [("smollm2/size", most, self.measure_size), ("smollm2/allocations", most, self.measure_allocations)]
        return [case for case in cases if self.wants(case[0])]

    def measure_costs(self, name):
        for case, threads, measure in self.cost_cases():
            if case == name:
                try:
                    measure(name.split("/")[0], threads, name)
                except (RuntimeError, OSError, subprocess.CalledProcessError) as why:
                    self.skip(f"{name}: {why}")

    def measure_compile(self, model, threads, name):
        """A whole compile, then one beside whose weights lie already: what is left is code, and the check that they are the same."""
        path = self.file_of(model)
        with tempfile.TemporaryDirectory(dir=self.options.out) as box:
            compile_to = lambda out, *flags: costs.measure_command([self.options.heddle, "compile", path, "-o", f"{box}/{out}", "--quiet", *flags])
            compile_to("apart", "--sidecar")
            answers, busiest = self.interleave(threads, lambda _: (*compile_to("whole"), compile_to("apart", "--sidecar")[0]), {})
        seconds, memory, code = (best(answer[index] for answer in answers["ours"]) for index, best in enumerate((min, max, min)))
        for what, unit, figure in (("seconds", "s", seconds), ("code alone", "s", code), ("weights", "s", seconds - code),
                                   ("memory beside files", "MB", memory / 1e6)):
            self.add_case(model, f"compile: {what}", threads, unit, figure, {}, busiest, name=f"{name}/{what}", less=True)

    def measure_layers(self, model, threads, name):
        with tempfile.TemporaryDirectory(dir=self.options.out) as box:
            files = [self.file_of(f"layers-{count}") for count in LAYERS]
            code_of = lambda path: costs.measure_command([self.options.heddle, "compile", path, "-o", f"{box}/{path.stem}", "--quiet", "--sidecar"])[0]
            for path in files:
                code_of(path)
            answers, busiest = self.interleave(threads, lambda _: list(map(code_of, files)), {})
        few, many = (min(answer[index] for answer in answers["ours"]) for index in range(2))
        self.add_case(model, f"compile: code of {LAYERS[1]} ÷ of {LAYERS[0]}", threads, "times", many / few, {}, busiest, name=name, less=True,
                      seconds=[few, many])

    def measure_first_token(self, model, threads, name):
        """Ours from the start of the process; llama.cpp's from loading the file, in a process that has loaded the library."""
        path = self.file_of(model)
        ids = ",".join(str(5 + at) for at in range(FIRST_TOKEN_PROMPT))
        command = [self.program_of(model, path), "--prompt-ids", ids, "-n", 1, "--temp", 0, "--ignore-eos", "--print-ids", "--threads", threads]
        peer = self.start("llama.cpp", [HERE / "peer_llama.py", path, threads])
        try:
            answers, busiest = self.interleave(threads, lambda _: costs.seconds_to_output(command),
                                               {peer: lambda _: peer.ask({"first_token": FIRST_TOKEN_PROMPT})["seconds"]} if peer else {})
        finally:
            if peer:
                peer.close()
        best = {side: 1000 * min(given) for side, given in answers.items()}
        self.add_case(model, f"first token behind {FIRST_TOKEN_PROMPT}", threads, "ms", best.pop("ours"), best, busiest, name=name, less=True)

    def measure_size(self, model, threads, name):
        with tempfile.TemporaryDirectory(dir=self.options.out) as box:
            sizes = []
            for out, flags in (("code.o", ["--emit=object"]), ("program", [])):
                run([self.options.heddle, "compile", self.file_of(model), "-o", f"{box}/{out}", "--quiet", "--sidecar", *flags])
                sizes.append(costs.loaded_bytes(f"{box}/{out}") / 1e3)
        for what, figure in (("code", sizes[0]), ("runtime", sizes[1] - sizes[0])):
            self.add_case(model, f"size: {what}", threads, "KB", figure, {}, 0, name=f"{name}/{what}", less=True)

    def measure_allocations(self, model, threads, name):
        counter = self.options.heddle.parent.parent / "lib/heddle-count-allocations.so"
        if not counter.exists():
            raise RuntimeError(f"{counter.name} is not built")
        few, many = (costs.allocations([self.program_of(model, self.file_of(model)), "--prompt-ids", "1,2,3", "-n", tokens, "--temp", 0, "--ignore-eos",
                                        "--print-ids", "--threads", threads], counter) for tokens in (64, 192))
        self.add_case(model, "allocations per token", threads, "times", (many - few) / 128, {}, 0, name=name, less=True)

    # --- all ----------------------------------------------------------------------------------------------------------

    def measure(self):
        models = [(self.options.model.stem, self.measure_generating)] if self.options.model else [
            *((model, self.measure_generating) for model in GENERATING), *((model, self.measure_encoder) for model in SHAPES),
            ("kernels", self.measure_kernels), *((case[0], self.measure_costs) for case in self.cost_cases())]
        for model, measure in models:
            try:
                measure(model)
            except Unmeasured as why:
                self.skip(str(why))
            except subprocess.TimeoutExpired as why:
                self.skip(f"{model}: {pathlib.Path(why.cmd[0]).name} took more than {why.timeout:.0f} s")
            except KeyboardInterrupt:
                self.skip(f"{model}: interrupted, and what follows")
                break
            reports.write(self.report(), self.options.out)  # all cases take hours: what ends them early loses one model

    def names(self):
        models = [self.options.model.stem] if self.options.model else GENERATING
        names = [f"{model}/depth {depth}/batch {batch}/threads {threads}" for model in models
                 for depth, batch, threads in self.generating_cases(model)]
        if self.options.model:
            return names
        names += [f"{model}/{name}/threads {threads}" for model in SHAPES for name, threads, *_ in self.encoder_cases(model)]
        return names + [name for name, *_ in self.kernel_cases() + self.cost_cases()]

    def report(self):
        self.finish_cases()
        cpu, features = machine.processor()
        try:
            commit = run(["git", "-C", ROOT, "describe", "--always", "--dirty"]).strip()
        except (Unmeasured, OSError):
            commit = "unknown"
        return {"date": datetime.date.today().isoformat(), "cpu": cpu, "features": features, "commit": commit, "rounds": self.options.rounds,
                "quiet_cores": QUIET_CORES, "limits": self.limits, "cases": self.cases, "skipped": self.skipped}


def numbers(text):
    return [int(number) for number in text.split(",")]


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=pathlib.Path, help="this model alone: what heddle compile takes, of a model that generates")
    parser.add_argument("--quick", action="store_true", help="a few minutes: two rounds of three models, all threads")
    parser.add_argument("--cases", default="", metavar="REGEX", help="only cases whose name it finds; --list says the names")
    parser.add_argument("--list", action="store_true", help="print the names of the cases and measure nothing")
    cores = len(machine.os.sched_getaffinity(0))
    parser.add_argument("--threads", type=numbers, default=sorted({1, cores}), metavar="N,M", help=f"numbers of threads (1,{cores})")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--generate", type=int, default=64)
    parser.add_argument("--depths", type=numbers, default=[0, 8000], metavar="N,M", help="tokens in the cache before generating (0,8000)")
    parser.add_argument("--batches", type=numbers, default=[1, 4, 16], metavar="N,M", help="sequences that generate together (1,4,16)")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with numpy, llama-cpp-python, onnx, onnxruntime, openvino, torch")
    parser.add_argument("--no-peers", action="store_true", help="measure no other engine")
    parser.add_argument("--heddle", type=pathlib.Path, default=ROOT / "build/bin/heddle", help="the compiler; heddle-peaks lies beside it")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/bench", metavar="FOLDER")
    options = parser.parse_args(arguments)
    if options.model and not options.model.exists():
        parser.error(f"no such file: {options.model}")
    if min(options.threads + options.batches + [options.rounds, options.prompt, options.generate]) < 1 or min(options.depths) < 0:
        parser.error("--threads, --batches, --rounds, --prompt and --generate are from 1, --depths from 0")
    try:
        re.compile(options.cases)
    except re.error as error:
        parser.error(f"--cases: {error}")
    if options.quick:
        options.threads, options.rounds = [max(options.threads)], min(options.rounds, 2)
        options.cases = options.cases or ("" if options.model else QUICK)
    return options


def main():
    os.environ["HEDDLE_NO_CACHE"] = "1"  # a compile is timed from nothing
    suite = Suite(options := parse(sys.argv[1:]))
    if options.list:
        print("\n".join(suite.names()))
        return 0
    suite.measure()
    table = reports.write(suite.report(), options.out)
    print(f"\n{table}\nreport.json, report.md and roofline.svg are in {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
