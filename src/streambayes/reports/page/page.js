"use strict";
// Draws what a run has found: in a report from data inside the file, on the live page from the server.
(() => {
  const get = (id) => document.getElementById(id);
  const element = (tag, text, kind) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (kind !== undefined) made.className = kind;
    return made;
  };
  // names are text wherever they come from: Plotly would read some of it as markup
  const plain = (text) => String(text).replace(/[&<>$]/g, (letter) => `&#${letter.charCodeAt(0)};`);
  const cut = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
  const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#7F7FFF", "#D55E00", "#8C8C8C"];
  const KINDS = {
    rho: ["share of the past that was kept", "E[rho]"],
    moved: ["how far blocks moved", "log10 nats"],
  };
  const shown = { runs: [], run: null, overview: null, block: null, events: [] };

  // ---- numbers that come packed
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  function mapRows(map, numColumns) {
    const codes = bytes(map.codes), [low, high] = map.span, rows = [];
    for (let start = 0; start < codes.length; start += numColumns) {
      const row = new Array(numColumns);
      for (let place = 0; place < numColumns; place++) {
        const code = codes[start + place];
        row[place] = code === 255 ? null : low + ((high - low) * code) / 254;
      }
      rows.push(row);
    }
    return rows;
  }
  function packedRow(packed, row, numColumns) {
    const codes = packed.view ??= new DataView(bytes(packed.codes).buffer);
    const low = packed.lowest[row], high = packed.highest[row], values = [];
    for (let place = 0; place < numColumns; place++) {
      const code = codes.getUint16(2 * (row * numColumns + place), true);
      values.push(code === 65535 || low === null ? null : low + ((high - low) * code) / 65534);
    }
    return values;
  }

  // ---- figures
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const line = (number) => (number % COLOURS.length ? COLOURS[number % COLOURS.length] : colour("--blue"));
  const mode = (labels) => (labels.length < 3 ? "lines+markers" : "lines");
  const settings = { responsive: true, displaylogo: false, displayModeBar: false };
  function layout(labels, more) {
    const step = Math.max(1, Math.ceil(labels.length / 7));
    const places = labels.map((_, place) => place).filter((place) => place % step === 0);
    const axis = { gridcolor: colour("--line"), zeroline: false, automargin: true };
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("--ink"), size: 12 }, margin: { l: 56, r: 16, t: 16, b: 56 },
      showlegend: false, hovermode: "closest", ...more,
      xaxis: {
        ...axis, title: { text: "batch" }, tickvals: places, range: [-0.5, labels.length - 0.5],
        ticktext: places.map((place) => plain(cut(labels[place], 18))), tickangle: "auto", ...more?.xaxis,
      },
      yaxis: { ...axis, ...more?.yaxis },
    };
  }
  function tall(id, rems) { // the height of a figure, of its element and in pixels
    get(id).style.height = rems + "rem";
    return rems * parseFloat(getComputedStyle(document.documentElement).fontSize);
  }
  const column = (starts, index) => {
    let low = 0, high = starts.length;
    while (low < high) { const middle = (low + high) >> 1; if (starts[middle] <= index) low = middle + 1; else high = middle; }
    return Math.max(low - 1, 0);
  };

  function drawScores() {
    const all = live ? [shown.overview] : shown.runs.map((run) => run.overview);
    const longest = all.reduce((some, other) => (other.labels.length > some.labels.length ? other : some)).labels;
    const { titles } = all[0], known = Object.keys(titles).filter((name) => all.some((one) => one.curves[name]?.some((value) => value !== null)));
    get("scores").hidden = !known.length;
    if (!known.length) return;
    const choice = get("score"), before = choice.value;
    if ([...choice.options].map((one) => one.value).join() !== known.join())
      choice.replaceChildren(...known.map((name) => new Option(titles[name], name)));
    choice.value = known.includes(before) ? before : known[0];
    const names = live ? [shown.run.name] : shown.runs.map((run) => run.news.name);
    const traces = all.flatMap((one, place) => one.curves[choice.value] ? [{
      y: one.curves[choice.value], name: plain(cut(names[place], 40)), mode: mode(longest),
      line: { color: line(place), width: 1.6, dash: ["solid", "dot", "dash"][Math.floor(place / COLOURS.length) % 3] },
      text: one.labels.map(plain), hovertemplate: "%{text}: %{y:.4f}<extra>" + plain(cut(names[place], 40)) + "</extra>",
    }] : []);
    Plotly.react("scores-figure", traces, layout(longest, {
      height: tall("scores-figure", 20),
      showlegend: traces.length > 1, legend: { orientation: "h", y: 1.02, yanchor: "bottom" }, yaxis: { title: { text: "nats a row" } },
    }), settings);
  }

  function drawMap() {
    const one = shown.overview, kinds = Object.keys(one.maps);
    get("map").hidden = !kinds.length;
    if (!kinds.length) return;
    const choice = get("kind"), before = choice.value;
    if ([...choice.options].map((option) => option.value).join() !== kinds.join())
      choice.replaceChildren(...kinds.map((kind) => new Option(KINDS[kind][0], kind)));
    choice.value = kinds.includes(before) ? before : kinds[0];
    const map = one.maps[choice.value], [, unit] = KINDS[choice.value];
    const rows = mapRows(map, one.labels.length), figure = get("map-figure");
    const each = one.step > 1 ? ` A column stands for ${one.step} batches.` : "";
    const text = one.labels.map(plain);
    if (map.shared) {
      get("map-text").textContent = "One share for all blocks." + each;
      get("map-hover").textContent = "";
      Plotly.react(figure, [{ y: rows[0], mode: mode(text), line: { color: line(0), width: 1.6 }, text, hovertemplate: "%{text}: %{y:.3f}<extra></extra>" }],
        layout(one.labels, { height: tall("map-figure", 20), yaxis: { title: { text: unit }, range: [0, 1.02] } }), settings);
      return;
    }
    get("map-text").textContent = "Choose a row to see its block." + each;
    const step = Math.max(1, Math.ceil(rows.length / 40));
    const places = rows.map((_, place) => place).filter((place) => place % step === 0);
    const width = figure.clientWidth < 600 ? 14 : 34;
    Plotly.react(figure, [{
      type: "heatmap", z: rows, zmin: map.span[0], zmax: map.span[1], colorscale: "Cividis", zsmooth: false,
      colorbar: { title: { text: unit }, thickness: 12 }, hoverinfo: "none", hoverongaps: false,
    }], layout(one.labels, {
      height: tall("map-figure", Math.min(10 + 1.4 * rows.length, 45)),
      yaxis: { autorange: "reversed", tickvals: places, ticktext: places.map((place) => plain(cut(one.blocks[place], width))), showgrid: false },
    }), settings);
    if (!figure.dataset.listens) {
      figure.dataset.listens = "yes";
      figure.on("plotly_hover", (hover) => {
        const { x, y, z } = hover.points[0], { labels, blocks, maps } = shown.overview;
        if (maps[choice.value].shared || z === undefined) return;
        const value = choice.value === "rho" ? `${Math.round(100 * z)} % kept` : `moved by ${(10 ** z).toPrecision(2)} nats`;
        get("map-hover").textContent = `Batch ${labels[x]}, ${blocks[y]}: ${value}.`;
      });
      figure.on("plotly_click", (click) => { if (!shown.overview.maps[choice.value].shared) choose(Math.round(click.points[0].y)); });
    }
  }

  function drawBlock(block) {
    get("block").hidden = !block.parameters.length;
    if (!block.parameters.length) return;
    const few = block.parameters.slice(0, 12), traces = [], shapes = [], reach = 1.6448536;
    const more = { grid: { rows: few.length, columns: 1, pattern: "coupled", ygap: 0.25 }, annotations: [], margin: { l: 56, r: 16, t: 30, b: 56 } };
    const figure = get("block-figure");
    few.forEach((parameter, place) => {
      const axis = place ? "y" + (place + 1) : "y";
      const low = parameter.mean.map((mean, at) => mean === null || parameter.sd[at] === null ? null : mean - reach * parameter.sd[at]);
      const high = parameter.mean.map((mean, at) => mean === null || parameter.sd[at] === null ? null : mean + reach * parameter.sd[at]);
      const quiet = { mode: "lines", line: { width: 0 }, hoverinfo: "skip", yaxis: axis };
      traces.push({ ...quiet, y: low }, { ...quiet, y: high, fill: "tonexty", fillcolor: "rgba(86,180,233,0.35)" }, {
        y: parameter.mean, yaxis: axis, mode: mode(block.labels), line: { color: line(0), width: 1.6 }, text: block.labels.map(plain),
        name: plain(parameter.name), hovertemplate: "%{text}: %{y:.6g}<extra></extra>",
      });
      more.annotations.push({
        text: plain(cut(parameter.name, figure.clientWidth < 600 ? 44 : 120)), showarrow: false, xref: "paper", x: 0, xanchor: "left",
        yref: axis + " domain", y: 1.01, yanchor: "bottom",
      });
      more[axis.replace("y", "yaxis")] = { gridcolor: colour("--line"), zeroline: false, automargin: true };
    });
    const name = shown.overview.blocks[block.number];
    for (const event of shown.events) if (event.block === name) {
      const at = column(block.starts, event.first);
      shapes.push({ type: "line", x0: at, x1: at, y0: 0, y1: 1, yref: "paper", line: { color: "#D55E00", width: 1, dash: event.kind === "outlier" ? "dot" : "dash" } });
    }
    Plotly.react(figure, traces, layout(block.labels, { ...more, shapes, height: tall("block-figure", 5 + 13 * few.length) }), settings);
    figure.dataset.block = name;
  }

  function listEvents(news) {
    shown.events = news.events;
    get("events").hidden = !news.num_events;
    const many = news.num_events > news.events.length;
    get("num-events").textContent = `(${news.num_events}${many ? `, the ${live ? "last " : ""}${news.events.length}${live ? "" : " clearest"}` : ""})`;
    const key = JSON.stringify(news.events);
    if (shown.listed === key) return;
    shown.listed = key;
    const order = live ? [...news.events].reverse() : news.events;
    get("event-list").replaceChildren(...order.map((event) => {
      const item = element("li"), button = element("button", event.sentence, event.kind);
      button.type = "button";
      button.addEventListener("click", () => {
        const number = shown.overview.blocks.indexOf(event.block);
        if (number >= 0) choose(number);
      });
      item.append(button);
      return item;
    }));
  }

  // ---- one of many: a search field and a list
  function offer(list, names, wanted, chosen) {
    const needle = wanted.toLowerCase(), numbers = [];
    for (let number = 0; number < names.length && numbers.length < 300; number++)
      if (names[number].toLowerCase().includes(needle)) numbers.push(number);
    if (chosen !== null && !numbers.includes(chosen) && !wanted) numbers.push(chosen);
    list.replaceChildren(...numbers.map((number) => new Option(cut(names[number], 60), number)));
    if (numbers.includes(chosen)) list.value = chosen;
    else list.selectedIndex = -1;
  }
  function offerBlocks() {
    offer(get("blocks"), shown.overview.blocks, get("block-search").value, shown.block);
  }
  async function choose(number, quietly = false) {
    shown.block = number;
    offerBlocks();
    const block = await (live ? fetched(`block?run=${encodeURIComponent(shown.run.key)}&number=${number}`) : packedBlock(number));
    if (!block || shown.block !== number) return;
    drawBlock(block);
    if (!quietly) get("block").scrollIntoView({ block: "nearest" });
  }
  function packedBlock(number) {
    const all = shown.run.parameters, parameters = [];
    all.homes.forEach((home, row) => {
      if (home === number) parameters.push({ name: all.names[row], mean: packedRow(all.mean, row, all.labels.length), sd: packedRow(all.sd, row, all.labels.length) });
    });
    return { number, labels: all.labels, starts: all.starts, parameters };
  }
  async function drawAll() {
    document.querySelectorAll(".of-run").forEach((place) => { place.textContent = shown.runs.length > 1 ? ": " + (shown.run.name ?? shown.run.news.name) : ""; });
    drawScores();
    drawMap();
    const blocks = shown.overview.blocks;
    if (!blocks.length) { get("block").hidden = true; return; }
    if (shown.block === null || shown.block >= blocks.length) {
      const told = shown.events.map((event) => blocks.indexOf(event.block)).filter((number) => number >= 0);
      shown.block = told.length ? told[told.length - 1] : 0;
    }
    get("block").hidden = false;
    await choose(shown.block, true);
  }
  get("score").addEventListener("change", drawScores);
  get("kind").addEventListener("change", drawMap);
  get("block-search").addEventListener("input", offerBlocks);
  get("blocks").addEventListener("change", (event) => choose(Number(event.target.value)));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => shown.overview && drawAll());
  for (const [when, print] of [["beforeprint", "yes"], ["afterprint", ""]]) // on paper, dark on light
    addEventListener(when, () => {
      document.documentElement.dataset.print = print;
      if (shown.overview) drawAll();
      document.querySelectorAll(".js-plotly-plot").forEach((figure) => Plotly.Plots.resize(figure));
    });

  // ---- a report: everything is in the file
  const data = get("data"), live = data === null;
  if (!live) {
    shown.runs = JSON.parse(data.textContent).runs;
    const names = shown.runs.map((run) => run.news.name);
    const show = (number) => {
      Object.assign(shown, { run: shown.runs[number], overview: shown.runs[number].overview, block: null });
      listEvents(shown.run.news);
      drawAll();
    };
    if (names.length > 1) {
      get("picker").hidden = false;
      offer(get("runs"), names, "", 0);
      get("search").addEventListener("input", (event) => offer(get("runs"), names, event.target.value, null));
      get("runs").addEventListener("change", (event) => show(Number(event.target.value)));
    }
    show(0);
    return;
  }

  // ---- a live page: the server says when there is more, the page asks for it
  let source = null, isLost = false, asked = false, again = false, rest = 0;
  async function fetched(what) {
    try {
      const answer = await fetch(what, { cache: "no-store" });
      if (answer.ok) return await answer.json();
      say(await answer.text(), true);
    } catch { say("The connection is lost; trying again.", true); }
    return null;
  }
  function say(text, lost = false) {
    const status = get("status");
    status.hidden = false;
    status.textContent = text;
    status.classList.toggle("lost", lost);
  }
  function tellProgress(news) {
    const { total } = news.facts, number = (value) => value.toLocaleString("en");
    const parts = [];
    if (news.reading !== null) parts.push(`reading, ${Math.round(100 * news.reading)} %`);
    else parts.push(news.ended === null ? "running" : cut(news.ended, 200));
    parts.push(`${number(news.num_batches)}${total === null ? "" : " of " + number(total)} batches`, `${number(news.num_rows + news.num_test)} rows`);
    if (news.rows_per_second !== null) parts.push(`${number(Math.round(news.rows_per_second))} rows/s`);
    if (news.last) parts.push("last " + cut(news.last, 40));
    for (const [name, score] of Object.entries(news.scores)) parts.push(`${news.titles[name]} ${score.toFixed(4)}`);
    const quiet = Math.floor(Date.now() / 60000 - news.written / 60);
    if (news.written !== null && news.ended === null && news.reading === null && quiet > 0) parts.push(`nothing new for ${quiet < 120 ? quiet + " min" : Math.floor(quiet / 60) + " h"}`);
    if (!news.num_batches) parts.splice(0, parts.length, "waiting for the first batch");
    say(parts.join(" · "));
    const progress = get("progress"), whole = news.reading !== null ? 1 : total;
    progress.hidden = whole === null || news.ended !== null;
    if (whole !== null) { progress.max = whole; progress.value = news.reading ?? news.num_batches; }
    document.title = `${news.num_events ? `(${news.num_events}) ` : ""}${news.name}`;
  }
  async function refresh() { // at most once at a time, and resting ten times as long as it takes
    if (asked) { again = true; return; }
    asked = true;
    const started = performance.now(), key = shown.run.key;
    const overview = await fetched(`overview?run=${encodeURIComponent(key)}`);
    if (overview && shown.run.key === key) {
      shown.overview = overview;
      get("story").replaceChildren(...overview.story.map((sentence, place) => element("p", sentence, place ? undefined : "lead")));
      if (overview.labels.length) await drawAll();
    }
    if (shown.run.key !== key) return; // another run is shown by now, which has begun anew
    rest = setTimeout(() => { asked = false; if (again) { again = false; refresh(); } }, Math.max(300, 10 * (performance.now() - started)));
  }
  function follow(run) {
    Object.assign(shown, { news: null, listed: null, run, overview: { titles: {}, labels: [], starts: [], curves: {}, blocks: [], maps: {} }, block: null, events: [] });
    get("title").textContent = run.name;
    clearTimeout(rest);
    asked = again = false;
    listen();
  }
  function listen() {
    if (source) source.close();
    source = new EventSource(`live?run=${encodeURIComponent(shown.run.key)}`);
    source.onmessage = (message) => {
      const news = shown.news = JSON.parse(message.data);
      tellProgress(news);
      listEvents(news);
      refresh();
    };
    isLost = false;
    source.onerror = () => { isLost = true; say("The connection is lost; trying again.", true); };
    source.onopen = () => { isLost = false; };
  }
  // a tab that nobody sees leaves its connection to others: browsers allow six to a host
  document.addEventListener("visibilitychange", () => {
    if (!shown.run) return;
    if (document.hidden) source.close(); else listen();
  });
  async function offerRuns(wanted) {
    const answer = await fetched(`runs?search=${encodeURIComponent(wanted)}`);
    if (!answer) return;
    const isListed = shown.run === null || answer.runs.some((run) => run.key === shown.run.key);
    shown.runs = isListed || wanted ? answer.runs : [shown.run, ...answer.runs];
    get("picker").hidden = answer.total < 2 && isListed;
    get("found").textContent = answer.total > 1 ? `${answer.matching} of ${answer.total}` : "";
    const names = shown.runs.map((run) => run.name);
    const now = shown.run ? shown.runs.findIndex((run) => run.key === shown.run.key) : -1;
    offer(get("runs"), names, "", now >= 0 ? now : null);
    if (shown.run === null && answer.runs.length) { get("runs").value = 0; follow(answer.runs[0]); }
    else if (shown.run === null) { say("waiting for the first batch"); setTimeout(() => shown.run === null && offerRuns(get("search").value), 1000); }
  }
  get("search").addEventListener("input", (event) => offerRuns(event.target.value));
  get("search").addEventListener("change", () => { // with Enter, the first that was found
    const first = shown.runs[0];
    if (get("search").value && first && first.key !== shown.run?.key) { get("runs").value = 0; follow(first); }
  });
  get("runs").addEventListener("change", (event) => follow(shown.runs[Number(event.target.value)]));
  offerRuns("");
  setInterval(() => { if (!document.hidden && document.activeElement !== get("runs")) offerRuns(get("search").value); if (shown.news && !isLost) tellProgress(shown.news); }, 5000);
})();
