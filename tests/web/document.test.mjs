// The document's six TypeScript blocks, in its order and with its names, run against the client. They are told here in
// our own words; set POLYVEC_I8BIN_DOCUMENT to a copy of the document to run its own text as well.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { after, before, test } from "node:test";

import { checkRows, checkSize, dequantize, loadEmbeddings, validateL2Norm } from "../../src/polyvec/web/client/index.js";
import { codes, serve, unitRows } from "./rows.mjs";

const embeddings = codes(unitRows(6, 512, 4), 512);
const shape = [6, 512];
let site;
before(async () => { site = await serve({ "/index_out/embeddings.i8bin": embeddings }); });
after(() => site.close());

test("block 1, file size: N x 512 bytes or an error that counts both", () => {
  const file = { byteLength: embeddings.byteLength };
  checkSize(shape, file.byteLength);
  assert.throws(() => checkSize(shape, 3000), /^EmbeddingError: Embedding file size mismatch: expected 3072 bytes \(6 cards × 512 dims\), got 3000 bytes\. Re-export embeddings using export_for_browser\.py/);
});

test("block 2, data range: every value from -127 to 127", () => {
  const int8Array = new Int8Array(embeddings.slice().buffer);
  checkRows(int8Array, 512);
  assert.ok(int8Array.every((value) => value >= -127 && value <= 127));
  int8Array[42] = -128;
  assert.throws(() => checkRows(int8Array, 512), /^EmbeddingError: Invalid int8 value at index 42: -128\. Values must be in range \[-127, 127\]\.$/);
});

test("block 3, validateL2Norm: every dequantised row passes, a scaled one does not", () => {
  for (let i = 0; i < 6; i++) validateL2Norm(dequantize(embeddings.slice(i * 512, (i + 1) * 512)));
  const short = dequantize(embeddings.slice(0, 512)).map((v) => v * 0.85);
  assert.throws(() => validateL2Norm(short), /^EmbeddingError: L2 norm out of expected range: 0\.8\d*\. Expected approximately 1\.0 \(within ±0\.008\)\. Check quantization parameters\.$/);
});

test("block 4, loading: loadEmbeddings then dequantize", async () => {
  const int8Embeddings = await loadEmbeddings(`${site.base}/index_out/embeddings.i8bin`);
  const float32Embeddings = dequantize(int8Embeddings);
  assert.ok(int8Embeddings instanceof Int8Array && float32Embeddings instanceof Float32Array);
  assert.deepEqual(int8Embeddings, embeddings);
  assert.deepEqual(float32Embeddings, Float32Array.from(embeddings, (code) => code / 127));
  await assert.rejects(loadEmbeddings(`${site.base}/index_out/other.i8bin`), /^EmbeddingError: Failed to load embeddings: .*Not Found$/);
});

test("block 5, one value: card i, dimension j", async () => {
  const loaded = await loadEmbeddings(`${site.base}/index_out/embeddings.i8bin`);
  for (const [i, j] of [[0, 0], [3, 17], [5, 511]]) assert.equal(loaded[i * 512 + j], embeddings[i * 512 + j]);
});

test("block 6, one card: 512 values from i * 512", async () => {
  const loaded = await loadEmbeddings(`${site.base}/index_out/embeddings.i8bin`);
  const card = loaded.slice(3 * 512, 3 * 512 + 512);
  assert.equal(card.length, 512);
  validateL2Norm(dequantize(card));
});

const copy = process.env.POLYVEC_I8BIN_DOCUMENT;
test("the document's own text agrees with the client", { skip: !(copy && existsSync(copy)) && "no copy of the document" }, async () => {
  const blocks = Array.from(readFileSync(copy, "utf8").matchAll(/^```typescript\n(.*?)^```/gms), (m) =>
    m[1].replace(/\)\s*:\s*(void|Promise<Int8Array>|Float32Array)\s*\{/g, ") {").replace(/(\w+): (string|Int8Array|Float32Array)\)/g, "$1)"));
  assert.equal(blocks.length, 6);
  const run = (body, given) => new (Object.getPrototypeOf(async () => {}).constructor)(...Object.keys(given), body)(...Object.values(given));
  const refused = async (body, given) => (await run(body, given).then(() => assert.fail("not refused"), (e) => e)).message;
  const spoiled = embeddings.slice();
  spoiled[42] = -128;
  const ours = (call) => { try { call(); } catch (e) { return e.message; } return assert.fail("not refused"); };
  // 1 and 2: the same words, ours only longer
  assert.ok(ours(() => checkSize(shape, 9)).startsWith(await refused(blocks[0], { shape, file: { byteLength: 9 } })));
  assert.equal(ours(() => checkRows(spoiled, 512)), await refused(blocks[1], { buffer: spoiled.buffer }));
  // 3: the same verdict and words
  const short = dequantize(embeddings.slice(0, 512)).map((v) => v * 0.9);
  assert.equal(ours(() => validateL2Norm(short)), await refused(`${blocks[2]}; validateL2Norm(short)`, { short }));
  // 4: its functions and ours give the same arrays; its usage lines run on our functions
  const body = blocks[3].replace("'/index_out", `'${site.base}/index_out`);
  const theirs = await run(`${body}; return [int8Embeddings, float32Embeddings]`, {});
  const usage = body.slice(body.indexOf("// Usage"));
  const mine = await run(`${usage}; return [int8Embeddings, float32Embeddings]`, { loadEmbeddings, dequantize });
  assert.deepEqual(mine, theirs);
  // 5 and 6
  assert.equal(await run(`${blocks[4]}; return value`, { embeddings: mine[0], i: 2, j: 5 }), embeddings[1029]);
  assert.deepEqual(await run(`${blocks[5]}; return embedding`, { embeddings: mine[0], i: 2 }), embeddings.slice(1024, 1536));
});
