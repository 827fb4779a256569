"""polyvec embed and polyvec model on the command line."""

from __future__ import annotations

import json

import numpy as np

import polyvec as pv


def test_embedding_says_how_many_texts_were_cut(cli, folder):
    (folder / "long.txt").write_text("the text of a vector " * 40 + "\nhello\n")
    code, out, err = cli("embed", "long.txt", "o.fbin", "--model", "minilm.weights", "--engine", "numpy")
    assert code == 0, err
    assert "embedded 2 texts" in out and "texts/s by numpy" in out and "1 were longer than 256 tokens" in out
    code, out, err = cli("embed", "long.txt", "o.fbin", "--model", "minilm.weights")
    assert code == 2 and "--force" in err


def test_the_json_receipt_holds_the_counts(cli):
    code, out, _err = cli("embed", "texts.jsonl", "o.npy", "--model", "minilm.weights", "--engine", "numpy", "--json")
    found = json.loads(out)
    assert code == 0 and found["texts"] == 3 and found["truncated"] == 0 and found["receipt"]["rows"] == 3
    with pv.open("o.npy") as c:
        assert c.dim == 32 and [record["text"] for record in c.records][1] == "hello world"


def test_options_reach_the_vectors(cli):
    args = ("embed", "texts.jsonl", "--model", "minilm.weights", "--engine", "numpy")
    assert cli(*args[:2], "a.npy", *args[2:], "--truncate-dim", "8", "--no-records")[0] == 0
    assert cli(*args[:2], "b.npy", *args[2:], "--no-normalize", "--prompt", "query: ")[0] == 0
    with pv.open("a.npy") as a, pv.open("b.npy") as b:
        assert (
            a.dim == 8 and a.records is None and np.allclose(np.linalg.norm(a.vectors.to_numpy(), axis=1), 1, atol=1e-5)
        )
        assert not np.allclose(np.linalg.norm(b.vectors.to_numpy(), axis=1), 1, atol=1e-3)


def test_standard_input_is_read(process, folder):
    done = process("embed", "-", "o.fbin", "--model", "minilm.weights", "--engine", "numpy", input=b"hello\nworld\n")
    assert done.returncode == 0, done.stderr
    with pv.open(folder / "o.fbin") as c:
        assert c.rows == 2


def test_bad_input_is_one_line_and_leaves_nothing(cli, folder):
    (folder / "bad.jsonl").write_text('{"text": 3}\n')
    for arguments, code in (
        (("embed", "bad.jsonl", "o.fbin", "--model", "minilm.weights"), 2),
        (("embed", "absent.txt", "o.fbin", "--model", "minilm.weights"), 1),
        (("embed", "texts.jsonl", "o.fbin", "--model", "vectors.fbin"), 1),
        (("embed", "texts.jsonl", "o.fbin", "--model", "absent.weights"), 1),
        (("embed", "texts.jsonl", "o.fbin", "--model", "minilm.weights", "--engine", "magic"), 2),
        (("embed", "texts.jsonl", "o.xyz", "--model", "minilm.weights"), 2),
        (("model", "import", "vectors.fbin", "-o", "x.weights"), 1),
        (("model", "import", "absent", "-o", "x.weights"), 1),
        (("model", "import", "all-MiniLM-L6-v2", "-o", "minilm.weights"), 2),
        (("model", "info", "vectors.fbin"), 1),
        (("model", "export", "vectors.fbin", "-o", "out"), 1),
    ):
        found, _out, err = cli(*arguments)
        assert found == code, (arguments, err)
        assert err.count("\n") == 1 and "Traceback" not in err
    assert not list(folder.glob("o.*")) and not (folder / "x.weights").exists()


def test_models_are_listed_and_described(cli, folder):
    (folder / "broken.weights").write_bytes(b"EMBD nonsense")
    code, out, _err = cli("model", "list")
    assert code == 0 and "minilm.weights" in out and "cannot be read" in out
    found = json.loads(cli("model", "list", "--json")[1])
    assert {"minilm.weights", "broken.weights"} <= {model["path"] for model in found}
    pv.write(folder / "plain.weights", np.eye(3, dtype=np.float32))
    assert "embeds         no:" in cli("model", "info", "plain.weights")[1]
    described = json.loads(cli("model", "info", "minilm.weights", "--json")[1])
    assert described["problem"] is None and described["tensors"] == 37 and described["metadata"]["num_layers"] == "2"


def test_layout_shows_every_tensor(cli):
    code, out, _err = cli("info", "minilm.weights", "--layout")
    assert code == 0 and "encoder.layer.1.output.dense.weight" in out and "special tokens" in out and "footer" in out
