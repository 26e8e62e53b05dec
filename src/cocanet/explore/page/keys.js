// Keyboard shortcuts.

import { step } from "./gallery.js";
import * as labels from "./labels.js";
import { openTab, setLevel, showKeys, turnTheme } from "./main.js";
import { byId, changed, state } from "./store.js";
import { toggle } from "./slots.js";
import * as tools from "./tools.js";
import { cycleCompactness, reset } from "./whatif.js";
import { play, stepBy, stop } from "./why.js";

export const KEYS = [
  [["n", "p"], "next, previous image"],
  [["[", "]"], "a level down, up: pixels, parts, objects"],
  [["w", "f", "o", "l"], "why, what if, slots, labels"],
  [["space"], "play or pause the clustering steps"],
  [[",", "."], "a step back, forward"],
  [["v"], "tints on or off"],
  [["g"], "compactness map: each level, objects, off"],
  [["1", "…", "9"], "in slots: switch a slot off or on"],
  [["r"], "reset all settings"],
  [["arrows", "enter"], "on the image: move, select; on the gallery: move"],
  [["j", "i"], "in labels: select the next, previous segment; Shift adds it"],
  [["1", "…", "6"], "in labels: select, brush, eraser, polygon, box, cut"],
  [["−", "+"], "in labels: a smaller or larger brush"],
  [["arrows", "enter"], "with a tool: move; put the pen down, lift it (polygon: a corner)"],
  [["q"], "a box selects the object in it, or all its pixels"],
  [["m", "x", "b"], "merge (join), delete, set as background"],
  [["h"], "fill the holes of the selected segment"],
  [["s", "a", "u"], "split by the level below; into connected components; by colour"],
  [["c"], "enter a category; Enter saves it"],
  [["k"], "keep the predicted segments"],
  [["z", "y"], "undo, redo (also with Ctrl)"],
  [["e", "d"], "export as COCO; download what was exported"],
  [["t"], "light or dark"],
  [["esc"], "give up a drawing; stop, and clear the selection"],
  [["?"], "these keys"],
];

const TYPING = ["INPUT", "SELECT", "TEXTAREA"];

function clear() {
  if (tools.cancel()) return;
  stop();
  labels.deselect();
  Object.assign(state, { chosen: null, hover: null });
  changed();
}

const ANYWHERE = {
  n: () => step(1), p: () => step(-1), "[": () => setLevel(state.level - 1), "]": () => setLevel(state.level + 1),
  w: () => openTab("why"), f: () => openTab("whatif"), o: () => openTab("slots"), l: () => openTab("labels"),
  " ": () => { if (state.tab !== "why") openTab("why"); play(); }, ",": () => stepBy(-1), ".": () => stepBy(1),
  g: cycleCompactness, v: () => { state.tinted = !state.tinted; changed(); }, r: reset, t: turnTheme, "?": showKeys, Escape: clear,
};

const LABELS = {
  j: (event) => labels.selectNext(1, event.shiftKey), i: (event) => labels.selectNext(-1, event.shiftKey),
  m: () => labels.act("merge"), x: () => labels.act("delete"), Delete: () => labels.act("delete"),
  Backspace: () => { if (!tools.removeLast()) labels.act("delete"); },
  b: () => labels.act("background"), h: () => labels.act("fill"), u: () => labels.act("pieces"), d: labels.download,
  q: () => { state.follow = !state.follow; changed(); }, "-": () => tools.resize(0.8), "+": () => tools.resize(1.25), "=": () => tools.resize(1.25),
  s: () => labels.act("split"), a: () => labels.act("components"), k: () => labels.act("keep"),
  z: (event) => labels.act(event.shiftKey ? "redo" : "undo"), y: () => labels.act("redo"), c: labels.naming, e: () => labels.exportAs("coco"),
};

export function press(event) {
  if (byId("keys").open || event.altKey) return;
  const typing = TYPING.includes(event.target.tagName) && event.target.type !== "checkbox" && event.target.type !== "radio";
  if (event.key === "Escape" && typing) { event.target.blur(); return; }
  if (typing && (event.target.type !== "range" || event.key.startsWith("Arrow"))) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (event.ctrlKey || event.metaKey) {
    if (state.tab === "labels" && (key === "z" || key === "y")) { event.preventDefault(); LABELS[key](event); }
    return;
  }
  if (key === " " && event.target.tagName === "BUTTON") return;
  if (state.tab === "slots" && /^[1-9]$/.test(key) && Number(key) <= (state.slots?.slots ?? 0)) { toggle(Number(key) - 1); return; }
  if (state.tab === "labels" && tools.TOOLS.some((tool) => tool.key === key)) { event.preventDefault(); tools.choose(tools.TOOLS[Number(key) - 1].id); return; }
  const run = (state.tab === "labels" && LABELS[key]) || ANYWHERE[key];
  if (!run) return;
  event.preventDefault();
  run(event);
}
