"""Language models that packages carry as GGUF files, as folders that transformers loads: weights in bfloat16.

    python -m lazaretto_lab.studies.crews.gguf_models FILE.gguf FOLDER

Weights are taken apart here, so that every version of transformers loads them alike; sizes and tokenizer are read by
transformers where the folder does not have them yet. Qwen2 and Llama are known.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from lazaretto.errors import InputError, MissingExtra

_PARTS = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
}  # fmt: skip
_WHOLE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}


def unpack(file: Path, folder: Path) -> Path:
    """The folder of a GGUF file, made unless its weights are there."""
    if (folder / "model.safetensors").is_file():
        return folder
    try:
        import torch
        from gguf import GGUFReader
        from gguf.quants import dequantize
        from safetensors.torch import save_file
    except ImportError:
        raise MissingExtra("models from GGUF files", "models") from None
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "config.json").is_file():
        _describe(file, folder)
    reader: Any = GGUFReader(file)
    architecture = str(reader.fields["general.architecture"].contents())
    if architecture not in ("qwen2", "llama"):
        raise InputError("model", f"{file.name} is a {architecture}", "Use a Qwen2 or Llama model")
    heads = {
        "attn_q.weight": int(reader.fields[f"{architecture}.attention.head_count"].contents()),
        "attn_k.weight": int(reader.fields[f"{architecture}.attention.head_count_kv"].contents()),
    }

    def one(tensor: Any) -> tuple[str, Any]:
        values = np.array(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        kind = tensor.name.split(".", 2)[-1]
        if architecture == "llama" and kind in heads:
            values = _in_halves(values, heads[kind])
        return _name(tensor.name), torch.from_numpy(values).to(torch.bfloat16).contiguous()

    with ThreadPoolExecutor(4) as pool:
        weights = dict(pool.map(one, reader.tensors))
    save_file(weights, folder / "model.part", metadata={"format": "pt"})
    (folder / "model.part").rename(folder / "model.safetensors")
    return folder


def _describe(file: Path, folder: Path) -> None:
    """Sizes and tokenizer, as transformers reads them from the file."""
    from transformers import AutoConfig, AutoTokenizer

    config: Any = AutoConfig.from_pretrained(str(file.parent), gguf_file=file.name)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config.save_pretrained(folder)
    AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name).save_pretrained(folder)


def _in_halves(values: Any, heads: int) -> Any:
    """Llama's queries and keys as transformers turns them: GGUF keeps pairs side by side, transformers in halves."""
    rows = values.shape[0] // heads
    return values.reshape(heads, rows // 2, 2, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)


def _name(gguf: str) -> str:
    if gguf in _WHOLE:
        return _WHOLE[gguf]
    _, layer, part, end = gguf.split(".")
    return f"model.layers.{layer}.{_PARTS[part]}.{end}"


if __name__ == "__main__":
    print(unpack(Path(sys.argv[1]), Path(sys.argv[2])))
