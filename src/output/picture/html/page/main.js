// Puts the parts together, and starts.

class App {
  constructor(head, store) {
    this.head = head;
    this.store = store;
    this.classes = head.states.map((state) => CLASSES.indexOf(state.class));
    this.clock = new Clock(head, store);
    this.words = new Words(head, store, this.clock);
    this.cursors = { a: null, b: null };
    this.selected = null;
    this.blamed = new Set((head.findings ?? []).slice(0, 1).flatMap((finding) => finding.blamed ?? []));
    this.view = new View(store);
    this.view.changed = () => this.redraw();
    this.picture = new Picture(this);
    this.labels = new Labels(this);
    this.overview = new Overview(this);
    this.panel = new Panel(this);
    this.search = new Search(this);
    this.input = new Input(this);
    this.buttons();
    this.texts();
  }

  start() {
    this.size();
    this.view.newest();
    this.showCause();
    this.panel.show(this.head.findings?.length ? "findings" : "events");
    this.draw();
    new ResizeObserver(() => this.size()).observe($("plot"));
    this.warm();
    addEventListener("beforeprint", () => this.print(true));
    addEventListener("afterprint", () => this.print(false));
  }

  // Takes the size that the page gives the picture.
  size() {
    const box = $("plot").getBoundingClientRect();
    this.picture.resize(box.width, box.height);
    this.overview.resize();
    this.view.scrollTo(this.view.scroll);
  }

  // Makes the sums of all tracks, one at a time, before somebody zooms out.
  async warm() { for (const track of this.store.tracks) { track.sum(); await nextFrame(); } }

  // The cause of the failure is visible where that is possible without a zoom that hides the rest.
  showCause() {
    const mark = this.head.marks.find((m) => m.finding === 0);
    if (mark && mark.from < this.view.from) this.view.set(mark.from - (this.store.to - mark.from) * 0.05, this.store.to + (this.store.to - mark.from) * 0.06);
  }

  texts() {
    const { head, store } = this, bad = head.findings?.[0]?.confidence;
    document.title = `${head.title} - tx-trace`;
    $("title").textContent = head.title;
    $("title").title = head.title;
    const unchecked = head.findings?.length ? 0 : head.not_checked.length;
    $("headline").textContent = (head.headline ?? "") + (unchecked ? `. Not checked: ${unchecked === 1 ? head.not_checked[0] : `${unchecked} things, see Findings`}` : "");
    $("headline").className = !head.headline ? "none" : bad === "proven" || bad === "likely" ? "bad" : bad ? "maybe" : "";
    $("foot").textContent = `${group(store.count)} events. ` + (head.hz ? "" : "The rate of the clock is not known: times are ticks. ") +
      (head.more_gaps ? `${group(head.more_gaps)} gaps are not drawn: too many. ` : "") +
      "This page holds contents of the target's memory. It loads nothing and sends nothing.";
    fill($("legend"), [["run", "running"], ["isr", "interrupt"], ["ready", "ready, not running"], ["blocked", "waiting for what another has"], ["wait", "waiting"], ["sleep", "asleep, suspended"], ["lost", this.gapWords()]]
      .filter(([name]) => name !== "lost" || head.gaps.length).map(([name, text]) => el("span", { class: "key" }, el("i", { class: name }), text)));
  }

  // What the stripes stand for here.
  gapWords() {
    const has = (kind) => this.head.gaps.some((gap) => gap.kind === kind);
    return [has("lost") && "events missing", has("clock") && "clock not believed"].filter(Boolean).join(", or ");
  }

  buttons() {
    const on = (id, then) => $(id).addEventListener("click", then);
    on("zoom-in", () => this.view.zoom(0.6));
    on("zoom-out", () => this.view.zoom(1 / 0.6));
    on("all", () => this.view.all());
    on("newest", () => this.view.newest());
    on("theme", () => this.theme());
    on("keys", () => this.help());
  }

  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  draw() {
    this.picture.draw();
    this.overview.draw();
    this.labels.draw();
    this.status();
  }

  status() {
    const { view, clock, store } = this, { a, b } = this.cursors;
    $("range").textContent = `shown: ${clock.span(view.span)}, up to ${view.to >= store.to ? "the newest" : `${clock.span(store.to - view.to)} before the newest`}`;
    $("cursors").textContent = [a !== null && `A ${clock.back(a)}`, b !== null && `B ${clock.back(b)}`, a !== null && b !== null && `between: ${clock.span(Math.abs(b - a), 7)}`].filter(Boolean).join("   ");
  }

  // What is at a place in the picture.
  hit(x, y) {
    const { view, store } = this, row = Math.floor((y - AXIS + view.scroll) / ROW), number = view.rows()[row];
    if (y < AXIS || number === undefined) return null;
    const track = store.tracks[number], time = view.time(x), reach = (5 / view.width) * view.span;
    return { track: number, slice: track.at(time), event: track.nearest(time, reach) };
  }

  click(x, y) {
    const hit = this.hit(x, y);
    this.select(hit && hit.event >= 0 ? { ...hit, slice: -1 } : hit);
    if (hit) this.panel.show("selection");
  }

  select(what, reveal = false) {
    const { store } = this;
    this.selected = what;
    this.chosenFlows = what ? this.flowsOf(what) : [];
    if (what && reveal) {
      const track = store.tracks[what.track];
      if (what.track >= 0) { track.hidden = false; this.view.showTrack(what.track); }
      if (what.event >= 0) this.view.reveal(store.x[what.event]);
      else if (what.slice >= 0) this.view.reveal(track.t0[what.slice], track.t1[what.slice]);
      this.panel.show("selection");
    } else this.panel.update();
    this.redraw();
  }

  flowsOf({ track, slice, event }) {
    if (event >= 0) return this.flowsFrom(event);
    if (slice < 0 || track < 0) return [];
    const flow = this.waker(this.store.tracks[track], slice);
    return flow >= 0 ? [flow] : [];
  }

  // Flows that begin at an event.
  flowsFrom(event) {
    const { from } = this.store.flows, list = [];
    for (let k = notBelow(from, event); k < from.length && from[k] === event; k++) list.push(k);
    return list;
  }

  // The flow that ended a wait, or the wait before a slice; -1 where none is known.
  waker(track, k) {
    if (k < 0) return -1;
    const { from, track: whom } = this.store.flows, { x } = this.store, state = this.head.states[track.state[k]].class;
    if (!isWait(state)) return this.waker(track, this.waitBefore(track, k));
    if (track.flags[k] & (STILL_OPEN | END_UNKNOWN)) return -1;
    for (let f = notBelow(from, notBelow(x, track.t1[k], 0, this.store.count)); f < from.length && x[from[f]] <= track.t1[k]; f++) if (whom[f] === track.number) return f;
    return -1;
  }

  // The wait that came before a slice of running or ready; -1 where the trace does not show it.
  waitBefore(track, k) {
    for (let i = k; i >= 0 && i > k - 3; i--) {
      const state = this.head.states[track.state[i]].class;
      if (isWait(state)) return i;
      if (state !== "run" && state !== "ready") return -1;
    }
    return -1;
  }

  goEvent(i) { this.select({ track: this.store.who[i], slice: -1, event: i }, true); }

  goSeq(seq) {
    const i = this.store.find(seq);
    if (i < this.store.count) this.goEvent(i);
  }

  goMark(mark) {
    if (mark.track !== null) this.view.showTrack(mark.track);
    const room = Math.max((mark.to - mark.from) * 0.2, 4);
    this.view.set(mark.from - room, mark.to + room);
  }

  goGap(gap) { this.goEvent(Math.min(gap.at, this.store.count - 1)); }

  // To the next event: of all, or of the same track.
  step(by, same = false) {
    const { store, selected } = this;
    if (!store.count) return;
    if (!selected || selected.event < 0) return this.goEvent(Math.max(0, Math.min(store.count, above(store.x, this.view.to, 0, store.count)) - 1));
    const list = same && selected.track >= 0 ? store.tracks[selected.track].events : null;
    const next = list ? list[notBelow(list, selected.event) + by] : selected.event + by;
    if (next !== undefined && next >= 0 && next < store.count) this.goEvent(next);
  }

  // The event nearest to a column of pixels, if it is near; else the time there.
  snap(x) {
    const { view, store } = this, time = view.time(x), at = notBelow(store.x, time, 0, store.count);
    const near = [at - 1, at].filter((i) => i >= 0 && i < store.count).sort((i, k) => Math.abs(store.x[i] - time) - Math.abs(store.x[k] - time))[0];
    return near !== undefined && Math.abs(view.x(store.x[near]) - x) <= 6 ? store.x[near] : Math.round(time);
  }

  cursorPlace(mouse) {
    if (mouse) return this.snap(mouse[0]);
    if (this.selected?.event >= 0) return this.store.x[this.selected.event];
    return Math.round(this.view.time(this.view.width / 2));
  }

  cursor(name, time) { this.cursors[name] = time; this.redraw(); }
  measure(a, b) { this.cursors = { a, b }; this.redraw(); }

  fit() {
    const { selected, store } = this, track = store.tracks[selected?.track];
    if (track && selected.slice >= 0) return this.view.set(track.t0[selected.slice] - 10, track.t1[selected.slice] + 10);
    if (this.cursors.a !== null && this.cursors.b !== null) return this.view.set(Math.min(this.cursors.a, this.cursors.b), Math.max(this.cursors.a, this.cursors.b));
    if (selected?.event >= 0) { const i = selected.event; this.view.set(store.x[Math.max(0, i - 10)], store.x[Math.min(store.count - 1, i + 10)]); }
  }

  hover(place) {
    const box = $("hover"), hit = place && this.hit(...place);
    box.hidden = true;
    if (!hit) return;
    const text = this.hoverText(hit, this.view.time(place[0]));
    if (!text) return;
    box.textContent = text;
    box.hidden = false;
    box.style.left = `${Math.max(4, Math.min(place[0] + 14, this.view.width - box.offsetWidth - 6))}px`;
    box.style.top = `${place[1] + 18 + box.offsetHeight > this.view.height ? place[1] - box.offsetHeight - 10 : place[1] + 18}px`;
  }

  hoverText({ track: number, slice, event }, time) {
    const { words, clock, store } = this, track = store.tracks[number], lines = [];
    if (event >= 0) lines.push(`${store.seq[event]}  ${words.def(event).name} ${words.line(event)}`, clock.moment(event));
    if (track.counter) { const k = track.counter.at(time); if (k >= 0) lines.push(`${track.name()}: ${group(track.counter.value[k])}`); }
    if (slice >= 0) lines.push(`${track.name()}: ${words.state(track, slice)}`, `for ${clock.span(track.t1[slice] - track.t0[slice])}`, ...words.doubts(track, slice));
    const mark = this.head.marks.find((m) => (m.track === number || m.track === null) && m.from <= time && time <= m.to);
    if (mark) lines.push(mark.text);
    return lines.join("\n");
  }

  theme() {
    const dark = !document.documentElement.classList.contains("dark");
    document.documentElement.classList.toggle("dark", dark);
    this.restyle();
  }

  restyle() { this.picture.restyle(); this.overview.paint(); this.redraw(); }

  print(on) {
    const { classList } = document.documentElement;
    if (on) { this.was = classList.contains("dark"); classList.remove("dark"); } else classList.toggle("dark", this.was);
    // A sheet has all rows, and is narrower than a screen; the picture is drawn for it before it is printed.
    classList.toggle("printing", on);
    $("lanes").style.height = on ? `${AXIS + this.view.rows().length * ROW}px` : "";
    this.size();
    this.picture.restyle();
    this.overview.paint();
    this.draw();
    if (on) {
      this.tab = this.panel.current;
      fill($("panel"), el("h2", {}, "Findings"), this.panel.findings(), this.selected ? [el("h2", {}, "Selection"), this.panel.selection()] : null, el("h2", {}, "Trace"), this.panel.about(), el("h2", {}, "Reports"), this.panel.reports());
      for (const details of document.querySelectorAll("details")) details.open = true;
    } else this.panel.show(this.tab);
  }

  help() {
    const rows = [["drag, ← →, a d", "move in time"], ["wheel, + -, w s, pinch", "zoom"], ["shift and wheel", "move in time"], ["↑ ↓, drag up and down, wheel over the names", "scroll the threads"],
      ["click, touch", "select an event or a state"], ["double click", "zoom to a state"], ["n, p", "next, previous event"], ["N, P", "the same, of this thread"], ["[ and ], shift and click, shift and drag", "cursors A and B, with the time between"], ["c", "remove the cursors"],
      ["f", "zoom to the selection, or to what is between the cursors"], ["0, Home, End", "all, oldest, newest"], ["/", "search; #12 is event 12; Enter, Shift+Enter: next, previous"], ["t, ?, Esc", "light or dark, this help, select nothing"]];
    fill($("help"), el("h2", {}, "Keys"), el("table", {}, rows.map(([keys, text]) => el("tr", {}, el("td", {}, el("kbd", {}, keys)), el("td", {}, text)))),
      el("p", {}, "Drag the names to reorder the threads; the buttons that appear on a name move or hide it. A bar is as high as the thread is active: running is high, ready is lower, waiting is low. Teeth at an end of a bar: when it began or ended is not known. Grey stripes over all threads: events are missing there, or the clock is doubtful. A red frame: a finding; dashed where it is inferred. A green diamond: an event of the application."),
      el("button", { onclick: () => $("help").close() }, "Close"));
    $("help").showModal();
  }
}

const isWait = (name) => name === "blocked" || name === "wait" || name === "sleep";

async function start() {
  const head = JSON.parse($("head").textContent);
  if (matchMedia("(prefers-color-scheme: dark)").matches) document.documentElement.classList.add("dark");
  $("title").textContent = head.title;
  const store = new Store(head);
  const blocks = [...document.querySelectorAll("script.block")];
  const packed = blocks.map((block) => { const bytes = bytesOf(block.textContent); block.textContent = ""; return inflate(bytes); });
  for (const bytes of packed) store.block(await bytes);
  store.finish();
  window.app = new App(head, store);
  window.app.start();
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}

start().catch((error) => { document.documentElement.dataset.failed = error.stack; $("headline").className = "bad"; $("headline").textContent = `This page cannot be shown: ${error.message}`; });
