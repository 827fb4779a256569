export { EmbeddingError, SCALE, checkRows, checkSize, dequantize, validateL2Norm, } from "./format.js";
export { loadEmbeddings } from "./download.js";
export { checkMeta, loadIndex, VectorIndex } from "./vectorindex.js";
