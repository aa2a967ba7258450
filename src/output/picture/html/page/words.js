// Numbers as people read them: times, values, events in words.

const UNITS = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];

class Clock {
  constructor(head, store) { this.hz = head.hz; this.store = store; }

  // Ticks as a time, or as ticks where the rate is not known.
  span(ticks, digits = 4) {
    if (!this.hz) return `${group(Math.round(ticks))} ticks`;
    const ns = (ticks / this.hz) * 1e9, size = Math.abs(ns);
    const [unit, factor] = UNITS.find(([, f]) => size >= f) ?? UNITS[3];
    return `${trimmed((ns / factor).toPrecision(Math.max(digits, Math.ceil(Math.log10(size / factor + 1)))))} ${unit}`;
  }

  // The exact tick of an event as the trace has it: from the event that has tick 0.
  exact(i) {
    const store = this.store;
    return store.base + (store.exact ? store.exact[i] : BigInt(store.tick[i]));
  }

  // When an event was: exact ticks, and the time where the rate is known.
  moment(i) {
    const ticks = this.exact(i);
    return this.hz ? `${this.exactTime(ticks)} (tick ${group(ticks)})` : `tick ${group(ticks)}`;
  }

  exactTime(ticks) {
    const ns = (ticks * 1000000000n) / BigInt(Math.max(1, Math.round(this.hz)));
    const sign = ns < 0n ? "-" : "", size = ns < 0n ? -ns : ns;
    return `${sign}${size / 1000000000n}.${String(size % 1000000000n).padStart(9, "0")} s`;
  }

  // What a place on the axis reads, counted from the newest event: it is the crash that people look back from.
  back(x) {
    const ticks = x - this.store.to;
    return ticks === 0 ? "newest" : this.span(ticks);
  }

  // Steps of the axis: 1, 2 or 5 of a unit.
  step(ticks) {
    const scale = this.hz ? 1e9 / this.hz : 1;
    const wanted = ticks * scale, power = 10 ** Math.floor(Math.log10(Math.max(wanted, 1e-9)));
    const nice = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= wanted) ?? wanted;
    return nice / scale;
  }
}

function trimmed(text) { return text.includes(".") && !text.includes("e") ? text.replace(/\.?0+$/, "") : text; }

function group(number) { return String(number).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f"); }

class Words {
  constructor(head, store, clock) { this.head = head; this.store = store; this.clock = clock; }

  def(i) { return this.head.defs[this.store.def[i]]; }

  // Who inserted an event: of an interrupt its own name, where the slice there has one.
  who(i) {
    const track = this.store.tracks[this.store.who[i]], k = track?.info.kind === "isr" ? track.at(this.store.x[i]) : -1;
    return k >= 0 ? this.head.states[track.state[k]].name : (track?.info.name ?? "?");
  }

  object(no) {
    const object = this.head.objects[no];
    return object ? (object.kind ? `${object.kind} ${object.name}` : object.name) : "";
  }

  // The fields of an event: name, text.
  fields(i) {
    const odd = this.store.texts.get(i);
    return this.def(i).fields.map((field, k) => [field.name, odd?.get(k) ?? this.field(i, field)]);
  }

  field(i, field) {
    const value = this.store.value(i, field), hex = "0x" + value.toString(16);
    const known = field.texts?.[hex];
    if (known !== undefined) return known;
    return field.kind === "dec" ? String(value) : hex;
  }

  line(i) { return this.fields(i).map(([name, text]) => `${name}=${text}`).join(" "); }

  state(track, k) {
    const state = this.head.states[track.state[k]], object = this.object(track.object[k]);
    const owner = this.head.tracks[track.owner[k]]?.name;
    return state.name + (object ? ` ${object}` : "") + (owner === undefined ? "" : `, owned by ${owner}`);
  }

  // How sure the ends of a slice are.
  doubts(track, k) {
    const flags = track.flags[k], doubts = [];
    if (flags & START_UNKNOWN) doubts.push("begins before what the trace shows");
    if (flags & STILL_OPEN) doubts.push("not over at the newest event");
    if (flags & END_UNKNOWN) doubts.push("its end is not known: events are missing");
    return doubts;
  }

  // As drawn into a slice.
  short(track, k) {
    const state = this.head.states[track.state[k]], object = this.head.objects[track.object[k]];
    const owner = this.head.tracks[track.owner[k]]?.name;
    if (!object) return state.short ?? "";
    return `${object.name}${owner === undefined ? "" : `, owned by ${owner}`}`;
  }
}
