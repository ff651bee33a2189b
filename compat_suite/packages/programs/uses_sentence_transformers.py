"""Vectors of sentences from a small model with random weights: similarities, losses, saving, the trainer."""

import tempfile
from pathlib import Path

import torch
from datasets import Dataset, fingerprint
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
    losses,
    util,
)
from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from transformers import BertConfig, BertModel, BertTokenizerFast
from transformers.trainer_callback import PrinterCallback

fingerprint.Hasher.hash = classmethod(lambda cls, value: "0")  # types of some versions of pyarrow can't be pickled
STEPS = 30
EPOCHS = 10  # of three passes each
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "cat", "sat", "on", "the", "mat", "dog", "runs", "fast")
SENTENCES = ["a cat sat on the mat", "the dog runs fast", "a bird sings", "the cat"]
with tempfile.TemporaryDirectory() as folder:
    Path(folder, "vocab.txt").write_text("\n".join(WORDS))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    BertModel(config).save_pretrained(folder)
    BertTokenizerFast(vocab_file=f"{folder}/vocab.txt").save_pretrained(folder)
    parts = [Transformer(folder, max_seq_length=16), Pooling(16, pooling_mode="mean"), Normalize()]
    model = SentenceTransformer(modules=parts, device="cpu")
    found = model.encode(SENTENCES, convert_to_tensor=True)
    print([[f"{v:.4f}" for v in row] for row in util.cos_sim(found, found).tolist()])
    inputs = [model.preprocess(SENTENCES[:2]), model.preprocess(SENTENCES[2:])]
    for criterion, labels in (
        (losses.CosineSimilarityLoss(model), torch.tensor([0.2, 0.8])),
        (losses.MultipleNegativesRankingLoss(model), None),
        (losses.CoSENTLoss(model), torch.tensor([0.2, 0.8])),
        (losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=1), None),
    ):
        optimizer = torch.optim.AdamW(criterion.parameters(), lr=1e-3)
        said = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = criterion([dict(part) for part in inputs], labels)
            loss.backward()
            optimizer.step()
            said.append(f"{loss.item():.4f}")
        print(type(criterion).__name__, *said[:2], said[-1])
    model.save(f"{folder}/saved")
    again = SentenceTransformer(f"{folder}/saved", device="cpu")
    print("loaded", bool(abs(again.encode(SENTENCES) - model.encode(SENTENCES)).max() < 1e-6))
    pairs = Dataset.from_dict(
        {
            "sentence1": [SENTENCES[i % 4] for i in range(12)],
            "sentence2": [SENTENCES[i * 3 % 4] for i in range(12)],
            "score": [i / 12 for i in range(12)],
        }
    )
    arguments = SentenceTransformerTrainingArguments(
        f"{folder}/run",
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=4,
        learning_rate=1e-3,
        warmup_steps=2,
        logging_steps=1,
        eval_strategy="epoch",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = SentenceTransformerTrainer(
        again,
        arguments,
        train_dataset=pairs,
        eval_dataset=pairs,
        loss=losses.CoSENTLoss(again),
        evaluator=EmbeddingSimilarityEvaluator(pairs["sentence1"], pairs["sentence2"], pairs["score"]),
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    told = trainer.state.log_history[:-1]
    for row in told[:8] + told[-4:]:
        found = {k: v for k, v in row.items() if k in ("loss", "grad_norm", "learning_rate", "eval_loss")}
        found |= {k: v for k, v in row.items() if k.endswith("pearson_cosine")}  # ranks of equal pairs are rounding
        print(row["epoch"], *(f"{k} {v:.5f}" for k, v in found.items()))
