// One collection as the page sees it: names, records, map, fields and search, whether from files or from a server.
import { countError, EmbeddingError } from "../client/format.js";
import { loadIndex } from "../client/vectorindex.js";
import { ask, embedded, readBytes, readJson, readText } from "./files.js";

/**
 * @typedef {{name: string, kind: "category" | "number", values?: string[], counts?: number[], low?: number,
 *            high?: number, ramp?: [number, number], wide?: boolean, plain?: boolean, file: string}} Field
 * @typedef {Uint16Array | Float32Array | Float64Array} Values
 * @typedef {object} Site
 * @property {string} title
 * @property {number} rows
 * @property {number} dim
 * @property {"static" | "server"} source
 * @property {Field[]} fields
 * @property {string | null} [ids]   the file that holds the ids; null or absent without ids
 * @property {{name?: string, image?: string, link?: string, text?: string}} roles
 * @property {{file: string, points: number, rows_file?: string, note: string}} map
 * @property {{per: number, folder: string}} records
 * @property {{file: string, sha256: string}} [embeddings]
 * @property {boolean} [text_query]
 * @property {string} [format]
 *
 * @typedef {{row: number, name: string, id?: string}} Named
 * @typedef {{row: number, score: number, name?: string}} Answer
 * @typedef {{row: number} | {text: string}} Question
 * @typedef {Record<string, string[]>} Filters
 * @typedef {Record<string, unknown>} Entry
 *
 * @typedef {object} Store
 * @property {Site} site
 * @property {Uint16Array} points       x, y of every point of the map
 * @property {Uint32Array | null} rowOfPoint  the row behind each point; null: point i is row i
 * @property {(limit: number, text: string) => Promise<Named[]>} suggest
 * @property {(rows: number[]) => Promise<string[]>} namesOf
 * @property {(row: number) => string | undefined} nameNow   the name, where the page has it already
 * @property {(row: number) => Promise<string | undefined>} idOf   the id of a row, where there are ids
 * @property {(id: string) => Promise<number>} rowOf   the first row with an id, -1 for none
 * @property {(rows: number[]) => Promise<Entry[]>} entries
 * @property {(field: Field) => Promise<Values>} column   one value a point
 * @property {(question: Question, k: number, filters: Filters, allowed?: Uint8Array) => Promise<Answer[]>} search
 * @property {Promise<unknown>} ready   settles when vectors can be searched
 */

/**
 * Open the collection of this page. Resolves once names and map are there; vectors follow (`ready`).
 * @param {(part: number) => void} onProgress
 * @returns {Promise<Store>}
 */
export async function openStore(onProgress) {
  const site = await readJson("site.json");
  if (site.version !== 1) throw new EmbeddingError("meta", `Unsupported site version: ${site.version}. Publish again.`);
  return site.source === "server" ? openRemote(site, onProgress) : openStatic(site, onProgress);
}

/**
 * @param {Site} site
 * @param {(part: number) => void} onProgress
 * @returns {Promise<Store>}
 */
async function openStatic(site, onProgress) {
  // Vectors start first and arrive last; names and map make the page usable meanwhile.
  const index = openVectors(site, onProgress);
  index.catch(() => {});
  const [text, points, listed] = await Promise.all([readText("names.txt"), readPoints(site), site.ids && site.ids !== "names.txt" ? readJson(site.ids) : null]);
  const names = text.split("\n");
  if (names.at(-1) === "") names.pop();
  if (names.length !== site.rows) throw countError(site.rows, names.length);
  /** @type {string[] | undefined} */
  const ids = site.ids === "names.txt" ? names : (listed ?? undefined);
  if (ids && ids.length !== site.rows) throw countError(site.rows, ids.length);
  const folded = names.map(fold);
  /** @type {Map<number, Promise<Entry[]>>} */
  const shards = new Map();
  /** @param {number} shard */
  const readShard = (shard) => {
    let got = shards.get(shard);
    if (!got) {
      got = readJson(`${site.records.folder}/${shard}.json`).then((records) => {
        const expected = Math.min(site.records.per, site.rows - shard * site.records.per);
        if (!Array.isArray(records) || records.length !== expected) throw countError(expected, records?.length ?? 0);
        return records;
      });
      got.catch(() => shards.delete(shard)); // A lost connection may come back: ask again next time.
      shards.set(shard, got);
    }
    return got;
  };
  return {
    site,
    points,
    rowOfPoint: null,
    suggest: async (limit, wanted) => matchNames(names, folded, wanted, limit, ids),
    namesOf: async (rows) => rows.map((row) => names[row] ?? ""),
    nameNow: (row) => names[row],
    idOf: async (row) => ids?.[row],
    rowOf: async (id) => ids?.indexOf(id) ?? -1,
    entries: async (rows) => {
      const { per } = site.records;
      return Promise.all(rows.map(async (row) => (await readShard(Math.floor(row / per)))[row % per]));
    },
    column: (field) => readColumn(field, site.rows),
    search: async (question, k, _filters, allowed) => {
      if ("text" in question) throw new EmbeddingError("meta", "this page has no model to search by meaning");
      return (await index).search(question.row, k, { allowed, cosine: true });
    },
    ready: index,
  };
}

/**
 * @param {Site} site
 * @param {(part: number) => void} onProgress
 */
async function openVectors(site, onProgress) {
  const { file, sha256 } = /** @type {{file: string, sha256: string}} */ (site.embeddings);
  const options = {
    shape: [site.rows, site.dim],
    hash: sha256,
    records: /** @type {false} */ (false),
    onProgress: (/** @type {{loaded: number, total: number}} */ p) => onProgress(p.total ? p.loaded / p.total : 1),
  };
  if (!embedded()) return loadIndex(`data/${file}`, options);
  const source = document.querySelector("script[data-worker]")?.textContent ?? "";
  const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const [data, wasm] = await Promise.all([readBytes(file), readBytes("kernel.wasm")]);
  const index = await loadIndex(file, { ...options, data, wasm, worker: () => new Worker(address) });
  onProgress(1);
  return index;
}

/**
 * @param {Site} site
 * @param {(part: number) => void} onProgress
 * @returns {Promise<Store>}
 */
async function openRemote(site, onProgress) {
  const points = await readPoints(site);
  const rows = site.map.rows_file ? new Uint32Array(await readBytes(site.map.rows_file)) : null;
  onProgress(1);
  /** @type {Map<number, string>} */
  const known = new Map();
  /** @type {Map<number, string>} */
  const ids = new Map();
  const learn = (/** @type {Array<{row: number, name: string, id?: string | number}>} */ found) => {
    const named = found.map(({ row, name, id }) => (id === undefined ? { row, name } : { row, name, id: String(id) }));
    for (const { row, name, id } of named) {
      known.set(row, name);
      if (id !== undefined) ids.set(row, id);
    }
    return named;
  };
  return {
    site,
    points,
    rowOfPoint: rows,
    suggest: async (limit, wanted) => learn((await ask("names", { q: wanted, limit: String(limit) })).names),
    namesOf: async (list) => {
      const unknown = list.filter((row) => !known.has(row));
      if (unknown.length) learn((await ask("names", { rows: unknown.join(",") })).names);
      return list.map((row) => known.get(row) ?? "");
    },
    nameNow: (row) => known.get(row),
    idOf: async (row) => {
      if (site.ids && !ids.has(row)) learn((await ask("names", { rows: String(row) })).names);
      return ids.get(row);
    },
    rowOf: async (id) => (site.ids ? (learn((await ask("names", { id })).names)[0]?.row ?? -1) : -1),
    entries: async (list) => (list.length ? (await ask("records", { rows: list.join(",") })).records : []),
    column: (field) => readColumn(field, site.map.points),
    search: async (question, k, filters) => {
      /** @type {Record<string, string>} */
      const asked = "text" in question ? { text: question.text } : { row: String(question.row) };
      return (await ask("search", { ...asked, k: String(k), filters: JSON.stringify(filters) })).hits;
    },
    ready: Promise.resolve(),
  };
}

/** @param {Site} site */
async function readPoints(site) {
  const bytes = await readBytes(site.map.file);
  if (bytes.byteLength !== 4 * site.map.points) throw countError(site.map.points, Math.floor(bytes.byteLength / 4));
  return new Uint16Array(bytes);
}

/**
 * @param {Field} field
 * @param {number} count
 */
async function readColumn(field, count) {
  const bytes = await readBytes(field.file);
  const column = field.kind !== "number" ? new Uint16Array(bytes) : field.wide ? new Float64Array(bytes) : new Float32Array(bytes);
  if (column.length !== count) throw countError(count, column.length);
  return column;
}

/**
 * Lower case without accents, so that "eclair" finds "Éclair".
 * @param {string} text
 */
export function fold(text) {
  return text.normalize("NFD").replace(/[\u0300-\u036f]/g, "").toLowerCase();
}

/**
 * Rows whose id is the text, then names that begin with it, those with a word that does, those that hold it, those that
 * hold its words in any order, and rows whose ids begin with it.
 * @param {string[]} names
 * @param {string[]} folded
 * @param {string} wanted
 * @param {number} limit
 * @param {string[]} [ids]
 * @returns {Named[]}
 */
export function matchNames(names, folded, wanted, limit, ids) {
  const exact = wanted.trim();
  const text = fold(exact);
  if (!text) return [];
  const words = text.split(/\s+/);
  /** @type {number[][]} */
  const ranks = [[], [], [], [], [], []];
  for (let row = 0; row < folded.length; row++) {
    const name = folded[row];
    const at = name.indexOf(text);
    let rank = -1;
    if (ids?.[row] === exact) rank = 0;
    else if (at >= 0) rank = at === 0 ? 1 : /[\p{L}\p{N}]/u.test(name[at - 1]) ? 3 : 2;
    else if (words.length > 1 && words.every((word) => name.includes(word))) rank = 4;
    else if (ids?.[row].startsWith(exact)) rank = 5;
    if (rank < 0) continue;
    if (ranks[rank].length < limit) ranks[rank].push(row);
    if (!ids && ranks[1].length >= limit) break;
  }
  return ranks
    .flat()
    .slice(0, limit)
    .map((row) => (ids ? { row, name: names[row], id: ids[row] } : { row, name: names[row] }));
}
