// A row of more slices than pixels: for each column of pixels, how much of its time each state has. What has any of it is
// visible, however short. The cost depends on the pixels alone, and not on the number of slices.

class Heat {
  constructor() {
    this.canvas = document.createElement("canvas");
    this.context = this.canvas.getContext("2d", { willReadFrequently: true });
    this.index = new Int32Array(0);
  }

  room(width) {
    if (this.canvas.width === width && this.image) return;
    this.canvas.width = width;
    this.canvas.height = CLASSES.length + 1;
    this.image = this.context.createImageData(width, CLASSES.length + 1);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.index = new Int32Array(width + 1);
  }

  // Fills the rows of all classes; returns the classes that there are in this part.
  slices(track, view, colors) {
    const width = this.canvas.width, sums = track.sum(), { t0, t1, state, classes } = track;
    const time = (column) => view.from + (column / width) * view.span, step = view.span / width;
    let at = above(t0, view.from);
    for (let column = 0; column <= width; column++) {
      at = onward(t0, time(column), at);
      this.index[column] = at - 1;
    }
    const found = [];
    for (const [name, sum] of sums) {
      const row = CLASSES.indexOf(name), color = colors.packed[name];
      const before = (column) => {
        const k = this.index[column];
        if (k < 0) return 0;
        return sum[k] + (classes[state[k]] === row ? Math.min(time(column), t1[k]) - t0[k] : 0);
      };
      let any = false, left = before(0);
      for (let column = 0; column < width; column++) {
        const right = before(column + 1), part = Math.min(1, (right - left) / step);
        this.pixels[row * width + column] = part > 0 ? (color | (Math.round(70 + 185 * part) << 24)) >>> 0 : 0;
        any ||= part > 0;
        left = right;
      }
      if (any) found.push(name);
    }
    return found;
  }

  // One more row: where events are.
  events(xs, view, color) {
    const width = this.canvas.width, row = CLASSES.length * width;
    let at = notBelow(xs, view.from);
    for (let column = 0; column < width; column++) {
      const next = onward(xs, view.from + ((column + 1) / width) * view.span, at);
      const n = next - at;
      this.pixels[row + column] = n ? (color | (Math.min(255, 60 + 30 * n) << 24)) >>> 0 : 0;
      at = next;
    }
  }

  put() { this.context.putImageData(this.image, 0, 0); }

  draw(to, row, y, height, width) { to.drawImage(this.canvas, 0, row, this.canvas.width, 1, 0, y, width, height); }
}

// Colours as the style sheet has them.
class Colors {
  constructor() {
    const style = getComputedStyle(document.documentElement);
    this.packed = {};
    for (const name of ["bg", "panel", "line", "grid", "text", "dim", "accent", "run", "isr", "idle", "ready", "blocked", "wait", "sleep",
      "other", "event", "user", "mark", "markfill", "gap", "gapfill", "flow", "sel", "hit", "onrun", "stripe", "view"]) {
      this[name] = style.getPropertyValue(`--${name}`).trim();
      const hex = /^#(..)(..)(..)$/.exec(this[name]);
      if (hex) this.packed[name] = parseInt(hex[3] + hex[2] + hex[1], 16);
    }
  }
}
