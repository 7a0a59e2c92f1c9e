# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes a tiny decoder that sees images, with tokenizer and image processor, images, and its goldens, by PyPI's transformers.

make_llava_golden.py FOLDER [KIND]

KIND is a class of this file, in lower case: llava (CLIP's tower beside a llama, which is the default), gemma3, …

Writes config.json, model.safetensors, tokenizer.json, tokenizer_config.json, chat_template.jinja, preprocessor_config.json, photo.png and
scan.png, golden.json and golden.safetensors, as check_golden.py reads them (texts alone, one image, a batch with two), and prompts.json: prompts
with files of images, the ids that are generated and their log probabilities, as check_prompts.py reads it. Not part of the suite, which needs neither
torch nor transformers: python -m pip install torch torchvision transformers pillow
"""
import importlib
import json
import pathlib
import sys

sys.path.pop(0)  # safetensors.py beside this file is not PyPI's, which transformers needs

import numpy
import tokenizers
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file, save_file

BOS, EOS, PAD = 256, 257, 259


def processor_of(kind, family=None):
    """A class of transformers that computes with Pillow."""
    module = importlib.import_module(f"transformers.models.{family or kind.lower()}.image_processing_pil_{family or kind.lower()}")
    return getattr(module, f"{kind}ImageProcessorPil")


def siglip(**more):
    return {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 28, "patch_size": 7} | more


def llama(**more):
    return {"hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 264,
            "max_position_embeddings": 256, "bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD} | more


class Llava:
    architecture = "LlavaForConditionalGeneration"
    specials = ["<s>", "</s>", "<image>", "<pad>"]  # from id 256 on
    merges = []
    image, rows = 258, 16  # the id of an image's tokens, and how many it has
    context = 256
    marker = "<image>"
    prompts = [("USER: <image>\nWhat? ASSISTANT:", ["photo.png"]), ("a<image>b<image>", ["scan.png", "photo.png"]), ("No image", [])]
    template = ("{% for message in messages %}{{ message['role'] | upper }}: {% for part in message['content'] | selectattr('type', 'equalto', 'image') %}"
                "{{ '<image>\n' }}{% endfor %}{% for part in message['content'] | selectattr('type', 'equalto', 'text') %}{{ part['text'] + ' ' }}"
                "{% endfor %}{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}")
    about = {}  # of tokenizer_config.json

    def config(self):
        return transformers.LlavaConfig(vision_config=transformers.CLIPVisionConfig(**siglip()), text_config=transformers.LlamaConfig(**llama()),
                                        image_token_index=self.image, image_seq_length=self.rows)

    def processor(self):
        return processor_of("CLIP")(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28})

    def pixels(self, count):
        """What --io takes of `count` images."""
        return {"pixel_values": torch.randn(count, 3, 28, 28)}

    def first(self, pixels):
        return {key: value[:1] for key, value in pixels.items()}

    def expand(self, ids, count=None):
        return [token for token in ids for _ in range((count or self.rows) if token == self.image else 1)]

    def inputs(self, inputs):
        """What the reference takes, of what --io does."""
        return inputs

    def read(self, tokenizer, processor, text, images):
        """What the reference takes of a prompt."""
        ids = self.expand(tokenizer.encode(text).ids)
        pixels = {"pixel_values": torch.tensor(numpy.stack(processor(images=images).pixel_values))} if images else {}
        return {"input_ids": torch.tensor([ids])} | pixels


class OfProcessor(Llava):
    """Prompts are read by the family's own processor."""
    processor_class = None

    def read(self, tokenizer, processor, text, images):
        fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>",
                                                    extra_special_tokens=self.about.get("extra_special_tokens", {}))
        made = self.whole(processor, fast)
        got = made(text=text, images=images, return_tensors="pt") if images else made(text=text, return_tensors="pt")
        return {key: value for key, value in got.items() if key != "attention_mask"}

    def whole(self, processor, tokenizer):
        return getattr(transformers, self.processor_class)(image_processor=processor, tokenizer=tokenizer)


class Gemma3(OfProcessor):
    architecture = "Gemma3ForConditionalGeneration"
    processor_class = "Gemma3Processor"
    specials = ["<s>", "</s>", "<image_soft_token>", "<pad>", "<start_of_image>", "<end_of_image>"]
    merges = [("\u010a", "\u010a")]  # two newlines are one token
    rows = 4
    marker = "<start_of_image>"
    prompts = [("user\n<start_of_image>What?", ["photo.png"]), ("a<start_of_image>b\n<start_of_image>\n", ["scan.png", "photo.png"]), ("No image", [])]
    template = Llava.template.replace("<image>\n", "<start_of_image>")
    about = {"extra_special_tokens": {"image_token": "<image_soft_token>", "boi_token": "<start_of_image>", "eoi_token": "<end_of_image>"}}

    def config(self):
        text = transformers.Gemma3TextConfig(**llama(hidden_size=32, head_dim=8, sliding_window=6, layer_types=["sliding_attention", "full_attention"]))
        return transformers.Gemma3Config(vision_config=transformers.SiglipVisionConfig(**siglip(vision_use_head=False)), text_config=text,
                                         mm_tokens_per_image=self.rows, image_token_index=self.image, boi_token_index=260, eoi_token_index=261)

    def processor(self):
        return processor_of("Gemma3")(size={"height": 28, "width": 28})

    def whole(self, processor, tokenizer):
        return transformers.Gemma3Processor(image_processor=processor, tokenizer=tokenizer, image_seq_length=self.rows)

    def inputs(self, inputs):
        return inputs | {"token_type_ids": (inputs["input_ids"] == self.image).long()}


class Idefics3(OfProcessor):
    architecture = "Idefics3ForConditionalGeneration"
    processor_class = "Idefics3Processor"
    specials = ["<s>", "</s>", "<image>", "<pad>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>",
                *(f"<row_{row}_col_{column}>" for row in (1, 2, 3) for column in (1, 2, 3))]
    merges = Gemma3.merges
    rows = 4
    prompts = [("User:<image>What?", ["photo.png"]), ("a<image>b<image>", ["scan.png", "photo.png"]), ("<image>", ["small.png"]), ("No image", [])]
    template = Llava.template.replace("<image>\n", "<image>")
    text, vision, config_class = "LlamaConfig", "Idefics3VisionConfig", "Idefics3Config"

    def config(self):
        module = importlib.import_module(f"transformers.models.{self.config_class[:-6].lower()}.configuration_{self.config_class[:-6].lower()}")
        return getattr(transformers, self.config_class)(
            vision_config=getattr(module, self.vision)(**siglip()).to_dict(), text_config=transformers.LlamaConfig(**llama(hidden_size=32, vocab_size=280)).to_dict(),
            image_token_id=self.image, scale_factor=2, pad_token_id=PAD)

    def processor(self):
        return processor_of("Idefics3")(size={"longest_edge": 84}, max_image_size={"longest_edge": 28})

    def whole(self, processor, tokenizer):
        return transformers.Idefics3Processor(image_processor=processor, tokenizer=tokenizer, image_seq_len=self.rows)

    def inputs(self, inputs):
        pixels = inputs.get("pixel_values")
        return inputs if pixels is None or pixels.dim() == 5 else inputs | {"pixel_values": pixels[None]}


class SmolVlm(Idefics3):
    architecture = "SmolVLMForConditionalGeneration"
    processor_class = "SmolVLMProcessor"
    vision, config_class = "SmolVLMVisionConfig", "SmolVLMConfig"

    def processor(self):
        return processor_of("SmolVLM")(size={"longest_edge": 84}, max_image_size={"longest_edge": 28}, do_image_splitting=False)

    def whole(self, processor, tokenizer):
        # Its own begins by asking for a processor of videos.
        return transformers.Idefics3Processor(image_processor=processor, tokenizer=tokenizer, image_seq_len=self.rows)


class Qwen2VL(OfProcessor):
    """Images of any size."""
    architecture = "Qwen2VLForConditionalGeneration"
    specials = ["<s>", "</s>", "<|image_pad|>", "<pad>", "<|vision_start|>", "<|vision_end|>", "<|video_pad|>"]
    rows = 6
    marker = "<|image_pad|>"
    prompts = [("user\n<|vision_start|><|image_pad|><|vision_end|>What?", ["photo.png"]),
               ("a<|image_pad|>b<|image_pad|>c", ["scan.png", "photo.png"]), ("No image", [])]
    template = Llava.template.replace("<image>\n", "<|vision_start|><|image_pad|><|vision_end|>")
    grids = [(4, 6), (4, 6), (6, 4)]  # of --io

    def vision(self):
        return {"depth": 2, "embed_dim": 32, "hidden_size": 32, "num_heads": 2, "mlp_ratio": 2, "patch_size": 4}

    def config(self):
        text = llama(hidden_size=32, rope_parameters={"rope_type": "default", "rope_theta": 1000.0, "mrope_section": [1, 1, 2]}, vocab_size=264)
        return getattr(transformers, self.architecture.replace("ForConditionalGeneration", "Config"))(
            vision_config=self.vision(), text_config=text, image_token_id=self.image, video_token_id=262, vision_start_token_id=260, vision_end_token_id=261)

    def processor(self):
        return processor_of("Qwen2VL", "qwen2_vl")(size={"shortest_edge": 16 * 16, "longest_edge": 40 * 32}, patch_size=4)

    def pixels(self, count):
        grids = self.grids[:count]
        return {"pixel_values": torch.randn(sum(h * w for h, w in grids), 3 * 2 * 16), "image_grid_thw": torch.tensor([[1, h, w] for h, w in grids])}

    def first(self, pixels):
        h, w = self.grids[0]
        return {"pixel_values": pixels["pixel_values"][:h * w], "image_grid_thw": pixels["image_grid_thw"][:1]}

    def inputs(self, inputs):
        return inputs | {"mm_token_type_ids": (inputs["input_ids"] == self.image).int()}

    def read(self, tokenizer, processor, text, images):
        # The family's own processor begins by asking for one of videos.
        pixels = dict(processor(images=images, return_tensors="pt")) if images else {}
        counts = iter([int(grid.prod()) // 4 for grid in pixels.get("image_grid_thw", [])])
        ids = tokenizer.encode("".join(part + "<|image_pad|>" * next(counts, 0) for part in text.split("<|image_pad|>"))).ids
        return {"input_ids": torch.tensor([ids])} | pixels


class Qwen25VL(Qwen2VL):
    architecture = "Qwen2_5_VLForConditionalGeneration"

    def vision(self):
        return {"depth": 2, "hidden_size": 32, "out_hidden_size": 32, "intermediate_size": 40, "num_heads": 2, "patch_size": 4, "window_size": 16,
                "fullatt_block_indexes": [1]}


class Qwen3VL(Qwen2VL):
    """Learned positions of another grid, and rows that are added behind the first layers of the decoder."""
    architecture = "Qwen3VLForConditionalGeneration"

    def vision(self):
        return {"depth": 3, "hidden_size": 16, "out_hidden_size": 32, "intermediate_size": 40, "num_heads": 2, "patch_size": 4, "num_position_embeddings": 25,
                "deepstack_visual_indexes": [0, 1]}

    def config(self):
        text = llama(hidden_size=32, head_dim=16, num_hidden_layers=3, rope_parameters={"rope_type": "default", "rope_theta": 1000.0, "mrope_section": [4, 2, 2]})
        return transformers.Qwen3VLConfig(vision_config=self.vision(), text_config=text, image_token_id=self.image, video_token_id=262, vision_start_token_id=260,
                                          vision_end_token_id=261)


class Qwen3VLMoe(Qwen3VL):
    """The same with experts, and a layer without."""
    architecture = "Qwen3VLMoeForConditionalGeneration"

    def config(self):
        text = llama(hidden_size=32, head_dim=16, num_hidden_layers=3, rope_parameters={"rope_type": "default", "rope_theta": 1000.0, "mrope_section": [4, 2, 2]},
                     moe_intermediate_size=24, num_experts=4, num_experts_per_tok=2, mlp_only_layers=[0], decoder_sparse_step=1)
        return transformers.Qwen3VLMoeConfig(vision_config=self.vision(), text_config=text, image_token_id=self.image, video_token_id=262, vision_start_token_id=260,
                                             vision_end_token_id=261)

    def rewrite(self, folder):
        """As published files are: experts' matrices (in, out)."""
        tensors = load_file(folder / "model.safetensors")
        save_file({name: tensor.mT.contiguous() if ".experts." in name else tensor for name, tensor in tensors.items()}, folder / "model.safetensors")


class InternVL(OfProcessor):
    """Images are cut into tiles of the grid that is nearest to their ratio."""
    architecture = "InternVLForConditionalGeneration"
    specials = ["<s>", "</s>", "<IMG_CONTEXT>", "<pad>", "<img>", "</img>", "<video>"]
    rows = 4
    marker = "<IMG_CONTEXT>"
    prompts = [("user\n<IMG_CONTEXT>\nWhat?", ["photo.png"]), ("a<IMG_CONTEXT>b<IMG_CONTEXT>", ["scan.png", "photo.png"]),
               ("<IMG_CONTEXT>", ["small.png"]), ("No image", [])]
    template = Llava.template.replace("<image>\n", "<IMG_CONTEXT>\n")
    about = {"extra_special_tokens": {"start_image_token": "<img>", "end_image_token": "</img>", "context_image_token": "<IMG_CONTEXT>", "video_token": "<video>"}}

    def config(self):
        module = importlib.import_module("transformers.models.internvl.configuration_internvl")
        vision = module.InternVLVisionConfig(**siglip(image_size=[28, 28], patch_size=[7, 7], attention_bias=True, use_qk_norm=True))
        text = transformers.Qwen2Config(**llama(hidden_size=32))
        return transformers.InternVLConfig(vision_config=vision.to_dict(), text_config=text.to_dict(), image_token_id=self.image, image_seq_length=self.rows,
                                           tie_word_embeddings=False)

    def processor(self):
        return processor_of("GotOcr2", "got_ocr2")(size={"height": 28, "width": 28}, max_patches=4)

    def read(self, tokenizer, processor, text, images):
        # The family's own processor begins by asking for one of videos.
        got = processor(images=images, crop_to_patches=True) if images else {}
        counts = iter(got.get("num_patches", []))
        parts = text.split(self.marker)
        text = parts[0] + "".join("<img>" + self.marker * int(next(counts)) * self.rows + "</img>" + part for part in parts[1:])
        ids = torch.tensor([tokenizer.encode(text).ids])
        return {"input_ids": ids} | ({"pixel_values": torch.tensor(numpy.stack(got["pixel_values"]))} if images else {})


class Mistral3(OfProcessor):
    """Images of any size, whole, whose rows of tokens end with tokens of their own."""
    architecture = "Mistral3ForConditionalGeneration"
    specials = ["<s>", "</s>", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]"]
    rows = 6
    marker = "[IMG]"
    prompts = [("user\n[IMG]What?", ["photo.png"]), ("a[IMG]b[IMG]", ["scan.png", "photo.png"]), ("No image", [])]
    template = Llava.template.replace("<image>\n", "[IMG]")
    merge, longest = 2, 40
    sizes = [(16, 24), (16, 24), (24, 16)]  # of --io

    def vision(self):
        return transformers.PixtralVisionConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, image_size=64, patch_size=4)

    def config(self):
        text = transformers.MistralConfig(**llama(hidden_size=32, head_dim=8, sliding_window=None))
        return transformers.Mistral3Config(vision_config=self.vision(), text_config=text, image_token_index=self.image, spatial_merge_size=self.merge,
                                           tie_word_embeddings=False)

    def processor(self):
        return processor_of("Pixtral")(size={"longest_edge": self.longest}, patch_size={"height": 4, "width": 4})

    def whole(self, processor, tokenizer):
        return transformers.PixtralProcessor(image_processor=processor, tokenizer=tokenizer, patch_size=4, spatial_merge_size=self.merge)

    def about_prompts(self):
        return {"processor_class": "PixtralProcessor", "patch_size": 4, "spatial_merge_size": self.merge, "image_token": "[IMG]",
                "image_break_token": "[IMG_BREAK]", "image_end_token": "[IMG_END]"}

    def pixels(self, count):
        side = max(max(size) for size in self.sizes)
        return {"pixel_values": torch.randn(count, 3, side, side), "image_sizes": torch.tensor(self.sizes[:count])}


class LlavaPixtral(Mistral3):
    """The same tower, each of whose patches is a token."""
    architecture = "LlavaForConditionalGeneration"
    merge, longest = 1, 16
    sizes = [(8, 12), (8, 12), (12, 8)]

    def config(self):
        return transformers.LlavaConfig(vision_config=self.vision(), text_config=transformers.MistralConfig(**llama(hidden_size=32, head_dim=8, sliding_window=None)),
                                        image_token_index=self.image, vision_feature_layer=-1, vision_feature_select_strategy="full")


class PaliGemma(OfProcessor):
    """All of a prompt with images sees itself."""
    architecture = "PaliGemmaForConditionalGeneration"
    specials = ["<bos>", "<eos>", "<image>", "<pad>"]
    prompts = [("What?", ["photo.png"]), ("a<image>b<image>c", ["scan.png", "photo.png"]), ("No image", [])]
    template = Llava.template
    text_class, more = "GemmaConfig", {}

    def config(self):
        text = getattr(transformers, self.text_class)(**llama(hidden_size=32, head_dim=8, hidden_act="gelu_pytorch_tanh", hidden_activation="gelu_pytorch_tanh", **self.more))
        return transformers.PaliGemmaConfig(vision_config=transformers.SiglipVisionConfig(**siglip(vision_use_head=False)), text_config=text,
                                            image_token_index=self.image, projection_dim=32, hidden_size=32, vocab_size=264)

    def processor(self):
        return processor_of("Siglip")(size={"height": 28, "width": 28})

    def inputs(self, inputs):
        return inputs | {"token_type_ids": torch.zeros_like(inputs["input_ids"])} if "pixel_values" in inputs else inputs

    def read(self, tokenizer, processor, text, images):
        if not images:
            return {"input_ids": torch.tensor([tokenizer.encode(text).ids])}
        processor.image_seq_length = self.rows
        fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<bos>", eos_token="<eos>", pad_token="<pad>",
                                                    extra_special_tokens={"image_token": "<image>"})
        fast.add_tokens = lambda names: 0  # those that stand for places
        made = transformers.PaliGemmaProcessor(image_processor=processor, tokenizer=fast)
        got = made(text=text, images=images, return_tensors="pt", add_special_tokens=False)
        return {key: value for key, value in got.items() if key in ("input_ids", "pixel_values")}


class PaliGemma2(PaliGemma):
    """The same of a Gemma 2, whose windows are narrower than a prompt, and whose logits are capped."""
    text_class, more = "Gemma2Config", {"sliding_window": 6, "query_pre_attn_scalar": 8}


class LlavaNext(OfProcessor):
    """An image whole, and in tiles of the size of a list that fits it best."""
    architecture = "LlavaNextForConditionalGeneration"
    pinpoints = [[28, 56], [56, 28], [56, 56], [84, 28], [28, 84]]
    rows = 4 + 2 * 5  # of --io: an image of 14 by 28 pixels
    prompts = Llava.prompts + [("<image>", ["small.png"])]

    def config(self):
        return transformers.LlavaNextConfig(vision_config=transformers.CLIPVisionConfig(**siglip(patch_size=14)), text_config=transformers.LlamaConfig(**llama(hidden_size=32)),
                                            image_token_index=self.image, image_grid_pinpoints=self.pinpoints)

    def processor(self):
        return processor_of("LlavaNext", "llava_next")(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}, image_grid_pinpoints=self.pinpoints)

    def whole(self, processor, tokenizer):
        return transformers.LlavaNextProcessor(image_processor=processor, tokenizer=tokenizer, patch_size=14, vision_feature_select_strategy="default",
                                               num_additional_image_tokens=1)

    def pixels(self, count):
        return {"pixel_values": torch.randn(count, 3, 3, 28, 28), "image_sizes": torch.tensor([[14, 28]] * count)}


def make_model(kind):
    torch.manual_seed(11)
    config = kind.config()
    config._attn_implementation = "eager"
    model = getattr(transformers, kind.architecture)(config).float().eval()
    offset = 1.0 if isinstance(kind, (Gemma3, PaliGemma)) else 0.0  # norms multiply by one more than they store
    for key, weight in model.named_parameters():
        isVector = weight.dim() == 1
        mean = 0.0 if key.endswith("bias") or not isVector else 1.0
        if isVector and "norm" in key and "vision" not in key:
            mean -= offset
        weight.data.normal_(mean, 0.2 if isVector else 1.0 / weight.shape[-1] ** 0.5)
    return model


def save_tokenizer(folder, kind):
    """Byte b is token b; behind the bytes stand the special tokens, then what bytes are merged to."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    spelled = {byte: chr(byte) for byte in printable} | {byte: chr(0x100 + i) for i, byte in enumerate(others)}
    vocab = {spelled[byte]: byte for byte in range(256)} | {name: BOS + i for i, name in enumerate(kind.specials)}
    vocab |= {"".join(pair): BOS + len(kind.specials) + i for i, pair in enumerate(kind.merges)}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocab if kind.merges else {spelled[byte]: byte for byte in range(256)}, merges=kind.merges))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens([tokenizers.AddedToken(name, special=True, normalized=False) for name in kind.specials])
    made.post_processor = tokenizers.processors.TemplateProcessing(single=f"{kind.specials[0]} $A", special_tokens=[(kind.specials[0], BOS)])
    made.save(str(folder / "tokenizer.json"))
    about = {"bos_token": kind.specials[0], "eos_token": kind.specials[1], "pad_token": "<pad>", "tokenizer_class": "PreTrainedTokenizerFast"} | kind.about
    (folder / "tokenizer_config.json").write_text(json.dumps(about, indent=1) + "\n")
    (folder / "chat_template.jinja").write_text(kind.template)
    return made


def draw(width, height, turned):
    y, x = numpy.mgrid[0:height, 0:width]
    colors = [128 + 100 * numpy.sin(x / 7.0), 255.0 * x / width * (1 - y / height), numpy.where((x - 20) ** 2 + (y - 15) ** 2 < 90, 230, 30)]
    return Image.fromarray(numpy.stack(colors[::-1] if turned else colors, -1).clip(0, 255).astype(numpy.uint8))


def main():
    folder, kind = pathlib.Path(sys.argv[1]), (sys.argv[2:] or ["llava"])[0]
    kind = next(made for name, made in globals().items() if name.lower() == kind)()
    folder.mkdir(parents=True, exist_ok=True)
    model, tokenizer, tensors, cases = make_model(kind), save_tokenizer(folder, kind), {}, []
    processor = kind.processor()
    draw(45, 33, False).save(folder / "photo.png")
    draw(20, 64, True).save(folder / "scan.png")
    if any("small.png" in names for _, names in kind.prompts):
        draw(84, 84, True).save(folder / "small.png")

    def add(name, what, inputs, outputs, **more):
        tensors.update({f"{name}.{key}": value for key, value in (inputs | outputs).items()})
        cases.append({"name": name, "kind": what, "inputs": {key: f"{name}.{key}" for key in inputs}, "outputs": {key: f"{name}.{key}" for key in outputs}} | more)

    def forward(name, rows, pixels):
        width = max(map(len, rows))
        inputs = {"input_ids": torch.tensor([[PAD] * (width - len(row)) + row for row in rows])} | pixels
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
        positions = {} if "image_grid_thw" in pixels else {"position_ids": (mask.cumsum(-1) - 1).clamp(min=0)}
        got = model(**kind.inputs(inputs), attention_mask=mask, **positions).logits
        add(name, "forward", inputs | ({"attention_mask": mask} if len(rows) > 1 else {}), {"logits": got},
            **({"mask": f"{name}.attention_mask"} if len(rows) > 1 else {}))

    with torch.no_grad():
        noise, image = kind.pixels(3), kind.expand([kind.image])
        forward("text", [[BOS, 65, 66, 67, 200]], {})
        forward("image", [[BOS, 70] + image + [71, 72]], kind.first(noise))
        forward("batch", [[BOS, 65] + image + [66], [BOS] + image + [77, 78] + image + [79]], noise)
        ids = torch.tensor([[BOS, 65, 66, 67]])
        got = model.generate(input_ids=ids, max_new_tokens=8, do_sample=False, eos_token_id=None, pad_token_id=PAD, output_logits=True,
                             return_dict_in_generate=True)
        add("greedy", "greedy", {"input_ids": ids}, {"ids": got.sequences[:, 4:], "logits": torch.stack(got.logits, 1)}, max_new_tokens=8)
        prompts = []
        for text, names in kind.prompts:
            inputs = kind.inputs(kind.read(tokenizer, processor, text, [Image.open(folder / name) for name in names]))
            got = model.generate(**inputs, max_new_tokens=12, do_sample=False, eos_token_id=None, pad_token_id=PAD, output_logits=True,
                                 return_dict_in_generate=True)
            answer = got.sequences[0, inputs["input_ids"].shape[1]:].tolist()
            logprobs = [float(row[0].log_softmax(-1)[token]) for row, token in zip(got.logits, answer)]
            prompts.append({"prompt": text, "images": names, "ids": answer} | ({} if type(kind) is Llava else {"logprobs": [round(p, 5) for p in logprobs]}))
    model.save_pretrained(folder)
    if hasattr(kind, "rewrite"):
        kind.rewrite(folder)
    processor.save_pretrained(folder)
    if hasattr(kind, "about_prompts"):
        (folder / "processor_config.json").write_text(json.dumps(kind.about_prompts(), indent=1) + "\n")
    (folder / "prompts.json").write_text(json.dumps(prompts, indent=1) + "\n")
    save_file({key: value.contiguous().clone() for key, value in tensors.items()}, folder / "golden.safetensors")
    about = {"family": model.config.model_type, "architecture": kind.architecture, "model_type": model.config.model_type, "torch": torch.__version__,
             "transformers": transformers.__version__, "dtype": "float32", "weights_dtype": "float32", "context": kind.context, "cases": cases}
    (folder / "golden.json").write_text(json.dumps(about, indent=1) + "\n")


main()
