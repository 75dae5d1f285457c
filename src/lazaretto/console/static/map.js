// The map: drawn once by sigma from the server's layout; the slider changes colours and nothing else.
"use strict";
(() => {
  const AGENT = 1, DECISION = 2, FLOW = 0;
  const REST_MS = 400; // of a large map the edges are left out while the slider moves, as while it is dragged
  const root = document.body.dataset.root;
  const NAMES = ["ill", "held-node", "exposed", "agent", "item", "decision", "unborn", "edge", "edge-lit", "ink", "panel"];
  const two = (number) => String(number).padStart(2, "0");
  const moment = (seconds) => { const at = new Date(seconds * 1000); return `${at.getUTCFullYear()}-${two(at.getUTCMonth() + 1)}-${two(at.getUTCDate())} ${two(at.getUTCHours())}:${two(at.getUTCMinutes())}:${two(at.getUTCSeconds())} UTC`; };

  class InfectionMap {
    constructor(box) {
      this.box = box;
      this.words = JSON.parse(box.dataset.words);
      this.range = box.querySelector("input[type=range]");
      this.told = box.querySelector("output");
      this.note = box.querySelector(".map-note");
      this.card = box.querySelector(".card");
      this.lit = null;
      this.range.addEventListener("input", () => this.step());
      box.querySelector(".play").addEventListener("click", () => this.play());
      box.querySelector(".close").addEventListener("click", () => this.clear());
      document.addEventListener("lz-theme", () => this.recolour());
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolour());
      document.addEventListener("lz-live", (event) => { if (this.data && event.detail.seq !== this.data.seq && !this.loading) this.load(); });
    }

    async load() {
      this.loading = true;
      try {
        const answer = await fetch(this.box.dataset.source);
        if (!answer.ok) throw new Error(String(answer.status));
        const fresh = await answer.json();
        const began = performance.now();
        const atEnd = !this.data || this.range.value === this.range.max;
        const at = this.data ? this.time() : 0;
        this.data = fresh;
        const moments = [...fresh.born, ...fresh.ill, ...Object.values(fresh.holds).flat()].filter((one) => one !== null);
        this.first = moments.reduce((a, b) => Math.min(a, b), Infinity);
        this.last = moments.reduce((a, b) => Math.max(a, b), -Infinity);
        if (!atEnd && this.last > this.first) this.range.value = String(Math.round(1000 * (at - this.first) / (this.last - this.first)));
        this.draw();
        this.box.dataset.drawn = String(Math.round(performance.now() - began));
      } catch (error) { this.note.hidden = false; this.note.textContent = this.words.failed; throw error; }
      finally { this.loading = false; }
    }

    time() { return this.first + (this.last - this.first) * Number(this.range.value) / 1000; }

    draw() {
      const data = this.data, graph = new graphology.Graph({ type: "directed", multi: true });
      this.palette();
      if (!data.ids.length) { this.note.hidden = false; this.note.textContent = this.words.empty; return; }
      const zero = new Set(data.zero);
      const many = this.many = data.ids.length > 1500;
      for (let n = 0; n < data.ids.length; n++) {
        const agent = data.kinds[n] === AGENT;
        const size = agent ? (many ? 5 : 9) : zero.has(n) ? (many ? 5 : 8) : many ? 2 : 4.5;
        graph.addNode(n, { x: data.x[n], y: data.y[n], size, label: agent || zero.has(n) ? (agent ? data.ids[n] : this.words.zero) : null, color: this.c.item, zIndex: agent ? 1 : 0 });
      }
      data.edges.forEach(([from, to, kind], n) => graph.addEdgeWithKey(n, from, to, { size: kind === FLOW ? 1 : 0.6, color: this.c.edge }));
      this.graph = graph;
      this.paint = data.ids.map((_, n) => this.state(n, this.time()));
      const camera = this.sigma ? this.sigma.getCamera().getState() : null;
      if (this.sigma) this.sigma.kill();
      this.sigma = new Sigma(graph, this.box.querySelector(".canvas"), {
        nodeReducer: (n, shown) => this.node(Number(n), shown), edgeReducer: (edge, shown) => this.edge(edge, shown),
        labelColor: { color: this.c.ink }, labelFont: "system-ui, sans-serif", labelSize: 12, labelDensity: 0.6, labelRenderedSizeThreshold: many ? 8 : 7,
        hideEdgesOnMove: many, zIndex: true, minCameraRatio: 0.02, maxCameraRatio: 3, allowInvalidContainer: true, defaultDrawNodeHover: (context, shown, settings) => this.write(context, shown, settings, true),
        defaultDrawNodeLabel: (context, shown, settings) => this.write(context, shown, settings, false),
      });
      if (camera) this.sigma.getCamera().setState(camera);
      this.sigma.on("clickNode", ({ node }) => this.trace(Number(node)));
      this.sigma.on("clickStage", () => this.clear());
      this.note.hidden = true;
      this.told.textContent = moment(this.time());
      if (this.box.dataset.node) { const wanted = data.ids.indexOf(this.box.dataset.node); delete this.box.dataset.node; if (wanted >= 0) this.trace(wanted); }
    }

    // beside its node, to the left where it would be cut off on the right; with the ground behind it when pointed at
    write(context, shown, settings, ground) {
      if (!shown.label) return;
      context.font = `${settings.labelSize}px ${settings.labelFont}`;
      const width = context.measureText(shown.label).width, room = this.box.querySelector(".canvas").clientWidth;
      const right = shown.x + shown.size + 5;
      const x = right + width > room ? shown.x - shown.size - 5 - width : right;
      context.fillStyle = this.c.panel;
      if (ground) context.fillRect(x - 5, shown.y - 10, width + 10, 20);
      context.fillStyle = this.c.ink;
      context.fillText(shown.label, x, shown.y + 4);
    }

    palette() { this.c = Object.fromEntries(NAMES.map((name) => [name.replace("-node", ""), lzColour(name)])); }

    // one of the legend's words for a node at a moment
    state(n, at) {
      const data = this.data, kind = data.kinds[n];
      if (kind === AGENT) return data.ill[n] !== null && data.ill[n] <= at ? "exposed" : "agent";
      if (data.born[n] !== null && data.born[n] > at) return "unborn";
      const turns = data.holds[n];
      if (turns) { let count = 0; for (const turn of turns) if (turn <= at) count++; if (count % 2) return "held"; }
      if (data.ill[n] !== null && data.ill[n] <= at) return "ill";
      return kind === DECISION ? "decision" : "item";
    }

    node(n, shown) {
      const dim = this.lit && !this.lit.has(n);
      const out = { ...shown, color: dim ? this.c.unborn : this.c[this.paint[n]] };
      if (dim) { out.label = null; out.zIndex = 0; } else if (this.lit) { out.zIndex = 2; out.size = shown.size * 1.25; }
      return out;
    }

    edge(edge, shown) {
      if (!this.lit) return shown;
      const inside = this.lit.has(Number(this.graph.source(edge))) && this.lit.has(Number(this.graph.target(edge)));
      return inside ? { ...shown, color: this.c["edge-lit"], size: 1.5 } : { ...shown, hidden: true };
    }

    step() {
      const at = this.time(), changed = [];
      for (let n = 0; n < this.paint.length; n++) {
        const now = this.state(n, at);
        if (now !== this.paint[n]) { this.paint[n] = now; changed.push(String(n)); }
      }
      this.told.textContent = moment(at);
      if (this.many) this.rest();
      if (changed.length) this.sigma.refresh({ partialGraph: { nodes: changed, edges: [] }, skipIndexation: true, schedule: false });
    }

    // sigma leaves edges out while its map moves; software needs most of a frame's time for them
    rest() {
      const captor = this.sigma.getMouseCaptor();
      captor.isMoving = true;
      clearTimeout(this.resting);
      this.resting = setTimeout(() => { captor.isMoving = false; this.sigma.refresh({ skipIndexation: true }); }, REST_MS);
    }

    recolour() {
      if (!this.sigma) return;
      this.palette();
      this.graph.updateEachEdgeAttributes((edge, shown) => ({ ...shown, color: this.c.edge }));
      this.sigma.setSetting("labelColor", { color: this.c.ink });
      this.sigma.refresh();
    }

    play() {
      clearInterval(this.playing);
      this.range.value = "0";
      this.step();
      this.playing = setInterval(() => {
        this.range.value = String(Math.min(1000, Number(this.range.value) + 8));
        this.step();
        if (this.range.value === this.range.max) clearInterval(this.playing);
      }, 60);
    }

    async trace(n) {
      const agent = this.data.kinds[n] === AGENT;
      const asked = new URLSearchParams({ node: this.data.ids[n], kind: agent ? "agent" : "item" });
      const answer = await fetch(`${root}/map/trace?${asked}`);
      if (!answer.ok) return;
      const told = await answer.json();
      const items = new Map(), agents = new Map();
      this.data.ids.forEach((id, at) => (this.data.kinds[at] === AGENT ? agents : items).set(id, at));
      this.lit = new Set([n]);
      for (const id of [...told.from, ...told.to]) if (items.has(id)) this.lit.add(items.get(id));
      for (const id of told.agents) if (agents.has(id)) this.lit.add(agents.get(id));
      this.sigma.refresh({ skipIndexation: true });
      const card = this.card, says = card.querySelector(".says");
      card.querySelector("b").textContent = told.title;
      card.querySelector(".facts").textContent = told.facts;
      says.textContent = told.text;
      says.classList.toggle("veiled", told.veiled);
      card.querySelector(".counts").textContent = this.words.counts.replace("{from}", told.from.length).replace("{to}", told.to.length).replace("{agents}", told.agents.length);
      const link = card.querySelector("a");
      link.hidden = !told.link;
      link.setAttribute("href", root + told.link);
      card.hidden = false;
    }

    clear() {
      this.card.hidden = true;
      if (!this.lit) return;
      this.lit = null;
      this.sigma.refresh({ skipIndexation: true });
    }
  }
  for (const box of document.querySelectorAll(".map")) {
    const shown = new InfectionMap(box);
    box.lzMap = shown;
    shown.load().catch((error) => console.warn(`map: ${error.message}`));
  }
})();
