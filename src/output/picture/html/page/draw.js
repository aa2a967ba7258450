// The picture: axis, rows, gaps, marks, flows, cursors.

const FONT = '11px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

class Picture {
  constructor(app) {
    this.app = app;
    this.canvas = $("canvas");
    this.context = this.canvas.getContext("2d");
    this.heat = new Heat();
    this.frames = [];
    this.widths = new Map();
    this.restyle();
  }

  restyle() { this.colors = new Colors(); }

  resize(width, height) {
    const { view } = this.app, scale = Math.min(window.devicePixelRatio || 1, 3);
    view.width = Math.max(width, 50);
    view.height = Math.max(height, 50);
    this.canvas.width = Math.round(view.width * scale);
    this.canvas.height = Math.round(view.height * scale);
    this.scale = scale;
  }

  draw() {
    const began = performance.now(), { context: c, colors, app } = this, { view } = app;
    c.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    c.font = FONT;
    c.textBaseline = "middle";
    c.fillStyle = colors.bg;
    c.fillRect(0, 0, view.width, view.height);
    this.grid();
    c.save();
    c.beginPath();
    c.rect(0, AXIS, view.width, view.height - AXIS);
    c.clip();
    const rows = view.rows();
    this.place = new Map();
    const first = Math.max(0, Math.floor(view.scroll / ROW)), last = Math.min(rows.length, Math.ceil((view.scroll + view.height) / ROW));
    for (let row = 0; row < rows.length; row++) this.place.set(rows[row], AXIS + row * ROW - view.scroll);
    for (let row = first; row < last; row++) this.row(app.store.tracks[rows[row]], this.place.get(rows[row]), row);
    this.marks();
    this.flows();
    this.selection();
    c.restore();
    this.gaps();
    this.axis();
    this.hits();
    this.cursors();
    this.frames.push(performance.now() - began);
    if (this.frames.length > 2000) this.frames.splice(0, 1000);
  }

  steps() {
    const { view, clock, store } = this.app, step = clock.step((view.span / view.width) * 110), list = [];
    // Counted from the newest event, so that the numbers say how long before the end.
    const from = Math.ceil((view.from - store.to) / step), to = Math.floor((view.to - store.to) / step);
    for (let k = from; k <= to && list.length < 200; k++) list.push([store.to + k * step, k * step]);
    return list;
  }

  grid() {
    const { context: c, colors } = this, { view } = this.app;
    c.fillStyle = colors.grid;
    for (const [time] of this.steps()) c.fillRect(Math.round(view.x(time)), 0, 1, view.height);
  }

  axis() {
    const { context: c, colors } = this, { view, clock, store } = this.app;
    c.fillStyle = colors.panel;
    c.fillRect(0, 0, view.width, AXIS);
    c.fillStyle = colors.line;
    c.fillRect(0, AXIS - 1, view.width, 1);
    const end = view.x(store.to), newest = this.width("newest");
    // Where the word for the end is, no other is written.
    const isRight = end + 4 + newest < view.width, room = end > 0 && end <= view.width ? (isRight ? end : end - newest - 8) : view.width;
    for (const [time, back] of this.steps()) {
      const x = view.x(time);
      c.fillStyle = colors.line;
      c.fillRect(Math.round(x), AXIS - 6, 1, 6);
      if (Math.abs(x - end) < 1 || back > 0) continue;
      c.fillStyle = colors.dim;
      const text = clock.span(back), width = this.width(text);
      if (x > 2 && x + 4 + width < room) c.fillText(text, x + 4, AXIS / 2);
    }
    if (end >= 0 && end <= view.width) {
      c.fillStyle = colors.mark;
      c.fillRect(Math.round(end), 0, 1, view.height);
      c.fillText("newest", isRight ? end + 4 : end - newest - 4, AXIS / 2);
    }
    this.before(view.x(store.from));
  }

  // Left of the oldest event nothing was recorded.
  before(x) {
    const { context: c, colors } = this, { view } = this.app;
    if (x <= 0) return;
    c.fillStyle = colors.gapfill;
    c.fillRect(0, AXIS, Math.min(x, view.width), view.height);
    const text = "older: not recorded or overwritten";
    if (x > this.width(text) + 10) {
      c.fillStyle = colors.dim;
      c.fillText(text, 5, view.height - 10);
    }
  }

  row(track, y, row) {
    const { context: c, colors, app } = this, { view } = app;
    if (row % 2) { c.fillStyle = colors.stripe; c.fillRect(0, y, view.width, ROW); }
    c.fillStyle = colors.grid;
    c.fillRect(0, y + ROW - 1, view.width, 1);
    if (track.counter) this.counter(track, y);
    const from = Math.max(0, above(track.t0, view.from) - 1), to = notBelow(track.t0, view.to);
    const e0 = notBelow(track.eventX, view.from), e1 = above(track.eventX, view.to);
    const fine = to - from <= view.width / 2, few = e1 - e0 <= view.width / 6;
    if (!fine || !few) this.heat.room(Math.round(view.width));
    let found = [];
    if (!fine) found = this.heat.slices(track, view, colors);
    if (!few) this.heat.events(track.eventX, view, colors.packed.event);
    if (!fine || !few) this.heat.put();
    c.imageSmoothingEnabled = false;
    for (const name of ["sleep", "idle", "other", "wait", "blocked", "ready", "run", "isr"]) {
      if (found.includes(name)) this.heat.draw(c, CLASSES.indexOf(name), ...this.box(name, y), view.width);
    }
    if (fine) for (let k = from; k < to; k++) this.slice(track, k, y);
    if (few) for (let k = e0; k < e1; k++) this.event(track.events[k], y);
    else this.heat.draw(c, CLASSES.length, y + 1, 3, view.width);
  }

  // Where a state's bar is in a row: it is on the ground of the row, as high as its class says.
  box(name, y) {
    const height = Math.round((ROW - 9) * CLASS_HEIGHT[name]);
    return [y + ROW - 3 - height, height];
  }

  slice(track, k, y) {
    const { context: c, colors, app } = this, { view } = app, name = CLASSES[app.classes[track.state[k]]] ?? "other";
    const x0 = Math.max(view.x(track.t0[k]), -4), x1 = Math.min(view.x(track.t1[k]), view.width + 4);
    if (x1 < 0 || x0 > view.width) return;
    const [top, height] = this.box(name, y), width = Math.max(x1 - x0, 1);
    c.fillStyle = colors[name];
    c.fillRect(x0, top, width, height);
    if (track.flags[k] & (START_UNKNOWN | END_UNKNOWN)) this.ragged(x0, x1, top, height, track.flags[k]);
    if (width < 34) return;
    const text = app.words.short(track, k);
    if (!text) return;
    const inside = name === "run" || name === "isr";
    c.fillStyle = inside ? colors.onrun : name === "blocked" ? colors.blocked : colors.dim;
    this.text(text, Math.max(x0, 0) + 4, inside ? top + height / 2 : y + 8, Math.min(x1, view.width) - Math.max(x0, 0) - 6);
  }

  // An end that is not known: teeth in place of an edge.
  ragged(x0, x1, top, height, flags) {
    const { context: c, colors } = this;
    c.fillStyle = colors.bg;
    for (let y = 0; y < height; y += 4) {
      if (flags & START_UNKNOWN && x1 - x0 > 8) { c.beginPath(); c.moveTo(x0, top + y); c.lineTo(x0 + 4, top + y + 2); c.lineTo(x0, top + y + 4); c.fill(); }
      if (flags & END_UNKNOWN && x1 - x0 > 8) { c.beginPath(); c.moveTo(x1, top + y); c.lineTo(x1 - 4, top + y + 2); c.lineTo(x1, top + y + 4); c.fill(); }
    }
  }

  event(i, y) {
    const { context: c, colors, app } = this, x = app.view.x(app.store.x[i]), def = app.head.defs[app.store.def[i]];
    if (def.user) {
      c.fillStyle = colors.user;
      c.beginPath();
      c.moveTo(x, y + 1); c.lineTo(x + 4, y + 5); c.lineTo(x, y + 9); c.lineTo(x - 4, y + 5);
      c.fill();
    } else {
      c.fillStyle = colors.event;
      c.fillRect(x - 0.5, y + 1, 1, 4);
    }
  }

  counter(track, y) {
    const { context: c, colors } = this, { view } = this.app, { counter } = track, room = ROW - 8;
    const height = (v) => y + ROW - 3 - ((v - counter.bottom) / (counter.top - counter.bottom)) * room;
    const zero = height(Math.max(0, counter.bottom));
    const first = Math.max(0, counter.at(view.from)), last = notBelow(counter.x, view.to);
    c.fillStyle = colors.accent;
    if (last - first <= view.width / 2) {
      for (let k = first; k < last; k++) {
        const x0 = Math.max(view.x(counter.x[k]), 0), x1 = Math.min(k + 1 < counter.x.length ? view.x(counter.x[k + 1]) : view.x(this.app.store.to), view.width);
        if (counter.value[k] < 0) continue;
        const top = height(counter.value[k]);
        c.fillRect(x0, Math.min(top, zero), Math.max(x1 - x0, 1), Math.max(Math.abs(zero - top), 1));
      }
    } else {
      let at = Math.max(first, 0);
      for (let x = 0; x < view.width; x++) {
        const next = Math.max(onward(counter.x, view.time(x + 1), at), at);
        const [low, high] = counter.range(Math.max(0, at - 1), Math.max(next, 1));
        c.globalAlpha = 0.45;
        c.fillRect(x, height(high), 1, Math.max(zero - height(high), 1));
        c.globalAlpha = 1;
        c.fillRect(x, height(low), 1, Math.max(zero - height(low), 1));
        at = next;
      }
    }
  }

  marks() {
    const { context: c, app } = this, { view, head, store } = app, { length } = store.tracks;
    // By track, and after all for those of no track: where the last narrow one ends. One stands for all in its place.
    const ends = new Float64Array(length + 1).fill(-Infinity);
    for (const mark of head.marks) {
      const x0 = view.x(mark.from), x1 = Math.max(view.x(mark.to), x0 + 3), isNarrow = x1 - x0 < 5;
      if (x1 < 0 || x0 > view.width) continue;
      const y = mark.track === null ? null : this.place.get(mark.track), at = mark.track ?? length;
      if (y === undefined || (isNarrow && x0 < ends[at])) continue;
      if (isNarrow) ends[at] = x1;
      this.mark(mark, x0, x1, y, isNarrow);
    }
    c.setLineDash([]);
  }

  mark({ sure }, x0, x1, y, isNarrow) {
    const { context: c, colors } = this, { view } = this.app;
    if (y === null) { c.fillStyle = colors.mark; c.fillRect(x0, AXIS, x1 - x0, 3); c.fillRect(x0, AXIS, 1, view.height); return; }
    c.fillStyle = isNarrow ? colors.mark : colors.markfill;
    if (isNarrow) { c.fillRect(x0, y, x1 - x0, 3); c.fillRect(x0, y + ROW - 4, x1 - x0, 3); if (sure) c.fillRect(x0, y, 1.5, ROW - 1); return; }
    c.fillRect(x0, y, x1 - x0, ROW - 1);
    c.strokeStyle = colors.mark;
    c.lineWidth = 1.5;
    c.setLineDash(sure ? [] : [4, 3]);
    c.strokeRect(x0 + 0.75, y + 0.75, x1 - x0 - 1.5, ROW - 2.5);
  }

  gaps() {
    const { context: c, colors, app } = this, { view, head, store } = app;
    let drawn = -Infinity;
    for (const gap of head.gaps) {
      const before = gap.at > 0 ? store.x[gap.at - 1] : store.x[gap.at], after = store.x[Math.min(gap.at, store.count - 1)];
      let x0 = view.x(before), x1 = view.x(after);
      if (x1 < -8 || x0 > view.width + 8) continue;
      if (x1 - x0 < 6) { const middle = (x0 + x1) / 2; x0 = middle - 3; x1 = middle + 3; }
      // They are in order: what is under the one before needs no drawing of its own.
      if (x1 < drawn + 2) continue;
      x0 = Math.max(x0, Math.min(drawn, x1));
      drawn = x1;
      c.fillStyle = colors.gapfill;
      c.fillRect(x0, AXIS, x1 - x0, view.height);
      c.save();
      c.beginPath();
      c.rect(x0, AXIS, x1 - x0, view.height);
      c.clip();
      c.strokeStyle = colors.gap;
      c.lineWidth = 1;
      c.beginPath();
      const from = Math.max(x0, -view.height) - view.height, to = Math.min(x1, view.width);
      for (let x = from - (from % 9); x < to; x += 9) { c.moveTo(x, view.height); c.lineTo(x + view.height, 0); }
      c.stroke();
      c.restore();
      c.setLineDash([3, 3]);
      c.strokeRect(x0, AXIS, x1 - x0, view.height);
      c.setLineDash([]);
    }
  }

  // Arrows from what woke a thread to the thread: of the selection always, of all where they are few.
  flows() {
    const { app } = this, { view, store } = app, { from } = store.flows;
    const a = notBelow(from, notBelow(store.x, view.from, 0, store.count)), b = above(from, above(store.x, view.to, 0, store.count) - 1);
    if (b - a <= 40) for (let k = a; k < b; k++) this.flow(k, 0.35);
    for (const k of app.chosenFlows ?? []) this.flow(k, 1);
  }

  flow(k, alpha) {
    const { context: c, colors, app } = this, { store, view } = app, { from, track } = store.flows;
    const y0 = this.place.get(store.who[from[k]]), y1 = this.place.get(track[k]);
    if (y0 === undefined || y1 === undefined || y0 === y1) return;
    const x0 = view.x(store.x[from[k]]);
    const down = y1 > y0, start = y0 + (down ? ROW - 4 : 4), end = y1 + (down ? 3 : ROW - 3), sign = down ? -1 : 1;
    c.globalAlpha = alpha;
    c.strokeStyle = c.fillStyle = colors.flow;
    c.lineWidth = alpha === 1 ? 2 : 1.2;
    c.beginPath();
    c.moveTo(x0, start);
    c.lineTo(x0, end + sign * 4);
    c.stroke();
    c.beginPath();
    c.moveTo(x0, end); c.lineTo(x0 - 3.5, end + sign * 6); c.lineTo(x0 + 3.5, end + sign * 6);
    c.fill();
    c.globalAlpha = 1;
  }

  selection() {
    const { context: c, colors, app } = this, { view, store, selected } = app;
    if (!selected) return;
    c.strokeStyle = colors.sel;
    c.lineWidth = 2;
    const y = this.place.get(selected.track);
    if (selected.slice >= 0 && y !== undefined) {
      const track = store.tracks[selected.track], x0 = Math.max(view.x(track.t0[selected.slice]), -4), x1 = Math.min(view.x(track.t1[selected.slice]), view.width + 4);
      c.strokeRect(x0 - 1, y + 1, Math.max(x1 - x0, 2) + 2, ROW - 3);
    }
    if (selected.event >= 0) {
      const x = view.x(store.x[selected.event]);
      c.globalAlpha = 0.6;
      c.fillStyle = colors.sel;
      c.fillRect(x - 0.5, AXIS, 1, view.height);
      c.globalAlpha = 1;
      if (y !== undefined && selected.slice < 0) c.strokeRect(x - 4, y + 1, 8, ROW - 3);
    }
  }

  hits() {
    const { context: c, colors, app } = this, { view, store } = app, list = app.search?.found ?? [];
    if (!list.length) return;
    c.fillStyle = colors.hit;
    let last = -9;
    for (let k = notBelow(list, notBelow(store.x, view.from, 0, store.count)); k < list.length; k++) {
      const x = Math.round(view.x(store.x[list[k]]));
      if (x > view.width) break;
      if (x === last) { k = Math.max(k, notBelow(list, notBelow(store.x, view.time(x + 0.6), 0, store.count)) - 1); continue; }
      last = x;
      c.beginPath(); c.moveTo(x - 3, AXIS); c.lineTo(x + 3, AXIS); c.lineTo(x, AXIS + 6); c.fill();
    }
  }

  cursors() {
    const { context: c, colors, app } = this, { view } = app, { a, b } = app.cursors;
    if (a !== null && b !== null) {
      c.fillStyle = colors.view;
      c.fillRect(view.x(Math.min(a, b)), AXIS, view.x(Math.max(a, b)) - view.x(Math.min(a, b)), view.height);
    }
    for (const [name, time] of [["A", a], ["B", b]]) {
      if (time === null) continue;
      const x = view.x(time);
      c.fillStyle = colors.accent;
      c.fillRect(x - 0.75, 0, 1.5, view.height);
      c.fillRect(x, 0, 14, 13);
      c.fillStyle = colors.bg;
      c.fillText(name, x + 3.5, 7);
    }
  }

  width(text) {
    let width = this.widths.get(text);
    if (width === undefined) {
      if (this.widths.size > 5000) this.widths.clear();
      width = this.context.measureText(text).width;
      this.widths.set(text, width);
    }
    return width;
  }

  // As much of a text as there is room for.
  text(text, x, y, room) {
    if (room < 12) return;
    if (this.width(text) > room) {
      const letters = Math.floor((text.length * room) / this.width(text)) - 1;
      if (letters < 2) return;
      text = text.slice(0, letters) + "…";
    }
    this.context.fillText(text, x, y);
  }
}
