// Requests: JSON, or messages of a header and arrays; a refusal becomes an Error with the server's reason.

const TYPES = { uint8: Uint8Array, uint16: Uint16Array, int32: Int32Array, int64: BigInt64Array, float32: Float32Array, float64: Float64Array };

async function request(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("the server does not answer; is `coca explore` still running?");
  }
  if (!answer.ok) {
    let reason = `the server answered ${answer.status}`;
    try { reason = (await answer.json()).error ?? reason; } catch { /* not JSON */ }
    const error = new Error(reason);
    error.status = answer.status;
    throw error;
  }
  return answer;
}

export const json = async (path, options) => (await request(path, options)).json();
export const blob = async (path, options) => (await request(path, options)).blob();

export async function message(path, options) {
  const data = await (await request(path, options)).arrayBuffer();
  const length = new DataView(data).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length)));
  const arrays = {};
  for (const [name, place] of Object.entries(header.arrays)) {
    const count = place.shape.reduce((product, side) => product * side, 1);
    const values = new TYPES[place.type](data, 4 + length + place.start, count);
    arrays[name] = { values, shape: place.shape };
  }
  return { ...header, arrays };
}

export const image = (model, key) => `/api/models/${encodeURIComponent(model)}/images/${encodeURIComponent(key)}`;

export function query(given) {
  const present = Object.entries(given).filter(([, value]) => value !== null && value !== undefined);
  return present.length ? "?" + new URLSearchParams(present.map(([name, value]) => [name, String(value)])) : "";
}

// One run at a time; of the calls that come meanwhile only the last runs.
export function latest(run) {
  let busy = false, waiting = null;
  return async function go(...given) {
    if (busy) { waiting = given; return; }
    busy = true;
    try { await run(...given); } finally {
      busy = false;
      if (waiting) { const next = waiting; waiting = null; go(...next); }
    }
  };
}
