# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""real_folder.py HEDDLE NAME… [--layers N] [--type bf16|f32|f16] [--precise] [--keep FOLDER]

For each NAME: writes a Hugging Face folder of the shape that a published model has (encoders, encoder–decoders, vision and speech; decoders are
real_shape.py's), with random weights in several files as transformers saves them, compiles it, runs it by --io on inputs of the size that such models are
given, and compares every output with what transformers computes in f32 of the same weights. What tiny checkpoints cannot show is seen here: widths and
vocabularies of gigabytes, 24 to 48 layers, pictures of their real size, half a minute of sound.

Prints a line per output: the squared error over the squared values (NMSE), and the seconds and memory of both, what mapped files take left out. Exit status 1 if an output is above
--limit, or if something failed. Needs PyPI numpy, torch, transformers and safetensors. NAME is one of the list that --help prints, or `all`.
"""
import argparse
import os
import pathlib
import sys
import tempfile

import numpy as np
import safetensors.torch
import torch
import transformers

# Behind PyPI's: its safetensors is that of the test tools.
sys.path.append(str(pathlib.Path(__file__).parent.parent / "tools"))
import costs  # noqa: E402

TEXT, SPEECH = 512, 3000
START = {"decoder_start_token_id": 0}
CLIP_TEXT = {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "projection_dim": 768}
SWIN = {"image_size": 384, "window_size": 12, "embed_dim": 192, "depths": [2, 2, 18, 2], "num_heads": [6, 12, 24, 48]}
MBART = {"encoder_layers": 12, "decoder_layers": 12, "d_model": 1024, "encoder_ffn_dim": 4096, "decoder_ffn_dim": 4096, "encoder_attention_heads": 16,
         "decoder_attention_heads": 16}

# Of decoders that see images, whose tower is whole and whose text part is as wide as published and has 4 layers.
LAYERS = {"num_hidden_layers": 4, "vocab_size": 32768}
TOWERS = {
    "gemma3-4b": {"mm_tokens_per_image": 256, "image_token_index": 10, "boi_token_index": 11, "eoi_token_index": 12,
                  "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27,
                                    "num_attention_heads": 16, "image_size": 896, "patch_size": 14, "vision_use_head": False},
                  "text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_attention_heads": 8,
                                  "num_key_value_heads": 4, "head_dim": 256, "sliding_window": 1024, **LAYERS}},
    "qwen2.5-vl-3b": {"image_token_id": 10, "video_token_id": 11, "vision_start_token_id": 12, "vision_end_token_id": 13,
                      "vision_config": {"depth": 32, "hidden_size": 1280, "out_hidden_size": 2048, "intermediate_size": 3420, "num_heads": 16,
                                        "patch_size": 14, "window_size": 112, "fullatt_block_indexes": [7, 15, 23, 31]},
                      "text_config": {"bos_token_id": 1, "eos_token_id": 2, "hidden_size": 2048, "intermediate_size": 11008, "num_attention_heads": 16, "num_key_value_heads": 2,
                                      "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]}, **LAYERS}},
    "llava-1.5-7b": {"image_token_index": 10, "image_seq_length": 576,
                     "vision_config": {"model_type": "clip_vision_model", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
                                       "num_attention_heads": 16, "image_size": 336, "patch_size": 14, "projection_dim": 768},
                     "text_config": {"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32, **LAYERS}},
    "mistral-small-3.1": {"image_token_index": 10, "spatial_merge_size": 2, "tie_word_embeddings": False,
                          "vision_config": {"model_type": "pixtral", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
                                            "num_attention_heads": 16, "image_size": 1540, "patch_size": 14},
                          "text_config": {"model_type": "mistral", "hidden_size": 5120, "intermediate_size": 32768, "num_attention_heads": 32,
                                          "num_key_value_heads": 8, "head_dim": 128, "sliding_window": None, **LAYERS}},
}

# (model_type, its class, what differs from the defaults of the config class, as published; the inputs)
SHAPES = {
    "xlm-roberta-large": ("xlm-roberta", "XLMRobertaModel", {"vocab_size": 250002, "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
                                                             "num_attention_heads": 16, "max_position_embeddings": 514, "type_vocab_size": 1}, "text"),
    "bert-large": ("bert", "BertForMaskedLM", {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16}, "text"),
    "albert-xxlarge": ("albert", "AlbertModel", {"hidden_size": 4096, "intermediate_size": 16384, "num_hidden_layers": 12, "num_attention_heads": 64}, "text"),
    "deberta-v2-xlarge": ("deberta-v2", "DebertaV2Model", {"hidden_size": 1536, "intermediate_size": 6144, "num_hidden_layers": 24, "num_attention_heads": 24,
                                                           "relative_attention": True, "position_buckets": 256, "norm_rel_ebd": "layer_norm",
                                                           "share_att_key": True, "pos_att_type": ["p2c", "c2p"], "conv_kernel_size": 3,
                                                           "conv_act": "gelu", "position_biased_input": False, "max_relative_positions": -1,
                                                           "vocab_size": 128100, "type_vocab_size": 0, "attention_head_size": 64}, "text"),
    "modernbert-large": ("modernbert", "ModernBertForMaskedLM", {"hidden_size": 1024, "intermediate_size": 2624, "num_hidden_layers": 28,
                                                                 "num_attention_heads": 16}, "long text"),
    "longformer-large": ("longformer", "LongformerModel", {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
                                                           "num_attention_heads": 16, "attention_window": 24 * [512], "max_position_embeddings": 4098,
                                                           "vocab_size": 50265, "type_vocab_size": 1, "pad_token_id": 1}, "long text"),
    "bart-large": ("bart", "BartForConditionalGeneration", {**MBART}, "texts"),
    "mbart-large-50": ("mbart", "MBartForConditionalGeneration", {**MBART, "vocab_size": 250054, "scale_embedding": True}, "texts"),
    "nllb-1.3b": ("m2m_100", "M2M100ForConditionalGeneration", {**MBART, "encoder_layers": 24, "decoder_layers": 24, "encoder_ffn_dim": 8192,
                                                                "decoder_ffn_dim": 8192, "vocab_size": 256206}, "texts"),
    "flan-t5-large": ("t5", "T5ForConditionalGeneration", {**START, "d_model": 1024, "d_ff": 2816, "num_layers": 24, "num_heads": 16, "d_kv": 64,
                                                           "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}, "texts"),
    "flan-t5-xl": ("t5", "T5ForConditionalGeneration", {**START, "d_model": 2048, "d_ff": 5120, "num_layers": 24, "num_heads": 32, "d_kv": 64,
                                                        "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}, "texts"),
    "switch-base-32": ("switch_transformers", "SwitchTransformersForConditionalGeneration", {**START, "num_experts": 32, "expert_capacity": 64}, "texts"),
    "whisper-large-v3": ("whisper", "WhisperForConditionalGeneration", {"d_model": 1280, "encoder_layers": 32, "decoder_layers": 32,
                                                                        "encoder_attention_heads": 20, "decoder_attention_heads": 20,
                                                                        "encoder_ffn_dim": 5120, "decoder_ffn_dim": 5120, "num_mel_bins": 128,
                                                                        "vocab_size": 51866}, "speech"),
    "vit-huge": ("vit", "ViTModel", {"hidden_size": 1280, "intermediate_size": 5120, "num_hidden_layers": 32, "num_attention_heads": 16,
                                     "patch_size": 14}, "image"),
    "dinov2-giant": ("dinov2", "Dinov2Model", {"hidden_size": 1536, "num_hidden_layers": 40, "num_attention_heads": 24, "patch_size": 14,
                                               "image_size": 518, "use_swiglu_ffn": True}, "image"),
    "swin-large-384": ("swin", "SwinModel", SWIN, "image"),
    "beit-large-512": ("beit", "BeitForImageClassification", {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
                                                              "num_attention_heads": 16, "image_size": 512, "use_relative_position_bias": True}, "image"),
    "clip-large-336": ("clip", "CLIPModel", {"projection_dim": 768, "text_config": CLIP_TEXT,
                                             "vision_config": {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
                                                               "num_attention_heads": 16, "image_size": 336, "patch_size": 14,
                                                               "projection_dim": 768}}, "both"),
    "siglip-so400m": ("siglip", "SiglipModel", {part: {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27,
                                                       "num_attention_heads": 16, **more}
                                                for part, more in (("text_config", {"vocab_size": 32000, "projection_size": 1152}),
                                                                   ("vision_config", {"image_size": 384, "patch_size": 14}))}, "both"),
    "gemma3-4b": ("gemma3", "Gemma3ForConditionalGeneration", TOWERS["gemma3-4b"], "seen"),
    "qwen2.5-vl-3b": ("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", TOWERS["qwen2.5-vl-3b"], "seen"),
    "llava-1.5-7b": ("llava", "LlavaForConditionalGeneration", TOWERS["llava-1.5-7b"], "seen"),
    "mistral-small-3.1": ("mistral3", "Mistral3ForConditionalGeneration", TOWERS["mistral-small-3.1"], "seen"),
}


def configured(name, layers):
    model_type, architecture, differing, inputs = SHAPES[name]
    if layers:
        differing = {key: layers if key.endswith("layers") else value for key, value in differing.items()}
    return transformers.AutoConfig.for_model(model_type, **differing), architecture, inputs


def built(config, architecture, dtype):
    """A model whose activations neither vanish nor grow: of each matrix, columns of unit length in the mean; rounded to what the file has."""
    torch.manual_seed(5)
    model = getattr(transformers, architecture)(config).eval()
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if tensor.dim() > 1:
                fan_in = tensor[0].numel() * (config.d_kv if name.endswith("Attention.q.weight") else 1)  # T5 does not divide scores
                tensor.normal_(std=0.5 if "embed" in name or "position" in name or "shared" in name else fan_in ** -0.5)
            elif name.endswith("weight"):
                tensor.uniform_(0.8, 1.2)
            elif tensor.numel() > 1:
                tensor.normal_(std=0.05)
            tensor.copy_(tensor.to(dtype))
    return model


def given(config, kind):
    """Inputs of the size that such a model is given: ids below 1000, pixels and features of about unit size."""
    random = np.random.default_rng(7)
    ids = lambda count: torch.from_numpy(random.integers(5, 1000, (1, count)))
    side = getattr(getattr(config, "vision_config", config), "image_size", None)
    pixels = lambda: torch.from_numpy(random.normal(size=(1, 3, side, side)).astype(np.float32))
    if kind == "seen":
        return seen(config, ids)
    if kind == "text":
        return {"input_ids": ids(TEXT)}
    if kind == "long text":
        return {"input_ids": ids(4 * TEXT)}
    if kind == "texts":
        return {"input_ids": ids(TEXT), "decoder_input_ids": ids(32)}
    if kind == "speech":
        return {"input_features": torch.from_numpy(random.normal(size=(1, config.num_mel_bins, SPEECH)).astype(np.float32)), "decoder_input_ids": ids(32)}
    if kind == "image":
        return {"pixel_values": pixels()}
    length = config.text_config.max_position_embeddings
    return {"input_ids": ids(length), "pixel_values": pixels()}


def seen(config, ids):
    """A prompt with one image of the size that its tower takes, or of 1008 by 756 pixels."""
    vision, width, height = config.vision_config, 1008, 756
    if config.model_type == "qwen2_5_vl":
        rows, columns = height // 14, width // 14
        pixels = {"pixel_values": torch.randn(rows * columns, 3 * 2 * 14 * 14), "image_grid_thw": torch.tensor([[1, rows, columns]])}
        count = rows * columns // 4
    elif config.model_type == "mistral3":
        pixels = {"pixel_values": torch.randn(1, 3, height, width), "image_sizes": torch.tensor([[height, width]])}
        count = height // 28 * (width // 28)
    else:
        pixels = {"pixel_values": torch.randn(1, 3, vision.image_size, vision.image_size)}
        count = 256 if config.model_type == "gemma3" else (vision.image_size // vision.patch_size) ** 2
    return {"input_ids": torch.cat([20 + ids(9), torch.full((1, count), 10), 20 + ids(23)], 1), **pixels}


def asked(config, inputs):
    """What transformers takes beside what --io does: which tokens are an image's."""
    key = {"gemma3": "token_type_ids", "qwen2_5_vl": "mm_token_type_ids"}.get(config.model_type)
    return {**inputs, key: (inputs["input_ids"] == 10).long()} if key else inputs


def flattened(answer, prefix=""):
    for key, value in answer.items():
        if torch.is_tensor(value):
            yield prefix + key, value.float().numpy()
        elif hasattr(value, "items"):
            yield from flattened(value, f"{prefix}{key}.")


def check(name, options, folder):
    """The number of outputs that are wrong."""
    config, architecture, kind = configured(name, options.layers)
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[options.type]
    model = built(config, architecture, dtype)
    inputs = given(config, kind)
    with torch.no_grad():
        want = dict(flattened(model(**asked(config, inputs))))
    model.to(dtype).save_pretrained(folder, max_shard_size="1GB")
    size = sum(parameter.numel() for parameter in model.parameters())
    del model
    program, put, got = (folder / part for part in ("program", "put.safetensors", "got.safetensors"))
    safetensors.torch.save_file({key: value.contiguous() for key, value in inputs.items()}, str(put))
    seconds, memory = costs.measure_command([options.heddle, "compile", folder, "-o", program, *(["--precise"] if options.precise else [])])
    print(f"{name}: {size / 1e6:.0f} M parameters, compiled in {seconds:.1f} s with {memory / 2**20:.0f} MiB beside files to "
          f"{program.stat().st_size / 2**20:.0f} MiB", flush=True)
    seconds, memory = costs.measure_command([program, "--io", put, got])
    answers = {key: value.float().numpy() for key, value in safetensors.torch.load_file(str(got)).items()}
    wrong = 0
    for key in sorted(answers.keys() & want.keys()):
        if answers[key].shape != want[key].shape:
            wrong += 1
            print(f"  {key}: has shape {answers[key].shape}, transformers' {want[key].shape}")
            continue
        error = float(((answers[key] - want[key]) ** 2).sum() / (want[key] ** 2).sum())
        wrong += not error <= options.limit
        print(f"  {key}{list(want[key].shape)}: NMSE {error:.1e}{'' if error <= options.limit else ', above the limit'}; run in {seconds:.1f} s with {memory / 2**20:.0f} MiB", flush=True)
    if not answers.keys() & want.keys():
        print(f"  nothing to compare: {sorted(answers)} beside {sorted(want)}")
        return 1
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, epilog="names: " + ", ".join(SHAPES))
    parser.add_argument("heddle", type=pathlib.Path)
    parser.add_argument("names", nargs="+", metavar="NAME", choices=[*SHAPES, "all"])
    parser.add_argument("--layers", type=int, help="of encoder and decoder, instead of all")
    parser.add_argument("--type", choices=["bf16", "f16", "f32"], default="bf16")
    parser.add_argument("--precise", action="store_true")
    parser.add_argument("--limit", type=float, default=1e-3, help="largest NMSE (default: %(default)s)")
    parser.add_argument("--keep", type=pathlib.Path, help="keeps folder and program of each in FOLDER/NAME")
    options = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    wrong = 0
    for name in SHAPES if "all" in options.names else options.names:
        with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as box:
            folder = options.keep / name if options.keep else pathlib.Path(box)
            folder.mkdir(parents=True, exist_ok=True)
            try:
                wrong += check(name, options, folder)
            except (RuntimeError, ValueError, OSError) as error:
                wrong += 1
                print(f"{name}: {error}", flush=True)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
