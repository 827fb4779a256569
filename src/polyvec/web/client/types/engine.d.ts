export type Load = {
    url: string;
    shape: readonly number[];
    hash?: string;
    /**
     * where kernel.wasm lies, or its bytes; absent: plain JavaScript
     */
    wasm?: string | ArrayBuffer;
    /**
     * the rows themselves, where the page already has them
     */
    data?: ArrayBuffer;
    cache?: boolean;
};
export type Hit = {
    row: number;
    score: number;
};
export type Loaded = {
    kind: "wasm" | "plain";
    cached: boolean;
    checkMs: number;
};
export declare class Engine {
    /** @type {import("./kernel.js").Kernel | undefined} */
    kernel: import("./kernel.js").Kernel | undefined;
    count: number;
    dim: number;
    constructor();
    /**
     * Fetch, check and keep the rows. Nothing is kept of a file that breaks a rule.
     * @param {Load} load
     * @param {import("./download.js").OnProgress} [onProgress]
     * @returns {Promise<Loaded>}
     */
    load(load: Load, onProgress?: import("./download.js").OnProgress): Promise<Loaded>;
    /**
     * The k rows with the largest dot product. An int8 query (or a row number) is compared in integers throughout; a
     * float query is rounded to int16, which loses no neighbour that matters. With `cosine` rows are ranked by the cosine
     * of their codes instead: rounding changes lengths a little, and a row's own copy is still the nearest.
     * @param {number | Int8Array | Float32Array} query
     * @param {number} k
     * @param {Uint8Array} [allowed]
     * @param {boolean} [cosine]
     * @returns {Hit[]}
     */
    search(query: number | Int8Array | Float32Array, k: number, allowed?: Uint8Array, cosine?: boolean): Hit[];
    /**
     * As many rows as `best` holds, by cosine: only those can be among them whose dot product is near the least of these.
     * @param {Int32Array} scores
     * @param {Uint32Array} best
     * @param {Uint8Array} [allowed]
     * @returns {Hit[]}
     */
    byCosine(scores: Int32Array, best: Uint32Array, allowed?: Uint8Array): Hit[];
    /** @param {number} i @returns {Float32Array} */
    vector(i: number): Float32Array;
    /** @param {Int8Array} query */
    takeCodes(query: Int8Array): number;
    /** @param {Float32Array} query */
    takeFloats(query: Float32Array): number;
    /** @param {number} i @returns {Int8Array} */
    row(i: number): Int8Array;
    ready(): {
        kernel: import("./kernel.js").Kernel;
        dim: number;
        count: number;
    };
}
