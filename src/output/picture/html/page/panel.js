// Beside the picture: findings, what is selected, the events in words, the reports.

class Panel {
  constructor(app) {
    this.app = app;
    this.root = $("panel");
    this.tabs = [["findings", "Findings"], ["selection", "Selection"], ["events", "Events"], ["reports", "Reports"], ["about", "Trace"]];
    fill($("tabs"), this.tabs.map(([id, title]) => el("button", { id: `tab-${id}`, role: "tab", onclick: () => this.show(id) }, title)));
    this.current = "";
  }

  show(id) {
    this.current = id;
    for (const [name] of this.tabs) $(`tab-${name}`).setAttribute("aria-selected", String(name === id));
    this.root.dataset.tab = id;
    fill(this.root, this[id]());
    this.root.scrollTop = 0;
    if (id === "events") this.root.querySelector(".chosen")?.scrollIntoView({ block: "center" });
  }

  update() { if (this.current === "selection" || this.current === "events") this.show(this.current); }

  event(seq) { return go(`event ${seq}`, () => this.app.goSeq(seq)); }

  findings() {
    const { head } = this.app;
    if (!head.findings) return [el("p", { class: "dim" }, "The rules of explain were not applied to this trace.")];
    const list = head.findings.map((finding, i) => this.finding(finding, i));
    if (!list.length) list.push(el("p", {}, "Nothing wrong found."));
    const last = (head.not_checked ?? []).map((what) => el("p", { class: "dim" }, `Not checked: ${what}.`));
    return [...list, ...last];
  }

  finding(finding, i) {
    const evidence = finding.evidence.map(({ seq, address, text }) =>
      el("li", {}, seq === undefined ? (address ? `${address}: ` : "") : [this.event(seq), ": "], text));
    const mark = this.app.head.marks.find((m) => m.finding === i);
    return el("article", { class: `finding ${finding.confidence}`, "data-code": finding.code },
      el("div", { class: "code" }, `${i + 1}. ${finding.code}`, el("span", { class: "badge" }, finding.confidence)),
      el("p", { class: "claim" }, `${finding.claim}.`),
      mark ? el("p", {}, go("show it in the picture", () => this.app.goMark(mark))) : null,
      finding.tracks.length ? el("p", {}, "Threads: ", finding.tracks.flatMap((t, k) => [k ? ", " : "", go(this.app.store.tracks[t].name(), () => this.app.select({ track: t, slice: -1, event: -1 }, true))])) : null,
      evidence.length ? el("ul", {}, evidence) : null,
      finding.detractors.map((text) => el("p", { class: "warn" }, `Against it: ${text}.`)),
      finding.explains.length ? el("p", {}, `It explains: ${finding.explains.join("; ")}.`) : null,
      finding.next ? el("p", { class: "dim" }, `Next: ${finding.next}.`) : null);
  }

  selection() {
    const { selected, store } = this.app;
    if (!selected) return [el("p", { class: "dim" }, "Nothing is selected. Click into the picture, or press n or p to step through the events.")];
    const track = store.tracks[selected.track], parts = [];
    if (selected.event >= 0) parts.push(...this.ofEvent(selected.event));
    const slice = selected.slice >= 0 ? selected.slice : selected.event >= 0 ? track?.at(store.x[selected.event]) : -1;
    if (track && slice >= 0) parts.push(...this.ofSlice(track, slice));
    if (track && selected.event < 0 && selected.slice < 0) parts.push(...this.ofTrack(track));
    return parts;
  }

  table(rows, id) {
    return el("table", id ? { id } : {}, rows.filter(Boolean).map(([name, ...value]) => el("tr", {}, el("th", {}, name), el("td", {}, ...value))));
  }

  ofEvent(i) {
    const { words, clock, store, head } = this.app, def = words.def(i);
    const before = i > 0 ? clock.span(store.tick[i] - store.tick[i - 1]) : null;
    return [
      el("h2", { id: "selected-event" }, def.name),
      this.table([
        ["event", String(store.seq[i])], ["time", clock.moment(i)], ["before the newest", clock.span(store.tick[store.count - 1] - store.tick[i])],
        before && ["after the one before", before], ["who", this.trackLink(store.who[i])], head.cores > 1 && ["core", String(store.core[i])],
        ...words.fields(i),
      ], "fields"),
      ...this.flowsOf(i),
    ];
  }

  // Whom this event woke.
  flowsOf(i) {
    const { store } = this.app, { track } = store.flows, rows = [];
    for (const k of this.app.flowsFrom(i)) rows.push(el("p", {}, "It woke ", go(store.tracks[track[k]].name(), () => this.app.select({ track: track[k], slice: -1, event: i }, true)), "."));
    return rows;
  }

  trackLink(number) {
    const track = this.app.store.tracks[number];
    return track ? go(track.name(), () => this.app.select({ track: number, slice: -1, event: -1 }, true)) : "not known";
  }

  ofSlice(track, k) {
    const { words, clock, store, head } = this.app, object = words.object(track.object[k]);
    const open = track.flags[k] & STILL_OPEN, state = head.states[track.state[k]];
    const rows = [
      ["thread", this.trackLink(track.number)], ["for", (track.flags[k] & START_UNKNOWN ? "at least " : "") + clock.span(track.t1[k] - track.t0[k]) + (open ? " until the newest event" : "")],
      object && [isWait(state.class) ? "waits for" : "object", object],
      track.owner[k] >= 0 && ["owned by", this.trackLink(track.owner[k])],
      ["from", this.event(store.seq[track.begins(k)])], ["to", open ? "not over" : this.event(store.seq[track.ends(k)])],
      ENDINGS[track.flags[k] >> 3] && ["it ended", ENDINGS[track.flags[k] >> 3]],
      ...this.woken(track, k), ...words.doubts(track, k).map((doubt) => ["doubt", doubt]),
    ];
    const next = (step) => () => this.app.select({ track: track.number, slice: k + step, event: -1 }, true);
    return [
      el("h2", { id: "selected-slice" }, `${track.name()}: ${words.state(track, k)}`), this.table(rows, "slice"),
      el("p", {}, k > 0 ? go("◀ state before", next(-1)) : "", "  ", k + 1 < track.n ? go("state after ▶", next(1)) : ""),
    ];
  }

  // What woke a thread, and what it had waited for.
  woken(track, k) {
    const { store, words, head } = this.app, rows = [], before = this.app.waitBefore(track, k);
    if (before >= 0 && before !== k) rows.push(["waited for", go(words.state(track, before), () => this.app.select({ track: track.number, slice: before, event: -1 }, true)), `, ${this.app.clock.span(track.t1[before] - track.t0[before])}`]);
    const wait = head.states[track.state[k]].class, flow = this.app.waker(track, isWait(wait) ? k : before);
    if (flow >= 0) {
      const i = store.flows.from[flow];
      rows.push(["woken by", this.trackLink(store.who[i]), ": ", go(`${words.def(i).name} (event ${store.seq[i]})`, () => this.app.goEvent(i))]);
    }
    return rows;
  }

  ofTrack(track) {
    const { info } = track, { clock, head } = this.app, times = [];
    for (const [name, sum] of track.sum()) times.push([{ run: "running", isr: "in interrupts", ready: "ready, not running", blocked: "waiting for what another has", wait: "waiting", sleep: "asleep or suspended" }[name] ?? name, clock.span(sum[track.n])]);
    const last = track.n - 1;
    return [
      el("h2", {}, info.name),
      this.table([
        info.address && ["address", info.address], info.priority !== null && info.priority !== undefined && ["priority", String(info.priority)],
        info.now && ["now", info.now], ["events", String(track.events.length)], ...times,
        last >= 0 && ["last state", go(this.app.words.state(track, last), () => this.app.select({ track: track.number, slice: last, event: -1 }, true))],
      ]),
      el("p", {}, head.findings?.map((finding, i) => finding.tracks.includes(track.number) && go(`finding ${i + 1}: ${finding.code}`, () => this.show("findings")))),
    ];
  }

  events() {
    const { store, words, clock, selected, view } = this.app;
    if (!store.count) return [el("p", {}, "No events.")];
    const middle = selected?.event >= 0 ? selected.event : Math.max(0, above(store.x, view.to, 0, store.count) - 1);
    const from = Math.max(0, middle - 60), to = Math.min(store.count, middle + 61), rows = [];
    if (from > 0) rows.push(el("p", {}, go(`${group(from)} older`, () => this.app.goEvent(from))));
    for (let i = from; i < to; i++) {
      rows.push(el("div", { class: i === selected?.event ? "row chosen" : "row", "data-seq": store.seq[i], title: `${words.def(i).name} ${words.line(i)}\n${clock.moment(i)}`, onclick: () => this.app.goEvent(i) },
        el("span", { class: "num" }, String(store.seq[i])), el("span", {}, words.who(i)), el("span", {}, words.def(i).name, " ", el("span", { class: "dim" }, words.line(i)))));
    }
    if (to < store.count) rows.push(el("p", {}, go(`${group(store.count - to)} newer`, () => this.app.goEvent(to))));
    return rows;
  }

  reports() {
    const { reports } = this.app.head;
    if (!reports.length) return [el("p", { class: "dim" }, "No reports.")];
    return reports.map((report, i) => el("details", { open: i < 2 }, el("summary", {}, report.title || "Trace"),
      report.sentences.map((text) => el("p", {}, text)), report.lines ? el("pre", {}, report.lines) : null, report.tables.map((table) => this.report(table))));
  }

  report({ title, columns, rows, notes }) {
    const align = (column) => (column.right ? "num" : "");
    return el("div", { class: "wide" }, title ? el("h2", {}, title) : null,
      el("table", {}, columns.some((c) => c.title) ? el("tr", {}, columns.map((column) => el("th", { class: align(column) }, column.title))) : null,
        rows.map((row) => el("tr", {}, row.map((cell, c) => el("td", { class: align(columns[c]) }, this.cell(cell, columns[c])))))),
      notes.map((note) => el("p", { class: "dim" }, note)));
  }

  cell(cell, column) { return column.seq && /^\d+$/.test(cell) ? go(cell, () => this.app.goSeq(Number(cell))) : cell; }

  about() {
    const { head } = this.app;
    return [
      this.table(head.facts),
      head.issues.length ? el("h2", {}, "What is lost, inferred or odd") : null,
      head.issues.map((issue) => el("p", { class: issue.severity === "note" ? "dim" : "warn" }, `${issue.severity}: ${issue.text}`, issue.seq === undefined ? null : [" (", this.event(issue.seq), ")"])),
      head.gaps.length ? el("h2", {}, "Gaps") : null,
      head.gaps.slice(0, 200).map((gap) => el("p", {}, go(gap.text, () => this.app.goGap(gap)))),
      head.gaps.length > 200 ? el("p", {}, `${group(head.gaps.length + head.more_gaps - 200)} more.`) : null,
      el("p", { class: "warn" }, "This page holds contents of the target's memory: names, values, addresses. Send it only to people who may see them."),
    ].filter(Boolean).flat();
  }
}
