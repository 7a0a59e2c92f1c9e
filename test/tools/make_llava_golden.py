# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes a tiny LLaVA (CLIP's tower beside a llama) with tokenizer and image processor, an image, and its goldens, by PyPI's transformers.

make_llava_golden.py FOLDER

Writes config.json, model.safetensors, tokenizer.json, tokenizer_config.json, chat_template.jinja, preprocessor_config.json, photo.png and
scan.png, golden.json and golden.safetensors, as check_golden.py reads them (texts alone, one image, a batch with two), and prompts.json: prompts
with files of images and the ids that are generated, as check_prompts.py reads it. Not part of the suite, which needs neither torch nor
transformers: python -m pip install torch transformers pillow
"""
import json
import pathlib
import sys

sys.path.pop(0)  # safetensors.py beside this file is not PyPI's, which transformers needs

import numpy
import tokenizers
import torch
import transformers
from PIL import Image
from safetensors.torch import save_file
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

IMAGE, VOCAB, SIZE = 258, 264, 28
TEMPLATE = ("{% for message in messages %}{{ message['role'] | upper }}: {% for part in message['content'] | selectattr('type', 'equalto', 'image') %}"
            "{{ '<image>\n' }}{% endfor %}{% for part in message['content'] | selectattr('type', 'equalto', 'text') %}{{ part['text'] + ' ' }}"
            "{% endfor %}{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}")
PROMPTS = [("USER: <image>\nWhat? ASSISTANT:", ["photo.png"]), ("a<image>b<image>", ["scan.png", "photo.png"]), ("No image", [])]


def make_model():
    torch.manual_seed(11)
    vision = transformers.CLIPVisionConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, image_size=SIZE, patch_size=7)
    text = transformers.LlamaConfig(hidden_size=48, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                    vocab_size=VOCAB, max_position_embeddings=256, bos_token_id=256, eos_token_id=257, pad_token_id=259)
    config = transformers.LlavaConfig(vision_config=vision, text_config=text, image_token_index=IMAGE, image_seq_length=16)
    config._attn_implementation = "eager"
    model = transformers.LlavaForConditionalGeneration(config).float().eval()
    for key, weight in model.named_parameters():
        weight.data.normal_(*((0.0 if key.endswith("bias") else 1.0, 0.2) if weight.dim() == 1 else (0.0, 1.0 / weight.shape[-1] ** 0.5)))
    return model


def save_tokenizer(folder):
    """Byte b is token b; behind the bytes stand the special tokens."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    spelled = {byte: chr(byte) for byte in printable} | {byte: chr(0x100 + i) for i, byte in enumerate(others)}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={spelled[byte]: byte for byte in range(256)}, merges=[]))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens([tokenizers.AddedToken(name, special=True, normalized=False) for name in ("<s>", "</s>", "<image>", "<pad>")])
    made.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 256)])
    made.save(str(folder / "tokenizer.json"))
    about = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(about, indent=1) + "\n")
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return made


def draw(width, height, turned):
    y, x = numpy.mgrid[0:height, 0:width]
    colors = [128 + 100 * numpy.sin(x / 7.0), 255.0 * x / width * (1 - y / height), numpy.where((x - 20) ** 2 + (y - 15) ** 2 < 90, 230, 30)]
    return Image.fromarray(numpy.stack(colors[::-1] if turned else colors, -1).clip(0, 255).astype(numpy.uint8))


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    model, tokenizer, tensors, cases = make_model(), save_tokenizer(folder), {}, []
    processor = CLIPImageProcessorPil(size={"shortest_edge": SIZE}, crop_size={"height": SIZE, "width": SIZE})
    draw(45, 33, False).save(folder / "photo.png")
    draw(20, 64, True).save(folder / "scan.png")
    pixels_of = lambda names: torch.tensor(numpy.stack(processor(images=[Image.open(folder / n) for n in names]).pixel_values))
    expand = lambda ids: [token for token in ids for _ in range(16 if token == IMAGE else 1)]

    def add(name, kind, inputs, outputs, **more):
        tensors.update({f"{name}.{key}": value for key, value in (inputs | outputs).items()})
        cases.append({"name": name, "kind": kind, "inputs": {key: f"{name}.{key}" for key in inputs}, "outputs": {key: f"{name}.{key}" for key in outputs}} | more)

    def forward(name, rows, pixels):
        width = max(map(len, rows))
        inputs = {"input_ids": torch.tensor([[259] * (width - len(row)) + row for row in rows])} | ({"pixel_values": pixels} if pixels is not None else {})
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
        got = model(**inputs, attention_mask=mask, position_ids=(mask.cumsum(-1) - 1).clamp(min=0)).logits
        add(name, "forward", inputs | ({"attention_mask": mask} if len(rows) > 1 else {}), {"logits": got},
            **({"mask": f"{name}.attention_mask"} if len(rows) > 1 else {}))

    with torch.no_grad():
        noise = torch.randn(3, 3, SIZE, SIZE)
        forward("text", [[256, 65, 66, 67, 200]], None)
        forward("image", [[256, 70] + expand([IMAGE]) + [71, 72]], noise[:1])
        forward("batch", [[256, 65] + expand([IMAGE]) + [66], [256] + expand([IMAGE]) + [77, 78] + expand([IMAGE]) + [79]], noise)
        ids = torch.tensor([[256, 65, 66, 67]])
        got = model.generate(input_ids=ids, max_new_tokens=8, do_sample=False, eos_token_id=None, pad_token_id=259, output_logits=True,
                             return_dict_in_generate=True)
        add("greedy", "greedy", {"input_ids": ids}, {"ids": got.sequences[:, 4:], "logits": torch.stack(got.logits, 1)}, max_new_tokens=8)
        prompts = []
        for text, names in PROMPTS:
            ids = torch.tensor([expand(tokenizer.encode(text).ids)])
            more = {"pixel_values": pixels_of(names)} if names else {}
            answer = model.generate(input_ids=ids, max_new_tokens=12, do_sample=False, eos_token_id=None, pad_token_id=259, **more)[0, ids.shape[1]:]
            prompts.append({"prompt": text, "images": names, "ids": answer.tolist()})
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    (folder / "prompts.json").write_text(json.dumps(prompts, indent=1) + "\n")
    save_file({key: value.contiguous().clone() for key, value in tensors.items()}, folder / "golden.safetensors")
    about = {"family": "llava", "architecture": "LlavaForConditionalGeneration", "model_type": "llava", "torch": torch.__version__,
             "transformers": transformers.__version__, "dtype": "float32", "weights_dtype": "float32", "context": 256, "cases": cases}
    (folder / "golden.json").write_text(json.dumps(about, indent=1) + "\n")


main()
