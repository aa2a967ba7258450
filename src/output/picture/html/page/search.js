// Search: events whose name, thread, object or value has the words that were typed.

class Search {
  constructor(app) {
    this.app = app;
    this.found = [];
    this.at = -1;
    this.input = $("search");
    this.input.addEventListener("input", () => { clearTimeout(this.timer); this.timer = setTimeout(() => this.run(), 120); });
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") { clearTimeout(this.timer); this.run(); this.step(event.shiftKey ? -1 : 1); event.preventDefault(); }
      if (event.key === "Escape") { this.input.value = ""; this.run(); $("plot").focus(); }
      event.stopPropagation();
    });
    $("hit-next").addEventListener("click", () => this.step(1));
    $("hit-prev").addEventListener("click", () => this.step(-1));
  }

  // Every word has to be in the event; `#12` is the event of that number.
  run() {
    const text = this.input.value.trim().toLowerCase();
    if (text === this.last) return;
    this.last = text;
    this.at = -1;
    const number = /^#(\d+)$/.exec(text), { app } = this;
    if (!text) this.found = [];
    else if (number) {
      const i = app.store.find(Number(number[1]));
      this.found = i < app.store.count && app.store.seq[i] === Number(number[1]) ? [i] : [];
    } else this.found = this.scan(text.split(/\s+/));
    this.count();
    app.redraw();
  }

  scan(words) {
    const { app } = this, { head, store } = app, found = [];
    const defs = words.map((word) => head.defs.map((def) => def.name.toLowerCase().includes(word)));
    const whos = words.map((word) => head.tracks.map((track) => track.name.toLowerCase().includes(word)));
    const values = words.map((word) => head.defs.map((def) => this.matching(def, word)));
    for (let i = 0; i < store.count; i++) {
      const def = store.def[i], who = store.who[i];
      let all = true;
      for (let w = 0; w < words.length && all; w++) {
        all = defs[w][def] || whos[w][who] || (values[w][def] !== null && values[w][def].some((m) => m.test(i)));
      }
      if (all) found.push(i);
    }
    return Uint32Array.from(found);
  }

  // For each field of an event that can match: the values that do.
  matching(def, word) {
    const { store } = this.app, tests = [];
    const typed = /^(0x[0-9a-f]+|\d+)$/.test(word) ? BigInt(word) : null;
    for (const field of def.fields) {
      const values = new Set();
      if (typed !== null) values.add(typed);
      for (const [hex, text] of Object.entries(field.texts ?? {})) if (text.toLowerCase().includes(word)) values.add(BigInt(hex));
      if (!values.size) continue;
      if (field.wide) { tests.push({ test: (i) => values.has(store.value(i, field)) }); continue; }
      const small = new Set(Array.from(values, Number));
      tests.push({ test: (i) => store.word[i] + field.at < store.word[i + 1] && small.has(store.words[store.word[i] + field.at]) });
    }
    return tests.length ? tests : null;
  }

  step(by) {
    const { found, app } = this;
    if (!found.length) return this.count();
    if (this.at < 0) {
      // From where one looks: the selection, or the newest visible event.
      const here = app.selected?.event >= 0 ? app.selected.event : above(app.store.x, app.view.to, 0, app.store.count);
      this.at = by > 0 ? above(found, here) % found.length : (notBelow(found, here) - 1 + found.length) % found.length;
    } else this.at = (this.at + by + found.length) % found.length;
    app.goEvent(found[this.at]);
    this.count();
  }

  count() {
    const n = this.found.length;
    $("hits").textContent = !this.last ? "" : !n ? "none" : this.at < 0 ? `${group(n)} found` : `${group(this.at + 1)} of ${group(n)}`;
  }
}
