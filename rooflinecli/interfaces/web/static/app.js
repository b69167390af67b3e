"use strict";
// A field changes -> the address bar changes -> the answer is drawn again. Without scripts the form asks by itself.
const form = document.getElementById("ask"), answer = document.getElementById("answer"), status = document.getElementById("status");
let asking = null, waiting = 0;

const question = () => {
  const said = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value.trim()) said.append(name, value.trim());
  return said.toString();
};

const slide = () => {
  for (const slider of form.querySelectorAll("input[type=range]")) {
    const size = parseFloat(document.getElementById(slider.dataset.for).value) *
      ({ k: 1024, m: 1048576 }[document.getElementById(slider.dataset.for).value.trim().slice(-1).toLowerCase()] || 1);
    if (size > 0) slider.value = Math.round(Math.log2(size));
  }
};

const draw = async () => {
  const said = question();
  history.replaceState(null, "", "?" + said);
  document.getElementById("json").href = "api/estimate?" + said;
  if (asking) asking.abort();
  const mine = asking = new AbortController(), began = performance.now();
  try {
    const got = await fetch("part?" + said, { signal: mine.signal });
    const html = await got.text(), open = [...answer.querySelectorAll("details[open]")].map((d) => d.dataset.quantity);
    if (mine.signal.aborted) return;
    answer.innerHTML = html;
    for (const name of open) if (name) answer.querySelector(`details[data-quantity="${CSS.escape(name)}"]`)?.setAttribute("open", "");
    answer.dataset.said = said;
    status.textContent = got.ok ? `Answered in ${Math.round(performance.now() - began)} ms.` : "This question has no answer.";
  } catch (error) {
    if (error.name !== "AbortError") status.textContent = "The server does not answer.";
  }
};

form.addEventListener("input", (event) => {
  const target = event.target.dataset.for && document.getElementById(event.target.dataset.for);
  if (target) target.value = 2 ** Number(event.target.value);
  else slide();
  clearTimeout(waiting);
  waiting = setTimeout(draw, 30);
});
form.addEventListener("submit", (event) => { event.preventDefault(); draw(); });

// A number that is opened shows the arithmetic that ran. `toggle` does not bubble, so it is caught on its way down.
answer.addEventListener("toggle", async (event) => {
  const box = event.target, quantity = box.dataset?.quantity;
  if (!quantity || !box.open || box.dataset.filled) return;
  box.dataset.filled = "yes";
  const got = await fetch("unfold?" + new URLSearchParams([...new URLSearchParams(question()), ["quantity", quantity]]));
  box.insertAdjacentHTML("beforeend", await got.text());
}, true);
document.getElementById("json").href = "api/estimate?" + question();
slide();
