// The gallery: only visible tiles exist, and a few thumbnails are fetched at a time.

import { blob, image } from "./api.js";
import { show } from "./explanation.js";
import { byId, changed, element, plural, state } from "./store.js";

const SIDE = 94, AT_ONCE = 3;
const list = byId("tiles"), area = byId("tiles-area");
const tiles = new Map(), held = new Map();
let waiting = [], running = 0, drawnFor = null;

const flat = () => window.matchMedia("(max-width: 900px)").matches;
const columns = () => (flat() ? state.images.length : Math.max(1, Math.floor((list.clientWidth - 6) / SIDE)));

function place(index) {
  const across = columns();
  return { left: 6 + (index % across) * SIDE, top: 4 + Math.floor(index / across) * SIDE };
}

export function draw() {
  const first = `${state.model} ${state.images.length}`;
  if (drawnFor !== first) {
    for (const tile of tiles.values()) tile.remove();
    tiles.clear();
    waiting = [];
    drawnFor = first;
  }
  const rows = Math.ceil(state.images.length / Math.max(1, columns()));
  area.style.height = `${rows * SIDE + 8}px`;
  area.style.width = flat() ? `${state.images.length * SIDE + 8}px` : "100%";
  const done = state.images.filter((entry) => entry[2]).length;
  const title = byId("gallery-title");
  title.title = state.title;
  title.replaceChildren(element("span", {}, state.title), element("span", {}, `${plural(state.images.length, "image")}, ${done} labelled`));
  drawTiles();
}

function drawTiles() {
  const from = flat() ? list.scrollLeft : list.scrollTop, size = flat() ? list.clientWidth : list.clientHeight;
  const line = flat() ? 1 : columns();
  const start = Math.max(0, Math.floor((from - SIDE) / SIDE) * line);
  const stop = Math.min(state.images.length, Math.ceil((from + size + SIDE) / SIDE) * line);
  for (const [index, tile] of tiles) if (index < start || index >= stop) { tile.remove(); tiles.delete(index); }
  waiting = waiting.filter(({ index }) => index >= start && index < stop);
  for (let index = start; index < stop; index++) drawTile(index);
}

function drawTile(index) {
  const [key, name, labelled] = state.images[index];
  let tile = tiles.get(index);
  if (!tile) {
    tile = element("button", { class: "tile", type: "button", title: name, onclick: () => show(key, name) });
    tile.dataset.index = index;
    tiles.set(index, tile);
    area.append(tile);
    const known = held.get(`${state.model} ${key}`);
    if (known) fill(tile, known); else { waiting.push({ index, key, tile, model: state.model }); next(); }
  }
  const { left, top } = place(index);
  tile.style.left = `${left}px`;
  tile.style.top = `${top}px`;
  tile.setAttribute("aria-label", `${name}${labelled ? ", labelled" : ""}`);
  tile.setAttribute("aria-current", String(key === state.key));
  const mark = tile.querySelector(".done");
  if (labelled && !mark) tile.append(element("span", { class: "done", "aria-hidden": "true" }, "✓"));
}

async function next() {
  if (running >= AT_ONCE || !waiting.length) return;
  const { key, tile, model } = waiting.shift();
  running++;
  try {
    const data = await blob(`${image(model, key)}/thumbnail`, { cache: "default", priority: "low" });
    const url = URL.createObjectURL(data);
    held.set(`${model} ${key}`, url);
    if (held.size > 1500) { const [oldest, gone] = held.entries().next().value; held.delete(oldest); URL.revokeObjectURL(gone); }
    fill(tile, url);
  } catch (error) {
    tile.prepend(element("span", { class: "bad" }, "cannot be read"));
    tile.title = error.message;
  } finally {
    running--;
    next();
  }
  next();
}

function fill(tile, url) {
  const picture = element("img", { src: url, alt: "", draggable: "false" });
  picture.addEventListener("load", () => picture.classList.toggle("small", picture.naturalWidth < 80));
  tile.prepend(picture);
}

export function step(by) {
  // Show the next or previous image, and scroll to its tile.
  if (!state.images.length) return;
  const index = state.images.findIndex(([key]) => key === state.key);
  const to = Math.min(state.images.length - 1, Math.max(0, index + by));
  if (to !== index) { show(state.images[to][0]); reveal(to); }
}

export function reveal(index) {
  const { left, top } = place(index);
  if (flat()) list.scrollTo({ left: left - list.clientWidth / 2 + SIDE / 2 });
  else if (top < list.scrollTop || top + SIDE > list.scrollTop + list.clientHeight) list.scrollTo({ top: top - list.clientHeight / 2 });
}

list.addEventListener("scroll", () => requestAnimationFrame(drawTiles), { passive: true });
list.addEventListener("keydown", (event) => {
  const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns(), ArrowUp: -columns() }[event.key];
  const at = Number(event.target.dataset?.index);
  if (!by || Number.isNaN(at)) return;
  event.preventDefault();
  event.stopPropagation();
  const to = Math.min(state.images.length - 1, Math.max(0, at + (flat() ? Math.sign(by) : by)));
  reveal(to);
  drawTiles();
  tiles.get(to)?.focus();
});
new ResizeObserver(changed).observe(list);
