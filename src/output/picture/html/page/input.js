// Mouse, wheel, touch and keys.

class Input {
  constructor(app) {
    this.app = app;
    this.plot = $("plot");
    this.pointers = new Map();
    this.mouse = null;
    const on = (name, then, options) => this.plot.addEventListener(name, then.bind(this), options);
    on("pointerdown", this.down);
    on("pointermove", this.move);
    on("pointerup", this.up);
    on("pointercancel", this.up);
    on("pointerleave", () => { this.mouse = null; app.hover(null); });
    on("wheel", this.wheel, { passive: false });
    on("dblclick", this.double);
    document.addEventListener("keydown", (event) => this.key(event));
    this.overview();
  }

  at(event) { const box = this.plot.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; }

  down(event) {
    if (event.button > 0) return;
    this.plot.focus({ preventScroll: true });
    this.plot.setPointerCapture?.(event.pointerId);
    const [x, y] = this.at(event);
    this.pointers.set(event.pointerId, { x, y, x0: x, y0: y, moved: false, measures: event.shiftKey });
    if (this.pointers.size === 2) for (const p of this.pointers.values()) p.moved = true;
  }

  move(event) {
    const [x, y] = this.at(event), { app } = this, pointer = this.pointers.get(event.pointerId);
    this.mouse = [x, y];
    if (!pointer) return app.hover([x, y]);
    if (this.pointers.size === 2) return this.pinch(pointer, x, y);
    if (Math.abs(x - pointer.x0) + Math.abs(y - pointer.y0) > 4) pointer.moved = true;
    if (pointer.moved && pointer.measures) app.measure(app.snap(pointer.x0), app.snap(x));
    else if (pointer.moved) {
      app.view.scrollTo(app.view.scroll - (y - pointer.y));
      app.view.pan(pointer.x - x);
      app.hover(null);
    }
    pointer.x = x;
    pointer.y = y;
  }

  pinch(pointer, x, y) {
    const [a, b] = this.pointers.values(), apart = () => Math.max(12, Math.abs(a.x - b.x)), middle = () => (a.x + b.x) / 2;
    const was = apart(), from = middle();
    pointer.x = x;
    pointer.y = y;
    this.app.view.pan(from - middle());
    this.app.view.zoom(was / apart(), middle());
  }

  up(event) {
    const pointer = this.pointers.get(event.pointerId);
    this.pointers.delete(event.pointerId);
    if (!pointer || pointer.moved || event.type === "pointercancel") return;
    if (event.shiftKey) this.app.cursor(this.app.cursors.a === null || this.app.cursors.b !== null ? "a" : "b", this.app.snap(pointer.x));
    else this.app.click(pointer.x, pointer.y);
  }

  // The wheel zooms at the pointer, with shift it moves in time, with ctrl it is the zoom of a touch pad.
  wheel(event) {
    event.preventDefault();
    const { view } = this.app, unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 200 : 1;
    const dx = event.deltaX * unit, dy = event.deltaY * unit;
    if (event.shiftKey || Math.abs(dx) > Math.abs(dy)) return view.pan(dx || dy);
    if (event.altKey) return view.scrollTo(view.scroll + dy);
    view.zoom(Math.exp(Math.max(-300, Math.min(300, dy)) * (event.ctrlKey ? 0.01 : 0.0022)), this.at(event)[0]);
  }

  double(event) {
    const hit = this.app.hit(...this.at(event)), track = hit && this.app.store.tracks[hit.track];
    if (track && hit.slice >= 0) { const from = track.t0[hit.slice], to = track.t1[hit.slice]; this.app.view.set(from - (to - from) * 0.15, to + (to - from) * 0.15); }
  }

  overview() {
    const strip = $("overview"), { app } = this;
    const center = (event) => { const t = app.overview.time(event.clientX - strip.getBoundingClientRect().left), half = app.view.span / 2; app.view.set(t - half, t + half); };
    strip.addEventListener("pointerdown", (event) => { strip.setPointerCapture?.(event.pointerId); center(event); });
    strip.addEventListener("pointermove", (event) => { if (event.buttons) center(event); });
    strip.addEventListener("wheel", (event) => { event.preventDefault(); app.view.zoom(Math.exp(event.deltaY * 0.0022)); }, { passive: false });
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, dialog")) return;
    const { app } = this, { view } = app, x = this.mouse?.[0] ?? view.width / 2, far = event.shiftKey ? 0.9 : 0.2;
    const inList = event.target.closest?.("#panel, #labels, button");
    const keys = {
      ArrowLeft: () => view.pan(-view.width * far), ArrowRight: () => view.pan(view.width * far), a: () => view.pan(-view.width * 0.2), d: () => view.pan(view.width * 0.2),
      ArrowUp: () => inList || view.scrollTo(view.scroll - ROW * 2), ArrowDown: () => inList || view.scrollTo(view.scroll + ROW * 2),
      "+": () => view.zoom(0.6, x), "=": () => view.zoom(0.6, x), w: () => view.zoom(0.6, x), "-": () => view.zoom(1 / 0.6, x), s: () => view.zoom(1 / 0.6, x),
      Home: () => { view.set(app.store.from - view.span * 0.02, app.store.from + view.span * 0.98); }, End: () => view.newest(), 0: () => view.all(),
      n: () => app.step(1), p: () => app.step(-1), N: () => app.step(1, true), P: () => app.step(-1, true),
      "[": () => app.cursor("a", app.cursorPlace(this.mouse)), "]": () => app.cursor("b", app.cursorPlace(this.mouse)), c: () => { app.cursor("a", null); app.cursor("b", null); },
      f: () => app.fit(), "/": () => $("search").focus(), "?": () => app.help(), t: () => app.theme(), Escape: () => app.select(null),
      Enter: () => (inList ? true : app.panel.show("selection")),
    };
    const then = keys[event.key];
    if (then && then() !== true) event.preventDefault();
  }
}
