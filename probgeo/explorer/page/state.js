// What the page knows, and its conversation with the server. The page owns the state and sends it
// with every question, so undoing is to go back to an earlier state and ask again.

const $ = id => document.getElementById(id);
let world = null;                  // what the server said of the data
let state = null;                  // what is shown: ends, spreads, rows, setting, colour
const past = [];                   // earlier states
const found = {};                  // the latest answer of each kind
const counted = { answers: 0, errors: 0, times: [] };
window.explorer = { counted, found, asked: () => asked, get state() { return state; } };  // to look at from outside

let socket = null, serial = 0, asked = {}, again = {};

function connect() {
  const address = new URL("socket", location.href);
  address.protocol = "ws:";
  socket = new WebSocket(address);
  asked = {}, again = {};
  socket.onmessage = event => heard(JSON.parse(event.data));
  socket.onclose = () => {
    tell("The explorer has ended. Start it again, and reload this page.", true);
    $("wait").textContent = "ended";
    $("wait").hidden = false;
  };
}

// Of each kind one question is under way; the next one, asked meanwhile, is the latest only.
function ask(kind, fields = () => ({})) {
  if (asked[kind] !== undefined) { again[kind] = fields; return; }
  if (socket.readyState !== WebSocket.OPEN) return;
  asked[kind] = ++serial;
  socket.send(JSON.stringify({ kind, serial, ...fields() }));
}

function heard(answer) {
  if (answer.kind === "welcome") { welcome(answer); return; }
  if (answer.kind === "progress") { showProgress(answer); return; }
  const kind = answer.kind === "stopped" ? "mean" : answer.kind === "error" ? answer.about : answer.kind;
  if (answer.serial === asked[kind]) delete asked[kind];
  const next = again[kind];
  delete again[kind];
  if (next) ask(kind, next);       // answered while this one is drawn
  if (answer.kind === "error") {
    counted.errors += 1;
    tell(answer.text, true);
    if (kind === "mean" || kind === "learn") endProgress("");
  } else if (answer.kind === "stopped") {
    endProgress("stopped");
  } else {
    found[kind] = answer;
    heardOf[kind](answer, Boolean(next));
  }
}

const shown = () => ({ setting: state.setting, ends: state.ends, spreads: state.spreads });
const askGeodesic = fine => ask("geodesic", () => ({ ...shown(), fine }));
const askPoints = () => ask("points", () => ({ setting: state.setting, colour: state.colour }));
const askMetric = () => ask("metric", () => ({ setting: state.setting, box: frame.box }));
const askFan = () => state.fan && ask("fan", () => ({ setting: state.setting, at: state.fan.at, reach: state.fan.reach }));
const askLook = at => world.decoder && ask("look", () => ({ setting: state.setting, at }));

function first() {
  const { components, rho, tolerance, view } = world;
  return {
    setting: { components, rho: rho ?? 1, tolerance, view }, colour: world.colours[0],
    ends: null, spreads: [[0, 0, 0], [0, 0, 0]], rows: null, fan: null,
  };
}

// Before something changes: what there was can be gone back to.
function remember() {
  past.push(structuredClone(state));
  if (past.length > 100) past.shift();
  $("undo").disabled = false;
}

function undo() {
  if (!past.length) return;
  goTo(past.pop());
  $("undo").disabled = !past.length;
}

function goTo(other) {
  const before = state;
  state = other;
  const moved = !before || before.setting.view !== state.setting.view;
  if (moved) { found.metric = found.mean = found.points = null; }
  found.fan = null;
  if (moved || before.colour !== state.colour) askPoints();
  if (!moved) refresh();
  showPanel();
}

// After sliders: curves, background and fan again.
function refresh(fine = true) {
  if (!state.ends) return;
  askGeodesic(fine);
  askMetric();
  askFan();
  drawLive();
}
