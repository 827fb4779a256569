"""Makes the golden files with sentence-transformers and its tokenizer; see README.md. Not run by the tests."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer

HERE = Path(__file__).parent


def main(folder: str) -> None:
    texts = json.loads((HERE / "texts.json").read_text(encoding="utf-8"))
    model = SentenceTransformer(folder, device="cpu")
    np.save(HERE / "vectors.npy", model.encode(texts, batch_size=1, normalize_embeddings=True).astype(np.float32))
    ids = [model.tokenizer(text, truncation=True, max_length=256)["input_ids"] for text in texts]
    (HERE / "ids.json").write_text(json.dumps(ids, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
