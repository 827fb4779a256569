// An assembler for the small part of the WebAssembly text format that kernel.wat is written in: folded instructions,
// one imported memory, exported functions. It exists so that the committed kernel.wasm can be rebuilt without a tool.

const TYPES = { i32: 0x7f, v128: 0x7b };
const SIMD = 0xfd;
/** opcode bytes; `memory` operands take an alignment and an offset, `lane` a lane number */
const OPCODES = {
  return: [0x0f], br: [0x0c], br_if: [0x0d], "local.get": [0x20], "local.set": [0x21], "i32.const": [0x41],
  "i32.load": [0x28], "i32.load8_s": [0x2c], "i32.load16_s": [0x2e], "i32.store": [0x36],
  "i32.eq": [0x46], "i32.lt_s": [0x48], "i32.gt_s": [0x4a], "i32.ge_u": [0x4f],
  "i32.add": [0x6a], "i32.mul": [0x6c], "i32.and": [0x71], "i32.or": [0x72], "i32.shl": [0x74],
  "v128.load": [SIMD, 0x00], "v128.const": [SIMD, 0x0c], "i32x4.extract_lane": [SIMD, 0x1b], "i8x16.eq": [SIMD, 0x23],
  "v128.or": [SIMD, 0x50], "v128.any_true": [SIMD, 0x53], "i16x8.extend_low_i8x16_s": [SIMD, 0x87, 0x01],
  "i16x8.extend_high_i8x16_s": [SIMD, 0x88, 0x01], "i32x4.add": [SIMD, 0xae, 0x01], "i32x4.dot_i16x8_s": [SIMD, 0xba, 0x01],
};
const MEMORY = { "i32.load": 2, "i32.load8_s": 0, "i32.load16_s": 1, "i32.store": 2, "v128.load": 4 };

function parse(text) {
  const tokens = text.replace(/;;.*$/gm, "").match(/[()]|"[^"]*"|[^\s()]+/g);
  let at = 0;
  const read = () => {
    if (tokens[at] !== "(") return tokens[at++];
    const list = [];
    for (at++; tokens[at] !== ")"; ) list.push(read());
    at++;
    return list;
  };
  return read();
}

function unsigned(value) {
  const out = [];
  do {
    const low = value & 0x7f;
    value >>>= 7;
    out.push(value ? low | 0x80 : low);
  } while (value);
  return out;
}

function signed(value) {
  const out = [];
  for (;;) {
    const low = value & 0x7f;
    value >>= 7;
    if ((value === 0 && !(low & 0x40)) || (value === -1 && low & 0x40)) return [...out, low];
    out.push(low | 0x80);
  }
}

const vector = (items) => [...unsigned(items.length), ...items.flat()];
const section = (id, body) => [id, ...unsigned(body.length), ...body];
const string = (quoted) => vector(Array.from(Buffer.from(quoted.slice(1, -1)), (b) => [b]));

function emit(node, names, labels) {
  const [op, ...rest] = node;
  const inner = (nodes, inside = labels) => nodes.flatMap((n) => emit(n, names, inside));
  if (op === "block" || op === "loop") {
    return [op === "block" ? 0x02 : 0x03, 0x40, ...inner(rest.slice(1), [rest[0], ...labels]), 0x0b];
  }
  if (op === "if") {
    const [condition, then] = rest;
    return [...inner([condition]), 0x04, 0x40, ...inner(then.slice(1), ["", ...labels]), 0x0b];
  }
  const operands = rest.filter(Array.isArray);
  const immediates = rest.filter((item) => !Array.isArray(item));
  const code = OPCODES[op];
  if (!code) throw new Error(`unknown instruction ${op}`);
  return [...inner(operands), ...code, ...immediate(op, immediates, names, labels)];
}

function immediate(op, given, names, labels) {
  if (op in MEMORY) {
    const option = (name, fallback) => Number(given.find((g) => g.startsWith(`${name}=`))?.split("=")[1] ?? fallback);
    return [...unsigned(Math.log2(option("align", 2 ** MEMORY[op]))), ...unsigned(option("offset", 0))];
  }
  if (op.startsWith("local.")) return unsigned(names.indexOf(given[0]));
  if (op === "br" || op === "br_if") return unsigned(labels.indexOf(given[0]));
  if (op === "i32.const") return signed(Number(given[0]));
  if (op === "i32x4.extract_lane") return [Number(given[0])];
  if (op === "v128.const") {
    const values = (given[0] === "i8x16" ? Int8Array : Int32Array).from(given.slice(1), Number);
    return [...new Uint8Array(values.buffer)];
  }
  return [];
}

/** The bytes of a module. */
export function assemble(text) {
  const [, ...parts] = parse(text);
  const [, module, field, memory] = parts.find((part) => part[0] === "import");
  const functions = parts.filter((part) => part[0] === "func");
  const types = [], exports = [], bodies = [];
  functions.forEach((part, i) => {
    const of = (kind) => part.filter((item) => item[0] === kind);
    const [parameters, locals, results] = [of("param"), of("local"), of("result")];
    const body = part.slice(1).filter((item) => !["export", "param", "local", "result"].includes(item[0]));
    types.push([0x60, ...vector(parameters.map((p) => [TYPES[p[2]]])), ...vector(results.map((r) => [TYPES[r[1]]]))]);
    exports.push([...string(of("export")[0][1]), 0x00, ...unsigned(i)]);
    const runs = [];
    for (const [, , type] of locals) {
      if (runs.at(-1)?.type === type) runs.at(-1).count++;
      else runs.push({ type, count: 1 });
    }
    const names = [...parameters, ...locals].map((item) => item[1]);
    const code = [
      ...vector(runs.map(({ type, count }) => [...unsigned(count), TYPES[type]])),
      ...body.flatMap((node) => emit(node, names, [])),
      0x0b,
    ];
    bodies.push([...unsigned(code.length), ...code]);
  });
  const limits = [0x01, ...unsigned(Number(memory[1])), ...unsigned(Number(memory[2]))];
  return Uint8Array.from([
    0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00,
    ...section(1, vector(types)),
    ...section(2, vector([[...string(module), ...string(field), 0x02, ...limits]])),
    ...section(3, vector(functions.map((_, i) => unsigned(i)))),
    ...section(7, vector(exports)),
    ...section(10, vector(bodies)),
  ]);
}
