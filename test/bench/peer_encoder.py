# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The side of another engine in a comparison of ONNX graphs.

peer_encoder.py onnxruntime|openvino MODEL.onnx INPUTS.safetensors THREADS     needs the PyPI package of that name, and numpy

Says {"name": …} when the model is loaded, then answers each line of stdin, {"runs": N}, by {"seconds": the best of N runs}. f32 throughout.
"""
import json
import pathlib
import sys
import time

import numpy

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
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


def main():
    engine, path, inputs, threads = sys.argv[1:]
    tensors = {name: numpy.array(values, NUMPY_TYPES[kind]).reshape(shape) for name, (kind, shape, values) in safetensors.load(inputs).items()}
    name, run = {"onnxruntime": onnxruntime_runner, "openvino": openvino_runner}[engine](path, tensors, int(threads))
    print(json.dumps({"name": name}), flush=True)
    for line in sys.stdin:
        best = float("inf")
        for _ in range(json.loads(line)["runs"]):
            start = time.perf_counter()
            run()
            best = min(best, time.perf_counter() - start)
        print(json.dumps({"seconds": best}), flush=True)


main()
