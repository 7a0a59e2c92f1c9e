# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles a tiny checkpoint and compares what it answers with stored goldens, and with itself run another way.

check_golden.py HEDDLE FOLDER [--only=CHECK,…] [--file=NAME | --model=PATH] [FLAG…]

FOLDER holds a Hugging Face checkpoint, golden.json (cases) and golden.safetensors (their tensors); with --file, that file of it is
compiled, beside config.json and generation_config.json, instead of the checkpoint; with --model another model is, and FOLDER holds goldens
alone. FLAGs go to every compile.
Checked, all or only those named, compiled --precise:

  forward    logits of every case, the left-padded batch included
  greedy     ids by --prompt-ids, and the logits each was picked from
  threads    1, 2 and 3 threads write the same bytes
  cached     logits of generation, which reads the cache, and those of one pass over prompt and answer; not where the reference
             rotates keys by the length that the sequence had when they were made
  chunked    logits of prompts that are cut because the batch has more rows than a step, and of the prompt alone
  padded     each row of the ragged batch, and the same row alone

The last three agree within AGREE, and to the bit with --deterministic. Weights of 16 bits are also compiled as users do, within
what 16-bit arithmetic of the reference costs. Prints one line per broken promise; exit status 1 if there is any.

An encoder-decoder is compared by logits and encoder_last_hidden_state: its prompts are sources, and decoder_input_ids what is computed step by
step. It keeps the same promises, and one more:

  beam       ids of beam searches

Where its source is sound, answers are those of --io.

An encoder (golden.json's task) is compared by all outputs of its cases: forward, threads, and padded, which is to the bit: its rows padded
on the right, and on the left with the position_ids that they have there (counted from golden.json's position_offset). One of two
towers, or that is a graph, has cases of a part alone instead of the last.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import safetensors

LIMIT = 1e-4  # absolute, and relative to the golden's largest magnitude
AGREE = 5e-4
GREEDY = ["--temp", "0", "--ignore-eos"]
CHECKS = ["forward", "greedy", "beam", "threads", "cached", "chunked", "padded"]


class Failure(Exception):
    pass


def run(command, **options):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if done.returncode != 0:
        raise Failure(f"{os.path.basename(command[0])} exited with status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def difference(got, want):
    """Largest distance between two sequences; infinite where one is NaN or lengths differ."""
    if len(got) != len(want):
        return float("inf")
    worst = 0.0
    for a, b in zip(got, want):
        distance = abs(a - b)
        if not distance <= worst:
            worst = distance if distance == distance else float("inf")
    return worst


def expect(what, got, want, limit):
    error = difference(got, want)
    if not error <= limit:
        raise Failure(f"{what}: max abs error {error:.2e} is above {limit:.1e}")


def rows_of(tensor):
    """A (rows, …) tensor's values, row by row."""
    _, shape, values = tensor
    width = len(values) // shape[0]
    return [values[i * width:(i + 1) * width] for i in range(shape[0])]


def integers(rows):
    return ("I64", (len(rows), len(rows[0])), [token for row in rows for token in row])


class Model:
    """One compiled checkpoint and its goldens."""

    def __init__(self, heddle, folder, file, model, box, *flags):
        self.folder, self.box = pathlib.Path(folder), pathlib.Path(box)
        meta = json.loads((self.folder / "golden.json").read_text())
        self.cases, self.stats, self.is_bf16 = meta["cases"], meta.get("stats", {}), meta["weights_dtype"] == "bfloat16"
        self.offset = meta.get("position_offset", 0)  # the position of an encoder's first token
        self.is_encoder, self.is_seq2seq = meta.get("task") in ("encoder", "vision", "towers"), meta.get("task") == "seq2seq"
        self.has_towers = meta.get("task") == "towers"
        self.hears = any("input_features" in case["inputs"] for case in self.cases)
        self.tensors = safetensors.load(self.folder / "golden.safetensors")
        checkpoint = self.box / "checkpoint"  # the goldens stay where the compiler cannot see them
        if not model and not checkpoint.exists():
            checkpoint.mkdir()
            names = ["config.json", file or "model.safetensors"]
            if (self.folder / "generation_config.json").exists():
                names.append("generation_config.json")
            for name in names:
                shutil.copy(self.folder / name, checkpoint)
        config = {} if model else json.loads((self.folder / "config.json").read_text())
        self.context = meta.get("context") or config.get("max_position_embeddings") or config.get("model_max_length") or config.get("n_positions") or config.get("seq_length") or config.get("max_seq_len") or 2048
        self.rotates_by_length = meta.get("rotates_by_length", False)  # cached keys have the rotation of a shorter sequence
        self.binary = self.box / "-".join(["model", *flags]).replace("/", "_")
        run([heddle, "compile", model or checkpoint / file, "-o", self.binary, *flags])

    def io(self, inputs, *flags):
        """Output tensors, and the bytes of the file."""
        source, target = self.box / "in.safetensors", self.box / "out.safetensors"
        safetensors.save(source, inputs)
        run([self.binary, "--io", source, target, *flags])
        return safetensors.load(target), target.read_bytes()

    def logits(self, rows, *flags):
        """Of prompts of one length: per row, (sequence, vocabulary) values."""
        return rows_of(self.io({"input_ids": integers(rows)}, *flags)[0]["logits"])

    def of_kind(self, kind):
        return [case for case in self.cases if case["kind"] == kind]

    def prompt(self, case):
        row, = rows_of(self.tensors[case["inputs"]["input_ids"]])
        return list(row)

    def limit(self, golden):
        return max(LIMIT, LIMIT * max(map(abs, golden)))

    def batches(self):
        return [case for case in self.of_kind("forward") if "mask" in case]


def given(model, case):
    passed = ("input_ids", "attention_mask", "token_type_ids", "global_attention_mask", "bbox", "pixel_values", "pixel_attention_mask", "spatial_shapes", "image_grid_thw", "image_sizes", "input_features")
    return {name: model.tensors[key] for name, key in case["inputs"].items() if name in passed}


def kept(model, case, values):
    """Values at positions that are no padding."""
    mask = model.tensors[case["mask"]][2] if "mask" in case else None
    if mask is None:
        return list(values)
    width = len(values) // len(mask)
    return [value for i, bit in enumerate(mask) if bit for value in values[i * width:(i + 1) * width]]


def check_forward(model, limit=None):
    for case in model.of_kind("forward"):
        got = model.io(given(model, case))[0]["logits"][2]
        want = kept(model, case, model.tensors[case["outputs"]["logits"]][2])
        expect(f"forward {case['name']}", kept(model, case, got), want, limit or model.limit(want))


def check_encoded(model):
    for case in model.of_kind("forward"):
        got = model.io(given(model, case))[0]
        for field, tensor in case["outputs"].items():
            name = field.removeprefix("base.")
            if name == "hidden_states":
                continue
            if name not in got:
                raise Failure(f"forward {case['name']}: {name} is not among {', '.join(sorted(got))}")
            (_, shape, values), (_, expected, want) = got[name], model.tensors[tensor]
            if list(shape) != list(expected):
                raise Failure(f"forward {case['name']}: {name} has shape {shape}, expected {expected}")
            if "mask" in case and list(shape[:2]) == list(model.tensors[case["mask"]][1]):
                values, want = kept(model, case, values), kept(model, case, want)
            expect(f"forward {case['name']}: {name}", values, want, model.limit(want))


def check_encoder_threads(model):
    for case in model.of_kind("forward"):
        files = [model.io(given(model, case), "--threads", str(threads))[1] for threads in (1, 2, 3)]
        if files[0] != files[1] or files[0] != files[2]:
            raise Failure(f"threads: 1, 2 and 3 of them give different bytes for {case['name']}")


def check_encoder_padded(model):
    """Each row of the batch alone, and the batch with every row's padding on its left; each image of a batch alone."""
    for case in model.of_kind("forward"):
        if "pixel_values" in case["inputs"]:
            kind, shape, _ = pixels = given(model, case)["pixel_values"]
            both = rows_of(model.io({"pixel_values": pixels})[0]["last_hidden_state"])
            for row, image in zip(both, rows_of(pixels)):
                alone = model.io({"pixel_values": (kind, (1, *shape[1:]), list(image))})[0]["last_hidden_state"][2]
                if list(row) != list(alone):
                    raise Failure(f"padded: an image of {case['name']} has other bits beside others than alone")
    for case in model.batches():
        inputs = {name: rows_of(tensor) for name, tensor in given(model, case).items()}
        mask, width = inputs.pop("attention_mask"), len(inputs["input_ids"][0])
        lengths = [sum(row) for row in mask]
        left = {name: integers([list(row[n:]) + list(row[:n]) for row, n in zip(rows, lengths)]) for name, rows in inputs.items()}
        left["attention_mask"] = integers([[0] * (width - n) + [1] * n for n in lengths])
        left["position_ids"] = integers([[0] * (width - n) + list(range(model.offset, model.offset + n)) for n in lengths])
        right = rows_of(model.io(given(model, case))[0]["last_hidden_state"])
        moved = rows_of(model.io(left)[0]["last_hidden_state"])
        for i, n in enumerate(lengths):
            alone, = rows_of(model.io({name: integers([list(rows[i][:n])]) for name, rows in inputs.items()})[0]["last_hidden_state"])
            if list(right[i][:len(alone)]) != list(alone) or list(moved[i][-len(alone):]) != list(alone):
                raise Failure(f"padded, row {i}: other bits beside other rows than alone")


def trimmed(model, case):
    """The sources of a case, row by row, without padding."""
    ids = rows_of(model.tensors[case["inputs"]["input_ids"]])
    mask = rows_of(model.tensors[case["inputs"]["attention_mask"]]) if "attention_mask" in case["inputs"] else [[1] * len(ids[0])] * len(ids)
    return [[token for token, bit in zip(row, bits) if bit] for row, bits in zip(ids, mask)]


def sources(model, case):
    """Of each row of a case, what the encoder reads of it alone."""
    if not model.hears:
        return [{"input_ids": integers([ids])} for ids in trimmed(model, case)]
    kind, shape, _ = features = model.tensors[case["inputs"]["input_features"]]
    return [{"input_features": (kind, [1, *shape[1:]], row)} for row in rows_of(features)]


def copies_of(inputs, count):
    return {name: (kind, [count, *shape[1:]], list(values) * count) for name, (kind, shape, values) in inputs.items()}


def check_answered(model):
    for case in model.of_kind("forward"):
        got = model.io(given(model, case) | {"decoder_input_ids": model.tensors[case["inputs"]["decoder_input_ids"]]})[0]
        for name in ("logits", "encoder_last_hidden_state"):
            values, want = got[name][2], model.tensors[case["outputs"][name]][2]
            if name != "logits" and "encoder_mask" in case:
                masked = dict(case, mask=case["encoder_mask"])
                values, want = kept(model, masked, values), kept(model, masked, want)
            expect(f"forward {case['name']}: {name}", values, want, model.limit(want))


def answer(model, source, count, *flags):
    if model.hears:
        return list(model.io(source, "-n", str(count), "--temp", "0", *map(str, flags))[0]["ids"][2])
    words = run([model.binary, "--prompt-ids", ",".join(map(str, source["input_ids"][2])), "-n", count, "--temp", "0", "--print-ids", *flags])
    return [int(word) for word in words.strip().split(",")]


def check_answers(model):
    for case in model.of_kind("greedy"):
        want, start, count = rows_of(model.tensors[case["outputs"]["ids"]]), case["decoder_start_token_id"], case["max_new_tokens"]
        for i, source in enumerate(sources(model, case)):
            if (got := answer(model, source, count, "--ignore-eos")) != list(want[i]):
                raise Failure(f"greedy {case['name']}, row {i}: ids {got}, expected {list(want[i])}")
        inputs = given(model, case) | {"decoder_input_ids": integers([[start, *row[:-1]] for row in want])}
        golden = model.tensors[case["outputs"]["logits"]][2]
        expect(f"greedy {case['name']}: logits", model.io(inputs)[0]["logits"][2], golden, model.limit(golden))


def check_beams(model):
    for case in model.of_kind("beam"):
        asked, want = case["generate"], rows_of(model.tensors[case["outputs"]["ids"]])
        end = asked["eos_token_id"]
        flags = ["--beam", asked["num_beams"], "--length-penalty", asked["length_penalty"], *(["--early-stopping"] if asked["early_stopping"] else [])]
        flags += ["--ignore-eos"] if end is None else ["--eos", end]
        until = lambda ids: ids[:ids.index(end) + 1] if end in ids else ids
        for i, source in enumerate(sources(model, case)):
            got, ids = until(answer(model, source, asked["max_new_tokens"], *flags)), until(list(want[i][1:]))
            if got != ids:
                raise Failure(f"beam {case['name']}, row {i}: ids {got}, expected {ids}")


def check_answer_threads(model):
    for case in model.of_kind("forward"):
        for flags in ([], ["--deterministic"], ["-n", "6", *GREEDY], ["-n", "6", "--beam", "3", "--ignore-eos"]):
            inputs = given(model, case) if "-n" in flags else {name: model.tensors[key] for name, key in case["inputs"].items()}
            files = [model.io(inputs, *flags, "--threads", str(threads))[1] for threads in (1, 2, 3)]
            if files[0] != files[1] or files[0] != files[2]:
                raise Failure(f"threads: 1, 2 and 3 of them give different bytes for {case['name']} {' '.join(flags)}")


def check_answer_cached(model, flags, limit):
    for case in model.of_kind("greedy"):
        inputs, count, start = given(model, case), case["max_new_tokens"], case["decoder_start_token_id"]
        out, _ = model.io(inputs, "-n", str(count), *GREEDY, *flags)
        decoded = [[start, *row[:-1]] for row in rows_of(out["ids"])]
        whole = model.io(inputs | {"decoder_input_ids": integers(decoded)}, *flags)[0]["logits"][2]
        expect(f"cached {case['name']} {' '.join(flags)}", out["generated_logits"][2], whole, limit)


def check_answer_chunked(model, flags, limit):
    """As many copies of a source and of its answer as are sure to be cut between two steps, of either entry."""
    size = lambda case: len(next(iter(sources(model, case)[0].values()))[2])
    case = max(model.of_kind("forward"), key=size)
    decoded = list(rows_of(model.tensors[case["inputs"]["decoder_input_ids"]])[0])
    inputs = sources(model, case)[0] | {"decoder_input_ids": integers([decoded])}
    copies = 1024 // min(size(case), len(decoded)) + 2
    alone, = rows_of(model.io(inputs, *flags)[0]["logits"])
    for i, chunked in enumerate(rows_of(model.io(copies_of(inputs, copies), *flags)[0]["logits"])):
        expect(f"chunked, copy {i} {' '.join(flags)}", chunked, alone, limit)


def check_answer_padded(model, flags, limit):
    """Each row of the batch, and its source alone; not where padding before a source moves its positions, as the golden says."""
    for case in (case for case in model.of_kind("forward") if "encoder_mask" in case and not case.get("moves_padded")):
        decoded = rows_of(model.tensors[case["inputs"]["decoder_input_ids"]])
        batch = rows_of(model.io({name: model.tensors[key] for name, key in case["inputs"].items()}, *flags)[0]["logits"])
        for i, source in enumerate(sources(model, case)):
            alone, = rows_of(model.io(source | {"decoder_input_ids": integers([decoded[i]])}, *flags)[0]["logits"])
            expect(f"padded, row {i} {' '.join(flags)}", batch[i], alone, limit)


def check_greedy(model):
    for case in model.of_kind("greedy"):
        prompt, count = model.prompt(case), case["max_new_tokens"]
        want = list(model.tensors[case["outputs"]["ids"]][2])
        words = run([model.binary, "--prompt-ids", ",".join(map(str, prompt)), "-n", count, *GREEDY, "--print-ids"])
        got = [int(word) for word in words.strip().split(",")]
        if got != want:
            raise Failure(f"greedy {case['name']}: ids {got}, expected {want}")
        golden = model.tensors[case["outputs"]["logits"]][2]
        if model.rotates_by_length:
            logits = model.io({"input_ids": integers([prompt])}, "-n", str(count), *GREEDY)[0]["generated_logits"][2]
        else:
            logits, = model.logits([prompt + want[:-1]])
        expect(f"greedy {case['name']}: logits", logits[-len(golden):], golden, model.limit(golden))


def check_threads(model):
    for case in model.batches():
        for flags in ([], ["--deterministic"], ["-n", "6", *GREEDY]):
            inputs = given(model, case)
            files = [model.io(inputs, *flags, "--threads", str(threads))[1] for threads in (1, 2, 3)]
            if files[0] != files[1] or files[0] != files[2]:
                raise Failure(f"threads: 1, 2 and 3 of them give different bytes for {case['name']} {' '.join(flags)}")


def check_cached(model, flags, limit):
    for case in model.of_kind("greedy"):
        prompt, count = model.prompt(case), case["max_new_tokens"]
        out, _ = model.io({"input_ids": integers([prompt])}, "-n", str(count), *GREEDY, *flags)
        ids, cached = list(out["ids"][2]), out["generated_logits"][2]
        whole, = model.logits([prompt + ids[:-1]], *flags)
        expect(f"cached {case['name']} {' '.join(flags)}", cached, whole[-len(cached):], limit)


def check_chunked(model, flags, limit):
    """As many copies of the longest prompt as are sure to be cut: a step has at most as many rows as the context."""
    prompt = max((model.prompt(case) for case in model.of_kind("greedy")), key=len)
    copies = model.context // len(prompt) + 2
    if model.context % len(prompt) == 0:
        prompt.pop()  # else the cut would fall between two copies
    alone, = model.logits([prompt], *flags)
    for i, chunked in enumerate(model.logits([prompt] * copies, *flags)):
        expect(f"chunked, copy {i} {' '.join(flags)}", chunked, alone, limit)


def check_padded(model, flags, limit):
    for case in model.batches():
        inputs = given(model, case)
        batch = rows_of(model.io(inputs, *flags)[0]["logits"])
        for i, (ids, mask) in enumerate(zip(rows_of(inputs["input_ids"]), rows_of(inputs["attention_mask"]))):
            alone, = model.logits([[token for token, bit in zip(ids, mask) if bit]], *flags)
            expect(f"padded, row {i} {' '.join(flags)}", batch[i][-len(alone):], alone, limit)


def promises(precise, fast):
    """(name, check): checks raise Failure; `fast` is null where users compile as precisely."""
    if precise.is_encoder:
        yield "forward", lambda: check_encoded(precise)
        yield "threads", lambda: check_encoder_threads(precise)
        if not precise.has_towers:
            yield "padded", lambda: check_encoder_padded(precise)
        return
    if precise.is_seq2seq:
        yield "forward", lambda: check_answered(precise)
        yield "greedy", lambda: check_answers(precise)
        yield "beam", lambda: check_beams(precise)
        yield "threads", lambda: check_answer_threads(precise)
        for flags, limit in ([], AGREE), (["--deterministic"], 0.0):
            yield "cached", lambda: check_answer_cached(precise, flags, limit)
            yield "chunked", lambda: check_answer_chunked(precise, flags, limit)
            yield "padded", lambda: check_answer_padded(precise, flags, limit)
        return
    yield "forward", lambda: check_forward(precise)
    yield "greedy", lambda: check_greedy(precise)
    yield "threads", lambda: check_threads(precise)
    for flags, limit in ([], AGREE), (["--deterministic"], 0.0):
        if not precise.rotates_by_length:
            yield "cached", lambda: check_cached(precise, flags, limit)
        yield "chunked", lambda: check_chunked(precise, flags, limit)
        yield "padded", lambda: check_padded(precise, flags, limit)
    if fast:
        yield "forward", lambda: check_forward(fast, fast.stats["bf16_arithmetic_differs_by"])
        yield "threads", lambda: check_threads(fast)


def compiled(heddle, folder, file, model, box, flags):
    precise = Model(heddle, folder, file, model, box, "--precise", *flags)
    return precise, Model(heddle, folder, file, model, box, *flags) if precise.is_bf16 else None


def main():
    heddle, folder, *flags = sys.argv[1:]
    wanted = CHECKS
    if flags and flags[0].startswith("--only="):
        wanted = flags.pop(0).removeprefix("--only=").split(",")
        if unknown := set(wanted) - set(CHECKS):
            sys.exit(f"--only: unknown checks {sorted(unknown)}; known: {', '.join(CHECKS)}")
    file = flags.pop(0).removeprefix("--file=") if flags and flags[0].startswith("--file=") else ""
    model = flags.pop(0).removeprefix("--model=") if flags and flags[0].startswith("--model=") else ""
    broken = 0
    with tempfile.TemporaryDirectory() as box:
        try:
            for name, check in promises(*compiled(heddle, folder, file, model, box, flags)):
                try:
                    if name in wanted:
                        check()
                except Failure as failure:
                    broken += 1
                    print(failure)
        except Failure as failure:
            broken += 1
            print(failure)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
