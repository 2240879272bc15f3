"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.getElementById("report");
  const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim() || "#000";
  const line = getComputedStyle(document.documentElement).getPropertyValue("--line").trim() || "#ccc";
  const colours = ["#2a7de1", "#e1582a", "#2aa35a", "#9b4de0", "#c79a00", "#00a3a3", "#d1307f", "#6b7280"];

  function add(parent, tag, text, cls) {
    const e = document.createElement(tag);
    if (text !== undefined) e.textContent = text;
    if (cls) e.className = cls;
    parent.appendChild(e);
    return e;
  }

  add(root, "h1", data.title);
  for (const n of data.notes || []) add(root, "p", n, "note");
  for (const w of data.warnings || []) add(root, "p", "Warning: " + w + ".", "warn");
  for (const t of data.tables || []) {
    add(root, "h2", t.title);
    const table = add(add(root, "div", undefined, "scroll"), "table");
    const head = add(add(table, "thead"), "tr");
    for (const h of t.head) add(head, "th", h);
    const body = add(table, "tbody");
    for (const r of t.rows || []) {
      const row = add(body, "tr");
      for (const c of r) add(row, "td", c);
    }
  }

  const plots = add(root, "div", undefined, "plots");
  for (const p of data.plots || []) {
    const curves = (p.curves || []).filter(c => c.x && c.x.length > 0);
    if (curves.length === 0) continue;
    const box = add(plots, "section");
    add(box, "h2", p.title);
    const joined = uPlot.join(curves.map(c => [c.x, c.y]));
    const axis = label => ({ label: label, stroke: ink, grid: { stroke: line }, ticks: { stroke: line } });
    const options = {
      width: Math.max(320, box.clientWidth || 520), height: 300,
      scales: { x: { time: false, distr: p.log_x ? 3 : 1 } },
      axes: [axis(p.x), axis(p.y)],
      series: [{ label: p.x }].concat(curves.map((c, i) => ({
        label: c.name, stroke: colours[i % colours.length], width: 1.5, spanGaps: true,
        paths: p.points ? () => null : undefined,
        points: { show: p.points || c.x.length < 40, size: 5, fill: colours[i % colours.length] },
      }))),
    };
    const plot = new uPlot(options, joined, box);
    window.addEventListener("resize", () => plot.setSize({ width: Math.max(320, box.clientWidth), height: 300 }));
  }
})();
