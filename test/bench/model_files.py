# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes model files of real shapes with random weights, to measure speed on: their answers mean nothing.

model_files.py 1b-bf16|1b-q4_0|1b-q8_0|1b-q4_k_m FOLDER     Llama-3.2-1B's shape as GGUF; what is quantised by llama.cpp's own quantiser
model_files.py layers-16|layers-32 FOLDER                   narrow models in bf16 that differ in depth alone
model_files.py minilm|bert-base|vit-b FOLDER                encoders as ONNX, f32, of dynamic batch and sequence
model_files.py whisper-tiny-encoder|whisper-tiny-decoder FOLDER     as ONNX, f32; of the decoder a step: a token behind cached ones
model_files.py minilm-bert FOLDER                           MiniLM's shape as a folder of Hugging Face's BERT, f32

Prints the path; a file that is there is kept. GGUF and folders need PyPI numpy, and llama-cpp-python to quantise; ONNX numpy and onnx.
"""
import ctypes
import json
import os
import pathlib
import shutil
import struct
import sys

# Llama-3.2-1B.
LLAMA = {"layers": 16, "hidden": 2048, "ffn": 8192, "heads": 32, "kv_heads": 8, "head_dim": 64, "vocab": 128256, "context": 131072,
         "theta": 500000.0}
# Narrow, so that little but the code is left to compile.
NARROW = {**LLAMA, "hidden": 512, "ffn": 2048, "heads": 8, "kv_heads": 2, "vocab": 4096}
# All tensors of one type but K-quants, which mix types as llama.cpp does.
QUANTISED = {"q4_0": "LLAMA_FTYPE_MOSTLY_Q4_0", "q8_0": "LLAMA_FTYPE_MOSTLY_Q8_0", "q4_k_m": "LLAMA_FTYPE_MOSTLY_Q4_K_M"}
MIXED = {"q4_k_m"}
ENCODERS = {"minilm": {"layers": 6, "hidden": 384, "ffn": 1536, "heads": 12, "vocab": 30522, "positions": 512},
            "bert-base": {"layers": 12, "hidden": 768, "ffn": 3072, "heads": 12, "vocab": 30522, "positions": 512},
            "vit-b": {"layers": 12, "hidden": 768, "ffn": 3072, "heads": 12, "image": 224, "patch": 16}}
WHISPER = {"layers": 4, "hidden": 384, "ffn": 1536, "heads": 6, "mels": 80, "frames": 3000, "vocab": 51865, "positions": 448}


# --- GGUF -------------------------------------------------------------------------------------------------------------

GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL, GGUF_STRING, GGUF_ARRAY = 4, 5, 6, 7, 8, 9
GGML_F32, GGML_BF16 = 0, 30
ALIGNMENT = 32


def gguf_string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_value(kind, value):
    if kind == GGUF_STRING:
        return gguf_string(value)
    return struct.pack({GGUF_U32: "<I", GGUF_I32: "<i", GGUF_F32: "<f", GGUF_BOOL: "<?"}[kind], value)


def gguf_array(kind, values):
    return struct.pack("<IQ", kind, len(values)) + b"".join(gguf_value(kind, value) for value in values)


def byte_alphabet():
    """The printable character that byte-level tokenizers write for each byte."""
    shown = {*range(33, 127), *range(161, 173), *range(174, 256)}
    spare = iter(range(256, 512))
    return [chr(byte if byte in shown else next(spare)) for byte in range(256)]


def llama_keys(shape):
    """(key, type, encoded value) in the file's order. The tokenizer has the bytes, two merges and names for the other ids."""
    tokens = byte_alphabet() + ["th", "in"]
    tokens += [f"<unused {i}>" for i in range(shape["vocab"] - len(tokens))]
    text, whole, real = (lambda v: (GGUF_STRING, gguf_value(GGUF_STRING, v))), (lambda v: (GGUF_U32, gguf_value(GGUF_U32, v))), \
                        (lambda v: (GGUF_F32, gguf_value(GGUF_F32, v)))
    return {"general.architecture": text("llama"), "general.name": text("random weights"), "general.file_type": whole(32),
            "llama.block_count": whole(shape["layers"]), "llama.context_length": whole(shape["context"]),
            "llama.embedding_length": whole(shape["hidden"]), "llama.feed_forward_length": whole(shape["ffn"]),
            "llama.attention.head_count": whole(shape["heads"]), "llama.attention.head_count_kv": whole(shape["kv_heads"]),
            "llama.attention.key_length": whole(shape["head_dim"]), "llama.attention.value_length": whole(shape["head_dim"]),
            "llama.rope.dimension_count": whole(shape["head_dim"]), "llama.rope.freq_base": real(shape["theta"]),
            "llama.attention.layer_norm_rms_epsilon": real(1e-5), "llama.vocab_size": whole(shape["vocab"]),
            "tokenizer.ggml.model": text("gpt2"), "tokenizer.ggml.pre": text("smollm"),
            "tokenizer.ggml.tokens": (GGUF_ARRAY, gguf_array(GGUF_STRING, tokens)),
            "tokenizer.ggml.token_type": (GGUF_ARRAY, gguf_array(GGUF_I32, [1] * len(tokens))),
            "tokenizer.ggml.merges": (GGUF_ARRAY, gguf_array(GGUF_STRING, ["t h", "i n"])),
            "tokenizer.ggml.bos_token_id": whole(0), "tokenizer.ggml.eos_token_id": whole(shape["vocab"] - 1),
            "tokenizer.ggml.add_bos_token": (GGUF_BOOL, gguf_value(GGUF_BOOL, False))}


def llama_tensors(shape):
    """(name, (rows, columns) or (length,)) in the file's order; embeddings are the head's weights as well."""
    hidden, ffn = shape["hidden"], shape["ffn"]
    queries, keys = shape["heads"] * shape["head_dim"], shape["kv_heads"] * shape["head_dim"]
    tensors = [("token_embd.weight", (shape["vocab"], hidden)), ("output_norm.weight", (hidden,))]
    for layer in range(shape["layers"]):
        tensors += [(f"blk.{layer}.{name}.weight", size) for name, size in
                    (("attn_norm", (hidden,)), ("attn_q", (queries, hidden)), ("attn_k", (keys, hidden)), ("attn_v", (keys, hidden)),
                     ("attn_output", (hidden, queries)), ("ffn_norm", (hidden,)), ("ffn_gate", (ffn, hidden)), ("ffn_up", (ffn, hidden)),
                     ("ffn_down", (hidden, ffn)))]
    return tensors


def write_llama(path, shape):
    """Matrices are normal with variance 1 / columns in bf16, norms near 1 in f32."""
    import numpy
    random, keys, tensors = numpy.random.default_rng(1), llama_keys(shape), llama_tensors(shape)
    header = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(keys))
    header += b"".join(gguf_string(key) + struct.pack("<I", kind) + data for key, (kind, data) in keys.items())
    offset = 0
    for name, size in tensors:
        width = 2 if len(size) == 2 else 4
        header += gguf_string(name) + struct.pack(f"<I{len(size)}QIQ", len(size), *reversed(size), GGML_BF16 if width == 2 else GGML_F32, offset)
        offset += -(-width * int(numpy.prod(size)) // ALIGNMENT) * ALIGNMENT
    with open(path, "wb") as file:
        file.write(header + b"\0" * (-len(header) % ALIGNMENT))
        for name, size in tensors:
            if len(size) == 1:
                file.write((1 + 0.1 * random.standard_normal(size, numpy.float32)).tobytes())
            else:
                for begin in range(0, size[0], 4096):  # some rows at a time: memory stays small
                    rows = random.standard_normal((min(4096, size[0] - begin), size[1]), numpy.float32) / numpy.float32(size[1] ** 0.5)
                    file.write(((rows.view(numpy.uint32) + 0x8000) >> 16).astype(numpy.uint16).tobytes())
            file.write(b"\0" * (-file.tell() % ALIGNMENT))


def quantise(source, path, kind):
    import llama_cpp
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype, params.nthread, params.pure = getattr(llama_cpp, QUANTISED[kind]), os.cpu_count(), kind not in MIXED
    silent = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(silent, ctypes.c_void_p())
    if llama_cpp.llama_model_quantize(os.fsencode(source), os.fsencode(path), params):
        sys.exit(f"model_files.py: llama.cpp does not quantise {source} to {kind}")


# --- ONNX -------------------------------------------------------------------------------------------------------------

class Graph:
    """Nodes and random weights of an ONNX graph."""

    def __init__(self):
        import numpy
        self.numpy, self.random, self.nodes, self.weights = numpy, numpy.random.default_rng(1), [], []

    def add(self, kind, *inputs, **attributes):
        import onnx
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, values):
        import onnx
        name = f"weight_{len(self.weights)}"
        self.weights.append(onnx.numpy_helper.from_array(values, name))
        return name

    def floats(self, *shape, scale=0.02, mean=0.0):
        return self.constant((mean + scale * self.random.standard_normal(shape)).astype("float32"))

    def integers(self, *values):
        return self.constant(self.numpy.array(values, "int64"))

    def linear(self, x, rows, columns):
        return self.add("Add", self.add("MatMul", x, self.floats(rows, columns, scale=rows ** -0.5)), self.floats(columns))

    def norm(self, x, width):
        return self.add("LayerNormalization", x, self.floats(width, mean=1), self.floats(width), axis=-1, epsilon=1e-12)

    def gelu(self, x):
        scalar = lambda value: self.constant(self.numpy.array(value, "float32"))
        erf = self.add("Erf", self.add("Div", x, scalar(2 ** 0.5)))
        return self.add("Mul", self.add("Mul", x, self.add("Add", erf, scalar(1))), scalar(0.5))

    def heads(self, x, shape, perm=(0, 2, 1, 3)):
        """A product of x, in heads: (batch, heads, sequence, head_dim), or as `perm` says."""
        hidden, heads = shape["hidden"], shape["heads"]
        apart = self.integers(0, 0, heads, hidden // heads)
        return self.add("Transpose", self.add("Reshape", self.linear(x, hidden, hidden), apart), perm=list(perm))

    def attend(self, query, key, value, bias, shape):
        """`key` is transposed: (batch, heads, head_dim, sequence)."""
        hidden = shape["hidden"]
        scale = self.constant(self.numpy.array((hidden / shape["heads"]) ** 0.5, "float32"))
        scores = self.add("Div", self.add("MatMul", query, key), scale)
        if bias:
            scores = self.add("Add", scores, bias)
        seen = self.add("MatMul", self.add("Softmax", scores, axis=-1), value)
        together = self.add("Reshape", self.add("Transpose", seen, perm=[0, 2, 1, 3]), self.integers(0, 0, hidden))
        return self.linear(together, hidden, hidden)

    def attention(self, x, bias, shape):
        query, key, value = (self.heads(x, shape, perm) for perm in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)))
        return self.attend(query, key, value, bias, shape)

    def feed_forward(self, x, shape):
        return self.linear(self.gelu(self.linear(x, shape["hidden"], shape["ffn"])), shape["ffn"], shape["hidden"])

    def save(self, path, inputs, x, name="last_hidden_state", more=()):
        """`more`: (name, value, shape) of outputs behind the first."""
        import onnx
        outputs = [(name, x, ["batch", None, None]), *more]
        self.nodes += [onnx.helper.make_node("Identity", [value], [name]) for name, value, _ in outputs]
        outputs = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, _, shape in outputs]
        graph = onnx.helper.make_graph(self.nodes, "graph", inputs, outputs, self.weights)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
        path.write_bytes(model.SerializeToString())


def write_text_encoder(path, shape):
    """BERT: norms behind each addition, a mask of padding."""
    import onnx
    graph, hidden = Graph(), shape["hidden"]
    inputs = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, ["batch", "sequence"]) for name in ("input_ids", "attention_mask")]
    length = graph.add("Slice", graph.add("Shape", "input_ids"), graph.integers(1), graph.integers(2))
    positions = graph.add("Slice", graph.floats(shape["positions"], hidden), graph.integers(0), length, graph.integers(0))
    x = graph.add("Add", graph.add("Gather", graph.floats(shape["vocab"], hidden), "input_ids"), positions)
    x = graph.norm(x, hidden)
    mask = graph.add("Cast", graph.add("Unsqueeze", "attention_mask", graph.integers(1, 2)), to=onnx.TensorProto.BOOL)
    bias = graph.add("Where", mask, *(graph.constant(graph.numpy.array(value, "float32")) for value in (0, graph.numpy.finfo("float32").min)))
    for _ in range(shape["layers"]):
        x = graph.norm(graph.add("Add", graph.attention(x, bias, shape), x), hidden)
        x = graph.norm(graph.add("Add", graph.feed_forward(x, shape), x), hidden)
    graph.save(path, inputs, x)


def write_image_encoder(path, shape):
    """ViT: patches, a class token, norms before each block."""
    import onnx
    graph, hidden, patch, image = Graph(), shape["hidden"], shape["patch"], shape["image"]
    inputs = [onnx.helper.make_tensor_value_info("pixel_values", onnx.TensorProto.FLOAT, ["batch", 3, image, image])]
    patches = graph.add("Conv", "pixel_values", graph.floats(hidden, 3, patch, patch), graph.floats(hidden), kernel_shape=[patch, patch],
                        strides=[patch, patch])
    x = graph.add("Transpose", graph.add("Reshape", patches, graph.integers(0, hidden, -1)), perm=[0, 2, 1])
    batch = graph.add("Slice", graph.add("Shape", "pixel_values"), graph.integers(0), graph.integers(1))
    start = graph.add("Expand", graph.floats(1, 1, hidden), graph.add("Concat", batch, graph.integers(1, hidden), axis=0))
    x = graph.add("Add", graph.add("Concat", start, x, axis=1), graph.floats(1, (image // patch) ** 2 + 1, hidden))
    for _ in range(shape["layers"]):
        x = graph.add("Add", graph.attention(graph.norm(x, hidden), None, shape), x)
        x = graph.add("Add", graph.feed_forward(graph.norm(x, hidden), shape), x)
    graph.save(path, inputs, graph.norm(x, hidden))


def write_audio_encoder(path, shape):
    """Whisper's encoder: two convolutions over time, norms before each block."""
    import onnx
    graph, hidden = Graph(), shape["hidden"]
    inputs = [onnx.helper.make_tensor_value_info("input_features", onnx.TensorProto.FLOAT, ["batch", shape["mels"], shape["frames"]])]
    x = "input_features"
    for channels, stride in ((shape["mels"], 1), (hidden, 2)):
        x = graph.gelu(graph.add("Conv", x, graph.floats(hidden, channels, 3), graph.floats(hidden), kernel_shape=[3], pads=[1, 1], strides=[stride]))
    x = graph.add("Add", graph.add("Transpose", x, perm=[0, 2, 1]), graph.floats(shape["frames"] // 2, hidden))
    for _ in range(shape["layers"]):
        x = graph.add("Add", graph.attention(graph.norm(x, hidden), None, shape), x)
        x = graph.add("Add", graph.feed_forward(graph.norm(x, hidden), shape), x)
    graph.save(path, inputs, graph.norm(x, hidden))


def write_audio_decoder(path, shape):
    """A step of Whisper's decoder: a token behind cached ones, and behind the encoder's keys and values, to logits and the grown cache."""
    import onnx
    graph, hidden, heads = Graph(), shape["hidden"], shape["heads"]
    of_cache = lambda length: ["batch", heads, length, hidden // heads]
    inputs = [onnx.helper.make_tensor_value_info("input_ids", onnx.TensorProto.INT64, ["batch", 1])]
    inputs += [onnx.helper.make_tensor_value_info(f"{part}_{layer}", onnx.TensorProto.FLOAT, of_cache("past" if "past" in part else shape["frames"] // 2))
               for layer in range(shape["layers"]) for part in ("past_key", "past_value", "encoder_key", "encoder_value")]
    table = graph.floats(shape["vocab"], hidden)
    past = graph.add("Slice", graph.add("Shape", "past_key_0"), graph.integers(2), graph.integers(3))
    position = graph.add("Gather", graph.floats(shape["positions"], hidden), past)
    x, grown = graph.add("Add", graph.add("Gather", table, "input_ids"), position), []
    for layer in range(shape["layers"]):
        normed = graph.norm(x, hidden)
        key, value = (graph.add("Concat", f"past_{part}_{layer}", graph.heads(normed, shape), axis=2) for part in ("key", "value"))
        grown += [(f"key_{layer}", key, of_cache("length")), (f"value_{layer}", value, of_cache("length"))]
        turned = graph.add("Transpose", key, perm=[0, 1, 3, 2])
        x = graph.add("Add", graph.attend(graph.heads(normed, shape), turned, value, None, shape), x)
        query, turned = graph.heads(graph.norm(x, hidden), shape), graph.add("Transpose", f"encoder_key_{layer}", perm=[0, 1, 3, 2])
        x = graph.add("Add", graph.attend(query, turned, f"encoder_value_{layer}", None, shape), x)
        x = graph.add("Add", graph.feed_forward(graph.norm(x, hidden), shape), x)
    logits = graph.add("MatMul", graph.norm(x, hidden), graph.add("Transpose", table, perm=[1, 0]))
    graph.save(path, inputs, logits, "logits", grown)


# --- Hugging Face -----------------------------------------------------------------------------------------------------

def bert_tensors(shape):
    """(name, shape) of BertModel's tensors."""
    hidden, ffn = shape["hidden"], shape["ffn"]
    tensors = [(f"embeddings.{name}_embeddings.weight", (rows, hidden))
               for name, rows in (("word", shape["vocab"]), ("position", shape["positions"]), ("token_type", 2))]
    linear = lambda name, rows, columns: [(f"{name}.weight", (rows, columns)), (f"{name}.bias", (rows,))]
    norm = lambda name: [(f"{name}.LayerNorm.weight", (hidden,)), (f"{name}.LayerNorm.bias", (hidden,))]
    tensors += norm("embeddings")
    for layer in range(shape["layers"]):
        at = f"encoder.layer.{layer}"
        for part in ("query", "key", "value"):
            tensors += linear(f"{at}.attention.self.{part}", hidden, hidden)
        tensors += linear(f"{at}.attention.output.dense", hidden, hidden) + norm(f"{at}.attention.output")
        tensors += linear(f"{at}.intermediate.dense", ffn, hidden) + linear(f"{at}.output.dense", hidden, ffn) + norm(f"{at}.output")
    return tensors


def write_bert_folder(path, shape):
    import numpy
    random, tensors, header, at = numpy.random.default_rng(1), bert_tensors(shape), {}, 0
    for name, size in tensors:
        header[name] = {"dtype": "F32", "shape": size, "data_offsets": [at, at := at + 4 * int(numpy.prod(size))]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.mkdir()
    with open(path / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, size in tensors:
            scale = size[1] ** -0.5 if len(size) == 2 and name.startswith("encoder") else 0.02
            mean = float(name.endswith("LayerNorm.weight"))
            file.write((mean + scale * random.standard_normal(size, numpy.float32)).astype(numpy.float32).tobytes())
    (path / "config.json").write_text(json.dumps({
        "architectures": ["BertModel"], "model_type": "bert", "hidden_act": "gelu", "hidden_size": shape["hidden"],
        "intermediate_size": shape["ffn"], "layer_norm_eps": 1e-12, "max_position_embeddings": shape["positions"],
        "num_attention_heads": shape["heads"], "num_hidden_layers": shape["layers"], "type_vocab_size": 2, "vocab_size": shape["vocab"]}) + "\n")


# --- all --------------------------------------------------------------------------------------------------------------

# What is neither GGUF nor of ENCODERS: the end of its name, who writes it, and its shape.
OTHERS = {"whisper-tiny-encoder": (".onnx", write_audio_encoder, WHISPER), "whisper-tiny-decoder": (".onnx", write_audio_decoder, WHISPER),
          "minilm-bert": ("", write_bert_folder, ENCODERS["minilm"]),
          **{f"layers-{layers}": (".gguf", write_llama, {**NARROW, "layers": layers}) for layers in (16, 32)}}


def make(name, folder):
    """The file of that name, or the folder; it appears under its own name when it is whole."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    suffix = OTHERS[name][0] if name in OTHERS else ".onnx" if name in ENCODERS else ".gguf"
    path = folder / f"{name}{suffix}"
    if path.exists():
        return path
    part, kind = folder / f"{name}.part", name.removeprefix("1b-")
    if part.is_dir():
        shutil.rmtree(part)
    if name in OTHERS:
        OTHERS[name][1](part, OTHERS[name][2])
    elif name in ENCODERS:
        (write_image_encoder if "image" in ENCODERS[name] else write_text_encoder)(part, ENCODERS[name])
    elif kind == "bf16":
        write_llama(part, LLAMA)
    elif kind in QUANTISED:
        quantise(make("1b-bf16", folder), part, kind)
    else:
        sys.exit(f"model_files.py: no model '{name}'")
    part.rename(path)
    return path


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(make(*sys.argv[1:]))
