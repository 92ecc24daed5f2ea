// The picture as a file, with the styles that it has here written into it.

const STYLES = [
  "fill", "fill-opacity", "stroke", "stroke-opacity", "stroke-width", "stroke-dasharray", "stroke-linecap",
  "stroke-linejoin", "paint-order", "font-family", "font-size", "font-weight", "text-anchor", "dominant-baseline", "display",
];

function asSvg() {
  const { width, height } = frame;
  const whole = document.createElementNS(SVG, "svg");
  for (const [name, value] of Object.entries({ xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}` }))
    whole.setAttribute(name, value);
  make(whole, "title").textContent = `probgeo explorer: ${world.title}`;
  for (const id of ["still", "live"]) whole.append(styled($(id)));
  for (const control of whole.querySelectorAll(".knob, .arm, .hit")) control.remove();
  return new XMLSerializer().serializeToString(whole);
}

function styled(svg) {
  const group = document.createElementNS(SVG, "g"), copy = svg.cloneNode(true);
  const originals = svg.querySelectorAll("*"), copies = copy.querySelectorAll("*");
  originals.forEach((original, k) => {
    const style = getComputedStyle(original);
    for (const name of STYLES) copies[k].setAttribute(name, style.getPropertyValue(name));
    for (const name of ["tabindex", "role", "aria-label", "id", "style"]) copies[k].removeAttribute(name);
  });
  group.append(...copy.childNodes);
  return group;
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

const asFile = () => new Blob([asSvg()], { type: "image/svg+xml" });

async function savePng(sharper = 2) {
  const image = new Image(), address = URL.createObjectURL(asFile());
  image.src = address;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = sharper * frame.width; canvas.height = sharper * frame.height;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(address);
  canvas.toBlob(blob => save(blob, "probgeo.png"));
}

function showCode() {
  $("code").querySelector("pre").textContent = found.snippet.code;
  if (!$("code").open) $("code").showModal();
}

function setUpExport() {
  $("svg").onclick = () => save(asFile(), "probgeo.svg");
  $("png").onclick = () => savePng();
  $("python").onclick = () => ask("snippet", () => ({ ...shown(), rows: state.rows }));
  $("copy").onclick = async () => {
    const range = document.createRange();
    range.selectNodeContents($("code").querySelector("pre"));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    try { await navigator.clipboard.writeText(found.snippet.code); $("copy").textContent = "Copied"; }
    catch { $("copy").textContent = "Selected: copy with Ctrl-C"; }
  };
}
