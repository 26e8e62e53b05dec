// The image in the middle: tinted and outlined segments, the segments at the pointer, and the clustering steps.

import { badgesOf, drawNumbers } from "./badges.js";
import { labelAt, objectColour, pathAt, segment } from "./explanation.js";
import { outlineOf, canvasFrom, rgb } from "./regions.js";
import { byId, changed, levels, state } from "./store.js";
import * as tools from "./tools.js";

const canvas = byId("picture"), frame = byId("frame");
let scale = 1;               // canvas pixels for each pixel of the image

export function pixelAt(event) {
  const box = canvas.getBoundingClientRect(), { width, height } = state.explanation.image;
  const x = Math.floor(((event.clientX - box.left) / box.width) * width);
  const y = Math.floor(((event.clientY - box.top) / box.height) * height);
  return { x: Math.min(width - 1, Math.max(0, x)), y: Math.min(height - 1, Math.max(0, y)) };
}

export function labelling() { return state.tab === "labels" && state.labels && !state.labels.unusable; }

export function showsRefined() {
  // Whether the segments on the stage are refined masks; lower levels never are.
  if (!state.explanation || (state.tab === "slots" && state.scene) || state.play || showsCompactness()) return false;
  if (labelling() && state.labels.revision) return state.labels.refined;
  return state.explanation.refined && state.level === levels();
}

const showsCompactness = () => Boolean(state.compactnessOf !== null && state.compactness && !labelling());

export function currentRegions() {
  // The label map on the stage: of the labels, or of a level.
  if (labelling() && state.labels.revision) return state.labels.region;
  return state.explanation.maps[labelling() ? Math.max(1, state.level) : state.level];
}

function fit() {
  const { width, height } = state.explanation.image, available = frame.getBoundingClientRect();
  const by = Math.min((available.width - 8) / width, (available.height - 8) / height), ratio = Math.min(2, window.devicePixelRatio || 1);
  const wide = Math.max(1, Math.floor(width * by)), high = Math.max(1, Math.floor(height * by));
  canvas.style.width = `${wide}px`;
  canvas.style.height = `${high}px`;
  const inner = [Math.round(wide * ratio), Math.round(high * ratio)];
  if (canvas.width !== inner[0] || canvas.height !== inner[1]) [canvas.width, canvas.height] = inner;
  scale = inner[0] / width;
  return ratio;
}

export function draw() {
  const { explanation } = state;
  canvas.hidden = !explanation;
  byId("empty").hidden = Boolean(explanation) || state.busy > 0 || Boolean(state.problems.picture);
  if (!explanation) return;
  const ratio = fit(), context = canvas.getContext("2d");
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.imageSmoothingEnabled = scale < 1;
  // Under tints the image has little colour of its own; without them it is as it is.
  context.filter = tints() ? "saturate(0.2)" : "none";
  context.drawImage(explanation.pixels, 0, 0, canvas.width, canvas.height);
  context.filter = "none";
  const scene = state.tab === "slots" && state.scene;
  if (scene) over(context, state.scene, 1);
  else if (state.play && state.steps) { drawStep(context, ratio); return; }
  else if (showsCompactness()) over(context, compactnessCanvas(), 1);
  if (!scene) drawRegions(context, ratio);
  if (state.hover && !scene && !tools.draws()) drawHover(context, ratio);
  tools.draw(context, scale, ratio);
}

function tints() {
  return state.tinted && !showsCompactness() && !state.play && !(state.tab === "slots" && state.scene) && Boolean(currentRegions());
}

function over(context, layer, alpha) {
  // A layer at the model's size, over the rectangle of the model's input.
  const { top, left, width, height } = state.explanation.view;
  context.save();
  context.globalAlpha = alpha;
  context.drawImage(layer, left * scale, top * scale, width * scale, height * scale);
  context.restore();
}

function strokes(context, path, stretch, ratio, wide, colour = "#fff", casing = "rgb(0 0 0 / 75%)", dash = []) {
  // A line that shows on any image: light over dark.
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
    context.globalAlpha = 0.5;
    context.drawImage(regions.tint, 0, 0, canvas.width, canvas.height);
    context.globalAlpha = 1;
  }
  context.drawImage(borders(regions, stretch, ratio), 0, 0);
  if (labelling()) drawSelected(context, ratio, regions, stretch);
  else {
    if (state.chosen?.level === state.level) drawChosen(context, ratio, regions, stretch);
    if (state.level === levels()) drawNumbers(context, ratio, badgesOf(regions, objects(), stretch));
  }
}

function borders(regions, stretch, ratio) {
  // A band in each segment's colour along the inside of its border, and a line between two.
  const { width, height } = canvas;
  if (regions.borders?.width === width && regions.borders.height === height) return regions.borders;
  const layer = new OffscreenCanvas(width, height), pen = layer.getContext("2d");
  const stroke = (wide, style) => {
    pen.setTransform(stretch, 0, 0, stretch, 0, 0);
    pen.lineCap = "square";
    pen.lineWidth = (wide * ratio) / stretch;
    pen.strokeStyle = style;
    pen.stroke(regions.outline);
    pen.setTransform(1, 0, 0, 1, 0, 0);
  };
  stroke(6, "#000");
  pen.globalCompositeOperation = "source-in";
  pen.imageSmoothingEnabled = false;
  pen.drawImage(regions.tint, 0, 0, width, height);
  pen.globalCompositeOperation = "source-over";
  stroke(1.2, "rgb(0 0 0 / 75%)");
  regions.borders = layer;
  return layer;
}

const objects = () => Array.from({ length: state.explanation.maps.at(-1).colours.length - 1 }, (_, index) => (
  { label: index + 1, category: "", colour: objectColour(index + 1) }));

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

function drawSelected(context, ratio, regions, stretch) {
  const segments = state.labels.revision ? state.labels.segments : draftSegments();
  for (const { id, label } of segments) {
    if (!state.selected.has(id)) continue;
    const { edge, inside } = outlineOf(regions.map, regions.width, regions.height, label);
    fill(context, inside, stretch, hatch(context, stretch, ratio));
    strokes(context, edge, stretch, ratio, 3);
  }
  drawNumbers(context, ratio, badgesOf(regions, segments, stretch));
}

export function draftSegments() {
  // The segments that labels would begin with.
  const level = Math.max(1, state.level), { colours } = state.explanation.maps[level];
  return colours.map((colour, label) => {
    const { area, centre } = segment(level, label);
    return { id: label, label, category: "", level, background: label === 0, area, centre: [centre.y, centre.x], colour };
  });
}

function hatch(context, stretch, ratio) {
  // Slanted lines show the selection without colour.
  const side = 8 * ratio, tile = new OffscreenCanvas(side, side), pen = tile.getContext("2d");
  pen.strokeStyle = tools.draws() ? "rgb(255 255 255 / 40%)" : "rgb(255 255 255 / 75%)";
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
    const regions = state.explanation.maps[part.level], stretch = canvas.width / regions.width, top = index === path.length - 1;
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
  const by = regions.width / state.explanation.image.width;
  return [
    Math.max(0, Math.floor(left * by) - 1), Math.max(0, Math.floor(top * by) - 1),
    Math.min(regions.width, Math.ceil((left + width) * by) + 1), Math.min(regions.height, Math.ceil((top + height) * by) + 1),
  ];
}

function shownIndex({ width, height }, { x, y }) {
  const { image } = state.explanation;
  const column = Math.min(width - 1, Math.floor(((x + 0.5) * width) / image.width));
  const row = Math.min(height - 1, Math.floor(((y + 0.5) * height) / image.height));
  return row * width + column;
}

export function labelSegmentAt(pixel) {
  const regions = currentRegions(), label = regions.map[shownIndex(regions, pixel)];
  const segments = state.labels.revision ? state.labels.segments : draftSegments();
  return segments.find((one) => one.label === label);
}

export function chosenAt(pixel) {
  const level = Math.max(1, state.level);
  return { level, label: labelAt(level, pixel) };
}

export function layerOf({ values, shape }, index, colourOf) {
  // One map of an array of maps as a canvas.
  const [height, width] = shape.slice(-2), at = index * height * width;
  return canvasFrom(width, height, (pixel) => colourOf(values[at + pixel]));
}

export const grey = (value) => { const light = Math.round(255 * Math.min(1, Math.max(0, value))); return [light, light, light, 255]; };

function compactnessCanvas() {
  const maps = state.compactness.arrays, chosen = maps[state.compactnessOf] ?? maps.objects;
  if (state.compactness.drawn?.of !== state.compactnessOf) {
    const table = state.colours.compactness;
    const layer = layerOf(chosen, 0, (value) => [...table[Math.round(255 * Math.min(1, Math.max(0, value)))], 255]);
    state.compactness.drawn = { of: state.compactnessOf, layer };
  }
  return state.compactness.drawn.layer;
}

function drawStep(context, ratio) {
  // The scope is bright; the step's anchors and clusters have its colour.
  const { step } = state.play, { level, steps, arrays } = state.steps, colours = state.colours.segments;
  over(context, layerOf(arrays.scopes, step, (value) => [8, 10, 14, Math.round(225 * (1 - value))]), 1);
  const anchors = state.explanation.arrays[`anchors${level}`], count = anchors.shape[1], windows = anchors.shape[0];
  const colour = rgb(colours[step % colours.length]);
  over(context, layerOf(arrays.clusters, step, (value) => [...colour, Math.round(205 * value)]), 1);
  const size = Math.min(8, Math.max(2, 40 / Math.sqrt(windows)));
  for (let window = 0; window < windows; window++) {
    for (let past = 0; past <= Math.min(step, count - 1); past++) {
      const at = 2 * (window * count + past), y = anchors.values[at], x = anchors.values[at + 1];
      if (Number.isNaN(y) || past >= steps - 1) continue;
      dot(context, ratio, { x, y }, past === step ? size : size * 0.6, past === step ? "#fff" : `rgb(${rgb(colours[past % colours.length])})`);
      if (windows === 1) drawNumbers(context, ratio, [{ text: String(past + 1), x: (x + 0.5) * scale, y: (y + 0.5) * scale, colour: rgb(colours[past % colours.length]) }]);
    }
  }
}

new ResizeObserver(changed).observe(frame);
