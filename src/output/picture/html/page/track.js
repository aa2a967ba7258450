// One row of the picture: its slices with sums, so that any column of pixels is found in a few steps; and counters.

// How a state is drawn. The height tells states apart without colour.
const CLASSES = ["run", "isr", "idle", "ready", "blocked", "wait", "sleep", "other"];
const CLASS_HEIGHT = { run: 1, isr: 1, idle: 0.35, ready: 0.62, blocked: 0.42, wait: 0.28, sleep: 0.16, other: 0.3 };

// Bits of a slice.
const START_UNKNOWN = 1, STILL_OPEN = 2, END_UNKNOWN = 4;
// Above them: how a wait ended.
const ENDINGS = [null, "what it waited for was given", "the object was deleted", "the wait was aborted", "it timed out", "the events do not show how"];

class Track {
  constructor(info, number, store, events) {
    this.info = info;
    this.number = number;
    this.store = store;
    this.events = events;
    const s = store.slices[number], n = s.n;
    this.n = n;
    for (const key of ["t0", "t1", "state", "flags", "object", "owner"]) this[key] = s[key].subarray(0, n);
    this.counter = store.counters[number];
    this.counter?.finish();
    this.eventX = new Float64Array(events.length);
    for (let i = 0; i < events.length; i++) this.eventX[i] = store.x[events[i]];
    this.sums = null;
    this.hidden = info.hidden || (info.kind === "counter" && (this.counter?.x.length ?? 0) < 2);
  }

  // For each class the time spent in it before each slice. Made once it is asked for.
  sum() {
    if (this.sums) return this.sums;
    const { n, state, t0, t1 } = this;
    this.classes = Uint8Array.from(this.store.head.states, (s) => CLASSES.indexOf(s.class));
    const sums = CLASSES.map(() => null), totals = CLASSES.map(() => 0);
    for (let i = 0; i < n; i++) {
      const c = this.classes[state[i]];
      sums[c] ??= new Float64Array(n + 1);
      for (let k = 0; k < sums.length; k++) if (sums[k]) sums[k][i] = totals[k];
      totals[c] += t1[i] - t0[i];
    }
    for (let k = 0; k < sums.length; k++) if (sums[k]) sums[k][n] = totals[k];
    this.sums = new Map(CLASSES.map((name, c) => [name, sums[c]]).filter(([, sum]) => sum));
    return this.sums;
  }

  // The slice at a time, or -1.
  at(time) {
    const i = above(this.t0, time) - 1;
    return i >= 0 && time <= this.t1[i] ? i : -1;
  }

  // The first event at the start of a slice, or at its end; those of this track first.
  begins(k) { return this.eventAt(this.t0[k]); }
  ends(k) { return this.eventAt(this.t1[k]); }
  eventAt(time) {
    const own = notBelow(this.eventX, time);
    if (this.eventX[own] === time) return this.events[own];
    return Math.min(notBelow(this.store.x, time, 0, this.store.count), this.store.count - 1);
  }

  // The event nearest to a time, no further than `reach`; -1 where there is none.
  nearest(time, reach) {
    const at = notBelow(this.eventX, time);
    let best = -1, distance = reach;
    for (const k of [at - 1, at]) {
      if (k >= 0 && k < this.events.length && Math.abs(this.eventX[k] - time) <= distance) {
        best = this.events[k];
        distance = Math.abs(this.eventX[k] - time);
      }
    }
    return best;
  }

  name() { return this.info.name; }
}

// A value that changes: a queue's depth, a semaphore's count. Every level of the pyramid has the lowest and the highest of
// eight of the level below.
class Counter {
  constructor() { this.x = []; this.value = []; this.end = 0; this.last = 0; }

  // A value of -1: not known from here on.
  push(x, value) { this.x.push(x); this.value.push(value); }

  finish() {
    this.x = new Float64Array(this.x);
    this.value = new Float64Array(this.value);
    this.levels = [{ low: this.value, high: this.value }];
    while (this.levels.at(-1).low.length > 8) {
      const { low, high } = this.levels.at(-1), n = Math.ceil(low.length / 8);
      const next = { low: new Float64Array(n), high: new Float64Array(n) };
      for (let i = 0; i < n; i++) {
        let a = Infinity, b = -Infinity;
        for (let k = i * 8; k < Math.min(low.length, i * 8 + 8); k++) { a = Math.min(a, low[k]); b = Math.max(b, high[k]); }
        next.low[i] = a;
        next.high[i] = b;
      }
      this.levels.push(next);
    }
    this.top = Math.max(1, ...this.levels.at(-1).high);
    this.bottom = Math.min(0, ...this.levels.at(-1).low);
  }

  // The lowest and the highest of the values from index `a` up to index `b`, not included.
  range(a, b) {
    let low = Infinity, high = -Infinity, level = 0;
    const take = (i) => { low = Math.min(low, this.levels[level].low[i]); high = Math.max(high, this.levels[level].high[i]); };
    while (a < b) {
      if (b - a < 16 || level + 1 === this.levels.length) { while (a < b) take(a++); break; }
      while (a % 8) take(a++);
      while (b % 8) take(--b);
      a /= 8;
      b /= 8;
      level++;
    }
    return [low, high];
  }

  at(time) { return above(this.x, time) - 1; }
}
