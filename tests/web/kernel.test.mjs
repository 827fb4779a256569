// The committed kernel.wasm is what its source says: rebuilt here, byte for byte.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { assemble } from "./assemble.mjs";

const read = (name) => readFileSync(new URL(`../../src/polyvec/web/client/${name}`, import.meta.url));

test("kernel.wasm is rebuilt from kernel.wat, byte for byte", () => {
  assert.deepEqual(Buffer.from(assemble(read("kernel.wat").toString())), read("kernel.wasm"));
});

test("another source gives other bytes", () => {
  const changed = read("kernel.wat").toString().replace("(i32.const -16)", "(i32.const -32)");
  assert.notDeepEqual(Buffer.from(assemble(changed)), read("kernel.wasm"));
});

test("package.json tells the kernel's size and lists every file that the client needs", () => {
  const about = JSON.parse(read("package.json"));
  assert.ok(about.description.includes(`${read("kernel.wasm").length}-byte`));
  assert.equal(about.dependencies, undefined);
  for (const name of ["kernel.wat", "kernel.wasm", "types", "README.md"]) assert.ok(about.files.includes(name));
});
