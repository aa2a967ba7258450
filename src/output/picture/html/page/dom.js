// Elements. Text goes in as text nodes only: names come from a target's memory.

const $ = (id) => document.getElementById(id);

function el(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(props ?? {})) {
    if (key === "class") element.className = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element && typeof value === "boolean") element[key] = value;
    else element.setAttribute(key, value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

function fill(element, ...children) {
  element.replaceChildren();
  for (const child of children.flat()) if (child) element.append(child instanceof Node ? child : String(child));
}

// A link to a place in the picture.
function go(text, to) {
  return el("a", { class: "go", role: "link", tabindex: "0", onclick: to, onkeydown: (e) => { if (e.key === "Enter") to(); } }, text);
}

const nextFrame = () => new Promise((done) => setTimeout(done, 0));
