// All events, slices, flows and counters of the page, as typed arrays.

// The columns of a block, in the order in which the writer puts them.
const EVENT_COLUMNS = ["seq", "tick", "def", "who", "core", "words", "texts"];

class Store {
  constructor(head) {
    const n = head.events;
    this.head = head;
    this.count = n;
    this.seq = new Float64Array(n);
    this.tick = new Float64Array(n);     // ticks since the first event, as recorded
    this.x = new Float64Array(n);        // the same, never falling: for the drawing
    this.def = new Uint32Array(n);
    this.who = new Uint32Array(n);
    this.core = new Uint16Array(n);
    this.word = new Uint32Array(n + 1);  // where the values of an event begin
    this.words = new Uint32Array(Math.max(1, n * 4));
    this.exact = head.wide ? new BigInt64Array(n) : null;
    this.base = BigInt(head.first);
    this.slices = head.tracks.map(() => new Growing());
    this.flows = { from: [], track: [] };
    this.counters = head.tracks.map(() => null);
    this.texts = new Map();
    this.utf8 = new TextDecoder();
    this.filled = 0;
    this.used = 0;
  }

  block(bytes) {
    const reader = new Reader(bytes);
    const n = reader.next(), first = this.filled;
    const columns = {};
    for (const name of EVENT_COLUMNS) columns[name] = reader.column();
    this.events(columns, first, n);
    this.takeTexts(columns.texts, first);
    this.filled = first + n;
    this.takeSlices(reader.column());
    this.takeFlows(reader.column(), first);
    this.takeCounters(reader.column());
  }

  events({ seq, tick, def, who, core, words }, first, n) {
    const defs = this.head.defs, last = defs.map(() => null);
    let number = 0, time = this.exact ? 0n : 0, top = first ? this.x[first - 1] : -Infinity;
    for (let i = first; i < first + n; i++) {
      number += seq.signed() + 1;
      this.seq[i] = number;
      if (this.exact) {
        time += tick.wideSigned();
        this.exact[i] = time;
        this.tick[i] = Number(time);
      } else {
        time += tick.signed();
        this.tick[i] = time;
      }
      top = Math.max(top, this.tick[i]);
      this.x[i] = top;
      const d = def.next();
      this.def[i] = d;
      this.who[i] = who.next();
      this.core[i] = core.more() ? core.next() : 0;
      this.values(words, d, defs[d].units, last);
      this.word[i + 1] = this.used;
    }
  }

  // Of 24 values at a time first a bit for each that is not as in the event of this kind before, then the differences.
  values(words, d, units, last) {
    if (!units) return;
    const before = last[d] ?? (last[d] = new Uint32Array(units));
    if (this.used + units > this.words.length) {
      const larger = new Uint32Array(Math.max(this.words.length * 2, this.used + units));
      larger.set(this.words);
      this.words = larger;
    }
    for (let k = 0, bits = 0; k < units; k++, bits >>>= 1) {
      if (k % 24 === 0) bits = words.next();
      if (bits & 1) before[k] += words.signed();
      this.words[this.used++] = before[k];
    }
  }

  // What single values say: event, field, text. Text with control characters spelled out.
  takeTexts(reader, first) {
    let at = first;
    while (reader.more()) {
      at += reader.next();
      const field = reader.next(), text = reader.column();
      if (!this.texts.has(at)) this.texts.set(at, new Map());
      this.texts.get(at).set(field, this.utf8.decode(text.bytes.subarray(text.at, text.end)));
    }
  }

  // For each track: its number, how many slices, then for each where it begins after the end of the one before, where it
  // ends (both counted in events), and its kind, with a bit in front where its times are not those of these events.
  takeSlices(reader) {
    while (reader.more()) {
      const slices = this.slices[reader.next()], n = reader.next();
      const [gap, length, kinds, offsets, whole] = Array.from({ length: 5 }, () => reader.column());
      for (let i = 0; i < n; i++) {
        const begin = slices.end + gap.signed();
        slices.end = begin + length.signed();
        const number = kinds.next(), odd = number & 1;
        const kind = number > 1 ? this.head.kinds[(number >>> 1) - 1] : [whole.next(), whole.next(), whole.next(), whole.next()];
        const from = this.time(begin) + (odd ? offsets.signed() : 0), to = this.time(slices.end) + (odd ? offsets.signed() : 0);
        slices.push(from, to, kind);
      }
    }
  }

  time(i) { return this.filled ? this.x[i < this.filled ? i : this.filled - 1] : 0; }

  // From which event to which track.
  takeFlows(reader, first) {
    let at = first;
    while (reader.more()) {
      at += reader.signed();
      this.flows.from.push(at);
      this.flows.track.push(reader.next());
    }
  }

  // For each counter: its track, how many levels, then where each begins, as with slices, and its value and one; 0 is unknown.
  takeCounters(reader) {
    while (reader.more()) {
      const track = reader.next(), n = reader.next();
      const [gap, offset, value] = Array.from({ length: 3 }, () => reader.column());
      const counter = this.counters[track] ?? (this.counters[track] = new Counter());
      for (let i = 0; i < n; i++) {
        counter.end += gap.signed();
        counter.last += value.signed();
        counter.push(this.time(counter.end) + offset.signed(), counter.last - 1);
      }
    }
  }

  // After the last block: what needs all of them.
  finish() {
    const n = this.head.tracks.length, { who, filled } = this, counts = new Uint32Array(n + 1), at = new Uint32Array(n + 1);
    for (let i = 0; i < filled; i++) counts[who[i]]++;
    const lists = Array.from(counts, (count) => new Uint32Array(count));
    for (let i = 0; i < filled; i++) lists[who[i]][at[who[i]]++] = i;
    this.tracks = this.head.tracks.map((track, i) => new Track(track, i, this, lists[i]));
    this.count = this.filled;
    this.from = this.count ? this.x[0] : 0;
    this.to = this.count ? Math.max(this.x[this.count - 1], this.from + 1) : 1;
    this.sortFlows();
  }

  // By the event with which they begin: nearly in order as they come.
  sortFlows() {
    const { from, track } = this.flows, n = from.length, order = new Uint32Array(from), by = new Uint32Array(track);
    for (let i = 1; i < n; i++) {
      const f = order[i], t = by[i];
      let k = i;
      for (; k > 0 && order[k - 1] > f; k--) { order[k] = order[k - 1]; by[k] = by[k - 1]; }
      order[k] = f;
      by[k] = t;
    }
    this.flows = { from: order, track: by };
  }

  // The index of the event with a sequence number; the next one where there is none of this number.
  find(seq) { return notBelow(this.seq, seq, 0, this.count); }

  value(i, field) {
    const at = this.word[i] + field.at;
    if (at >= this.word[i + 1]) return 0n;
    return field.wide ? (BigInt(this.words[at + 1]) << 32n) | BigInt(this.words[at]) : BigInt(this.words[at]);
  }
}

// Slices while they are read: arrays that double.
class Growing {
  constructor() { this.n = 0; this.end = 0; this.room(16); }
  room(size) {
    const grow = (kind, old) => { const next = new kind(size); if (old) next.set(old); return next; };
    this.t0 = grow(Float64Array, this.t0); this.t1 = grow(Float64Array, this.t1);
    this.state = grow(Uint8Array, this.state); this.flags = grow(Uint8Array, this.flags);
    this.object = grow(Int32Array, this.object); this.owner = grow(Int32Array, this.owner);
  }
  push(t0, t1, kind) {
    const n = this.n;
    if (n === this.t0.length) this.room(n * 2);
    const floor = n ? this.t1[n - 1] : -Infinity;
    this.t0[n] = Math.max(t0, floor); this.t1[n] = Math.max(t1, this.t0[n]);
    this.state[n] = kind[0]; this.flags[n] = kind[1]; this.object[n] = kind[2] - 1; this.owner[n] = kind[3] - 1;
    this.n = n + 1;
  }
}
