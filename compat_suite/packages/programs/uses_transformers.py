"""Small models of several families with random weights: losses, gradients, writing, saving."""

import tempfile

import torch
import transformers as tr

STEPS = 30
ROWS = 64  # times 32 words of 24 features: more elements than NumPy computes
torch.manual_seed(0)
small = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
words = torch.randint(3, 40, (2, 8))
many = torch.randint(3, 40, (ROWS, 32))
for config, kind in (
    (
        tr.GPT2Config(vocab_size=40, n_embd=16, n_layer=1, n_head=2, n_positions=32, bos_token_id=0, eos_token_id=1),
        tr.GPT2LMHeadModel,
    ),
    (
        tr.LlamaConfig(**small, num_key_value_heads=1, max_position_embeddings=32, bos_token_id=0, eos_token_id=1),
        tr.LlamaForCausalLM,
    ),
    (tr.BertConfig(**small, max_position_embeddings=32), tr.BertForMaskedLM),
    (
        tr.T5Config(vocab_size=40, d_model=16, d_kv=8, d_ff=24, num_layers=1, num_heads=2, decoder_start_token_id=0),
        tr.T5ForConditionalGeneration,
    ),
    (tr.Qwen2Config(**small, num_key_value_heads=1, max_position_embeddings=32), tr.Qwen2ForCausalLM),
    (
        tr.MixtralConfig(**small, num_key_value_heads=1, num_local_experts=2, max_position_embeddings=32),
        tr.MixtralForCausalLM,
    ),
    (
        tr.DistilBertConfig(vocab_size=40, dim=16, n_layers=1, n_heads=2, hidden_dim=24, max_position_embeddings=32),
        tr.DistilBertForMaskedLM,
    ),
):
    try:
        torch.manual_seed(1)
        model = kind(config).eval()
        out = model(input_ids=words, labels=words)
        out.loss.backward()
        norm = sum(p.grad.square().sum() for p in model.parameters() if p.grad is not None).sqrt()
        print(kind.__name__, f"{out.loss.item():.5f} {norm.item():.5f}", sum(p.numel() for p in model.parameters()))
        if hasattr(model, "generate") and "Masked" not in kind.__name__:
            print(model.generate(words[:, :3], max_new_tokens=4, do_sample=False, pad_token_id=1).tolist())
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            again = kind.from_pretrained(folder).eval()
            print((again(input_ids=words, labels=words).loss - out.loss).abs().item() < 1e-6)
        if model.supports_gradient_checkpointing:
            model.train().gradient_checkpointing_enable({"use_reentrant": False})
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        losses = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = model(input_ids=many, labels=many).loss
            loss.backward()
            optimizer.step()
            losses.append(f"{loss.item():.4f}")
        print(*losses[:3], losses[-1])
    except Exception as e:  # one line per family, whatever happens to it
        print(kind.__name__, type(e).__name__, str(e)[:300])
