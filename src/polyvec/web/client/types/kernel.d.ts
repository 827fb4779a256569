export type Kernel = {
    kind: "wasm" | "plain";
    /**
     * count x dim codes, to be filled by the caller
     */
    rows: Int8Array;
    /**
     * dim values, to be filled before `dots`
     */
    query: Int16Array;
    /**
     * the dot product of every row with the query
     */
    dots: () => Int32Array;
    /**
     * the first row that breaks the rules, -1 where none does
     */
    firstBadRow: () => number;
};
/**
 * A kernel with room for `count` rows of `dim` codes.
 * @param {number} count
 * @param {number} dim
 * @param {BufferSource | undefined} wasm the bytes of kernel.wasm; without them the plain kernel is made
 * @returns {Promise<Kernel>}
 */
export declare function makeKernel(count: number, dim: number, wasm: BufferSource | undefined): Promise<Kernel>;
/**
 * The k best of `scores`, best first, ties to the lower row; rows whose `allowed` byte is 0 are left out.
 * @param {Int32Array | number[]} scores
 * @param {number} k
 * @param {Uint8Array} [allowed]
 * @returns {Uint32Array}
 */
export declare function selectBest(scores: Int32Array | number[], k: number, allowed?: Uint8Array): Uint32Array;
