// From base64 text to columns: what the writer in columns.rs packs.

function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Reads numbers of seven bits a byte, the lowest first.
class Reader {
  constructor(bytes, at = 0, end = bytes.length) {
    this.bytes = bytes;
    this.at = at;
    this.end = end;
  }
  more() { return this.at < this.end; }
  // Exact below 2^53. What is larger needs `wide`.
  next() {
    const bytes = this.bytes;
    let byte = bytes[this.at++];
    if (byte < 128) return byte;
    let value = byte & 127, factor = 128;
    do {
      if (this.at >= this.end) throw new Error("the data of this page is cut off");
      byte = bytes[this.at++];
      value += (byte & 127) * factor;
      factor *= 128;
    } while (byte >= 128);
    return value;
  }
  // The same with a sign: 0, -1, 1, -2, 2 ...
  signed() {
    const value = this.next();
    if (value < 0x80000000) return (value >>> 1) ^ -(value & 1);
    return value % 2 ? -(value + 1) / 2 : value / 2;
  }
  wide() {
    let value = 0n, shift = 0n, byte;
    do {
      if (this.at >= this.end) throw new Error("the data of this page is cut off");
      byte = this.bytes[this.at++];
      value |= BigInt(byte & 127) << shift;
      shift += 7n;
    } while (byte >= 128);
    return value;
  }
  wideSigned() {
    const value = this.wide();
    return value & 1n ? -((value + 1n) >> 1n) : value >> 1n;
  }
  // A column: its length in bytes, then the bytes.
  column() {
    const length = this.next(), from = this.at;
    this.at += length;
    return new Reader(this.bytes, from, this.at);
  }
}

// The first index in a sorted array whose value is above (or not below) the one asked for.
function above(array, value, from = 0, to = array.length) {
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (array[middle] <= value) from = middle + 1; else to = middle;
  }
  return from;
}
function notBelow(array, value, from = 0, to = array.length) {
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (array[middle] < value) from = middle + 1; else to = middle;
  }
  return from;
}
// The same as `above`, for a place that is near: steps that double, then halves.
function onward(array, value, from) {
  let step = 1, low = from, high = from;
  const length = array.length;
  while (high < length && array[high] <= value) {
    low = high + 1;
    high += step;
    step *= 2;
  }
  return above(array, value, low, Math.min(high, length));
}
