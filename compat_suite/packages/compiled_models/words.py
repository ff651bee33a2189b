"""transformers: models that read words, from their configurations of two small layers."""

from __future__ import annotations

import functools
from typing import Any

SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 32,
}
GROUPED = {**SMALL, "num_key_value_heads": 1, "pad_token_id": 0}

LEFT_TO_RIGHT: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", GROUPED),
    "mistral": ("MistralForCausalLM", "MistralConfig", {**GROUPED, "sliding_window": 4}),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", GROUPED),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {**GROUPED, "head_dim": 16}),
    "gemma": ("GemmaForCausalLM", "GemmaConfig", {**GROUPED, "head_dim": 16}),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", {**GROUPED, "head_dim": 16, "sliding_window": 4}),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", GROUPED),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 2}),
    "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", SMALL),
    "opt": (
        "OPTForCausalLM",
        "OPTConfig",
        {
            "vocab_size": 64,
            "hidden_size": 32,
            "ffn_dim": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "max_position_embeddings": 32,
            "word_embed_proj_dim": 32,
        },
    ),
    "bloom": ("BloomForCausalLM", "BloomConfig", {"vocab_size": 64, "hidden_size": 32, "n_layer": 2, "n_head": 2}),
    "falcon": (
        "FalconForCausalLM",
        "FalconConfig",
        {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2},
    ),
    "mamba": (
        "MambaForCausalLM",
        "MambaConfig",
        {"vocab_size": 64, "hidden_size": 16, "state_size": 4, "num_hidden_layers": 2},
    ),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", {**GROUPED, "num_local_experts": 2}),
    "xlnet": (
        "XLNetLMHeadModel",
        "XLNetConfig",
        {"vocab_size": 64, "d_model": 32, "n_layer": 2, "n_head": 2, "d_inner": 48},
    ),
}
MASKED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("BertForMaskedLM", "BertConfig", SMALL),
    "roberta": ("RobertaForMaskedLM", "RobertaConfig", SMALL),
    "distilbert": (
        "DistilBertForMaskedLM",
        "DistilBertConfig",
        {"vocab_size": 64, "dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 2, "max_position_embeddings": 32},
    ),
    "albert": ("AlbertForMaskedLM", "AlbertConfig", {**SMALL, "embedding_size": 16}),
    "electra": ("ElectraForMaskedLM", "ElectraConfig", {**SMALL, "embedding_size": 16}),
    "deberta_v2": (
        "DebertaV2ForMaskedLM",
        "DebertaV2Config",
        {**SMALL, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8},
    ),
    "modernbert": (
        "ModernBertForMaskedLM",
        "ModernBertConfig",
        {**SMALL, "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2, "cls_token_id": 2, "sep_token_id": 1},
    ),
}
THERE_AND_BACK: dict[str, tuple[str, str, dict[str, Any]]] = {
    "t5": (
        "T5ForConditionalGeneration",
        "T5Config",
        {
            "vocab_size": 64,
            "d_model": 32,
            "d_kv": 16,
            "d_ff": 48,
            "num_layers": 2,
            "num_heads": 2,
            "decoder_start_token_id": 0,
        },
    ),
    **{
        name: (
            f"{kind}ForConditionalGeneration",
            f"{kind}Config",
            {
                "vocab_size": 64,
                "d_model": 32,
                "encoder_layers": 2,
                "decoder_layers": 2,
                "encoder_attention_heads": 2,
                "decoder_attention_heads": 2,
                "encoder_ffn_dim": 48,
                "decoder_ffn_dim": 48,
                "max_position_embeddings": 32,
            },
        )
        for name, kind in (("bart", "Bart"), ("pegasus", "Pegasus"))
    },
}


def build(model: str, config: str, options: dict[str, Any]) -> Any:
    """A model of transformers with random weights, in training mode."""
    import transformers

    return getattr(transformers, model)(getattr(transformers, config)(**options)).train()


def training(kind: tuple[str, str, dict[str, Any]]) -> Any:
    """A training with the model's own loss of words as labels."""
    from .training import Training, small_words

    def batch() -> dict[str, Any]:
        words = small_words()
        return {"input_ids": words, "labels": words}

    return Training(build(*kind), batch)


def with_mask() -> Any:
    """Texts of two lengths: the mask of the padding is an argument."""
    import torch

    from .training import small_words

    found = training(MASKED["bert"])
    mask = torch.tensor([[1] * 8, [1] * 5 + [0] * 3])

    def batch() -> dict[str, Any]:
        words = small_words()
        return {"input_ids": words, "attention_mask": mask.clone(), "labels": words}

    found.batch = batch
    return found


def without_cache() -> Any:
    """As for training: no keys and values are kept and returned."""
    found = training(LEFT_TO_RIGHT["llama"])
    found.model.config.use_cache = False
    return found


def with_cache() -> Any:
    """The model is asked for its cache, and the loss is made of what it returns by hand."""
    import torch

    from .training import Training, small_words

    def loss(model: Any, batch: Any) -> Any:
        out = model(input_ids=batch, use_cache=True)
        kept = out.past_key_values.get_seq_length()
        return torch.nn.functional.cross_entropy(out.logits[:, :-1].flatten(0, 1), batch[:, 1:].flatten()) * (kept / 8)

    return Training(build(*LEFT_TO_RIGHT["llama"]), small_words, loss)


def checkpointed() -> Any:
    """Activations are computed again in the backward pass."""
    found = training(LEFT_TO_RIGHT["llama"])
    found.model.gradient_checkpointing_enable()
    return found


def classifier() -> Any:
    """A classification with labels of its own."""
    import torch

    from .training import Training, small_words

    kind = ("BertForSequenceClassification", "BertConfig", {**SMALL, "num_labels": 3})
    return Training(build(*kind), lambda: {"input_ids": small_words(), "labels": torch.randint(0, 3, (2,))})


def generation(cache: str | None) -> Any:
    """`generate` and decoding by hand."""
    from .generation import Generation
    from .training import small_words

    model = build(*LEFT_TO_RIGHT["llama"]).eval()
    return Generation(model, lambda: small_words(shape=(1, 4)), cache)


MODELS = {
    **{
        f"transformers {name}": functools.partial(training, kind)
        for name, kind in (LEFT_TO_RIGHT | MASKED | THERE_AND_BACK).items()
    },
    "transformers bert, with a mask": with_mask,
    "transformers bert, classifier": classifier,
    "transformers llama, use_cache=False": without_cache,
    "transformers llama, use_cache=True": with_cache,
    "transformers llama, gradient checkpointing": checkpointed,
    "transformers llama, generate, static cache": functools.partial(generation, "static"),
    "transformers llama, generate, dynamic cache": functools.partial(generation, None),
}
