// Moving a slider says its value at once and, when it is let go, counts anew. Without this file the button does.
const form = document.getElementById("tune");

const say = (slider) => {
  const value = String(JSON.parse(slider.dataset.values)[Number(slider.value)]);
  slider.closest("fieldset").querySelector("output").textContent = value;
  slider.setAttribute("aria-valuetext", value);
};

let last = 0;
const count = async () => {
  const turn = ++last;
  const address = `${form.action}?${new URLSearchParams(new FormData(form))}`;
  const answer = await fetch(address, { credentials: "same-origin" });
  if (!answer.ok || turn !== last) return; // a later move is counted instead
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const sum = page.getElementById("sum");
  if (!sum) return;
  document.getElementById("sum").replaceChildren(...sum.childNodes);
  document.getElementById("lines")?.remove(); // they were of another setting
  history.replaceState(null, "", address);
};

if (form) {
  for (const slider of form.querySelectorAll("input[type=range]")) {
    slider.addEventListener("input", () => say(slider));
    slider.addEventListener("change", count);
    say(slider);
  }
}
