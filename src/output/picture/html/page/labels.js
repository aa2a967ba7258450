// The names beside the rows. Only visible ones are elements, so that ten thousand threads cost nothing.

class Labels {
  constructor(app) {
    this.app = app;
    this.root = $("labels");
    this.head = el("div", { id: "axis-label" }, el("span", { id: "count" }), el("button", { id: "show-all", hidden: true, onclick: () => this.showAll() }, "show all"));
    this.root.append(this.head);
    this.dragged = null;
    this.root.addEventListener("dragover", (event) => this.over(event));
    this.root.addEventListener("drop", (event) => this.drop(event));
    this.root.addEventListener("wheel", (event) => { app.view.scrollTo(app.view.scroll + event.deltaY); event.preventDefault(); }, { passive: false });
  }

  draw() {
    const { view, store } = this.app, rows = view.rows(), hidden = store.tracks.length - rows.length;
    $("count").textContent = hidden ? `${hidden} hidden` : `${rows.length} tracks`;
    $("show-all").hidden = !hidden;
    const first = Math.max(0, Math.floor(view.scroll / ROW)), last = Math.min(rows.length, Math.ceil((view.scroll + view.height) / ROW));
    const key = `${first},${last},${rows.slice(first, last)},${this.app.selected?.track},${view.scroll}`;
    if (key === this.key) return;
    this.key = key;
    for (const old of this.root.querySelectorAll(".label")) if (!old.contains(document.activeElement)) old.remove(); else old.dataset.old = "1";
    const focused = this.root.querySelector("[data-old]")?.dataset.track;
    for (const old of this.root.querySelectorAll("[data-old]")) old.remove();
    for (let row = first; row < last; row++) this.root.append(this.label(store.tracks[rows[row]], AXIS + row * ROW - view.scroll));
    if (focused !== undefined) this.root.querySelector(`[data-track="${focused}"] .name`)?.focus?.();
  }

  label(track, y) {
    const { app } = this, { info, number } = track;
    const label = el("div", { class: "label", role: "listitem", draggable: "true", "data-track": number, title: this.title(track) },
      el("span", { class: "name" }, info.name),
      info.priority === null || info.priority === undefined ? null : el("span", { class: "pri" }, `p${info.priority}`),
      el("button", { class: "up", "aria-label": `move ${info.name} up`, onclick: () => app.view.shift(number, -1) }, "▲"),
      el("button", { class: "down", "aria-label": `move ${info.name} down`, onclick: () => app.view.shift(number, 1) }, "▼"),
      el("button", { class: "hide", "aria-label": `hide ${info.name}`, onclick: () => this.hide(number) }, "✕"));
    label.style.top = `${y}px`;
    if (app.selected?.track === number) label.classList.add("chosen");
    if (app.blamed.has(number)) label.classList.add("blamed");
    label.addEventListener("dragstart", (event) => { this.dragged = number; event.dataTransfer.setData("text/plain", String(number)); });
    label.querySelector(".name").addEventListener("click", () => app.select({ track: number, slice: -1, event: -1 }));
    return label;
  }

  title({ info }) {
    return [info.name, info.address, info.priority === null || info.priority === undefined ? null : `priority ${info.priority}`, info.now]
      .filter(Boolean).join("\n") + "\ndrag to move";
  }

  target(event) { const at = event.target.closest?.(".label"); return at ? Number(at.dataset.track) : null; }

  over(event) {
    event.preventDefault();
    const at = event.target.closest?.(".label");
    for (const label of this.root.querySelectorAll(".over")) if (label !== at) label.classList.remove("over");
    at?.classList.add("over");
  }

  drop(event) {
    event.preventDefault();
    const to = this.target(event);
    if (this.dragged !== null && to !== null) { this.key = null; this.app.view.move(this.dragged, to); }
    this.dragged = null;
  }

  hide(number) { this.app.store.tracks[number].hidden = true; this.key = null; this.app.view.scrollTo(this.app.view.scroll); }

  showAll() { for (const track of this.app.store.tracks) track.hidden = false; this.key = null; this.app.view.changed(); }
}
