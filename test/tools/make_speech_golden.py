# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes a tiny model of speech with its goldens, by PyPI's transformers.

make_speech_golden.py FOLDER

Writes what make_seq2seq_golden.py does, of Whisper: a window of one second, 16 mel bins, and a vocabulary that ends as the published ones do,
with an end, a start, two languages, two tasks and timestamps. A seed of which some greedy token is nearly a tie is passed over. Not part of
the suite, which needs neither torch nor transformers: python -m pip install torch transformers
"""
import json
import pathlib
import sys
import types

import make_seq2seq_golden as seq2seq
import torch
import transformers
from safetensors.torch import save_file

END, START = 64, 65
SIZES = dict(vocab_size=125, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=2,
             encoder_ffn_dim=40, decoder_ffn_dim=48, num_mel_bins=16, max_source_positions=50, max_target_positions=40, bos_token_id=END,
             pad_token_id=END, eos_token_id=END, decoder_start_token_id=START, begin_suppress_tokens=None)


def make_model(config, seed):
    """Random weights; norms near 1, logits of a standard deviation of LOGITS_STD."""
    torch.manual_seed(seed)
    model = transformers.WhisperForConditionalGeneration._from_config(config, attn_implementation="eager").float().eval()
    for name, weight in model.named_parameters():
        if weight.dim() == 1:
            weight.normal_(0.0 if name.endswith("bias") else 1.0, 0.2)
        else:
            weight.normal_(0.0, 1.5 / weight[0].numel() ** 0.5)
    model.model.decoder.embed_positions.weight *= 6  # else an answer says one thing over and over
    model.generate = types.MethodType(transformers.GenerationMixin.generate, model)  # a plain search, without the rules of transcription
    features = torch.randn(1, config.num_mel_bins, 2 * config.max_source_positions)
    logits = model(input_features=features, decoder_input_ids=torch.randint(0, END, (1, 16))).logits
    model.get_output_embeddings().weight *= seq2seq.LOGITS_STD / logits.std()
    return model


def make_cases(model, config):
    """(cases, tensors); None where a greedy answer is unclear."""
    cases, tensors = [], {}
    for name, rows, length in (("e0", 1, 7), ("batch", 2, 5)):
        features = torch.randn(rows, config.num_mel_bins, 2 * config.max_source_positions)
        ids = torch.cat([torch.full((rows, 1), START), torch.randint(0, END, (rows, length - 1))], dim=1)
        cases.append(seq2seq.forward(model, tensors, name, input_features=features, decoder_input_ids=ids))
        if not (answers := seq2seq.greedy(model, tensors, name, input_features=features)):
            return None
        cases.append(answers)
        end = int(tensors[f"{name}.greedy_ids"][0, 3])
        for label, asked in seq2seq.SEARCHES.items():
            cases.append(seq2seq.search(model, tensors, name, label, end if "stop" in label else None, asked, input_features=features))
    return cases, tensors


def main():
    folder = pathlib.Path(sys.argv[1])
    config = transformers.WhisperConfig(**SIZES)
    with torch.no_grad():
        for seed in range(100):
            model = make_model(config, seed)
            if made := make_cases(model, config):
                break
        else:
            sys.exit("no seed gives clear answers")
    cases, tensors = made
    model.save_pretrained(folder)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "golden.safetensors")
    meta = {"family": "whisper", "task": "seq2seq", "model_type": "whisper", "seed": seed, "torch": torch.__version__,
            "transformers": transformers.__version__, "weights_dtype": "float32", "cases": cases}
    (folder / "golden.json").write_text(json.dumps(meta, indent=1) + "\n")


if __name__ == "__main__":
    main()
