// Why a segment is one: its anchor, what it was akin to, what was left to take, and how compact it is.

import { fetchChoices, fetchLandscape, segment } from "./explanation.js";
import { grey, layerOf } from "./picture.js";
import { byId, changed, element, levels, percent, plural, state } from "./store.js";

const panel = byId("why");
const STEP_MS = 1100;
let timer = null, drawn = "";

export async function choose(chosen) {
  state.chosen = chosen;
  stop();
  changed();
  try { await fetchChoices(chosen.level); } catch { return; }
  if (!state.landscape) fetchLandscape();
}

export async function play() {
  if (!state.found) return;
  if (state.play?.running) { state.play.running = false; clearTimeout(timer); changed(); return; }
  const level = Math.max(1, state.level);
  let choices;
  try { choices = await fetchChoices(level); } catch { return; }
  const step = state.play && state.play.step < choices.steps - 1 ? state.play.step : 0;
  state.play = { step, running: true };
  changed();
  timer = setTimeout(forward, STEP_MS);
}

function forward() {
  if (!state.play?.running) return;
  state.play.step = Math.min(state.play.step + 1, state.choices.steps - 1);
  if (state.play.step === state.choices.steps - 1) state.play.running = false;
  else timer = setTimeout(forward, STEP_MS);
  changed();
}

export async function stepBy(by) {
  const level = Math.max(1, state.level);
  let choices;
  try { choices = await fetchChoices(level); } catch { return; }
  clearTimeout(timer);
  const step = state.play ? state.play.step + by : 0;
  state.play = { step: Math.min(choices.steps - 1, Math.max(0, step)), running: false };
  changed();
}

export function stop() {
  clearTimeout(timer);
  if (state.play) { state.play = null; changed(); }
}

export function draw() {
  const key = JSON.stringify([
    state.tab, state.key, state.level, state.chosen, state.play, Boolean(state.found), state.choices?.level,
    Boolean(state.landscape), state.problems.why, state.settings,
  ]);
  if (state.tab !== "why" || drawn === key) return;
  const focused = document.activeElement?.id;
  drawn = key;
  panel.replaceChildren(...content());
  if (focused && panel.querySelector(`#${CSS.escape(focused)}`)) byId(focused).focus();
}

function content() {
  const parts = [];
  if (state.problems.why) parts.push(element("p", { class: "problem", role: "alert" }, state.problems.why));
  if (!state.found) return [...parts, element("p", { class: "hint" }, "Choose an image first.")];
  parts.push(player());
  if (!state.chosen) {
    const words = "Click a segment to see why it is one: the anchor it grew from, what was akin to that anchor, and what was left to take.";
    return [...parts, element("p", { class: "hint" }, words)];
  }
  return [...parts, ...explained()];
}

function player() {
  const level = Math.max(1, state.level), last = level === levels();
  const { anchors } = state.found.levels[level - 1], running = state.play?.running;
  const what = last ? "objects" : `parts of level ${level}`;
  const row = element("div", { class: "row" },
    element("button", { id: "play", type: "button", class: "first", onclick: play, "aria-keyshortcuts": "Space" },
      running ? "Pause" : "Play", element("kbd", {}, "space")),
    element("button", { id: "back", type: "button", onclick: () => stepBy(-1), "aria-label": "A step back", disabled: !state.play }, "◀"),
    element("button", { id: "forth", type: "button", onclick: () => stepBy(1), "aria-label": "A step forward" }, "▶"),
    element("button", { id: "stop", type: "button", onclick: stop, disabled: !state.play }, "Stop"));
  const said = state.play && state.choices ? stepWords() : `${plural(anchors, "anchor")}${last ? "" : " a window"}, and the rest; play shows them in the order they were chosen.`;
  return element("fieldset", {}, element("legend", {}, `How the ${what} were chosen`), row,
    element("p", { class: "hint", id: "step-words", role: "status" }, said));
}

function stepWords() {
  const { step } = state.play, { steps, arrays } = state.choices;
  const [, height, width] = arrays.scopes.shape, size = height * width;
  let left = 0;
  for (let index = 0; index < size; index++) left += arrays.scopes.values[step * size + index];
  const scope = `${percent(left / size)} of the scope was left`;
  return step < steps - 1 ? `Step ${step + 1} of ${steps}: anchor ${step + 1}; ${scope}.` : `Step ${steps} of ${steps}: the rest, taken by no anchor; ${scope}.`;
}

function explained() {
  const part = segment(state.chosen.level, state.chosen.label), last = part.level === levels();
  const title = last ? (part.background ? "Background" : `Object ${part.label}`) : `Level ${part.level}, window ${part.window + 1}, cluster ${part.cluster + 1}`;
  const added = isAdded(part);
  const facts = [["area", `${part.area.toLocaleString("en")} px`], ["compactness of its shape", part.compactness.toFixed(3)], ["confidence", part.confidence.toFixed(3)]];
  if (part.anchor) {
    facts.push(["anchor (row, column)", `${Math.round(part.anchor.y)}, ${Math.round(part.anchor.x)}`], ["chosen", `${ordinal(part.cluster + 1)} of ${state.found.levels[part.level - 1].anchors}`]);
    const score = anchorScore(part);
    if (score !== null) facts.push(["compactness it was chosen by", score.toFixed(3)]);
  } else facts.push(["anchor", added ? "none: feedback made it" : "none: the rest"]);
  const list = element("dl", { class: "facts", id: "facts" });
  for (const [name, value] of facts) list.append(element("dt", {}, name), element("dd", {}, value));
  const out = [element("h2", { id: "why-title" }, title), list];
  if (state.choices?.level === part.level) out.push(maps(part));
  const origin = last ? origins(part) : null;
  if (origin) out.push(element("p", { class: "hint", id: "origins" }, origin));
  const rule = part.anchor
    ? "The anchor is the most compact candidate of what was left. Its affinity times the scope is its cluster."
    : added ? "No anchor took this: feedback parted it from others." : "No anchor took this: it is what the others left.";
  out.push(element("p", { class: "hint" }, rule));
  return out;
}

// Anchors come first, then the rest; an object beyond that is one that feedback took a slot for.
const isAdded = (part) => part.level === levels() && part.cluster > state.found.levels[part.level - 1].anchors;

const ordinal = (number) => `${number}${["th", "st", "nd", "rd"][number % 100 > 10 && number % 100 < 14 ? 0 : number % 10] ?? "th"}`;

function anchorScore(part) {
  const map = state.landscape?.arrays[`level${part.level}`];
  if (!map) return null;
  const cell = cellOf(part.anchor, map.shape);
  return map.values[cell.row * map.shape[1] + cell.column];
}

function cellOf({ x, y }, [rows, columns]) {
  const { top, left, height, width } = state.found.seen;
  const row = Math.floor(((y + 0.5 - top) * rows) / height), column = Math.floor(((x + 0.5 - left) * columns) / width);
  return { row: Math.min(rows - 1, Math.max(0, row)), column: Math.min(columns - 1, Math.max(0, column)) };
}

function origins(part) {
  const table = state.found.arrays.origins;
  if (!table) return null;
  const count = table.shape[0], row = [...table.values.subarray(part.cluster * count, (part.cluster + 1) * count)];
  const from = row.map((share, index) => [share, index]).filter(([share]) => share >= 0.005).sort((a, b) => b[0] - a[0]);
  if (!from.length) return null;
  const names = from.map(([share, index]) => `${percent(share)} of cluster ${index + 1}`).join(", ");
  const own = isAdded(part) ? "" : `; it is cluster ${part.cluster + 1} of the hierarchy`;
  return `After feedback its pixels are ${names}${own}.`;
}

function maps(part) {
  const { arrays, steps } = state.choices, box = element("div", { class: "maps" });
  const rest = part.cluster >= steps - 1;
  const kinds = [["scopes", "scope left"], ["affinities", "affinity"], ["clusters", "cluster"]];
  for (const [name, words] of kinds) {
    const none = name === "affinities" && rest;
    const canvas = none ? element("canvas") : mapCanvas(arrays[name], part);
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${words} of this segment`);
    if (none) { canvas.width = canvas.height = 32; }
    box.append(element("figure", {}, canvas, element("figcaption", {}, none ? "no affinity" : words)));
  }
  return box;
}

function mapCanvas(array, part) {
  // On lower levels only the segment's own window: the others have anchors of their own.
  const [, rows, columns] = array.shape, layer = layerOf(array, part.cluster, grey);
  const [high, wide] = state.found.levels[part.level - 1].window, { model } = state.found;
  const tall = (high * rows) / model.height, broad = (wide * columns) / model.width, across = columns / broad;
  const top = Math.floor(part.window / across) * tall, left = (part.window % across) * broad;
  const zoom = Math.max(1, Math.floor(240 / Math.max(tall, broad)));
  const canvas = element("canvas");
  [canvas.width, canvas.height] = [broad * zoom, tall * zoom];
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(layer, left, top, broad, tall, 0, 0, canvas.width, canvas.height);
  if (part.anchor) {
    const { seen } = state.found;
    const row = ((part.anchor.y + 0.5 - seen.top) * rows) / seen.height, column = ((part.anchor.x + 0.5 - seen.left) * columns) / seen.width;
    context.beginPath();
    context.arc((column - left) * zoom, (row - top) * zoom, 7, 0, 2 * Math.PI);
    context.fillStyle = "#e69f00";
    context.fill();
    context.lineWidth = 3;
    context.strokeStyle = "#000";
    context.stroke();
  }
  return canvas;
}
