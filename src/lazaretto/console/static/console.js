// What every page does: theme, keys, veils, pictures that cannot be opened, and keeping itself up to date.
"use strict";
(() => {
  const root = document.body.dataset.root;
  const POLL_MS = 2000;

  // light or dark
  const dark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const button = document.getElementById("theme");
  if (button) button.addEventListener("click", () => {
    const next = dark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    try { localStorage.setItem("lz-theme", next); } catch (error) { /* it holds for this page */ }
    document.dispatchEvent(new Event("lz-theme"));
  });

  // a canvas wants a colour itself, not light-dark(): an element resolves it
  const probe = document.body.appendChild(document.createElement("i"));
  probe.hidden = true;
  window.lzColour = (name) => { probe.style.color = `var(--${name})`; return getComputedStyle(probe).color; };

  // veils: what may be harmful is blurred until somebody asks for it
  document.addEventListener("click", (event) => {
    const target = event.target;
    if (!(target instanceof Element)) return;
    const shown = target.closest(".unveil");
    if (shown) shown.closest("[data-veil]").classList.toggle("veiled");
    else if (target.matches("bdi.veiled") && !target.closest("a")) target.classList.remove("veiled");
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target instanceof Element && event.target.matches("bdi.veiled")) event.target.classList.remove("veiled");
  });

  const broken = (picture) => {
    const words = document.createElement("span");
    words.className = "muted";
    words.textContent = picture.dataset.broken || "";
    picture.replaceWith(words);
  };
  for (const picture of document.querySelectorAll("img.picture")) {
    if (picture.complete && !picture.naturalWidth) broken(picture);
    else picture.addEventListener("error", () => broken(picture));
  }

  // keys and words
  const help = document.getElementById("help");
  if (help) {
    document.getElementById("help-button").addEventListener("click", () => help.showModal());
    help.querySelector(".close").addEventListener("click", () => help.close());
    help.addEventListener("click", (event) => { if (event.target === help) help.close(); });
  }
  const places = { n: "/", m: "/map", i: "/incidents", r: "/queue", d: "/many", s: "/memories", l: "/learning", p: "/health" };
  let going = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.repeat) return;
    const target = event.target;
    if (target instanceof Element && target.closest("input, textarea, select, [contenteditable]")) return;
    const key = event.key;
    if (Date.now() - going < 1500 && places[key]) { location.assign(root + places[key]); return; }
    going = 0;
    if (key === "g") { going = Date.now(); return; }
    if (key === "?") { if (help) help.showModal(); return; }
    if (help && help.open) return;
    if (key === "/") {
      event.preventDefault();
      const search = document.getElementById("search");
      if (search) search.focus(); else location.assign(root + "/memories");
      return;
    }
    const wanted = document.querySelector(`[data-key="${CSS.escape(key)}"]`);
    if (wanted) { event.preventDefault(); wanted.click(); }
  });

  // all boxes of a list at once
  const all = document.getElementById("all");
  if (all) all.addEventListener("change", () => {
    for (const box of document.querySelectorAll("input[name^='item:'], input[name^='decision:']")) box.checked = all.checked;
  });

  // one press is one decision
  for (const form of document.querySelectorAll("form.decide")) {
    let sent = false;
    form.addEventListener("submit", (event) => { if (sent) event.preventDefault(); sent = true; });
  }

  // keeping up: a small question every two seconds, and the page's own part again when something happened
  const count = document.getElementById("waiting");
  if (!count) return;
  let asking = false;
  async function ask() {
    if (asking || document.hidden) return;
    asking = true;
    try {
      const answer = await fetch(root + "/live", { headers: { accept: "application/json" } });
      if (!answer.ok || answer.redirected) return;
      const now = await answer.json();
      count.hidden = !now.waiting;
      count.textContent = now.waiting;
      const part = document.getElementById("live");
      if (part && part.dataset.seq !== String(now.seq) && !part.contains(document.activeElement)) await renew();
      document.dispatchEvent(new CustomEvent("lz-live", { detail: now }));
    } catch (error) { /* the server is away: the next question may find it */ }
    finally { asking = false; }
  }
  async function renew() {
    const answer = await fetch(location.href);
    if (!answer.ok || answer.redirected) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("live");
    const old = document.getElementById("live");
    if (!fresh || !old) return;
    old.replaceWith(document.adoptNode(fresh));
    document.dispatchEvent(new Event("lz-renewed"));
  }
  ask();
  setInterval(ask, POLL_MS);
})();
