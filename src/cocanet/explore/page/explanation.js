// The image on the stage: what was found in it, level by level, as the server says.

import { image, json, latest, message, query } from "./api.js";
import { fromRgb, outlines, owners, rgb, shade, tinted } from "./regions.js";
import { changed, levels, problem, state, working_on } from "./store.js";

const TINT = 140;

export function place() { return image(state.model, state.key); }

function prepare(found, before) {
  // Maps with outlines and tints; of the picture there is one for all settings.
  const { width, height } = found.shown;
  found.picture = found.arrays.picture ? fromRgb(found.arrays.picture) : before.picture;
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
    tint: tinted(map, width, height, colours, TINT),
  };
}

export const objectColour = (object) =>
  object <= 0 ? null : rgb(state.colours.segments[(object - 1) % state.colours.segments.length]);

function colourOf(label, object, isPart) {
  // Parts have shades of their object's colour; those of the background are told by their outlines.
  const colour = objectColour(object), by = [0, 0.4, -0.35, 0.65, -0.6][label % 5];
  if (!isPart) return colour;
  return colour ? shade(colour, by) : [...shade(rgb(state.colours.background), by), 40];
}

let shown = null;

export async function show(key, name = null) {
  // Put another image on the stage; its labels come with it.
  const known = state.images.find((entry) => entry[0] === key);
  Object.assign(state, {
    key, name: name ?? known?.[1] ?? "", hover: null, chosen: null, choices: null, play: null, landscape: null,
    slots: null, off: new Set(), scene: null, labels: null, picked: new Set(), problems: {},
  });
  remember();
  changed();
  shown?.abort();
  const { signal } = shown = new AbortController();
  try {
    await working_on("picture", async () => {
      const found = await message(`${place()}/explanation${query(state.settings)}`, { signal });
      if (state.key !== key) return;
      state.found = prepare(found, null);
      state.name = found.image.name;
      state.level = Math.min(state.level ?? levels(), levels());
    });
  } catch {
    if (state.key === key) state.found = null;
    changed();
    return;
  }
  if (state.key !== key) return;
  changed();
  if (state.landscapeOf !== null) fetchLandscape();
  if (state.tab === "slots") fetchSlots();
  await fetchLabels();
}

export const again = latest(async () => {
  // The same image with other settings, as sliders move.
  const { key, settings } = state, asked = query({ ...settings, picture: false });
  const before = state.found;
  if (!key || !before) return;
  const start = performance.now();
  try {
    await working_on("whatif", async () => {
      const found = await message(`${place()}/explanation${asked}`);
      if (state.key !== key) return;
      state.found = prepare(found, before);
      state.seconds = (performance.now() - start) / 1000;
      Object.assign(state, { chosen: null, choices: null, play: null, landscape: null, slots: null, scene: null, off: new Set() });
      if (!state.labels?.revision) state.picked = new Set();
    });
  } catch { return; }
  changed();
  if (state.landscapeOf !== null) fetchLandscape();
  if (state.tab === "slots") fetchSlots();
});

export async function fetchLabels() {
  const key = state.key;
  try {
    const labels = await message(`${place()}/labels`);
    if (state.key === key) { take(labels); problem("labels", null); }
  } catch (error) {
    if (state.key === key) { state.labels = { refused: true, revision: 0 }; problem("labels", error); }
  }
}

export function take(labels) {
  // A document as the server has it now.
  if (labels.revision) {
    const { width, height } = state.found.shown, colours = [];
    for (const thing of labels.things) {
      thing.colour = thing.background ? null : rgb(state.colours.segments[(thing.id + 6) % 7]);
      colours[thing.label] = thing.colour;
    }
    labels.region = regionMap(labels.arrays.labels.values, width, height, colours);
    const entry = state.images.find(([key]) => key === state.key);
    if (entry) entry[2] = 1;
    else state.images.push([state.key, state.name, 1]);
    const there = new Set(labels.things.map((thing) => thing.id));
    state.picked = new Set([...state.picked].filter((id) => there.has(id)));
  }
  state.labels = labels;
  changed();
}

export async function fetchChoices(level) {
  if (state.choices?.level === level) return state.choices;
  const key = state.key;
  const choices = await working_on("why", () => message(`${place()}/choices${query({ ...state.settings, level })}`));
  if (state.key === key) state.choices = choices;
  changed();
  return choices;
}

export async function fetchLandscape() {
  const key = state.key;
  try {
    const landscape = await working_on("whatif", () => message(`${place()}/landscape${query(state.settings)}`));
    if (state.key === key) state.landscape = landscape;
  } catch { /* said where it happened */ }
  changed();
}

export async function fetchSlots() {
  const key = state.key;
  try {
    const slots = await working_on("slots", () => message(`${place()}/slots${query(state.settings)}`));
    if (state.key === key) state.slots = slots;
  } catch { /* said where it happened */ }
  changed();
}

export const fetchScene = latest(async () => {
  const key = state.key, off = [...state.off].join(",");
  if (!state.off.size && !state.wantScene) { state.scene = null; changed(); return; }
  try {
    const scene = await working_on("slots", () => message(`${place()}/scene${query({ ...state.settings, off })}`));
    if (state.key === key) state.scene = fromRgb(scene.arrays.picture);
  } catch { /* said where it happened */ }
  changed();
});

export async function chooseModel(model) {
  Object.assign(state, { model, settings: {}, level: null, landscapeOf: null, landscape: null, wantScene: false });
  const [about, gallery] = await working_on("picture", () => Promise.all([
    json(`/api/models/${encodeURIComponent(model)}`), json(`/api/models/${encodeURIComponent(model)}/gallery`),
  ]));
  Object.assign(state, { about, images: gallery.images, title: gallery.title });
  changed();
}

export function remember() {
  // A page that is loaded again finds its place.
  const words = new URLSearchParams({ model: state.model, image: state.key ?? "", tab: state.tab });
  history.replaceState(null, "", `${location.pathname}#${words}`);
}

export function segment(level, label) {
  // What is known of a segment.
  const { arrays } = state.found, last = levels();
  const number = arrays[`slot${level}`].values[label];
  const clusters = state.found.levels[level - 1].clusters;
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
  const { map, width, height } = state.found.maps[level], { image: size } = state.found;
  const column = Math.min(width - 1, Math.floor(((x + 0.5) * width) / size.width));
  const row = Math.min(height - 1, Math.floor(((y + 0.5) * height) / size.height));
  return map[row * width + column];
}

export function pathAt(pixel) {
  // The segment of a pixel on every level, from the lowest.
  return state.found.levels.map((_, index) => segment(index + 1, labelAt(index + 1, pixel)));
}
