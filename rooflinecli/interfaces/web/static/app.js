"use strict";
// A field changes -> the address bar changes -> the answer is drawn again. Without scripts the form asks by itself.
const form = document.getElementById("ask"), answer = document.getElementById("answer"), status = document.getElementById("status");
const fold = document.getElementById("fold"), pin = document.getElementById("pin"), pinning = document.getElementById("pinning"), json = document.getElementById("json");
let asking = null, waiting = 0;

const question = (...without) => {
  const said = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value.trim() && !without.includes(name)) said.append(name, value.trim());
  return said.toString();
};

const slide = () => {
  for (const slider of form.querySelectorAll("input[type=range]")) {
    const field = document.getElementById(slider.dataset.for), said = (field.value || field.placeholder).trim();
    const size = parseFloat(said) * ({ k: 1024, m: 1048576 }[said.slice(-1).toLowerCase()] || 1);
    if (size > 0) slider.value = Math.round(Math.log2(size));
  }
};

// Fields left empty show the value that the answer used.
const inUse = () => {
  for (const [name, value] of Object.entries(JSON.parse(document.getElementById("in-use")?.dataset.values || "{}"))) {
    const field = document.getElementById("o-" + name);
    if (field instanceof HTMLSelectElement) field.options[0].textContent = `${value} (default)`;
    else if (field) field.placeholder = value;
  }
  slide();
};

const draw = async () => {
  const said = question(), posted = form.method === "post";
  if (!posted) history.replaceState(null, "", "?" + said);
  if (json) json.href = form.dataset.json + "?" + question("pinned");
  if (asking) asking.abort();
  const mine = asking = new AbortController(), began = performance.now();
  answer.setAttribute("aria-busy", "true");
  const late = setTimeout(() => { status.textContent = "Answering …"; }, 500);
  try {
    const got = await (posted ? fetch(form.dataset.part, { method: "POST", body: new URLSearchParams(said), signal: mine.signal })
      : fetch(form.dataset.part + "?" + said, { signal: mine.signal }));
    const html = await got.text(), open = [...answer.querySelectorAll("details[open]")].map((d) => d.dataset.quantity);
    if (mine.signal.aborted) return;
    answer.innerHTML = html;
    for (const name of open) if (name) answer.querySelector(`details[data-quantity="${CSS.escape(name)}"]`)?.setAttribute("open", "");
    answer.dataset.said = said;
    inUse();
    status.textContent = got.ok ? `Answered in ${Math.round(performance.now() - began)} ms.` : "This question has no answer.";
    answer.removeAttribute("aria-busy");
  } catch (error) {
    if (error.name !== "AbortError") status.textContent = "The server does not answer.";
  } finally { clearTimeout(late); }
};

const moved = async (event) => {
  if (event.target.dataset.into) {  // a file is read into its field
    if (event.type !== "change" || !event.target.files.length) return;
    document.getElementById(event.target.dataset.into).value = await event.target.files[0].text();
  }
  const target = event.target.dataset.for && document.getElementById(event.target.dataset.for);
  if (target) target.value = 2 ** Number(event.target.value);
  else slide();
  if (event.type === "input" && form.dataset.atOnce !== "yes") return;
  clearTimeout(waiting);
  waiting = setTimeout(draw, 30);
};
form.addEventListener("input", moved);
if (form.dataset.atOnce !== "yes") form.addEventListener("change", moved);
form.addEventListener("submit", (event) => { event.preventDefault(); draw(); });
pinning.addEventListener("click", () => {
  pin.value = pin.value ? "" : question("pinned");
  pinning.textContent = pin.value ? "Unpin" : "Pin this answer";
  draw();
});

// A number that is opened shows the arithmetic that ran. `toggle` does not bubble, so it is caught on its way down.
answer.addEventListener("toggle", async (event) => {
  const box = event.target, quantity = box.dataset?.quantity;
  if (!quantity || !box.open || box.dataset.filled) return;
  box.dataset.filled = "yes";
  const got = await fetch("unfold?" + new URLSearchParams([...new URLSearchParams(question("pinned")), ["quantity", quantity]]));
  box.insertAdjacentHTML("beforeend", await got.text());
}, true);

// A side bar where there is room for it, folded above the answer where there is not.
const wide = matchMedia("(min-width: 1000px)");
const unfold = () => { fold.open = wide.matches; };
wide.addEventListener("change", unfold);
unfold();
if (json) json.href = form.dataset.json + "?" + question("pinned");
inUse();
