"""Claim: in Chromium, 50,000 x 512 loads and is checked in under 500 ms, is searched at least 25x faster than a plain
JavaScript float32 loop with a full sort, takes under 40 MB, and its page is usable in under 1 s.

Everything is measured in one run of one browser, from a local server: our search (asked from the page, answered by the
Worker), the plain JavaScript kernel, the float32 loop after dequantising, and a copy of the same bytes as the limit.

    python benchmarks/browser.py [--small]
"""

from __future__ import annotations

import argparse
import functools
import http.server
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "web"))
import chromium  # noqa: E402

from polyvec.core.collection import Collection  # noqa: E402
from polyvec.web.publish import publish  # noqa: E402

DIM, K = 512, 10

# Runs inside the page of an isolated origin, so that the browser tells what the page and its Worker hold.
SCRIPT = """
async ({rows, dim, k, queries}) => {
  const { loadIndex, loadEmbeddings, dequantize } = await import("/client/index.js");
  const middle = (list) => list.sort((a, b) => a - b)[list.length >> 1];
  const memory = async () => {
    const found = await performance.measureUserAgentSpecificMemory?.();
    return found ? found.bytes / 1e6 : NaN;
  };
  const timed = async (times, call) => {
    const taken = [];
    for (let i = 0; i < times; i++) {
      const start = performance.now();
      await call(i);
      taken.push(performance.now() - start);
    }
    return middle(taken);
  };
  const out = {};
  const url = new URL("/data/embeddings.i8bin", location.href).href;
  const empty = await memory();
  const loads = [];
  for (let i = 0; i < 5; i++) {
    const start = performance.now();
    const one = await loadIndex(url, { shape: [rows, dim], records: false, cache: false });
    loads.push(performance.now() - start);
    out.check = one.checkMs;
    one.close();
  }
  out.load = middle(loads);
  const index = await loadIndex(url, { shape: [rows, dim], records: false, cache: false });
  const random = new Float32Array(dim).map((_, j) => Math.sin(j * 12.9898) / 16);
  for (let i = 0; i < 20; i++) await index.search(i, k);
  out.kernel = index.kernel;
  out.search = await timed(queries, (i) => index.search(i * 37 % rows, k));
  out.searchFloat = await timed(queries, () => index.search(random, k));
  out.memory = (await memory()) - empty;
  index.close();

  const plain = await loadIndex(url, { shape: [rows, dim], records: false, cache: false, wasm: null });
  await plain.search(0, k);
  out.plain = await timed(5, (i) => plain.search(i, k));
  plain.close();

  const before = await memory();
  const bytes = await loadEmbeddings(url);
  let copy = new Int8Array(bytes.length);
  for (let i = 0; i < 5; i++) copy.set(bytes);
  out.copy = await timed(9, () => copy.set(bytes));
  copy = null;
  const floats = dequantize(bytes);
  const loop = (query) => {
    const scored = new Array(rows);
    for (let row = 0; row < rows; row++) {
      let sum = 0;
      for (let j = 0, at = row * dim; j < dim; j++) sum += query[j] * floats[at + j];
      scored[row] = { row, score: sum };
    }
    scored.sort((a, b) => b.score - a.score);
    return scored.slice(0, k);
  };
  loop(floats.subarray(0, dim));
  out.float = await timed(7, (i) => loop(floats.subarray(i * dim, (i + 1) * dim)));
  out.floatMemory = (await memory()) - before;
  out.held = bytes.length + floats.length;
  return out;
}
"""

FRAMES = """
async () => {
  const map = polyvec.page.map;
  const taken = [];
  for (let i = 0; i < 40; i++) {
    map.moveTo({ x: 0.5 + 0.01 * Math.sin(i), y: 0.5, z: 1 + i * 0.02 }, true);
    await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
    taken.push(map.lastDraw);
  }
  return taken.sort((a, b) => a - b)[20];
}
"""


class Isolated(http.server.SimpleHTTPRequestHandler):
    """Files with the headers that let a page measure its memory."""

    def end_headers(self) -> None:
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def log_message(self, *_: Any) -> None:
        pass


def make_site(folder: Path, rows: int) -> None:
    rng = np.random.default_rng(1)
    centres = rng.standard_normal((200, DIM), dtype=np.float32)
    which = rng.integers(0, 200, rows)
    x = centres[which] + rng.standard_normal((rows, DIM), dtype=np.float32)
    records = [
        {
            "name": f"Card {i} of the {'old' if i % 3 else 'new'} kind",
            "set": f"set {w % 40}",
            "rarity": "cmur"[w % 4],
            "year": 1993 + i % 30,
            "image_url": f"https://images.example/{i}/normal/front/{i * 7919 % 99991}.jpg",
            "card_url": f"https://cards.example/card/{i}/a-rather-long-address-as-they-are",
            "text": "When this enters, look at the top cards of your library, then put them back in any order. " * 3,
        }
        for i, w in enumerate(which)
    ]
    publish(Collection.from_arrays(x, records=records), folder, title="Benchmark")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="5,000 rows instead of 50,000")
    rows = 5_000 if parser.parse_args().small else 50_000
    if chromium.missing():
        sys.exit(chromium.missing())
    with (
        tempfile.TemporaryDirectory() as folder,
        chromium.browser("--enable-blink-features=ForceEagerMeasureMemory") as chrome,
    ):
        site = Path(folder) / "site"
        start = time.perf_counter()
        make_site(site, rows)
        print(f"{rows} x {DIM} published in {time.perf_counter() - start:.1f} s; Chromium {chrome.version}")
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Isolated, directory=str(site)))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        measure(chrome, address, rows)
        measure_page(chrome, address)
        server.shutdown()


def measure(chrome: Any, address: str, rows: int) -> None:
    tab = chrome.new_page()
    tab.goto(f"{address}data/site.json")
    found = tab.evaluate(SCRIPT, {"rows": rows, "dim": DIM, "k": K, "queries": 40})
    tab.close()
    size = rows * DIM / 1e6
    print(f"search, k={K} (median; kernel: {found['kernel']})")
    for label, key in [
        ("ours: WASM in a Worker, row as query", "search"),
        ("ours: WASM in a Worker, float query", "searchFloat"),
        ("ours: plain JavaScript in a Worker", "plain"),
        ("float32 loop and full sort", "float"),
        ("a copy of the rows (limit)", "copy"),
    ]:
        speed = f"{size / found[key]:6.2f} GB/s  {found['float'] / found[key]:6.1f}x the loop"
        print(f"  {label:40} {found[key]:8.2f} ms  {speed}")
    print(f"  claim: at least 25x; found {found['float'] / found['search']:.1f}x")
    memory, other = found["memory"], found["floatMemory"]
    print(f"memory above an empty page: ours {memory:.1f} MB, the float way {other:.1f} MB (claim: < 40)")
    print(f"load and check every row: {found['load']:.0f} ms, of which checks {found['check']:.1f} ms (claim: < 500)")


def measure_page(chrome: Any, address: str) -> None:
    interactive, ready = [], []
    for _ in range(3):
        context = chrome.new_context(viewport={"width": 1360, "height": 820})
        tab = context.new_page()
        tab.goto(address)
        tab.wait_for_selector("html[data-state=ready]", timeout=60_000)
        # counted from navigation, fetching of the page itself included
        interactive.append(tab.evaluate("polyvec.interactive"))
        ready.append(tab.evaluate("polyvec.ready"))
        frame = tab.evaluate(FRAMES)
        context.close()
    usable, searchable = sorted(interactive)[1], sorted(ready)[1]
    print(f"page: usable after {usable:.0f} ms (claim: < 1000), searchable after {searchable:.0f} ms")
    print(f"map: {frame:.1f} ms to draw a frame of every point while it moves (60 frames a second need 16.7)")


if __name__ == "__main__":
    main()
