// The page: connects controls, requests and drawing.

import { blob, image, json } from "./api.js";
import * as explanation from "./explanation.js";
import * as gallery from "./gallery.js";
import { KEYS, press } from "./keys.js";
import * as labels from "./labels.js";
import * as picture from "./picture.js";
import * as slots from "./slots.js";
import { byId, changed, element, levels, onChange, problem, state, withSpinner } from "./store.js";
import * as tools from "./tools.js";
import * as whatif from "./whatif.js";
import * as why from "./why.js";

const TABS = ["why", "whatif", "slots", "labels"];

export function openTab(tab) {
  if (!TABS.includes(tab)) return;
  state.tab = tab;
  why.stop();
  tools.cancel();
  for (const name of TABS) {
    const button = byId(`tab-${name}`);
    button.setAttribute("aria-selected", String(name === tab));
    button.tabIndex = name === tab ? 0 : -1;
    byId(name).hidden = name !== tab;
  }
  if (tab === "slots" && state.explanation && !state.slots) explanation.fetchSlots();
  explanation.remember();
  changed();
}

export function setLevel(level) {
  state.level = Math.min(levels(), Math.max(0, level));
  why.stop();
  if (!state.labels?.revision) state.selected = new Set();
  changed();
}

async function dropImage(file) {
  if (!file) { problem("picture", new Error("nothing that was dropped is an image")); return; }
  problem("picture", null);
  try {
    const name = encodeURIComponent((file.name || "pasted").slice(0, 120));
    const entry = await withSpinner("picture", () => json(`/api/images?name=${name}`, { method: "POST", body: file }));
    await explanation.show(entry.key, entry.name);
  } catch { /* shown where it happened */ }
}

function drawFrame() {
  byId("spinner").hidden = !state.busy;
  const words = byId("problem");
  words.hidden = !state.problems.picture;
  words.textContent = state.problems.picture ?? "";
  byId("title").textContent = byId("title").title = state.name;
  document.title = state.name ? `${state.name} · coca explore` : "coca explore";
  const slider = byId("level"), last = levels();
  slider.max = String(last);
  slider.value = String(state.level ?? last);
  slider.disabled = !state.explanation;
  const level = state.level ?? last;
  const parts = state.explanation && level > 0 && level < last ? ` · ${state.explanation.arrays[`slot${level}`].shape[0]} parts` : "";
  byId("level-name").textContent = level === 0 ? "0 · pixels" : level === last ? `${level} · objects` : `${level}${parts || " · parts"}`;
  slider.setAttribute("aria-valuetext", byId("level-name").textContent);
  byId("refined").hidden = !picture.showsRefined();
  drawCaption();
  drawPath();
}

function drawCaption() {
  const caption = byId("caption"), off = [...state.off].sort((a, b) => a - b).map((slot) => slot + 1);
  let words = "";
  if (state.tab === "slots" && state.scene) words = off.length ? `reconstruction without slot ${off.join(", ")}` : "reconstruction";
  else if (state.play && state.steps) words = byId("step-words")?.textContent ?? "";
  else if (state.compactnessOf !== null && state.compactness && !picture.labelling()) words = state.compactnessOf === "objects" ? "compactness of each pixel’s object about the pixel" : `compactness by which level ${state.compactnessOf.slice(5)} chooses anchors`;
  caption.hidden = !words;
  caption.textContent = words;
}

function drawPath() {
  const line = byId("path");
  if (!state.explanation) { line.replaceChildren(); return; }
  if (!state.hover) { line.textContent = picture.labelling() ? tools.TOOLS.find(({ id }) => id === state.tool).hint : "Point at a pixel to see its cluster on every level. Click a segment to see why it is one."; return; }
  const { x, y } = state.hover, last = levels();
  const steps = [`row ${y}, column ${x}`];
  for (const part of explanation.pathAt(state.hover)) {
    const name = part.level === last ? (part.label === 0 ? "background" : `object ${part.label}`) : `level ${part.level}: window ${part.window + 1}, cluster ${part.cluster + 1}`;
    steps.push(`${name} (${part.area.toLocaleString("en")} px, compactness ${part.compactness.toFixed(2)})`);
  }
  line.replaceChildren(...steps.flatMap((words, index) => {
    const made = element(index === steps.length - 1 ? "b" : "span", { class: "step" }, words);
    return index ? [" → ", made] : [made];
  }));
}

function clickAt(pixel, add) {
  if (tools.draws()) return;
  if (picture.labelling()) { const segment = picture.labelSegmentAt(pixel); if (segment) labels.select(segment.id, add); return; }
  if (state.tab === "labels" || state.tab === "slots") return;
  if (state.tab !== "why") openTab("why");
  if (state.level === 0) setLevel(levels());
  why.choose(picture.chosenAt(pixel));
}

function wirePicture() {
  const canvas = byId("picture");
  canvas.addEventListener("pointermove", (event) => { if (state.explanation) { state.hover = picture.pixelAt(event); changed(); } });
  canvas.addEventListener("pointerleave", () => { state.hover = null; changed(); });
  canvas.addEventListener("click", (event) => { if (state.explanation) clickAt(picture.pixelAt(event), labels.adds(event)); });
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!state.explanation || (!move && event.key !== "Enter")) return;
    event.preventDefault();
    event.stopPropagation();
    const { width, height } = state.explanation.image, at = state.hover ?? { x: Math.floor(width / 2), y: Math.floor(height / 2) };
    if (!move) { if (tools.draws()) tools.enter(at, event.altKey); else clickAt(at, event.shiftKey); return; }
    const by = Math.max(1, Math.round(Math.max(width, height) / (event.shiftKey ? 16 : 64)));
    state.hover = { x: Math.min(width - 1, Math.max(0, at.x + by * move[0])), y: Math.min(height - 1, Math.max(0, at.y + by * move[1])) };
    tools.keysMoved(state.hover);
    changed();
  });
}

function wireDrops() {
  let depth = 0;
  const veil = byId("dropping");
  addEventListener("dragenter", (event) => { event.preventDefault(); depth++; veil.hidden = false; });
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("dragleave", () => { if (--depth <= 0) { depth = 0; veil.hidden = true; } });
  addEventListener("drop", (event) => { event.preventDefault(); depth = 0; veil.hidden = true; dropImage(event.dataTransfer.files[0]); });
  addEventListener("paste", (event) => {
    const item = [...(event.clipboardData?.items ?? [])].find((one) => one.kind === "file");
    if (item) { event.preventDefault(); dropImage(item.getAsFile()); }
  });
  byId("open").addEventListener("click", () => byId("file").click());
  byId("file").addEventListener("change", (event) => { dropImage(event.target.files[0]); event.target.value = ""; });
}

function wireTabs() {
  byId("tabs").addEventListener("click", (event) => { if (event.target.role === "tab") openTab(event.target.id.slice(4)); });
  byId("tabs").addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const to = TABS[(TABS.indexOf(state.tab) + by + TABS.length) % TABS.length];
    openTab(to);
    byId(`tab-${to}`).focus();
  });
}

export function turnTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches, now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
  setTheme(now === "dark" ? "light" : "dark");
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("coca-theme", theme); } catch { /* not stored */ }
}

export function showKeys() {
  byId("keys-list").replaceChildren(...KEYS.flatMap(([keys, words]) => [
    element("dt", {}, ...keys.flatMap((key, index) => (index ? [" ", element("kbd", {}, key)] : [element("kbd", {}, key)]))), element("dd", {}, words)]));
  byId("keys").showModal();
}

async function start() {
  try { const theme = localStorage.getItem("coca-theme"); if (theme) setTheme(theme); } catch { /* the system's theme */ }
  wirePicture();
  tools.wire();
  wireDrops();
  wireTabs();
  byId("theme").addEventListener("click", turnTheme);
  byId("help").addEventListener("click", showKeys);
  byId("level").addEventListener("input", (event) => setLevel(Number(event.target.value)));
  addEventListener("keydown", press);
  for (const drawn of [drawFrame, why.draw, whatif.draw, slots.draw, labels.draw, gallery.draw, picture.draw, drawCaption]) onChange(drawn);
  const hash = new URLSearchParams(location.hash.slice(1));
  const about = await withSpinner("picture", () => json("/api/models"));
  Object.assign(state, { models: about.models, colours: about.colours, folder: about.labels, initial: about.settings });
  const choice = byId("model");
  choice.append(...about.models.map((name) => element("option", { value: name }, name)));
  byId("model-field").hidden = about.models.length < 2;
  choice.addEventListener("change", () => begin(choice.value, null));
  const model = about.models.includes(hash.get("model")) ? hash.get("model") : about.models[0];
  if (hash.get("tab")) openTab(hash.get("tab"));
  await begin(model, hash.get("image"));
  json("/api/categories").then((names) => { state.categories = names; changed(); }, () => {});
}

async function begin(model, key) {
  byId("model").value = model;
  try {
    await explanation.chooseModel(model);
  } catch { return; }
  const index = state.images.findIndex(([known]) => known === key);
  const first = key && (index >= 0 || (await isAvailable(model, key))) ? key : state.images[0]?.[0];
  if (first) { await explanation.show(first); gallery.reveal(Math.max(0, index)); }
}

async function isAvailable(model, key) {
  // Whether the server still has a dropped image that is in no gallery.
  try { await blob(`${image(model, key)}/thumbnail`); return true; } catch { return false; }
}

start().catch((error) => problem("picture", error));
