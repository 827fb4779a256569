// Seeded unit rows, their codes, and a small web server: what the Node tests share.
import { createServer } from "node:http";

/** A seeded generator of numbers from 0 to 1: a linear congruence, its high bits. */
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state >>> 8) / 2 ** 24;
  };
}

/** Float32 unit rows. */
export function unitRows(count, dim, seed = 1) {
  const next = random(seed);
  const rows = new Float32Array(count * dim);
  for (let r = 0; r < count; r++) {
    let sum = 0;
    for (let j = 0; j < dim; j++) {
      const value = next() + next() + next() - 1.5;
      rows[r * dim + j] = value;
      sum += value * value;
    }
    const norm = Math.sqrt(sum);
    for (let j = 0; j < dim; j++) rows[r * dim + j] /= norm;
  }
  return rows;
}

/** Int8 rows whose sums of squares lie within the bounds: rounded, then nudged one level at a time. */
export function codes(rows, dim) {
  const out = Int8Array.from(rows, (v) => Math.round(v * 127));
  for (let start = 0; start < out.length; start += dim) {
    const row = out.subarray(start, start + dim);
    let sum = row.reduce((a, v) => a + v * v, 0);
    for (let j = 0; Math.abs(sum - 16129) > 100 && j < dim; j++) {
      const step = (sum < 16129 ? 1 : -1) * (row[j] < 0 ? -1 : 1);
      sum += 2 * row[j] * step + 1;
      row[j] += step;
    }
  }
  return out;
}

/** Serve `files` (path -> bytes, string or a function of request and response) on 127.0.0.1. */
export async function serve(files) {
  const server = createServer((request, response) => {
    const file = files[new URL(request.url, "http://x").pathname];
    if (file === undefined) return response.writeHead(404).end("no");
    if (typeof file === "function") return file(request, response);
    response.end(typeof file === "string" ? file : Buffer.from(file.buffer ?? file, file.byteOffset, file.byteLength));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const base = `http://127.0.0.1:${server.address().port}`;
  return { base, files, close: () => new Promise((resolve) => { server.closeAllConnections(); server.close(resolve); }) };
}

export function meta(count, dim, records = Array.from({ length: count }, (_, i) => ({ name: `r${i}` }))) {
  return JSON.stringify({
    version: "1.0",
    quantization: { dtype: "int8", scale_factor: 127, original_dtype: "float32", note: "" },
    shape: [count, dim],
    records,
  });
}
