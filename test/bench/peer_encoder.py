# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The side of another engine in a comparison of ONNX graphs.

peer_encoder.py onnxruntime|openvino|torch MODEL.onnx INPUTS.safetensors THREADS     needs the PyPI package of that name, and numpy

Says {"name": …} when the model is loaded, then answers each line of stdin, {"runs": N}, by {"seconds": the best of N runs}. f32 throughout.
Of torch an encoder of the same shape runs, eager or compiled, whichever is faster; no padding is masked, for the inputs have none.
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

NUMPY_TYPES = {"F32": "float32", "I64": "int64"}


def onnxruntime_runner(path, inputs, threads):
    import onnxruntime
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.inter_op_num_threads, settings.log_severity_level = threads, 1, 3
    session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    return f"onnxruntime {onnxruntime.__version__}", lambda: session.run(None, inputs)


def openvino_runner(path, inputs, threads):
    import openvino
    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    request = openvino.Core().compile_model(path, "CPU", settings).create_infer_request()
    return f"OpenVINO {openvino.__version__.split('-')[0]}", lambda: request.infer(inputs)


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

        def forward(self, x):
            x = self.embed(x)
            if self.is_image:
                x = torch.cat([self.start.expand(x.shape[0], 1, -1), x.flatten(2).transpose(1, 2)], 1) + self.positions
                return self.norm(self.layers(x))
            return self.layers(self.norm(x + self.positions[:, :x.shape[1]]))

    return Encoder().eval()


def torch_runner(path, inputs, threads):
    import torch
    torch.set_num_threads(threads)
    compiler = next(filter(shutil.which, ("g++", "clang++", "clang++-22")), None)
    if compiler:
        os.environ.setdefault("CXX", compiler)
    eager, x = torch_encoder(torch, model_files.ENCODERS[pathlib.Path(path).stem]), torch.from_numpy(next(iter(inputs.values())))
    seconds = {}
    for way, encoder in (("eager", eager), ("compiled", torch.compile(eager))):
        try:
            with torch.inference_mode():
                seconds[way] = min(timed(lambda: encoder(x)) for _ in range(4))
        except Exception as error:  # inductor's are many
            print(f"{way}: {error}", file=sys.stderr)
    way = min(seconds, key=seconds.get)
    encoder = eager if way == "eager" else torch.compile(eager)

    def run():
        with torch.inference_mode():
            encoder(x)
    run()
    return f"torch {torch.__version__.split('+')[0]} ({way})", run


def timed(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main():
    engine, path, inputs, threads = sys.argv[1:]
    tensors = {name: numpy.array(values, NUMPY_TYPES[kind]).reshape(shape) for name, (kind, shape, values) in safetensors.load(inputs).items()}
    name, run = {"onnxruntime": onnxruntime_runner, "openvino": openvino_runner, "torch": torch_runner}[engine](path, tensors, int(threads))
    print(json.dumps({"name": name}), flush=True)
    for line in sys.stdin:
        best = float("inf")
        for _ in range(json.loads(line)["runs"]):
            best = min(best, timed(run))
        print(json.dumps({"seconds": best}), flush=True)


main()
