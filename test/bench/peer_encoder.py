# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The side of another engine in a comparison of ONNX graphs.

peer_encoder.py onnxruntime|openvino|torch MODEL.onnx THREADS     needs the PyPI package of that name, and numpy

Says {"name": …} when the model is loaded, then answers each line of stdin, {"inputs": [INPUTS.safetensors, …], "runs": N}, by {"seconds": the
best of N + 1 runs, or of fewer long ones}, each of all these files, one after the other. f32 throughout. Of torch a module of the same shape runs,
eager or compiled, whichever is faster with these inputs.
"""
import json
import os
import pathlib
import shutil
import sys
import time

import numpy

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import model_files
import safetensors

LONG = 10  # seconds after which no further run begins
NUMPY_TYPES = {"F32": "float32", "I64": "int64"}


def onnxruntime_runner(path, threads):
    import onnxruntime
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.inter_op_num_threads, settings.log_severity_level = threads, 1, 3
    session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    return f"onnxruntime {onnxruntime.__version__}", lambda batches: [session.run(None, inputs) for inputs in batches]


def openvino_runner(path, threads):
    import openvino
    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    request = openvino.Core().compile_model(path, "CPU", settings).create_infer_request()
    return f"OpenVINO {openvino.__version__.split('-')[0]}", lambda batches: [request.infer(inputs) for inputs in batches]


def torch_encoder(torch, shape):
    nn, hidden = torch.nn, shape["hidden"]

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            is_image = "image" in shape
            positions = (shape["image"] // shape["patch"]) ** 2 + 1 if is_image else shape["positions"]
            self.positions, self.start = nn.Parameter(torch.randn(1, positions, hidden)), nn.Parameter(torch.randn(1, 1, hidden))
            self.embed = nn.Conv2d(3, hidden, shape["patch"], shape["patch"]) if is_image else nn.Embedding(shape["vocab"], hidden)
            self.norm = nn.LayerNorm(hidden)
            layer = nn.TransformerEncoderLayer(hidden, shape["heads"], shape["ffn"], activation="gelu", batch_first=True, norm_first=is_image)
            self.layers = nn.TransformerEncoder(layer, shape["layers"], enable_nested_tensor=False)
            self.is_image = is_image

        def forward(self, x, mask=None):
            x = self.embed(x)
            if self.is_image:
                x = torch.cat([self.start.expand(x.shape[0], 1, -1), x.flatten(2).transpose(1, 2)], 1) + self.positions
                return self.norm(self.layers(x))
            return self.layers(self.norm(x + self.positions[:, :x.shape[1]]), src_key_padding_mask=mask)

    return Encoder().eval()


def torch_audio_encoder(torch, shape):
    nn, hidden = torch.nn, shape["hidden"]

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.hear, self.shorten = nn.Conv1d(shape["mels"], hidden, 3, padding=1), nn.Conv1d(hidden, hidden, 3, stride=2, padding=1)
            self.positions = nn.Parameter(torch.randn(shape["frames"] // 2, hidden))
            layer = nn.TransformerEncoderLayer(hidden, shape["heads"], shape["ffn"], activation="gelu", batch_first=True, norm_first=True)
            self.layers, self.norm = nn.TransformerEncoder(layer, shape["layers"], enable_nested_tensor=False), nn.LayerNorm(hidden)

        def forward(self, x):
            gelu = nn.functional.gelu
            return self.norm(self.layers(gelu(self.shorten(gelu(self.hear(x)))).transpose(1, 2) + self.positions))

    return Encoder().eval()


def torch_audio_decoder(torch, shape):
    nn, hidden, heads = torch.nn, shape["hidden"], shape["heads"]

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            linears = lambda count: nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(count * shape["layers"]))
            norms = lambda count: nn.ModuleList(nn.LayerNorm(hidden) for _ in range(count))
            self.table, self.positions = nn.Embedding(shape["vocab"], hidden), nn.Embedding(shape["positions"], hidden)
            self.own, self.across, self.norms = linears(4), linears(2), norms(3 * shape["layers"] + 1)
            self.widen = nn.ModuleList(nn.Linear(hidden, shape["ffn"]) for _ in range(shape["layers"]))
            self.narrow = nn.ModuleList(nn.Linear(shape["ffn"], hidden) for _ in range(shape["layers"]))

        def forward(self, ids, *cache):
            apart = lambda x: x.unflatten(-1, (heads, -1)).transpose(1, 2)
            attend = lambda *inputs: nn.functional.scaled_dot_product_attention(*inputs).transpose(1, 2).flatten(2)
            x, grown = self.table(ids) + self.positions.weight[cache[0].shape[2]], []
            for layer in range(shape["layers"]):
                past_key, past_value, *encoded = cache[4 * layer:4 * layer + 4]
                query, key, value, out = self.own[4 * layer:4 * layer + 4]
                normed = self.norms[3 * layer](x)
                keys, values = torch.cat([past_key, apart(key(normed))], 2), torch.cat([past_value, apart(value(normed))], 2)
                grown += [keys, values]
                x = x + out(attend(apart(query(normed)), keys, values))
                query, out = self.across[2 * layer:2 * layer + 2]
                x = x + out(attend(apart(query(self.norms[3 * layer + 1](x))), *encoded))
                x = x + self.narrow[layer](nn.functional.gelu(self.widen[layer](self.norms[3 * layer + 2](x))))
            return self.norms[-1](x) @ self.table.weight.T, grown

    return Decoder().eval()


def torch_runner(path, threads):
    import torch
    torch.set_num_threads(threads)
    compiler = next(filter(shutil.which, ("g++", "clang++", "clang++-22")), None)
    if compiler:
        os.environ.setdefault("CXX", compiler)
    name = pathlib.Path(path).stem
    audio = {"whisper-tiny-encoder": torch_audio_encoder, "whisper-tiny-decoder": torch_audio_decoder}
    eager = audio[name](torch, model_files.WHISPER) if name in audio else torch_encoder(torch, model_files.ENCODERS[name])
    fastest = {}  # shapes → eager or compiled

    def arguments(inputs):
        given = {key: torch.from_numpy(value) for key, value in inputs.items()}
        if "attention_mask" in given:
            hidden = given.pop("attention_mask") == 0
            given["mask"] = hidden if hidden.any() else None
        return list(given.values())

    def choose(batches):
        seconds = {}
        for way in (eager, torch.compile(eager, dynamic=len(batches) > 1)):
            try:
                seconds[way] = min(timed(lambda: [way(*inputs) for inputs in batches]) for _ in range(2))
            except Exception as error:  # inductor's are many
                print(f"torch: {error}", file=sys.stderr)
        return min(seconds, key=seconds.get)

    def run(batches):
        with torch.inference_mode():
            given = [arguments(inputs) for inputs in batches]
            shapes = tuple(inputs[0].shape for inputs in given)
            if shapes not in fastest:
                fastest[shapes] = choose(given)
            for inputs in given:
                fastest[shapes](*inputs)
    return f"torch {torch.__version__.split('+')[0]}", run


def timed(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main():
    engine, path, threads = sys.argv[1:]
    name, run = {"onnxruntime": onnxruntime_runner, "openvino": openvino_runner, "torch": torch_runner}[engine](path, int(threads))
    print(json.dumps({"name": name}), flush=True)
    read = {}
    for line in sys.stdin:
        request = json.loads(line)
        batches = []
        for file in request["inputs"]:
            if file not in read:
                read[file] = {name: numpy.array(values, NUMPY_TYPES[kind]).reshape(shape)
                              for name, (kind, shape, values) in safetensors.load(file).items()}
            batches.append(read[file])
        best, spent = float("inf"), 0.0
        for _ in range(request["runs"] + 1):
            seconds = timed(lambda: run(batches))
            best, spent = min(best, seconds), spent + seconds
            if spent > LONG:
                break
        print(json.dumps({"seconds": best}), flush=True)


main()
