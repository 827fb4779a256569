// The page's plain functions, without a browser: addresses, names, filters, what may be linked to.
import assert from "node:assert/strict";
import { test } from "node:test";

import { asEnd, asFact, asFieldNumber, asNumber, asText, safeAddress } from "../../src/polyvec/web/page/dom.js";
import { maskOf } from "../../src/polyvec/web/page/filters.js";
import { readState, writeState } from "../../src/polyvec/web/page/state.js";
import { fold, matchNames } from "../../src/polyvec/web/page/store.js";
import { random } from "./rows.mjs";

test("every state survives its address", () => {
  const next = random(3);
  const pick = (list) => list[Math.floor(next() * list.length)];
  const odd = ["", "a", "a&b=c", "ü #?", "1..2", "%41", "<b>", "x".repeat(50)];
  for (let i = 0; i < 500; i++) {
    const filters = {};
    for (const name of odd.slice(1)) if (next() < 0.2) filters[name] = [pick(odd), pick(odd)];
    const state = {
      row: pick([null, 0, 17, 99999]), id: pick([null, ...odd]), q: pick(odd), hit: pick([null, 3]), k: pick([1, 20, 40, 500]),
      color: pick(odd), filters, view: pick([null, [0.25, 0.5, 4], [0.1, 0.9, 12.5]]),
    };
    assert.deepEqual(readState(writeState(state, "kind"), "kind"), state);
  }
});

test("a foreign address gives a state, never an error", () => {
  const start = readState("", "kind");
  assert.deepEqual(start, { row: null, id: null, q: "", hit: null, k: 20, color: "kind", filters: {}, view: null });
  assert.equal(writeState(start, "kind"), "");
  for (const hash of ["#row=-1", "#row=x", "#row=1e9", "#row=", "#view=1,2", "#view=a,b,c", "#view=0,0,0", "#k=0x10", "#%", "#results"]) {
    const state = readState(hash, "kind");
    assert.deepEqual([state.row, state.view, state.k], [null, null, 20], hash);
  }
  assert.equal(readState("#k=100000", "").k, 500);
  assert.equal(readState("#k=0", "").k, 1);
});

test("names: the beginning first, then words, then inside, then words in any order", () => {
  const names = ["xyz json", "Json", "my json lib", "dejson", "lib of json", "Éclair", "JSON lib"];
  const found = (text, limit = 9) => matchNames(names, names.map(fold), text, limit).map(({ name }) => name);
  assert.deepEqual(found("json"), ["Json", "JSON lib", "xyz json", "my json lib", "lib of json", "dejson"]);
  assert.deepEqual(found("json lib"), ["JSON lib", "my json lib", "lib of json"]);
  assert.deepEqual(found("ECLAIR"), ["Éclair"]);
  assert.deepEqual(found("json", 2), ["Json", "JSON lib"]);
  assert.deepEqual([found(""), found("   "), found("zzz")], [[], [], []]);
});

test("filters leave what every one of them allows", () => {
  const fields = [{ name: "kind", kind: "category", values: ["a", "b"] }, { name: "n", kind: "number" }];
  const columns = new Map([["kind", Uint16Array.of(0, 1, 65535, 1)], ["n", Float32Array.of(1, 2, 3, NaN)]]);
  const left = (filters) => { const mask = maskOf(filters, fields, columns, 4); return mask && Array.from(mask); };
  assert.equal(left({}), undefined);
  assert.equal(left({ unknown: ["x"] }), undefined);
  assert.deepEqual(left({ kind: ["b"] }), [0, 1, 0, 1]);
  assert.deepEqual(left({ kind: ["a", "b"] }), [1, 1, 0, 1]);
  assert.deepEqual(left({ kind: ["nope"] }), [0, 0, 0, 0]);
  assert.deepEqual(left({ n: ["2.."] }), [0, 1, 1, 0]);
  assert.deepEqual(left({ n: ["..2"], kind: ["b"] }), [0, 1, 0, 0]);
});

test("only http and https are linked to", () => {
  assert.equal(safeAddress("https://example.org/a b"), "https://example.org/a%20b");
  for (const bad of ["javascript:alert(1)", " javascript:x", "JAVASCRIPT:x", "data:text/html,x", "//x.example", "/x", "https://", "http://[", "file:///etc", 5, null, {}]) {
    assert.equal(safeAddress(bad), undefined, String(bad));
  }
});

test("values of records become text", () => {
  assert.deepEqual([null, undefined, 0, false, ["a", [1]], { a: 1 }, "<b>"].map(asText), ["", "", "0", "false", "a, 1", '{"a":1}', "<b>"]);
});

test("a missing value is not written, a small or large number is not rounded away, a year has no comma", () => {
  assert.deepEqual([NaN, 0, 1234567, -0.5, 0.00001234, 1e-30, 1e20, 1234.5678].map(asNumber), ["", "0", "1,234,567", "-0.5", "0.00001234", "1e-30", "100000000000000000000", "1,234.57"]);
  assert.equal(asFieldNumber({ plain: true }, 1995), "1995");
  assert.equal(asFieldNumber({ plain: false }, 1995), "1,995");
  assert.deepEqual([1995.5, 0.1 + 0.2, 123456.78, 1995, true, null].map(asFact), ["1995.5", "0.3", "123456.78", "1995", "true", ""]);
  assert.equal(asFact("x".repeat(10000)).length, 2001);
});

test("the written ends of a range hold everything between them", () => {
  const next = random(9);
  for (let i = 0; i < 2000; i++) {
    const value = (next() - 0.5) * 10 ** Math.floor((next() - 0.5) * 60);
    assert.ok(Number(asEnd(value, false)) <= value && Number(asEnd(value, true)) >= value, String(value));
    assert.ok(Math.abs(Number(asEnd(value, true)) - value) <= 2e-5 * Math.abs(value), String(value));
  }
  assert.deepEqual([asEnd(0, false), asEnd(-7, true), asEnd(1995, true), asEnd(0.5, false)], ["0", "-7", "1995", "0.5"]);
});

test("ids are found: the one that was typed first, then names, then ids that begin with it", () => {
  const names = ["the 42", "x", "y", "42 ways"];
  const ids = ["7", "420", "42", "a"];
  const found = (text) => matchNames(names, names.map(fold), text, 9, ids).map(({ id }) => id);
  assert.deepEqual(found("42"), ["42", "a", "7", "420"]);
  assert.deepEqual(found("A"), ["a"]);
  assert.deepEqual(found("9007199254740993"), []);
});
