// The client as Node sees it: formulas, refusals with the document's words, kernels, search, loading.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";

import {
  EmbeddingError, checkMeta, checkRows, checkSize, dequantize, loadEmbeddings, loadIndex, validateL2Norm,
} from "../../src/polyvec/web/client/index.js";
import { makeKernel, selectBest } from "../../src/polyvec/web/client/kernel.js";
import { codes, meta, random, serve, unitRows } from "./rows.mjs";

const WASM = readFileSync(new URL("../../src/polyvec/web/client/kernel.wasm", import.meta.url));
const wasm = WASM.buffer.slice(WASM.byteOffset, WASM.byteOffset + WASM.byteLength);
const sha = (bytes) => createHash("sha256").update(bytes).digest("hex");

describe("the format", () => {
  test("dequantize divides by 127 for every code", () => {
    const all = Int8Array.from({ length: 255 }, (_, i) => i - 127);
    const out = dequantize(all);
    for (let i = 0; i < 255; i++) assert.equal(out[i], Math.fround(all[i] / 127));
    const byProduct = all.filter((v) => Math.fround(Math.fround(1 / 127) * v) !== Math.fround(v / 127));
    assert.equal(byProduct.length, 16);
  });

  test("a size mismatch is refused in the document's words", () => {
    checkSize([3, 512], 1536);
    assert.throws(() => checkSize([50000, 512], 12800000), {
      message:
        "Embedding file size mismatch: expected 25600000 bytes (50000 cards × 512 dims), got 12800000 bytes. " +
        "Re-export embeddings using export_for_browser.py (python -m polyvec.browser)",
      code: "size",
    });
  });

  test("an old float16 file is named as such, with the way to re-export", () => {
    assert.throws(() => checkSize([10, 512], 10240), (error) => {
      assert.equal(error.code, "legacy");
      assert.match(error.message, /^Embedding file size mismatch.*export_for_browser\.py.*float16/);
      return true;
    });
  });

  test("-128 is refused with its index", () => {
    const rows = codes(unitRows(4, 512), 512);
    rows[2 * 512 + 42] = -128;
    assert.throws(() => checkRows(rows, 512), {
      message: "Invalid int8 value at index 1066: -128. Values must be in range [-127, 127].", row: 2,
    });
  });

  test("a short row is refused with its norm", () => {
    const rows = codes(unitRows(4, 512), 512);
    for (let j = 0; j < 512; j++) rows[512 + j] = Math.trunc(rows[512 + j] * 0.85);
    assert.throws(() => checkRows(rows, 512), (error) => {
      assert.match(error.message, /^L2 norm out of expected range: 0\.\d+\. Expected approximately 1\.0 \(within ±0\.008\)\. Check quantization parameters\. Row 1\.$/);
      return error.row === 1;
    });
  });

  test("validateL2Norm keeps to the bounds and refuses NaN", () => {
    validateL2Norm(new Float32Array([1]));
    validateL2Norm(new Float32Array([0.9921]));
    for (const bad of [0.9919, 1.0081, 0, NaN]) {
      assert.throws(() => validateL2Norm(new Float32Array([bad])), { code: "norm" });
    }
  });

  test("meta.json of the wrong count, dtype, scale or shape is refused", () => {
    const good = JSON.parse(meta(3, 8));
    assert.equal(checkMeta(good), good);
    assert.throws(() => checkMeta({ ...good, records: good.records.slice(1) }), /^EmbeddingError: Metadata count mismatch: expected 3 records, got 2/);
    assert.throws(() => checkMeta(good, [4, 8]), /Metadata count mismatch/);
    assert.throws(() => checkMeta({ ...good, quantization: { dtype: "float16" } }), /^EmbeddingError: Unsupported quantization dtype: float16/);
    assert.throws(() => checkMeta({ ...good, quantization: { dtype: "int8", scale_factor: 128 } }), /scale_factor: 128/);
    for (const shape of [[3], [3, 0], [-1, 8], [2.5, 8], "x", null]) assert.throws(() => checkMeta({ ...good, shape }), /shape/);
    assert.throws(() => checkMeta(null), /Unsupported quantization dtype/);
  });
});

describe("the kernels", () => {
  for (const dim of [1, 7, 16, 33, 512, 700]) {
    test(`wasm equals plain JavaScript at ${dim} dimensions`, async () => {
      const next = random(dim);
      const count = 37;
      const fast = await makeKernel(count, dim, wasm);
      const plain = await makeKernel(count, dim, undefined);
      assert.deepEqual([fast.kind, plain.kind], ["wasm", "plain"]);
      for (const kernel of [fast, plain]) assert.equal(kernel.rows.length, count * dim);
      for (let i = 0; i < count * dim; i++) plain.rows[i] = Math.floor(next() * 255) - 127;
      for (let j = 0; j < dim; j++) plain.query[j] = Math.floor(next() * 65535) - 32767;
      fast.rows.set(plain.rows);
      fast.query.set(plain.query);
      assert.deepEqual(Array.from(fast.dots()), Array.from(plain.dots()));
    });
  }

  test("both find the same first bad row, wherever -128 hides", async () => {
    const dim = 35;
    const rows = codes(unitRows(20, dim), dim);
    for (const kernel of [await makeKernel(20, dim, wasm), await makeKernel(20, dim, undefined)]) {
      kernel.rows.set(rows);
      assert.equal(kernel.firstBadRow(), -1);
      for (let j = 0; j < dim; j++) {
        const at = 13 * dim + j;
        kernel.rows[at] = -128;
        assert.equal(kernel.firstBadRow(), 13);
        kernel.rows[at] = rows[at];
      }
      kernel.rows.fill(0, 5 * dim, 6 * dim);
      assert.equal(kernel.firstBadRow(), 5);
    }
  });

  test("the bounds of the norm are exact", async () => {
    // 125^2 = 15625; the rest in ones: 15871 and 15872, 16388 and 16389 lie on both sides.
    for (const kernel of [await makeKernel(1, 800, wasm), await makeKernel(1, 800, undefined)]) {
      for (const [ones, bad] of [[246, 0], [247, -1], [763, -1], [764, 0]]) {
        kernel.rows.fill(0);
        kernel.rows[0] = 125;
        kernel.rows.fill(1, 1, 1 + ones);
        assert.equal(kernel.firstBadRow(), bad, `${15625 + ones}`);
      }
    }
  });

  test("selectBest equals a full sort, with ties to the lower row", () => {
    const next = random(5);
    for (const size of [0, 1, 2, 50, 1000]) {
      const scores = Int32Array.from({ length: size }, () => Math.floor(next() * 40) - 20);
      const allowed = Uint8Array.from({ length: size }, () => (next() > 0.3 ? 1 : 0));
      for (const mask of [undefined, allowed]) {
        const sorted = Array.from(scores.keys()).filter((i) => !mask || mask[i]).sort((a, b) => scores[b] - scores[a] || a - b);
        for (const k of [0, 1, 3, 10, size, size + 5]) assert.deepEqual(Array.from(selectBest(scores, k, mask)), sorted.slice(0, k));
      }
    }
  });
});

describe("loading and searching", () => {
  const dim = 512, count = 300;
  const floats = unitRows(count, dim, 9);
  const rows = codes(floats, dim);
  const manifest = JSON.stringify({ file_hash: sha(rows), statistics: { rows: count, dim } });
  let site;
  before(async () => {
    site = await serve({ "/x/embeddings.i8bin": rows, "/x/meta.json": meta(count, dim), "/x/build_manifest.json": manifest });
  });
  after(() => site.close());

  /** Load with some files replaced, and put them back. */
  async function loadWith(changes, options) {
    const kept = { ...site.files };
    Object.assign(site.files, changes);
    try {
      return await loadIndex(`${site.base}/x`, { wasm, ...options });
    } finally {
      Object.assign(site.files, kept);
    }
  }

  test("loadEmbeddings gives the bytes and tells its progress", async () => {
    const seen = [];
    const got = await loadEmbeddings(`${site.base}/x/embeddings.i8bin`, { onProgress: (p) => seen.push(p) });
    assert.ok(got instanceof Int8Array);
    assert.deepEqual(got, rows);
    assert.deepEqual(seen.at(-1), { loaded: rows.length, total: rows.length });
    assert.deepEqual(await loadEmbeddings(`${site.base}/x/embeddings.i8bin`, { shape: [count, dim] }), rows);
  });

  test("a 404 and a dead server are refused in the document's words", async () => {
    await assert.rejects(loadEmbeddings(`${site.base}/gone.i8bin`), { message: "Failed to load embeddings: 404 Not Found", code: "network" });
    await assert.rejects(loadEmbeddings("http://127.0.0.1:9/x.i8bin"), /Failed to load embeddings/);
  });

  for (const kind of ["wasm", "plain"]) {
    test(`search finds what a float loop over the same codes finds (${kind})`, async () => {
      const index = await loadIndex(`${site.base}/x/`, { wasm: kind === "wasm" ? wasm : null });
      assert.deepEqual([index.rows, index.dim, index.kernel], [count, dim, kind]);
      const vectors = dequantize(rows);
      for (const query of [17, rows.slice(0, dim), unitRows(1, dim, 77)]) {
        const q = typeof query === "number" ? vectors.subarray(query * dim, (query + 1) * dim) : query instanceof Int8Array ? dequantize(query) : query;
        const scores = Array.from({ length: count }, (_, r) => q.reduce((sum, v, j) => sum + v * vectors[r * dim + j], 0));
        const expected = Array.from(scores.keys()).sort((a, b) => scores[b] - scores[a]).slice(0, 10);
        const hits = await index.search(query, 10);
        assert.deepEqual(hits.map((h) => h.row), expected);
        for (const { row, score } of hits) assert.ok(Math.abs(score - scores[row]) < 1e-4);
      }
      assert.equal((await index.search(17, 1))[0].row, 17);
      const allowed = new Uint8Array(count).fill(1);
      allowed[17] = 0;
      assert.ok((await index.search(17, 20, { allowed })).every((h) => h.row !== 17));
      assert.deepEqual(await index.vector(3), dequantize(rows.subarray(3 * dim, 4 * dim)));
      assert.equal((await index.records()).length, count);
    });
  }

  test("a rerank by float rows is exact", async () => {
    const index = await loadIndex(`${site.base}/x`, { wasm });
    const query = unitRows(1, dim, 123);
    const exact = Array.from({ length: count }, (_, r) => query.reduce((s, v, j) => s + v * floats[r * dim + j], 0));
    const best = Array.from(exact.keys()).sort((a, b) => exact[b] - exact[a]).slice(0, 10);
    const some = (list) => list.map((r) => floats.subarray(r * dim, (r + 1) * dim));
    for (const given of [floats, some]) {
      const hits = await index.search(query, 10, { floats: given });
      assert.deepEqual(hits.map((h) => h.row), best);
      assert.ok(hits.every((h) => Math.abs(h.score - exact[h.row]) < 1e-6));
    }
    assert.equal((await index.search(5, 3, { floats }))[0].row, 5);
  });

  test("bad arguments are refused", async () => {
    const index = await loadIndex(`${site.base}/x`, { wasm });
    for (const bad of [-1, count, 1.5, NaN]) await assert.rejects(index.search(bad, 3), RangeError);
    await assert.rejects(index.search(new Float32Array(3), 3), /expected a query of 512 values, found 3/);
    await assert.rejects(index.search(new Float32Array(dim), 3), /not all zero/);
    await assert.rejects(index.search(new Float32Array(dim).fill(NaN), 3), /finite/);
    await assert.rejects(index.search(0, 3, { allowed: new Uint8Array(2) }), /filter of 300 bytes/);
    await assert.rejects(index.vector(count), RangeError);
  });

  test("every broken export is refused with the right words", async () => {
    const spoiled = rows.slice();
    spoiled[700] = -128;
    const zero = rows.slice().fill(0, dim, 2 * dim);
    const file = "/x/embeddings.i8bin", m = "/x/meta.json", b = "/x/build_manifest.json";
    const claim = (bytes) => ({ [file]: bytes, [b]: JSON.stringify({ file_hash: sha(bytes), statistics: { rows: count, dim } }) });
    const cases = [
      ["size", /size mismatch: expected 153600 bytes \(300 cards × 512 dims\), got 153599 bytes/, claim(rows.slice(1))],
      ["size", /size mismatch/, claim(new Int8Array(0))],
      ["size", /got 153601 bytes/, { [file]: (_, r) => { r.write(Buffer.from(rows.buffer)); r.end("x"); } }],
      ["legacy", /old float16 format/, claim(new Int8Array(2 * count * dim))],
      ["range", /Invalid int8 value at index 700: -128/, claim(spoiled)],
      ["norm", /L2 norm out of expected range: 0\. .* Row 1\./, claim(zero)],
      ["hash", /hash mismatch: the manifest says 00+/, { [b]: JSON.stringify({ file_hash: "0".repeat(64), statistics: { rows: count, dim } }) }],
      ["count", /Metadata count mismatch: expected 300 records, got 299/, { [m]: meta(count, dim, Array(299).fill({})) }],
      ["count", /Metadata count mismatch/, { [m]: meta(299, dim) }],
      ["dtype", /Unsupported quantization dtype: float16/, { [m]: meta(count, dim).replace('"int8"', '"float16"') }],
      ["meta", /not JSON/, { [m]: "<!doctype html>" }],
      ["network", /Failed to load embeddings: 404 Not Found/, { [file]: undefined }],
      ["network", /broke off/, { [file]: (_, r) => { r.writeHead(200, { "content-length": rows.length }); r.write("abc"); setTimeout(() => r.destroy(), 20); } }],
      ["size", /do not fit/, { [file]: (_, r) => { r.write("abc"); r.end(); }, [b]: JSON.stringify({ statistics: { rows: 2 ** 40, dim } }) }],
    ];
    for (const [code, words, changes] of cases) {
      await assert.rejects(loadWith(changes), (error) => {
        assert.ok(error instanceof EmbeddingError, `${words}: ${error}`);
        assert.match(error.message, words);
        return assert.equal(error.code, code) === undefined;
      });
    }
  });

  test("without a manifest the shape comes from meta.json", async () => {
    const index = await loadWith({ "/x/build_manifest.json": undefined });
    assert.equal(index.rows, count);
  });

  test("records may come later, or not at all", async () => {
    const late = await loadWith({ "/x/meta.json": meta(count, dim, []) }, { records: "later" });
    await assert.rejects(late.records(), /Metadata count mismatch/);
    const none = await loadWith({ "/x/meta.json": undefined }, { records: false });
    assert.deepEqual(await none.records(), []);
  });

  test("rows at hand are searched without a request", async () => {
    const data = rows.buffer.slice(0);
    const index = await loadIndex("memory.i8bin", { data, shape: [count, dim], wasm });
    assert.equal((await index.search(4, 1))[0].row, 4);
    await assert.rejects(loadIndex("memory.i8bin", { data, shape: [count + 1, dim], wasm }), /size mismatch/);
  });

  test("verified bytes are cached by hash, and an older export is forgotten", async () => {
    const stored = new Map();
    let requests = 0;
    globalThis.caches = {
      open: async () => ({
        match: async (key) => stored.get(key)?.clone(),
        put: async (key, response) => void stored.set(key, response),
        keys: async () => Array.from(stored.keys(), (url) => ({ url })),
        delete: async (request) => stored.delete(request.url),
      }),
    };
    try {
      const counting = { "/x/embeddings.i8bin": (_, r) => { requests++; r.end(Buffer.from(rows.buffer)); } };
      const settle = () => new Promise((resolve) => setTimeout(resolve, 20));
      assert.equal((await loadWith(counting)).cached, false);
      await settle();
      assert.equal((await loadWith(counting)).cached, true);
      assert.equal(requests, 1);
      const other = codes(unitRows(count, dim, 10), dim);
      const next = { "/x/embeddings.i8bin": other, "/x/build_manifest.json": JSON.stringify({ file_hash: sha(other), statistics: { rows: count, dim } }) };
      assert.equal((await loadWith(next)).cached, false);
      await settle();
      assert.deepEqual(Array.from(stored.keys(), (k) => k.split("sha256=")[1]), [sha(other)]);
    } finally {
      delete globalThis.caches;
    }
  });
});
