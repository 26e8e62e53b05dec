// Why a segment is one: its anchor, the anchor's affinity mask, the scope before the step, and compactness.

import { fetchSteps, fetchCompactness, segment } from "./explanation.js";
import { grey, layerOf } from "./picture.js";
import { byId, changed, element, levels, percent, plural, state } from "./store.js";

const panel = byId("why");
const STEP_MS = 1100;
let timer = null, drawn = "";

export async function choose(chosen) {
  state.chosen = chosen;
  stop();
  changed();
  try { await fetchSteps(chosen.level); } catch { return; }
  if (!state.compactness) fetchCompactness();
}

export async function play() {
  if (!state.explanation) return;
  if (state.play?.running) { state.play.running = false; clearTimeout(timer); changed(); return; }
  const level = Math.max(1, state.level);
  let steps;
  try { ({ steps } = await fetchSteps(level)); } catch { return; }
  const step = state.play && state.play.step < steps - 1 ? state.play.step : 0;
  state.play = { step, running: true };
  changed();
  timer = setTimeout(forward, STEP_MS);
}

function forward() {
  if (!state.play?.running) return;
  state.play.step = Math.min(state.play.step + 1, state.steps.steps - 1);
  if (state.play.step === state.steps.steps - 1) state.play.running = false;
  else timer = setTimeout(forward, STEP_MS);
  changed();
}

export async function stepBy(by) {
  const level = Math.max(1, state.level);
  let steps;
  try { ({ steps } = await fetchSteps(level)); } catch { return; }
  clearTimeout(timer);
  const step = state.play ? state.play.step + by : 0;
  state.play = { step: Math.min(steps - 1, Math.max(0, step)), running: false };
  changed();
}

export function stop() {
  clearTimeout(timer);
  if (state.play) { state.play = null; changed(); }
}

export function draw() {
  const key = JSON.stringify([
    state.tab, state.key, state.level, state.chosen, state.play, Boolean(state.explanation), state.steps?.level,
    Boolean(state.compactness), state.problems.why, state.settings,
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
  if (!state.explanation) return [...parts, element("p", { class: "hint" }, "Choose an image first.")];
  parts.push(player());
  if (!state.chosen) {
    return [...parts, element("p", { class: "hint" }, "Click a segment to see its anchor, the anchor’s affinity mask, and the scope at that step.")];
  }
  return [...parts, ...explained()];
}

function player() {
  const level = Math.max(1, state.level), last = level === levels();
  const { anchors } = state.explanation.levels[level - 1], running = state.play?.running;
  const noun = last ? "objects" : `parts of level ${level}`;
  const row = element("div", { class: "row" },
    element("button", { id: "play", type: "button", class: "first", onclick: play, "aria-keyshortcuts": "Space" },
      running ? "Pause" : "Play", element("kbd", {}, "space")),
    element("button", { id: "back", type: "button", onclick: () => stepBy(-1), "aria-label": "A step back", disabled: !state.play }, "◀"),
    element("button", { id: "forth", type: "button", onclick: () => stepBy(1), "aria-label": "A step forward" }, "▶"),
    element("button", { id: "stop", type: "button", onclick: stop, disabled: !state.play }, "Stop"));
  const words = state.play && state.steps ? stepWords() : `${plural(anchors, "anchor")}${last ? "" : " in each window"}; the last cluster is the remaining scope.`;
  return element("fieldset", {}, element("legend", {}, `Clustering steps of the ${noun}`), row,
    element("p", { class: "hint", id: "step-words", role: "status" }, words));
}

function stepWords() {
  const { step } = state.play, { steps, arrays } = state.steps;
  const [, height, width] = arrays.scopes.shape, size = height * width;
  let left = 0;
  for (let index = 0; index < size; index++) left += arrays.scopes.values[step * size + index];
  const scope = `${percent(left / size)} of the scope remain`;
  return step < steps - 1 ? `Step ${step + 1} of ${steps}: anchor ${step + 1}; ${scope}.` : `Step ${steps} of ${steps}: the remaining scope, without an anchor; ${scope}.`;
}

function explained() {
  const part = segment(state.chosen.level, state.chosen.label), last = part.level === levels();
  const title = last ? (part.background ? "Background" : `Object ${part.label}`) : `Level ${part.level}, window ${part.window + 1}, cluster ${part.cluster + 1}`;
  const facts = [["area", `${part.area.toLocaleString("en")} px`], ["compactness of the shape", part.compactness.toFixed(3)], ["confidence", part.confidence.toFixed(3)]];
  if (part.anchor) {
    facts.push(["anchor (row, column)", `${Math.round(part.anchor.y)}, ${Math.round(part.anchor.x)}`], ["step", `${part.cluster + 1} of ${state.explanation.levels[part.level - 1].anchors + 1}`]);
    const score = anchorScore(part);
    if (score !== null) facts.push(["compactness of the affinity mask", score.toFixed(3)]);
  } else facts.push(["anchor", "none: remaining scope"]);
  const list = element("dl", { class: "facts", id: "facts" });
  for (const [name, value] of facts) list.append(element("dt", {}, name), element("dd", {}, value));
  const out = [element("h2", { id: "why-title" }, title), list];
  if (state.steps?.level === part.level) out.push(maps(part));
  const rule = part.anchor
    ? "The anchor is the most compact candidate in the scope. Its affinity mask times the scope is the cluster."
    : "This cluster has no anchor: it is the scope that remains after all anchors.";
  out.push(element("p", { class: "hint" }, rule));
  if (last && state.explanation.refined) out.push(element("p", { class: "hint", id: "refined-hint" }, "The object’s mask is refined. Anchor, scope, affinity and cluster are the network’s own."));
  return out;
}

function anchorScore(part) {
  const map = state.compactness?.arrays[`level${part.level}`];
  if (!map) return null;
  const cell = cellOf(part.anchor, map.shape);
  return map.values[cell.row * map.shape[1] + cell.column];
}

function cellOf({ x, y }, [rows, columns]) {
  const { top, left, height, width } = state.explanation.view;
  const row = Math.floor(((y + 0.5 - top) * rows) / height), column = Math.floor(((x + 0.5 - left) * columns) / width);
  return { row: Math.min(rows - 1, Math.max(0, row)), column: Math.min(columns - 1, Math.max(0, column)) };
}

function maps(part) {
  const { arrays, steps } = state.steps, box = element("div", { class: "maps" });
  const isLast = part.cluster >= steps - 1;
  const kinds = [["scopes", "scope"], ["affinities", "affinity"], ["clusters", "cluster"]];
  for (const [name, words] of kinds) {
    const none = name === "affinities" && isLast;
    const canvas = none ? element("canvas") : mapCanvas(arrays[name], part);
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${words} of this segment`);
    if (none) { canvas.width = canvas.height = 32; }
    box.append(element("figure", {}, canvas, element("figcaption", {}, none ? "no affinity" : words)));
  }
  return box;
}

function mapCanvas(array, part) {
  // On lower levels only the segment's own window; each window has its own anchors.
  const [, rows, columns] = array.shape, layer = layerOf(array, part.cluster, grey);
  const [high, wide] = state.explanation.levels[part.level - 1].window, { model } = state.explanation;
  const tall = (high * rows) / model.height, broad = (wide * columns) / model.width, across = columns / broad;
  const top = Math.floor(part.window / across) * tall, left = (part.window % across) * broad;
  const zoom = Math.max(1, Math.floor(240 / Math.max(tall, broad)));
  const canvas = element("canvas");
  [canvas.width, canvas.height] = [broad * zoom, tall * zoom];
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(layer, left, top, broad, tall, 0, 0, canvas.width, canvas.height);
  if (part.anchor) {
    const { view } = state.explanation;
    const row = ((part.anchor.y + 0.5 - view.top) * rows) / view.height, column = ((part.anchor.x + 0.5 - view.left) * columns) / view.width;
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
