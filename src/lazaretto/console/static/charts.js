// Timelines, drawn by uPlot from the numbers in the page.
"use strict";
(() => {
  const colour = window.lzColour;
  const two = (number) => String(number).padStart(2, "0");
  function clock(seconds, step) {
    const at = new Date(seconds * 1000);
    const time = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}`;
    if (step >= 86400) return `${two(at.getUTCMonth() + 1)}-${two(at.getUTCDate())}`;
    return step < 60 ? `${time}:${two(at.getUTCSeconds())}` : time;
  }
  const HEIGHT = 190;

  function draw(place) {
    const told = JSON.parse(place.dataset.series);
    if (!told.times.length) return;
    place.replaceChildren();
    const bars = place.dataset.chart === "bars";
    const paths = bars ? uPlot.paths.bars({ size: [0.8, 40] }) : uPlot.paths.stepped({ align: 1 });
    const ink = colour("muted"), line = colour("line");
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "12px system-ui, sans-serif" };
    const series = told.columns.map((one) => ({
      label: one.label, paths, stroke: colour(one.colour), width: bars ? 0 : 2.5, fill: bars ? colour(one.colour) : colour(`${one.colour}-soft`), points: { show: !bars && told.times.length < 40, size: 6, fill: colour(one.colour) },
    }));
    const options = {
      width: Math.max(240, place.clientWidth), height: HEIGHT, cursor: { points: { show: false }, drag: { x: false, y: false } }, legend: { live: false },
      scales: { y: { range: (_, low, high) => [0, Math.max(1, high * 1.1)] } },
      axes: [{ ...axis, space: 70, values: (_, splits, __, ___, step) => splits.map((one) => clock(one, step)) }, { ...axis, size: 44, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000] }],
      series: [{}, ...series],
    };
    new uPlot(options, [told.times, ...told.columns.map((one) => one.values)], place);
  }
  const all = () => { for (const place of document.querySelectorAll(".chart")) draw(place); };
  all();
  let last = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== last) { last = innerWidth; all(); } });
  for (const when of ["lz-renewed", "lz-theme"]) document.addEventListener(when, all);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
})();
