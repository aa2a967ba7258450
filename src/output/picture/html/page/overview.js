// The whole trace in a strip: how busy it was, findings, gaps, and what part is shown. Drawn once; then only the frame moves.

class Overview {
  constructor(app) {
    this.app = app;
    this.canvas = $("overview");
    this.context = this.canvas.getContext("2d");
    this.ground = document.createElement("canvas");
  }

  resize() {
    const box = this.canvas.getBoundingClientRect(), scale = Math.min(window.devicePixelRatio || 1, 3);
    this.width = Math.max(box.width, 50);
    this.height = Math.max(box.height, 20);
    for (const canvas of [this.canvas, this.ground]) {
      canvas.width = Math.round(this.width * scale);
      canvas.height = Math.round(this.height * scale);
    }
    this.scale = scale;
    this.paint();
  }

  x(time) {
    const { store, view } = this.app, from = store.from - view.margin, to = store.to + view.margin;
    return ((time - from) / (to - from)) * this.width;
  }

  time(x) {
    const { store, view } = this.app, from = store.from - view.margin, to = store.to + view.margin;
    return from + (x / this.width) * (to - from);
  }

  // Events a column, as bars on a scale of roots: a single event is still seen beside a storm.
  paint() {
    const { store, head, picture } = this.app, colors = picture.colors, c = this.ground.getContext("2d");
    c.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    c.fillStyle = colors.panel;
    c.fillRect(0, 0, this.width, this.height);
    const counts = new Float64Array(Math.ceil(this.width));
    let at = 0;
    for (let column = 0; column < counts.length; column++) {
      const next = above(store.x, this.time(column + 1), at, store.count);
      counts[column] = Math.sqrt(next - at);
      at = next;
    }
    const most = counts.reduce((a, b) => Math.max(a, b), 1);
    c.fillStyle = colors.other;
    counts.forEach((n, column) => { if (n) { const h = 2 + ((this.height - 14) * n) / most; c.fillRect(column, this.height - h, 1, h); } });
    c.fillStyle = colors.gapfill;
    for (const gap of head.gaps.slice(0, 2000)) {
      const x = this.x(store.x[Math.min(gap.at, store.count - 1)] ?? 0);
      c.fillStyle = colors.gap;
      c.fillRect(x - 1, 0, 2, this.height);
    }
    c.fillStyle = colors.mark;
    for (const mark of head.marks.slice(0, 2000)) c.fillRect(this.x(mark.from), 2, Math.max(2, this.x(mark.to) - this.x(mark.from)), 4);
    this.draw();
  }

  draw() {
    if (!this.width) return;
    const { context: c, app } = this, { view, picture } = app, colors = picture.colors;
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.drawImage(this.ground, 0, 0);
    c.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    const x0 = this.x(view.from), x1 = Math.max(this.x(view.to), x0 + 4);
    c.fillStyle = colors.view;
    c.fillRect(x0, 0, x1 - x0, this.height);
    c.strokeStyle = colors.accent;
    c.lineWidth = 1.5;
    c.strokeRect(x0 + 0.75, 0.75, x1 - x0 - 1.5, this.height - 1.5);
  }
}
