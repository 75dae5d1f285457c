// What is wrong with a page as it stands in its window: one line for each fault, with the element that has it.
() => {
  const LONGEST_WORD = 24; // longer ones may be broken: no line of a phone is sure to hold them
  const root = document.documentElement, faults = [];
  const words = (element) => element.textContent.trim().replace(/\s+/g, " ").slice(0, 60);
  const named = (element) => `<${element.tagName.toLowerCase()} class="${element.getAttribute("class") || ""}"> ${words(element)}`;
  const shown = (element) => element.checkVisibility({ checkVisibilityCSS: true }) && element.getBoundingClientRect().right > 0;

  if (root.scrollWidth > root.clientWidth) faults.push(`page: ${root.scrollWidth} pixels wide in a window of ${root.clientWidth}`);

  const held = (element) => [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
  for (const element of document.body.querySelectorAll("*")) {
    if (!shown(element) || element.closest("svg, canvas") || !held(element)) continue;
    const style = getComputedStyle(element), boxed = style.display !== "inline" && element.clientWidth > 0;
    const scrolls = (way) => ["auto", "scroll"].includes(way);
    if (boxed && !scrolls(style.overflowX) && element.scrollWidth > element.clientWidth + 1) faults.push(`cut off or spilling: ${named(element)}`);
    if (boxed && ["hidden", "clip"].includes(style.overflowY) && element.scrollHeight > element.clientHeight + 2) faults.push(`cut off below: ${named(element)}`);
    if (parseFloat(style.fontSize) < 10.4) faults.push(`letters of ${style.fontSize}: ${named(element)}`);
  }

  const pen = document.createElement("canvas").getContext("2d");
  for (const chosen of document.querySelectorAll("select")) {
    if (!shown(chosen) || !chosen.selectedOptions.length) continue;
    pen.font = getComputedStyle(chosen).font;
    const needs = pen.measureText(chosen.selectedOptions[0].textContent.trim()).width + 34;
    if (needs > chosen.clientWidth && chosen.title !== chosen.selectedOptions[0].textContent.trim()) faults.push(`select shows ${chosen.clientWidth} of ${Math.round(needs)} pixels: ${words(chosen.selectedOptions[0])}`);
  }

  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange();
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const parent = node.parentElement;
    if (!shown(parent) || parent.closest("svg, .id, code, script, style")) continue;
    for (const found of node.data.matchAll(/(?<![\p{L}\p{M}\d_])[\p{L}\p{M}]{2,}(?![\p{L}\p{M}\d_])/gu)) {
      if (found[0].length > LONGEST_WORD) continue;
      range.setStart(node, found.index);
      range.setEnd(node, found.index + found[0].length);
      const lines = new Set([...range.getClientRects()].filter((one) => one.width > 0).map((one) => Math.round(one.top / 6)));
      if (lines.size > 1) faults.push(`broken word “${found[0]}”: ${named(parent)}`);
    }
  }

  for (const element of document.querySelectorAll("[tabindex]")) if (element.tabIndex > 0) faults.push(`order of its own: ${named(element)}`);
  for (const element of document.querySelectorAll(".badge, .kind")) if (shown(element) && !element.title) faults.push(`badge without a word about it: ${named(element)}`);
  return [...new Set(faults)];
}
