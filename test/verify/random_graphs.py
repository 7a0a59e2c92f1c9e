# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# random_graphs.py HEDDLE_OPT FOLDER --count=N [--first=SEED]: writes random well-typed modules, one for each seed, and evaluates
# each after every pass of a random list of passes (heddle-opt --heddle-check). A seed gives the same module and passes everywhere;
# those that fail are printed, with the command, and their modules are kept in FOLDER.
import os
import random
import subprocess
import sys

passes = ["canonicalize", "cse", "heddle-share-kv-heads", "heddle-fuse-projections", "heddle-absorb-mla-weights", "heddle-share-layers",
          "heddle-raise-linear", "heddle-raise-norm", "heddle-raise-glu", "heddle-raise-rope", "heddle-raise-softmax",
          "heddle-fuse-attention", "heddle-decompose-tensor-ops", "heddle-fuse-elementwise"]


def tensor(*shape):
    return "tensor<" + "x".join(map(str, shape)) + "xf32>"


class Graph:
    """A function over static shapes: values of (1, sequence, width), and what attention needs between them."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines, self.arguments, self.count = [], [], 0
        self.sequence = self.random.randint(1, 9)
        self.width = self.random.choice([4, 6, 8, 12, 16])
        self.hidden = [(self.argument(tensor(1, self.sequence, self.width)), self.width)]
        self.positions = self.argument(f"tensor<1x{self.sequence}xi32>")
        for _ in range(self.random.randint(2, 9)):
            self.random.choice([self.norm, self.linear, self.projections, self.gate, self.elementwise, self.attention, self.attention,
                                self.latent])()

    def argument(self, kind):
        self.arguments.append(f"%arg{len(self.arguments)}: {kind}")
        return f"%arg{len(self.arguments) - 1}"

    def emit(self, text):
        self.count += 1
        self.lines.append(f"  %{self.count} = {text}")
        return f"%{self.count}"

    def pick(self, width=None):
        """A value, made `width` wide where a width is given."""
        value, wide = self.random.choice(self.hidden)
        return value if width in (None, wide) else self.product(value, wide, width)

    def keep(self, value, width):
        self.hidden.append((value, width))

    def product(self, value, wide, width):
        weight = self.argument(tensor(width, wide))
        bias = self.random.random() < 0.3
        biases = f" biases({self.argument(tensor(width))} : {tensor(width)})" if bias else ""
        return self.emit(f"heddle.linear {value}, weights({weight} : {tensor(width, wide)}){biases} : {self.shaped(wide)} -> {self.shaped(width)}")

    def shaped(self, width):
        return tensor(1, self.sequence, width)

    def norm(self):
        value, wide = self.random.choice(self.hidden)
        weight = self.argument(tensor(wide))
        if self.random.random() < 0.5:
            offset = ", weight_offset = 1.0" if self.random.random() < 0.3 else ""
            self.keep(self.emit(f"heddle.rms_norm {value}, {weight} {{eps = 1.0e-5{offset}}} : {self.shaped(wide)}, {tensor(wide)}"), wide)
        else:
            self.keep(self.emit(f"heddle.layer_norm {value}, {weight} {{eps = 1.0e-5}} : {self.shaped(wide)}, {tensor(wide)}"), wide)

    def linear(self):
        value, wide = self.random.choice(self.hidden)
        width = self.random.choice([self.width, 3, 5, 10])
        self.keep(self.product(value, wide, width), width)

    def projections(self):
        value, wide = self.random.choice(self.hidden)
        for _ in range(self.random.randint(2, 3)):
            width = self.random.choice([self.width, 2 * self.width])
            self.keep(self.product(value, wide, width), width)

    def gate(self):
        value, wide = self.random.choice(self.hidden)
        kind = self.random.choice(["silu", "gelu", "gelu_tanh"])
        up = f", {self.product(value, wide, wide)}" if self.random.random() < 0.7 else ""
        self.keep(self.emit(f"heddle.glu <{kind}> {value}{up} : {self.shaped(wide)}"), wide)

    def elementwise(self):
        value, wide = self.random.choice(self.hidden)
        kind = self.random.choice(["arith.addf", "arith.mulf", "arith.subf", "arith.maximumf", "math.tanh", "heddle.softcap", "repeat"])
        if kind == "math.tanh":
            result = self.emit(f"math.tanh {value} : {self.shaped(wide)}")
        elif kind == "heddle.softcap":
            result = self.emit(f"heddle.softcap {value} {{cap = 3.0}} : {self.shaped(wide)}")
        elif kind == "repeat":  # the same product twice: what cse merges
            again = self.emit(f"math.tanh {value} : {self.shaped(wide)}")
            other = self.emit(f"math.tanh {value} : {self.shaped(wide)}")
            result = self.emit(f"arith.addf {again}, {other} : {self.shaped(wide)}")
        else:
            result = self.emit(f"{kind} {value}, {self.pick(wide)} : {self.shaped(wide)}")
        self.keep(result, wide)

    def heads(self, heads, head_dim):
        """(1, heads, sequence, head_dim)."""
        value, s = self.pick(heads * head_dim), self.sequence
        split = self.emit(f"tensor.expand_shape {value} [[0], [1], [2, 3]] output_shape [1, {s}, {heads}, {head_dim}] : "
                          f"{self.shaped(heads * head_dim)} into {tensor(1, s, heads, head_dim)}")
        return self.transposed(split, (1, s, heads, head_dim), (0, 2, 1, 3))

    def transposed(self, value, shape, order):
        new = [shape[axis] for axis in order]
        empty = self.emit(f"tensor.empty() : {tensor(*new)}")
        return self.emit(f"linalg.transpose ins({value} : {tensor(*shape)}) outs({empty} : {tensor(*new)}) permutation = {list(order)}")

    def merged(self, value, heads, head_dim):
        back = self.transposed(value, (1, heads, self.sequence, head_dim), (0, 2, 1, 3))
        self.keep(self.emit(f"tensor.collapse_shape {back} [[0], [1], [2, 3]] : {tensor(1, self.sequence, heads, head_dim)} into "
                            f"{self.shaped(heads * head_dim)}"), heads * head_dim)

    def rotated(self, value, heads, head_dim):
        half = head_dim // 2
        if not half or self.random.random() < 0.4:
            return value
        layout = self.random.choice(["half", "interleaved"])
        frequencies = ", ".join(f"{10.0 ** -i:.6e}" for i in range(half))
        return self.emit(f"heddle.rope {value}, {self.positions}, <{layout}, table = 0, attention_factor = 1.0, inverse_frequency = "
                         f"array<f32: {frequencies}>> : {tensor(1, heads, self.sequence, head_dim)}, tensor<1x{self.sequence}xi32>")

    def repeated(self, value, kv_heads, group, head_dim):
        """Each head `group` times, as exporters write it: a broadcast along a new axis that joins the heads'."""
        s, five = self.sequence, (1, kv_heads, group, self.sequence, head_dim)
        empty = self.emit(f"tensor.empty() : {tensor(*five)}")
        wide = self.emit(f"linalg.broadcast ins({value} : {tensor(1, kv_heads, s, head_dim)}) outs({empty} : {tensor(*five)}) dimensions = [2]")
        return self.emit(f"tensor.collapse_shape {wide} [[0], [1, 2], [3], [4]] : {tensor(*five)} into {tensor(1, kv_heads * group, s, head_dim)}")

    def attention(self):
        kv_heads, group, head_dim = self.random.randint(1, 3), self.random.randint(1, 3), self.random.choice([2, 3, 4, 6])
        heads = kv_heads * group
        query = self.rotated(self.heads(heads, head_dim), heads, head_dim)
        key = self.rotated(self.heads(kv_heads, head_dim), kv_heads, head_dim)
        value = self.heads(kv_heads, head_dim)
        if self.random.random() < 0.5:
            key, value = (self.repeated(each, kv_heads, group, head_dim) for each in (key, value))
            kv_heads = heads
        mask = self.random.choice(["<causal>", "<full>", f"<causal, window = {self.random.randint(1, 6)}>"])
        softcap = ", softcap = 2.0" if self.random.random() < 0.3 else ""
        if mask == "<full>" and self.random.random() < 0.5:
            result = self.eager(query, key, value, heads, head_dim) if kv_heads == heads else None
        else:
            result = None
        if result is None:
            kv = tensor(1, kv_heads, self.sequence, head_dim)
            whole = tensor(1, heads, self.sequence, head_dim)
            result = self.emit(f"heddle.attention {query}, {key}, {value} {mask} {{scale = {self.random.choice([0.5, 0.25, 1.0])}{softcap}}} : "
                               f"{whole}, {kv}, {kv} -> {whole}")
        self.merged(result, heads, head_dim)

    def eager(self, query, key, value, heads, head_dim):
        """Attention as a product, a softmax and a product."""
        s = self.sequence
        scores, whole = tensor(1, heads, s, s), tensor(1, heads, s, head_dim)
        zero = self.emit("arith.constant 0.0 : f32")

        def contract(maps, left, right, kinds, shape):
            empty = self.emit(f"tensor.empty() : {shape}")
            filled = self.emit(f"linalg.fill ins({zero} : f32) outs({empty} : {shape}) -> {shape}")
            listed = ", ".join(f"affine_map<(b, h, q, k, d) -> ({each})>" for each in maps)
            return self.emit(f"linalg.contract indexing_maps = [{listed}] ins({left}, {right} : {kinds}) outs({filled} : {shape}) -> {shape}")

        product = contract(["b, h, q, d", "b, h, k, d", "b, h, q, k"], query, key, f"{whole}, {whole}", scores)
        scale = self.emit(f"arith.constant dense<0.5> : {scores}")
        scaled = self.emit(f"arith.mulf {product}, {scale} : {scores}")
        empty = self.emit(f"tensor.empty() : {scores}")
        weights = self.emit(f"linalg.softmax dimension(3) ins({scaled} : {scores}) outs({empty} : {scores}) -> {scores}")
        return contract(["b, h, q, k", "b, h, k, d", "b, h, q, d"], weights, value, f"{scores}, {whole}", whole)

    def latent(self):
        """Keys and values of low rank: products of one narrow value."""
        rank, heads, head_dim, s = self.random.choice([2, 3, 5]), self.random.randint(1, 3), self.random.choice([2, 4]), self.sequence
        latent = self.pick(rank)
        self.hidden.append((self.product(latent, rank, heads * head_dim), heads * head_dim))
        key, value = (self.product(latent, rank, heads * head_dim) for _ in range(2))
        split = []
        for each in (key, value):
            five = self.emit(f"tensor.expand_shape {each} [[0], [1], [2, 3]] output_shape [1, {s}, {heads}, {head_dim}] : "
                             f"{self.shaped(heads * head_dim)} into {tensor(1, s, heads, head_dim)}")
            split.append(self.transposed(five, (1, s, heads, head_dim), (0, 2, 1, 3)))
        whole = tensor(1, heads, s, head_dim)
        result = self.emit(f"heddle.attention {self.heads(heads, head_dim)}, {split[0]}, {split[1]} <causal> {{scale = 0.5}} : "
                           f"{whole}, {whole}, {whole} -> {whole}")
        self.merged(result, heads, head_dim)

    def text(self):
        results = self.hidden[-2:]
        kinds = ", ".join(self.shaped(width) for _, width in results)
        body = "\n".join(self.lines)
        return (f"func.func @graph({', '.join(self.arguments)}) -> ({kinds}) {{\n{body}\n"
                f"  return {', '.join(value for value, _ in results)} : {kinds}\n}}\n")


def main():
    tool, folder, *flags = sys.argv[1:]
    given = dict(flag.lstrip("-").split("=") for flag in flags)
    count, first = int(given["count"]), int(given.get("first", 1))
    os.makedirs(folder, exist_ok=True)
    failed = []
    for seed in range(first, first + count):
        graph = Graph(seed)
        chosen = [graph.random.choice(passes) for _ in range(graph.random.randint(2, 8))]
        path = os.path.join(folder, f"graph-{seed}.mlir")
        with open(path, "w") as file:
            file.write(graph.text())
        command = [tool, path, "--heddle-check", f"--heddle-check-seed={seed}", *(f"--{name}" for name in chosen), "-o", os.devnull]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode:
            failed.append(seed)
            print(f"seed {seed}: {' '.join(command)}\n{done.stderr}")
        else:
            os.remove(path)
    print(f"seeds {first} to {first + count - 1}: {count - len(failed)} clean, {len(failed)} failed {failed or ''}")
    sys.exit(bool(failed))


main()
