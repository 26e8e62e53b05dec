// Labels: select segments, draw, merge, delete, split and name them; every edit is saved before the next.

import { image, json, message, query } from "./api.js";
import { fetchLabels, setLabels } from "./explanation.js";
import { step } from "./gallery.js";
import { draftSegments } from "./picture.js";
import { byId, changed, element, levels, plural, problem, state, withSpinner } from "./store.js";
import * as tools from "./tools.js";

const panel = byId("labels"), revisions = new Map();
let choice = 0;              // counts the selections that the user made
let built = false, cursor = null, queue = Promise.resolve(), drawnKey = null;

export function segments() {
  if (!state.explanation || !state.labels || state.labels.unusable) return [];
  return state.labels.revision ? state.labels.segments : draftSegments();
}

export function act(action, given = {}) {
  // Edits are sent one after the other, each for the image that it was made on.
  const { model, key, settings } = state, chosen = [...state.selected];
  if (!state.explanation || !state.labels || state.labels.unusable) return queue;
  const place = { key, choice, url: `${image(model, key)}/labels${query(settings)}` };
  const body = { action, level: Math.max(1, state.level ?? levels()), segments: chosen, ...given };
  queue = queue.then(() => send(place, body)).catch(() => {});
  return queue;
}

async function send({ key, url, choice: made }, body) {
  const { action } = body, shown = () => state.key === key && state.labels, unchanged = () => choice === made;
  if (shown()) {
    revisions.set(key, state.labels.revision);
    // A stroke after the one that made a new object goes on with it.
    if (DRAWN.includes(action) && unchanged()) body.segments = [...state.selected];
  }
  body.revision = revisions.get(key) ?? 0;
  try {
    const labels = await withSpinner("labels", () => message(url, {
      method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" },
    }));
    revisions.set(key, labels.revision);
    if (!shown()) return;
    const before = new Set(segments().map((one) => one.id));
    setLabels(labels);
    const fresh = labels.segments.filter(({ id }) => !before.has(id)), least = fresh.toSorted((a, b) => a.area - b.area)[0];
    if (fresh.length && unchanged()) state.selected = new Set((["cut", "seeds"].includes(action) ? [least] : fresh).map(({ id }) => id));
    if (["undo", "redo", "restart", "delete"].includes(action)) state.selected = new Set();
    if (action === "name" && given.category && !state.categories.includes(given.category)) state.categories = [...state.categories, given.category].sort();
  } catch (error) {
    if (error.status === 409 && shown()) { const words = state.problems.labels; await fetchLabels(); state.problems.labels = words; }
  }
  changed();
}

// On a touch screen every tap adds or removes.
export const adds = (event) => event.shiftKey || event.ctrlKey || event.metaKey || event.pointerType === "touch";

export function deselect() {
  choice++;
  state.selected = new Set();
}

export function select(id, add) {
  choice++;
  if (!add) state.selected = new Set(state.selected.has(id) && state.selected.size === 1 ? [] : [id]);
  else if (state.selected.has(id)) state.selected.delete(id);
  else state.selected.add(id);
  cursor = id;
  problem("labels", null);
}

export function selectNext(by, add) {
  choice++;
  const ids = segments().map((one) => one.id);
  if (!ids.length) return;
  const at = ids.indexOf(cursor), to = ids[(at + by + ids.length) % ids.length];
  if (add) state.selected.add(to); else state.selected = new Set([to]);
  cursor = to;
  changed();
}

export async function naming() {
  const input = byId("category");
  input?.focus();
  input?.select();
}

export async function exportAs(kind) {
  const status = byId("exported");
  status.replaceChildren();
  try {
    const answer = await withSpinner("labels", () => json(`/api/models/${encodeURIComponent(state.model)}/export/${kind}`, { method: "POST" }));
    status.replaceChildren(
      element("a", { href: answer.download, download: "", id: "download" }, "Download"),
      ` ${answer.path}: ${answer.summary}${answer.errors.length ? `. Left out: ${answer.errors.join("; ")}` : ""}`);
  } catch { /* shown where it happened */ }
}

export async function download() {
  if (!byId("download")) await exportAs("coco");
  byId("download")?.click();
}

const DRAWN = ["paint", "erase", "polygon", "box"];

const ACTS = [
  ["undo", "Undo", "z", 0], ["redo", "Redo", "y", 0],
  ["merge", "Merge", "m", 2], ["delete", "Delete", "x", 1], ["background", "Background", "b", 1],
  ["split", "Split by level", "s", 1], ["components", "Components", "a", 1], ["pieces", "By colour", "u", 1],
  ["fill", "Fill holes", "h", 1], ["keep", "Keep all", "k", 0],
];

function build() {
  built = true;
  const acts = element("div", { class: "acts" }, ...ACTS.map(([action, words, key]) =>
    element("button", { type: "button", id: `act-${action}`, onclick: () => act(action), "aria-keyshortcuts": key }, words, element("kbd", {}, key))));
  const input = element("input", { type: "text", id: "category", maxlength: "60", placeholder: "category", list: "categories", autocomplete: "off", "aria-label": "Category of the selected segments" });
  const form = element("form", { class: "name" }, input, element("button", { type: "submit", id: "act-name" }, "Name", element("kbd", {}, "c")), element("datalist", { id: "categories" }));
  form.addEventListener("submit", (event) => { event.preventDefault(); act("name", { category: input.value }); input.blur(); byId("picture").focus({ preventScroll: true }); });
  const list = element("ul", { class: "segments", id: "segments", role: "listbox", "aria-multiselectable": "true", "aria-label": "Segments", tabindex: "0" });
  list.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) { event.preventDefault(); event.stopPropagation(); selectNext(by, event.shiftKey); }
  });
  const exports = element("fieldset", {}, element("legend", {}, "Export all labels"), element("div", { class: "row" },
    ...[["coco", "COCO"], ["png", "Label PNGs"], ["store", "Store"]].map(([kind, words]) => element("button", { type: "button", id: `export-${kind}`, onclick: () => exportAs(kind) }, words))),
  element("p", { class: "saved", id: "exported", role: "status" }));
  panel.replaceChildren(
    element("p", { class: "problem", role: "alert", id: "labels-problem", hidden: true }),
    toolbar(), list, form, acts, element("p", { class: "saved", id: "saved", role: "status" }),
    element("div", { class: "row" },
      element("button", { type: "button", id: "restart", onclick: () => act("restart") }, "Restart from prediction"),
      element("button", { type: "button", class: "first", id: "next", onclick: () => step(1) }, "Next image", element("kbd", {}, "n"))),
    exports);
}

function toolbar() {
  const buttons = tools.TOOLS.map(({ id, name, key }) => element("button", {
    type: "button", id: `tool-${id}`, onclick: () => tools.choose(id), "aria-keyshortcuts": key, "aria-pressed": "false" }, name, element("kbd", {}, key)));
  const size = element("input", { type: "range", id: "brush-size", min: "0", max: "100", "aria-label": "Radius of the brush" });
  size.addEventListener("input", () => tools.resize((0.002 * 100 ** (Number(size.value) / 100)) / state.brush));
  const follow = element("input", { type: "checkbox", id: "follow" });
  follow.addEventListener("change", () => { state.follow = follow.checked; changed(); });
  return element("div", { class: "tools" }, element("div", { class: "acts three", role: "group", "aria-label": "Tools" }, ...buttons),
    element("label", { class: "choice", id: "size-field" }, "Radius", size, element("output", { id: "brush-out", for: "brush-size" })),
    element("label", { class: "choice", id: "follow-field" }, follow, "Find the object in the box", element("kbd", {}, "q")),
    element("p", { class: "hint", id: "tool-hint" }));
}

function drawTools() {
  for (const { id, hint } of tools.TOOLS) {
    byId(`tool-${id}`).setAttribute("aria-pressed", String(state.tool === id));
    if (state.tool === id) byId("tool-hint").textContent = hint;
  }
  byId("size-field").hidden = !["brush", "eraser"].includes(state.tool);
  byId("follow-field").hidden = state.tool !== "box";
  byId("follow").checked = state.follow;
  byId("brush-size").value = String(Math.round((100 * Math.log(state.brush / 0.002)) / Math.log(100)));
  byId("brush-out").textContent = state.explanation ? `${tools.brushRadius().toFixed(1)} px` : "";
}

export function draw() {
  if (!built) build();
  if (drawnKey !== state.key) {
    // Nothing of the image before stays.
    drawnKey = state.key;
    cursor = null;
    byId("exported").replaceChildren();
    byId("category").value = "";
  }
  if (state.tab !== "labels") return;
  drawTools();
  const unusable = state.labels?.unusable, labelled = state.labels?.revision, all = segments();
  const words = byId("labels-problem");
  words.hidden = !state.problems.labels;
  words.textContent = state.problems.labels ?? "";
  byId("segments").replaceChildren(...all.map(row));
  for (const [action, , , least] of ACTS) byId(`act-${action}`).disabled = Boolean(unusable) || !state.explanation || !state.labels || state.selected.size < least;
  byId("act-undo").disabled = !state.labels?.undo;
  byId("act-redo").disabled = !state.labels?.redo;
  byId("act-keep").disabled = unusable || !state.explanation || Boolean(labelled);
  byId("act-name").disabled = byId("category").disabled = unusable || !state.selected.size;
  byId("restart").disabled = unusable || !labelled;
  byId("categories").replaceChildren(...state.categories.map((name) => element("option", { value: name })));
  const refined = state.labels?.refined ? ", from refined masks" : "";
  byId("saved").textContent = unusable ? "" : labelled ? `Saved: ${state.labels.edit}, ${plural(all.length - 1, "object")}${refined}.`
    : state.explanation ? "Not labelled yet. The first edit saves labels; Keep all saves them as predicted." : "";
}

function row({ id, label, category, background, area, colour }) {
  const swatch = element("span", { class: "swatch", "aria-hidden": "true" });
  swatch.style.background = colour ? `rgb(${colour})` : state.colours.background;
  const item = element("li", { role: "option", "aria-selected": String(state.selected.has(id)), id: `segment-${id}` }, swatch,
    element("span", {}, background ? "–" : String(label)),
    element("span", { class: "grow" }, background ? "background" : category || "no category"),
    element("small", {}, `${area.toLocaleString("en")} px`));
  if (id === cursor) item.classList.add("cursor");
  item.addEventListener("click", (event) => select(id, adds(event)));
  return item;
}
