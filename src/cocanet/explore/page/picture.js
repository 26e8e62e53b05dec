// The picture in the middle: segments tinted and outlined, what the pointer is on, and how it came about.

import { labelAt, objectColour, pathAt, segment } from "./explanation.js";
import { outlineOf, painted, rgb } from "./regions.js";
import { byId, changed, levels, state } from "./store.js";

const canvas = byId("picture"), frame = byId("frame");
let scale = 1;               // canvas pixels a pixel of the image

export function pixelAt(event) {
  const box = canvas.getBoundingClientRect(), { width, height } = state.found.image;
  const x = Math.floor(((event.clientX - box.left) / box.width) * width);
  const y = Math.floor(((event.clientY - box.top) / box.height) * height);
  return { x: Math.min(width - 1, Math.max(0, x)), y: Math.min(height - 1, Math.max(0, y)) };
}

export function labelling() { return state.tab === "labels" && state.labels && !state.labels.refused; }

export function currentRegions() {
  // The label map that is on the stage: of the labels, or of a level.
  if (labelling() && state.labels.revision) return state.labels.region;
  return state.found.maps[labelling() ? Math.max(1, state.level) : state.level];
}

function fit() {
  const { width, height } = state.found.image, room = frame.getBoundingClientRect();
  const by = Math.min((room.width - 8) / width, (room.height - 8) / height), ratio = Math.min(2, window.devicePixelRatio || 1);
  const wide = Math.max(1, Math.floor(width * by)), high = Math.max(1, Math.floor(height * by));
  canvas.style.width = `${wide}px`;
  canvas.style.height = `${high}px`;
  const inner = [Math.round(wide * ratio), Math.round(high * ratio)];
  if (canvas.width !== inner[0] || canvas.height !== inner[1]) [canvas.width, canvas.height] = inner;
  scale = inner[0] / width;
  return ratio;
}

export function draw() {
  const { found } = state;
  canvas.hidden = !found;
  byId("empty").hidden = Boolean(found) || state.busy > 0 || Boolean(state.problems.picture);
  if (!found) return;
  const ratio = fit(), context = canvas.getContext("2d");
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.imageSmoothingEnabled = scale < 1;
  // Under tints the picture is paler, so that they keep their colours.
  context.filter = tints() ? "saturate(0.2)" : "none";
  context.drawImage(found.picture, 0, 0, canvas.width, canvas.height);
  context.filter = "none";
  const scene = state.tab === "slots" && state.scene;
  if (scene) over(context, state.scene, 1);
  else if (state.play && state.choices) { drawStep(context, ratio); return; }
  else if (state.landscapeOf !== null && state.landscape && !labelling()) over(context, landscapeCanvas(), 1);
  if (!scene) drawRegions(context, ratio);
  if (state.hover && !scene) drawHover(context, ratio);
}

function tints() {
  const shown = state.landscapeOf !== null && state.landscape && !labelling();
  return state.tinted && !shown && !state.play && !(state.tab === "slots" && state.scene) && Boolean(currentRegions());
}

function over(context, layer, alpha) {
  // Something at the model's size, where the model saw it.
  const { top, left, width, height } = state.found.seen;
  context.save();
  context.globalAlpha = alpha;
  context.drawImage(layer, left * scale, top * scale, width * scale, height * scale);
  context.restore();
}

function strokes(context, path, stretch, ratio, wide, colour = "#fff", casing = "rgb(0 0 0 / 75%)", dash = []) {
  // A line that shows on any picture: light over dark.
  context.save();
  context.setTransform(stretch, 0, 0, stretch, 0, 0);
  context.lineCap = "square";
  for (const [width, style] of [[wide + 2, casing], [wide, colour]]) {
    context.lineWidth = (width * ratio) / stretch;
    context.strokeStyle = style;
    context.setLineDash(style === colour ? dash.map((part) => (part * ratio) / stretch) : []);
    context.stroke(path);
  }
  context.restore();
}

function fill(context, path, stretch, style) {
  context.save();
  context.setTransform(stretch, 0, 0, stretch, 0, 0);
  context.fillStyle = style;
  context.fill(path);
  context.restore();
}

function drawRegions(context, ratio) {
  const regions = currentRegions();
  if (!regions) return;
  const stretch = canvas.width / regions.width;
  if (tints()) {
    context.imageSmoothingEnabled = false;
    context.drawImage(regions.tint, 0, 0, canvas.width, canvas.height);
  }
  strokes(context, regions.outline, stretch, ratio, 1, "rgb(255 255 255 / 90%)", "rgb(0 0 0 / 55%)");
  if (labelling()) drawPicked(context, ratio, regions, stretch);
  else {
    if (state.chosen?.level === state.level) drawChosen(context, ratio, regions, stretch);
    if (state.level === levels()) drawNumbers(context, ratio, objectBadges());
  }
}

function objectBadges() {
  return Array.from({ length: state.found.maps.at(-1).colours.length - 1 }, (_, index) => {
    const { centre } = segment(levels(), index + 1);
    return { text: String(index + 1), x: centre.x, y: centre.y, colour: objectColour(index + 1) };
  });
}

function drawNumbers(context, ratio, badges) {
  if (badges.length > 60) return;
  context.save();
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.font = `600 ${12 * ratio}px system-ui, sans-serif`;
  for (const { text, x, y, colour } of badges) {
    const wide = Math.max(18 * ratio, context.measureText(text).width + 10 * ratio), high = 18 * ratio;
    const left = (x + 0.5) * scale, top = (y + 0.5) * scale;
    context.beginPath();
    context.roundRect(left - wide / 2, top - high / 2, wide, high, high / 2);
    context.fillStyle = "rgb(12 15 20 / 88%)";
    context.fill();
    context.lineWidth = 2 * ratio;
    context.strokeStyle = colour ? `rgb(${colour})` : "#fff";
    context.stroke();
    context.fillStyle = "#fff";
    context.fillText(text, left, top + ratio);
  }
  context.restore();
}

function drawChosen(context, ratio, regions, stretch) {
  const { edge } = outlineOf(regions.map, regions.width, regions.height, state.chosen.label);
  strokes(context, edge, stretch, ratio, 3);
  const { anchor } = segment(state.chosen.level, state.chosen.label);
  if (anchor) dot(context, ratio, anchor, 6);
}

function dot(context, ratio, { x, y }, size, colour = "#fff") {
  context.beginPath();
  context.arc((x + 0.5) * scale, (y + 0.5) * scale, size * ratio, 0, 2 * Math.PI);
  context.fillStyle = colour;
  context.fill();
  context.lineWidth = 2 * ratio;
  context.strokeStyle = "#000";
  context.stroke();
}

function drawPicked(context, ratio, regions, stretch) {
  const things = state.labels.revision ? state.labels.things : draftThings();
  for (const thing of things) {
    if (!state.picked.has(thing.id)) continue;
    const { edge, inside } = outlineOf(regions.map, regions.width, regions.height, thing.label);
    fill(context, inside, stretch, hatch(context, stretch, ratio));
    strokes(context, edge, stretch, ratio, 3);
  }
  const size = state.found.image;
  const shown = things.filter((thing) => thing.centre && !thing.background).map((thing) => ({
    text: thing.category ? `${thing.label} ${thing.category}` : String(thing.label),
    x: Math.min(size.width - 1, thing.centre[1]), y: thing.centre[0], colour: thing.colour,
  }));
  drawNumbers(context, ratio, shown);
}

export function draftThings() {
  // What would be labelled if labelling began now.
  const level = Math.max(1, state.level), { colours } = state.found.maps[level];
  return colours.map((colour, label) => {
    const { area, centre } = segment(level, label);
    return { id: label, label, category: "", level, background: label === 0, area, centre: [centre.y, centre.x], colour };
  });
}

function hatch(context, stretch, ratio) {
  // Slanted lines: what is selected shows without any colour.
  const side = 8 * ratio, tile = new OffscreenCanvas(side, side), pen = tile.getContext("2d");
  pen.strokeStyle = "rgb(255 255 255 / 75%)";
  pen.lineWidth = 1.6 * ratio;
  for (const shift of [-side, 0, side]) { pen.moveTo(shift, side); pen.lineTo(shift + side, 0); }
  pen.stroke();
  const pattern = context.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix().scale(1 / stretch));
  return pattern;
}

function drawHover(context, ratio) {
  if (labelling()) {
    const regions = currentRegions(), stretch = canvas.width / regions.width;
    const label = regions.map[shownIndex(regions, state.hover)];
    strokes(context, outlineOf(regions.map, regions.width, regions.height, label).edge, stretch, ratio, 2);
    return;
  }
  const path = pathAt(state.hover);
  path.forEach((part, index) => {
    const regions = state.found.maps[part.level], stretch = canvas.width / regions.width, top = index === path.length - 1;
    const { edge, inside } = outlineOf(regions.map, regions.width, regions.height, part.label, shownBox(regions, part.box));
    fill(context, inside, stretch, `rgb(255 255 255 / ${top ? 14 : 24}%)`);
    strokes(context, edge, stretch, ratio, top ? 3 : 1.6, "#fff", "rgb(0 0 0 / 80%)", top ? [] : [4, 3]);
  });
  const points = [state.hover, ...path.map((part) => part.centre)], line = new Path2D();
  points.forEach(({ x, y }, index) => line[index ? "lineTo" : "moveTo"]((x + 0.5) * scale, (y + 0.5) * scale));
  strokes(context, line, 1, ratio, 2, "#ffdf3d");
  points.forEach((point, index) => dot(context, ratio, point, index ? 3 + 1.5 * index : 3, index ? "#ffdf3d" : "#fff"));
}

function shownBox(regions, [left, top, width, height]) {
  const by = regions.width / state.found.image.width;
  return [
    Math.max(0, Math.floor(left * by) - 1), Math.max(0, Math.floor(top * by) - 1),
    Math.min(regions.width, Math.ceil((left + width) * by) + 1), Math.min(regions.height, Math.ceil((top + height) * by) + 1),
  ];
}

function shownIndex({ width, height }, { x, y }) {
  const { image } = state.found;
  const column = Math.min(width - 1, Math.floor(((x + 0.5) * width) / image.width));
  const row = Math.min(height - 1, Math.floor(((y + 0.5) * height) / image.height));
  return row * width + column;
}

export function thingAt(pixel) {
  const regions = currentRegions(), label = regions.map[shownIndex(regions, pixel)];
  const things = state.labels.revision ? state.labels.things : draftThings();
  return things.find((thing) => thing.label === label);
}

export function chosenAt(pixel) {
  const level = Math.max(1, state.level);
  return { level, label: labelAt(level, pixel) };
}

export function layerOf({ values, shape }, index, colourOf) {
  // One map of an array of maps as a canvas.
  const [height, width] = shape.slice(-2), at = index * height * width;
  return painted(width, height, (pixel) => colourOf(values[at + pixel]));
}

export const grey = (value) => { const light = Math.round(255 * Math.min(1, Math.max(0, value))); return [light, light, light, 255]; };

function landscapeCanvas() {
  const maps = state.landscape.arrays, chosen = maps[state.landscapeOf] ?? maps.objects;
  if (state.landscape.drawn?.of !== state.landscapeOf) {
    const table = state.colours.landscape;
    const layer = layerOf(chosen, 0, (value) => [...table[Math.round(255 * Math.min(1, Math.max(0, value)))], 255]);
    state.landscape.drawn = { of: state.landscapeOf, layer };
  }
  return state.landscape.drawn.layer;
}

function drawStep(context, ratio) {
  // What is left to be taken is bright; the anchors of this step, and what they take of it, in their colour.
  const { step } = state.play, { level, steps, arrays } = state.choices, colours = state.colours.segments;
  over(context, layerOf(arrays.scopes, step, (value) => [8, 10, 14, Math.round(225 * (1 - value))]), 1);
  const anchors = state.found.arrays[`anchors${level}`], count = anchors.shape[1], windows = anchors.shape[0];
  const colour = rgb(colours[step % colours.length]);
  over(context, layerOf(arrays.clusters, step, (value) => [...colour, Math.round(205 * value)]), 1);
  const size = Math.min(8, Math.max(2, 40 / Math.sqrt(windows)));
  for (let window = 0; window < windows; window++) {
    for (let past = 0; past <= Math.min(step, count - 1); past++) {
      const at = 2 * (window * count + past), y = anchors.values[at], x = anchors.values[at + 1];
      if (Number.isNaN(y) || past >= steps - 1) continue;
      dot(context, ratio, { x, y }, past === step ? size : size * 0.6, past === step ? "#fff" : `rgb(${rgb(colours[past % colours.length])})`);
      if (windows === 1) drawNumbers(context, ratio, [{ text: String(past + 1), x, y, colour: rgb(colours[past % colours.length]) }]);
    }
  }
}

new ResizeObserver(changed).observe(frame);
