# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""make_onnx_decoders.py OUT [NAME…]: tiny decoders as PyTorch's exporters write them, with ONNX Runtime's logits.

OUT/NAME.onnx takes input_ids and attention_mask, past-NAME.onnx also position_ids and past_key_values.N.key and .value, as optimum exports
decoders; dynamo-NAME.onnx is of the exporter that traces programs, the others of TorchScript's; experts of eager-NAME.onnx are computed one by one;
static-NAME.onnx is of the former, for a batch of 2 and 10 tokens. OUT/NAME.in.safetensors and NAME.out.safetensors are a batch without earlier tokens. The most probable ids behind 5, 9, 4 are
printed: test/raise/decoders.test has them. Needs torch, transformers, onnx, onnxruntime, numpy, safetensors.
"""
import pathlib
import sys
import warnings

sys.path.pop(0)  # safetensors.py beside this file is not PyPI's, which transformers needs

import numpy as np
import onnx
import onnxruntime
import torch
import transformers
from safetensors.numpy import save_file
from transformers.cache_utils import DynamicCache

SIZES = dict(vocab_size=32, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, max_position_embeddings=32,
             bos_token_id=1, eos_token_id=2, pad_token_id=0, attn_implementation="eager", initializer_range=0.3)
MODELS = {
    "opt": ("OPT", dict(ffn_dim=32, word_embed_proj_dim=16)),
    "gpt-neox": ("GPTNeoX", dict(use_parallel_residual=False, rotary_pct=0.5)),
    "bloom": ("Bloom", dict(n_layer=2, n_head=2)),
    "gpt2": ("GPT2", dict(n_embd=16, n_layer=2, n_head=2, n_positions=32)),
    "granite": ("Granite", dict(num_key_value_heads=1, logits_scaling=4.0, residual_multiplier=0.5)),
    # A mask of more elements than constants have, whose second one is a band.
    "dynamo-gpt-neo": ("GPTNeo", dict(num_layers=2, num_heads=2, intermediate_size=40, attention_types=[[["global", "local"], 1]], window_size=3,
                                      max_position_embeddings=48)),
    # Experts gathered for each choice of a token.
    "dynamo-mixtral": ("Mixtral", dict(num_key_value_heads=1, num_local_experts=4, intermediate_size=8)),
    "dynamo-qwen3-moe": ("Qwen3Moe", dict(num_key_value_heads=1, head_dim=8, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=8,
                                          norm_topk_prob=True)),
    # One expert beside them, which all tokens pass, times a number of each.
    "dynamo-qwen2-moe": ("Qwen2Moe", dict(num_key_value_heads=1, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=8,
                                          shared_expert_intermediate_size=12)),
    # Keys put together part by part; pairs of a rotation that lie side by side and come out in halves.
    "dynamo-deepseek-v3": ("DeepseekV3", dict(q_lora_rank=8, kv_lora_rank=8, qk_nope_head_dim=4, qk_rope_head_dim=4, v_head_dim=6, head_dim=4,
                                              n_routed_experts=4, num_experts_per_tok=2, n_group=2, topk_group=1, first_k_dense_replace=1,
                                              moe_intermediate_size=8, num_key_value_heads=2)),
    "olmoe": ("Olmoe", dict(num_experts=4, num_experts_per_tok=1, intermediate_size=8)),
    # Rotations by a stored table of sines and cosines.
    "gptj": ("GPTJ", dict(n_embd=16, n_layer=2, n_head=2, n_positions=32, n_inner=24, rotary_dim=4)),
    "dynamo-gptj": ("GPTJ", dict(n_embd=16, n_layer=2, n_head=2, n_positions=300, n_inner=24, rotary_dim=8)),
    # Two norms of one input, attention beside the feed-forward block.
    "dynamo-gpt-neox": ("GPTNeoX", dict(rotary_pct=0.5)),
    # The same, and keys repeated for their group before they are rotated, beside the queries of that group.
    "dynamo-falcon": ("Falcon", dict(num_attention_heads=4, num_kv_heads=2, new_decoder_architecture=True, alibi=False, bias=False)),
    # Heads that are clipped before they are rotated.
    "dynamo-olmo": ("Olmo", dict(num_key_value_heads=1, clip_qkv=0.5)),
    # Rotations of pairs in wide heads.
    "dynamo-ernie4-5": ("Ernie4_5", dict(num_attention_heads=1, num_key_value_heads=1, head_dim=128, intermediate_size=8)),
    # A sink in every head, and a window; experts with biases, rows of gates and ups in turn.
    "dynamo-gpt-oss": ("GptOss", dict(num_key_value_heads=1, head_dim=8, num_local_experts=3, num_experts_per_tok=2, intermediate_size=16,
                                      sliding_window=3, layer_types=["sliding_attention", "full_attention"])),
    # Weights by a sparse mixer.
    "phimoe": ("Phimoe", dict(num_key_value_heads=1, num_local_experts=4, intermediate_size=8, router_jitter_noise=0.2)),
    # Each expert for its tokens alone, in a loop over those that have one.
    "eager-mixtral": ("Mixtral", dict(num_key_value_heads=1, num_local_experts=4, intermediate_size=8)),
    "eager-qwen2-moe": ("Qwen2Moe", dict(num_key_value_heads=1, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=8,
                                         shared_expert_intermediate_size=12)),
    # ALiBi as a stored table.
    "dynamo-mpt": ("Mpt", dict(d_model=16, n_layers=2, n_heads=2, max_seq_len=32, expansion_ratio=2)),
    # Keys that are written part by part.
    "minicpm3": ("MiniCPM3", dict(q_lora_rank=8, kv_lora_rank=8, qk_nope_head_dim=4, qk_rope_head_dim=4, v_head_dim=6, num_key_value_heads=2)),
    "deepseek-v3": ("DeepseekV3", dict(q_lora_rank=8, kv_lora_rank=8, qk_nope_head_dim=4, qk_rope_head_dim=4, v_head_dim=6, head_dim=4,
                                       n_routed_experts=4, num_experts_per_tok=2, n_group=2, topk_group=1, first_k_dense_replace=1,
                                       moe_intermediate_size=8, num_key_value_heads=2)),
    # Norms of heads, each with a weight of its own: of one tensor, and one by one.
    "dynamo-cohere": ("Cohere", dict(num_key_value_heads=1, use_qk_norm=True)),
    "dynamo-stablelm": ("StableLm", dict(num_key_value_heads=1, qk_layernorm=True, use_parallel_residual=True)),
    # Heads that are normalised before they are put apart; a square of ReLU.
    "dynamo-persimmon": ("Persimmon", dict(partial_rotary_factor=0.5)),
    # No norm behind the last layer; a mask times the scores.
    "dynamo-openai-gpt": ("OpenAIGPT", dict(n_embd=16, n_layer=2, n_head=2, n_positions=32)),
    # An activation that is chosen by the sign, with numbers that each layer has learned.
    "dynamo-apertus": ("Apertus", dict(num_key_value_heads=1, hidden_act="xielu")),
    # Embeddings of positions that are known are stored rows; rotations stored sines and cosines, scaled (YaRN); sinks stored for every row.
    "static-gpt2": ("GPT2", dict(n_embd=16, n_layer=2, n_head=2, n_positions=32)),
    "static-gpt-oss": ("GptOss", dict(num_key_value_heads=1, head_dim=8, num_local_experts=3, num_experts_per_tok=2, intermediate_size=16,
                                      sliding_window=3, layer_types=["sliding_attention", "full_attention"])),
    "past-mixtral": ("Mixtral", dict(num_key_value_heads=1, num_local_experts=4, intermediate_size=8)),
    "past-gptj": ("GPTJ", dict(n_embd=16, n_layer=2, n_head=2, n_positions=32, n_inner=24, rotary_dim=4)),
    "past-llama": ("Llama", dict(num_key_value_heads=1)),
    "past-gpt2": ("GPT2", dict(n_embd=16, n_layer=2, n_head=2, n_positions=32)),
}
PROMPT, NEW = [5, 9, 4], 6


class Plain(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits


class WithPast(Plain):
    def forward(self, input_ids, attention_mask, position_ids, *past):
        cache = DynamicCache()
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        got = self.model(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=cache,
                         use_cache=True)
        return (got.logits, *(tensor for layer in got.past_key_values.layers for tensor in (layer.keys, layer.values)))


def without_traces(model):
    """Without where in whose files each node was made."""
    for part in (model, model.graph, *model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output, *model.functions):
        part.ClearField("metadata_props")
    return model


def model_of(family, keys, experts):
    has_head_in_name = family in ("GPT2", "OpenAIGPT")
    config = getattr(transformers, family + "Config")(**{**SIZES, **keys})
    torch.manual_seed(1)
    model = getattr(transformers, f"{family}LMHeadModel" if has_head_in_name else f"{family}ForCausalLM")(config).eval()
    for key, weights in model.named_parameters():
        if ".norms." in key or (weights.dim() == 2 and "norm" in key):  # of each head: ones would say nothing of their order
            torch.nn.init.normal_(weights, 1, 0.5)
    if model._can_set_experts_implementation():
        model.set_experts_implementation(experts)
    return model


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    for name, (family, keys) in MODELS.items():
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        # Of experts one by one the exporter writes those that have a token here: all.
        experts = "eager" if name.startswith("eager-") else "batched_mm"
        model, takes_past = model_of(family, keys, experts), name.startswith("past-")
        heads = getattr(model.config, "num_key_value_heads", None) or model.config.num_attention_heads
        is_static = name.startswith("static-")
        ids = torch.tensor([[5, 9, 4, 7, 3], [8, 6, 11, 30, 12]]).repeat(1, 1 + is_static)
        new, all_of = {0: "batch_size", 1: "sequence_length"}, {0: "batch_size", 1: "past_sequence_length + sequence_length"}
        inputs = {"input_ids": ids, "attention_mask": torch.ones(2, ids.shape[1] + 3 * takes_past, dtype=torch.long)}
        axes = {"input_ids": new, "attention_mask": all_of if takes_past else new}
        outputs = ["logits"]
        if takes_past:
            inputs["position_ids"], axes["position_ids"] = torch.arange(3, 8).repeat(2, 1), new
            for layer in range(2):
                for part in ("key", "value"):
                    inputs[f"past_key_values.{layer}.{part}"] = torch.randn(2, heads, 3, 8)
                    axes[f"past_key_values.{layer}.{part}"] = {0: "batch_size", 2: "past_sequence_length"}
                    outputs.append(f"present.{layer}.{part}")
                    axes[outputs[-1]] = {0: "batch_size", 2: "past_sequence_length + sequence_length"}
        with torch.no_grad():
            wrapped = (WithPast if takes_past else Plain)(model).eval()
            if is_static or name.startswith("dynamo-"):
                shape = {0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence", max=model.config.max_position_embeddings)}
                program = torch.onnx.export(wrapped, tuple(inputs.values()), dynamo=True, input_names=list(inputs), output_names=outputs,
                                            dynamic_shapes=None if is_static else {key: shape for key in inputs})
                onnx.save(without_traces(program.model_proto), str(out / f"{name}.onnx"))
            else:
                torch.onnx.export(wrapped, tuple(inputs.values()), str(out / f"{name}.onnx"), dynamo=False, input_names=list(inputs),
                                  output_names=outputs, dynamic_axes=axes, opset_version=17)
            greedy = list(PROMPT)
            for _ in range(NEW):
                greedy.append(int(model(input_ids=torch.tensor([greedy]), use_cache=False).logits[0, -1].argmax()))
        session = onnxruntime.InferenceSession(str(out / f"{name}.onnx"), providers=["CPUExecutionProvider"])
        feed = {"input_ids": ids.numpy(), "attention_mask": np.ones(ids.shape, np.int64), "position_ids": np.arange(5)[None].repeat(2, 0)}
        given = {i.name: feed.get(i.name, np.zeros((2, heads, 0, 8), np.float32)) for i in session.get_inputs()}
        logits = session.run(["logits"], given)[0]
        save_file({key: np.array(value, order="C") for key, value in given.items() if key in feed}, out / f"{name}.in.safetensors")
        save_file({"logits": np.array(logits, order="C")}, out / f"{name}.out.safetensors")
        print(name, ",".join(map(str, greedy[len(PROMPT):])))


if __name__ == "__main__":
    main()
