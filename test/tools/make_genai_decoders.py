# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""make_genai_decoders.py OUT: tiny decoders as the model builder of onnxruntime-genai writes them, with ONNX Runtime's logits.

They take input_ids, attention_mask and past_key_values.N.key and .value; attention is GroupQueryAttention, which rotates and keeps the cache, residual
sums are in the norms, matrices of some are MatMulNBits, embeddings GatherBlockQuantized. OUT/genai-NAME.in.safetensors and .out.safetensors are a batch
without earlier tokens. The most probable ids behind 5, 9, 4 are printed: test/raise/decoders.test has them, and the models
whose numbers a program rounds otherwise (q4, f16) in Inputs. Needs onnx, onnxruntime, numpy, safetensors.
"""
import pathlib
import sys

sys.path.pop(0)  # safetensors.py beside this file is not PyPI's

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file

MS = "com.microsoft"
LAYERS, VOCABULARY, HEAD = 2, 37, 16
MODELS = {
    # One head of keys for all queries, whose heads are normalised among the rows of all tokens.
    "qwen3": dict(hidden=24, heads=3, kv_heads=1, inner=20, normalizes_heads=True),
    # Queries, keys and values of one matrix, gates and what they multiply of another.
    "phi3": dict(hidden=24, heads=2, kv_heads=2, inner=20, is_packed=True),
    # Scores and logits that are bounded, a window in every other layer, norms behind both blocks, embeddings times a number.
    "gemma2": dict(hidden=32, heads=2, kv_heads=1, inner=20, softcap=5.0, window=3, has_post_norms=True),
    # A sink in every head.
    "gpt-oss": dict(hidden=24, heads=4, kv_heads=2, inner=20, has_sinks=True, window=3),
    # Matrices of four bits with zero points, embeddings in codes.
    "q4": dict(hidden=64, heads=4, kv_heads=4, inner=64, block=32),
    "f16": dict(hidden=24, heads=3, kv_heads=1, inner=20, dtype=np.float16),
}


class Graph:
    def __init__(self, dtype):
        self.random, self.dtype, self.nodes, self.initializers = np.random.default_rng(1), dtype, [], []

    def add(self, op, inputs, outputs=1, domain="", **attributes):
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)] if isinstance(outputs, int) else outputs
        self.nodes.append(helper.make_node(op, inputs, names, domain=domain, name=f"/{op}_{len(self.nodes)}", **attributes))
        return names[0] if len(names) == 1 else names

    def constant(self, array):
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array) if np.ndim(array) else np.array(array), name))
        return name

    def weight(self, *shape, scale=0.3, mean=0.0):
        return self.constant((mean + scale * self.random.standard_normal(shape)).astype(self.dtype))


def codes_of(weights, block):
    """Of (N, K): two codes in a byte, scales, and zero points two in a byte as well."""
    rows, columns = weights.shape
    blocks = weights.reshape(rows, columns // block, block)
    low, high = np.minimum(blocks.min(-1, keepdims=True), 0), np.maximum(blocks.max(-1, keepdims=True), 0)
    scale = (high - low) / 15
    zero = np.round(-low / scale)
    codes = np.clip(np.round(blocks / scale + zero), 0, 15).astype(np.uint8)
    zeros = np.pad(zero[..., 0].astype(np.uint8), ((0, 0), (0, zero.shape[1] % 2)))
    return codes[..., 0::2] | codes[..., 1::2] << 4, scale[..., 0].astype(np.float32), zeros[:, 0::2] | zeros[:, 1::2] << 4


def decoder(hidden, heads, kv_heads, inner, normalizes_heads=False, is_packed=False, softcap=0.0, window=-1, has_post_norms=False, has_sinks=False,
            block=0, dtype=np.float32):
    g = Graph(dtype)

    def linear(x, rows, columns):
        if not block:
            return g.add("MatMul", [x, g.weight(columns, rows)])
        codes, scales, zeros = codes_of(0.3 * g.random.standard_normal((rows, columns)), block)
        return g.add("MatMulNBits", [x, g.constant(codes), g.constant(scales), g.constant(zeros)], domain=MS, N=rows, K=columns, bits=4, block_size=block)

    def norm(x, skip=None, width=hidden, is_last=False):
        weight = g.weight(width, mean=1)
        if skip is None:
            return g.add("SimplifiedLayerNormalization", [x, weight], axis=-1, epsilon=1e-6, stash_type=1), x
        name = f"sum{len(g.nodes)}"
        outputs = [name + "_0"] + ([] if is_last else ["", "", name])
        g.add("SkipSimplifiedLayerNormalization", [x, skip, weight], outputs, domain=MS, epsilon=1e-6)
        return outputs[0], name

    def normalized_heads(x, count):
        apart = g.add("Reshape", [x, g.constant(np.array([0, -1, HEAD]))])
        return g.add("Reshape", [norm(apart, width=HEAD)[0], g.constant(np.array([0, -1, count * HEAD]))])

    if block:
        codes, scales, _ = codes_of(g.random.standard_normal((VOCABULARY, hidden)), block)
        x = g.add("GatherBlockQuantized", [g.constant(codes.reshape(VOCABULARY, -1)), "input_ids", g.constant(scales)], domain=MS, bits=4, block_size=block,
                  gather_axis=0, quantize_axis=1)
    else:
        x = g.add("Gather", [g.weight(VOCABULARY, hidden, scale=1), "input_ids"])
    if has_post_norms:
        x = g.add("Mul", [x, g.constant(np.array(np.sqrt(hidden), dtype))])
    lengths = g.add("ReduceSum", ["attention_mask", g.constant(np.array([1]))], keepdims=0)
    lengths = g.add("Cast", [g.add("Sub", [lengths, g.constant(np.array([1]))])], to=TensorProto.INT32)
    total = g.add("Cast", [g.add("Gather", [g.add("Shape", ["attention_mask"]), g.constant(np.array(1))], axis=0)], to=TensorProto.INT32)
    angles = np.arange(64)[:, None] / 10000 ** (np.arange(0, HEAD, 2) / HEAD)
    cosines, sines = g.constant(np.cos(angles).astype(dtype)), g.constant(np.sin(angles).astype(dtype))
    skip = None
    for layer in range(LAYERS):
        y, x = norm(x, skip)
        if is_packed:
            q, k, v = linear(y, (heads + 2 * kv_heads) * HEAD, hidden), "", ""
        else:
            q, k, v = (linear(y, count * HEAD, hidden) for count in (heads, kv_heads, kv_heads))
        if normalizes_heads:
            q, k = normalized_heads(q, heads), normalized_heads(k, kv_heads)
        past = [f"past_key_values.{layer}.{part}" for part in ("key", "value")]
        sinks = ["", "", g.weight(heads, scale=1)] if has_sinks else []
        attended = g.add("GroupQueryAttention", [q, k, v, *past, lengths, total, cosines, sines, *sinks],
                         [f"a{layer}", *(name.replace("past_key_values", "present") for name in past)], domain=MS, num_heads=heads, kv_num_heads=kv_heads,
                         do_rotary=1, softcap=softcap, local_window_size=-1 if layer % 2 else window, scale=HEAD**-0.5)[0]
        skip = linear(attended, hidden, heads * HEAD)
        if has_post_norms:
            skip = norm(skip)[0]
        y, x = norm(x, skip)
        if is_packed:
            gate, up = g.add("Split", [linear(y, 2 * inner, hidden), g.constant(np.array([inner, inner]))], 2, axis=-1)
        else:
            gate, up = linear(y, inner, hidden), linear(y, inner, hidden)
        active = g.add("FastGelu", [gate], domain=MS) if has_post_norms else g.add("Mul", [gate, g.add("Sigmoid", [gate])])
        skip = linear(g.add("Mul", [active, up]), hidden, inner)
        if has_post_norms:
            skip = norm(skip)[0]
    logits = linear(norm(x, skip, is_last=True)[0], VOCABULARY, hidden)
    if softcap:
        cap = g.constant(np.array(3, dtype))
        logits = g.add("Mul", [g.add("Tanh", [g.add("Div", [logits, cap])]), cap])
    g.nodes[-1].output[0] = "logits"
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    inputs = [("input_ids", TensorProto.INT64, ["batch_size", "sequence_length"]), ("attention_mask", TensorProto.INT64, ["batch_size", "total_sequence_length"])]
    outputs = [("logits", number, ["batch_size", "sequence_length", VOCABULARY])]
    for layer in range(LAYERS):
        for part in ("key", "value"):
            inputs.append((f"past_key_values.{layer}.{part}", number, ["batch_size", kv_heads, "past_sequence_length", HEAD]))
            outputs.append((f"present.{layer}.{part}", number, ["batch_size", kv_heads, "total_sequence_length", HEAD]))
    values = [[helper.make_tensor_value_info(*one) for one in side] for side in (inputs, outputs)]
    graph = helper.make_graph(g.nodes, "main_graph", *values, g.initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(MS, 1)], ir_version=10)


def main():
    out = pathlib.Path(sys.argv[1])
    for name, sizes in MODELS.items():
        model, dtype = decoder(**sizes), sizes.get("dtype", np.float32)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        past = {i.name: lambda batch, i=i: np.zeros((batch, i.shape[1], 0, HEAD), dtype) for i in session.get_inputs() if i.name.startswith("past")}

        def logits_of(ids):
            feed = {"input_ids": ids, "attention_mask": np.ones(ids.shape, np.int64), **{key: of(len(ids)) for key, of in past.items()}}
            return session.run(["logits"], feed)[0]

        greedy = [5, 9, 4]
        for _ in range(6):
            greedy.append(int(logits_of(np.array([greedy]))[0, -1].argmax()))
        ids = np.array([[5, 9, 4, 7, 3], [8, 6, 11, 30, 12]])
        onnx.save(model, str(out / f"genai-{name}.onnx"))
        save_file({"input_ids": ids, "attention_mask": np.ones(ids.shape, np.int64)}, str(out / f"genai-{name}.in.safetensors"))
        save_file({"logits": logits_of(ids)}, str(out / f"genai-{name}.out.safetensors"))
        print(name, ",".join(map(str, greedy[3:])))


if __name__ == "__main__":
    main()
