// The image on the stage and its explanation: the segments of every level, and what else the server computes.

import { image, json, latest, message, query } from "./api.js";
import { fromRgb, outlines, owners, rgb, shade, tinted } from "./regions.js";
import { changed, levels, problem, state, withSpinner } from "./store.js";

export function imageUrl() { return image(state.model, state.key); }

function prepare(found, before) {
  // Label maps with outlines and tints; the pixels are the same for all settings.
  const { width, height } = found.shown;
  found.pixels = found.arrays.image ? fromRgb(found.arrays.image) : before.pixels;
  const last = found.levels.length;
  const objects = found.arrays[`labels${last}`].values;
  found.maps = [null];
  for (let level = 1; level <= last; level++) {
    const map = found.arrays[`labels${level}`].values, count = found.arrays[`slot${level}`].shape[0];
    const owner = level === last ? null : owners(map, objects, count);
    const colours = Array.from({ length: count }, (_, label) => colourOf(label, owner ? owner[label] : label, owner));
    found.maps.push(regionMap(map, width, height, colours));
  }
  return found;
}

export function regionMap(map, width, height, colours) {
  return {
    map, width, height, colours, outline: outlines(map, width, height),
    tint: tinted(map, width, height, colours, 255), poles: null, borders: null,
  };
}

export const objectColour = (object) =>
  object <= 0 ? null : rgb(state.colours.segments[(object - 1) % state.colours.segments.length]);

function colourOf(label, object, isPart) {
  // Parts have shades of their object's colour; those of the background have outlines only.
  const colour = objectColour(object), by = [0, 0.4, -0.35, 0.65, -0.6][label % 5];
  if (!isPart) return colour;
  return colour ? shade(colour, by) : [...shade(rgb(state.colours.background), by), 40];
}

let shown = null;

export async function show(key, name = null) {
  // Show another image, with its labels.
  const known = state.images.find((entry) => entry[0] === key);
  Object.assign(state, {
    key, name: name ?? known?.[1] ?? "", hover: null, chosen: null, steps: null, play: null, compactness: null,
    slots: null, off: new Set(), scene: null, labels: null, selected: new Set(), problems: {},
    explanation: null, drawn: null, pending: [], seconds: null,
  });
  remember();
  changed();
  shown?.abort();
  const { signal } = shown = new AbortController();
  try {
    await withSpinner("picture", async () => {
      const found = await message(`${imageUrl()}/explanation${query(state.settings)}`, { signal });
      if (state.key !== key) return;
      state.explanation = prepare(found, null);
      state.name = found.image.name;
      state.level = Math.min(state.level ?? levels(), levels());
    });
  } catch {
    if (state.key === key) state.explanation = null;
    changed();
    return;
  }
  if (state.key !== key) return;
  changed();
  if (state.compactnessOf !== null) fetchCompactness();
  if (state.tab === "slots") fetchSlots();
  await fetchLabels();
}

export const again = latest(async () => {
  // Predict the same image with other settings.
  const { key, settings } = state, parameters = query({ ...settings, image: false });
  const before = state.explanation;
  if (!key || !before) return;
  const start = performance.now();
  try {
    await withSpinner("whatif", async () => {
      const found = await message(`${imageUrl()}/explanation${parameters}`);
      if (state.key !== key) return;
      state.explanation = prepare(found, before);
      state.seconds = (performance.now() - start) / 1000;
      Object.assign(state, { chosen: null, steps: null, play: null, compactness: null, slots: null, scene: null, off: new Set() });
      if (!state.labels?.revision) state.selected = new Set();
    });
  } catch { return; }
  changed();
  if (state.compactnessOf !== null) fetchCompactness();
  if (state.tab === "slots") fetchSlots();
});

export async function fetchLabels() {
  const key = state.key;
  try {
    const labels = await message(`${imageUrl()}/labels`);
    if (state.key === key) { setLabels(labels); problem("labels", null); }
  } catch (error) {
    if (state.key === key) { state.labels = { unusable: true, revision: 0 }; problem("labels", error); }
  }
}

export function setLabels(labels) {
  // Labels as the server has them now.
  if (labels.revision) {
    const { width, height } = state.explanation.shown, colours = [];
    for (const segment of labels.segments) {
      segment.colour = segment.background ? null : objectColour(segment.id || state.colours.segments.length);
      colours[segment.label] = segment.colour;
    }
    labels.region = regionMap(labels.arrays.labels.values, width, height, colours);
    const entry = state.images.find(([key]) => key === state.key);
    if (entry) entry[2] = 1;
    else state.images.push([state.key, state.name, 1]);
    const present = new Set(labels.segments.map((one) => one.id));
    state.selected = new Set([...state.selected].filter((id) => present.has(id)));
  }
  state.labels = labels;
  changed();
}

export async function fetchSteps(level) {
  if (state.steps?.level === level) return state.steps;
  const key = state.key;
  const steps = await withSpinner("why", () => message(`${imageUrl()}/steps${query({ ...state.settings, level })}`));
  if (state.key === key) state.steps = steps;
  changed();
  return steps;
}

export async function fetchCompactness() {
  const key = state.key;
  try {
    const compactness = await withSpinner("whatif", () => message(`${imageUrl()}/compactness${query(state.settings)}`));
    if (state.key === key) state.compactness = compactness;
  } catch { /* shown where it happened */ }
  changed();
}

export async function fetchSlots() {
  const key = state.key;
  try {
    const slots = await withSpinner("slots", () => message(`${imageUrl()}/slots${query(state.settings)}`));
    if (state.key === key) state.slots = slots;
  } catch { /* shown where it happened */ }
  changed();
}

export const fetchScene = latest(async () => {
  const key = state.key, off = [...state.off].join(",");
  if (!state.off.size && !state.showScene) { state.scene = null; changed(); return; }
  try {
    const scene = await withSpinner("slots", () => message(`${imageUrl()}/scene${query({ ...state.settings, off })}`));
    if (state.key === key) state.scene = fromRgb(scene.arrays.image);
  } catch { /* shown where it happened */ }
  changed();
});

export async function chooseModel(model) {
  Object.assign(state, { model, settings: { ...state.initial }, level: null, compactnessOf: null, compactness: null, showScene: false });
  const [about, gallery] = await withSpinner("picture", () => Promise.all([
    json(`/api/models/${encodeURIComponent(model)}`), json(`/api/models/${encodeURIComponent(model)}/gallery`),
  ]));
  Object.assign(state, { about, images: gallery.images, title: gallery.title });
  changed();
}

export function remember() {
  // A reload returns to the same place.
  const words = new URLSearchParams({ model: state.model, image: state.key ?? "", tab: state.tab });
  history.replaceState(null, "", `${location.pathname}#${words}`);
}

export function segment(level, label) {
  // The properties of a segment.
  const { arrays } = state.explanation, last = levels();
  const number = arrays[`slot${level}`].values[label];
  const clusters = state.explanation.levels[level - 1].clusters;
  const window = level === last ? 0 : Math.floor(number / clusters), cluster = level === last ? number : number % clusters;
  const [top, left] = arrays[`centre${level}`].values.subarray(2 * label, 2 * label + 2);
  const steps = arrays[`anchors${level}`].shape[1], at = 2 * (window * steps + cluster);
  const anchor = cluster < steps ? arrays[`anchors${level}`].values.subarray(at, at + 2) : null;
  return {
    level, label, window, cluster, background: label === 0 && level === last,
    area: arrays[`area${level}`].values[label],
    box: arrays[`box${level}`].values.subarray(4 * label, 4 * label + 4),
    centre: { x: left, y: top },
    compactness: arrays[`compactness${level}`].values[label],
    confidence: arrays[`confidence${level}`].values[label],
    anchor: anchor && !Number.isNaN(anchor[0]) ? { x: anchor[1], y: anchor[0] } : null,
  };
}

export function labelAt(level, { x, y }) {
  const { map, width, height } = state.explanation.maps[level], { image: size } = state.explanation;
  const column = Math.min(width - 1, Math.floor(((x + 0.5) * width) / size.width));
  const row = Math.min(height - 1, Math.floor(((y + 0.5) * height) / size.height));
  return map[row * width + column];
}

export function pathAt(pixel) {
  // The segment of a pixel on every level, from the lowest.
  return state.explanation.levels.map((_, index) => segment(index + 1, labelAt(index + 1, pixel)));
}
