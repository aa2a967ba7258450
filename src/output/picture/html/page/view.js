// What part of the trace is shown, and how it changes.

const ROW = 26, AXIS = 26;

class View {
  constructor(store) {
    this.store = store;
    this.width = 800;
    this.height = 400;
    this.scroll = 0;
    this.changed = () => {};
    this.order = store.tracks.map((t) => t.number);
    this.from = store.from;
    this.to = store.to;
  }

  get span() { return this.to - this.from; }
  // Time there is to the left and to the right of the events.
  get margin() { return Math.max((this.store.to - this.store.from) * 0.02, 1); }

  rows() { return this.order.filter((i) => !this.store.tracks[i].hidden); }
  x(time) { return ((time - this.from) / this.span) * this.width; }
  time(x) { return this.from + (x / this.width) * this.span; }

  set(from, to) {
    const low = this.store.from - this.margin, high = this.store.to + this.margin;
    let span = Math.min(Math.max(to - from, 8), high - low);
    if (!Number.isFinite(span)) span = high - low;
    from = Math.max(low - span * 0.5, Math.min(from + (to - from - span) / 2, high - span * 0.5));
    this.from = from;
    this.to = from + span;
    this.changed();
  }

  pan(pixels) { const by = (pixels / this.width) * this.span; this.set(this.from + by, this.to + by); }

  zoom(factor, x = this.width / 2) {
    const at = this.time(x), span = this.span * factor;
    const from = at - (x / this.width) * span;
    this.set(from, from + span);
  }

  scrollTo(y) {
    const most = Math.max(0, this.rows().length * ROW + AXIS - this.height);
    this.scroll = Math.max(0, Math.min(y, most));
    this.changed();
  }

  all() { this.set(this.store.from - this.margin, this.store.to + this.margin); }

  // The newest events: as many as fit well, or all of a short trace.
  newest(events = 150) {
    const { store } = this;
    if (!store.count) return this.all();
    const first = Math.max(0, store.count - events);
    const span = Math.max(store.to - (first ? store.x[first] : store.from), 8);
    this.set(store.to - span * 1.02, store.to + span * 0.06);
  }

  // Makes a time visible; keeps the zoom where that shows enough.
  reveal(from, to = from) {
    if (to - from > this.span * 0.9) return this.set(from - (to - from) * 0.1, to + (to - from) * 0.1);
    if (from < this.from + this.span * 0.05 || to > this.to - this.span * 0.05) {
      const middle = (from + to) / 2;
      return this.set(middle - this.span / 2, middle + this.span / 2);
    }
    this.changed();
  }

  // Scrolls a track into sight.
  showTrack(number) {
    const row = this.rows().indexOf(number);
    if (row < 0) return;
    const top = row * ROW, room = this.height - AXIS;
    if (top < this.scroll) this.scrollTo(top);
    else if (top + ROW > this.scroll + room) this.scrollTo(top + ROW - room);
  }

  move(number, before) {
    if (number === before) return;
    this.order = this.order.filter((i) => i !== number);
    const at = before === null ? this.order.length : this.order.indexOf(before);
    this.order.splice(at < 0 ? this.order.length : at, 0, number);
    this.changed();
  }

  // One place up or down among those that are shown.
  shift(number, by) {
    const rows = this.rows(), at = rows.indexOf(number), to = at + by;
    if (at < 0 || to < 0 || to >= rows.length) return;
    this.move(number, by < 0 ? rows[to] : (rows[to + 1] ?? null));
  }
}
