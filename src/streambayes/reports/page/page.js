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
  function distinct(names, most) { // shortened in their middle, but never so that two look alike
    const short = names.map((name) => (name.length > most ? name.slice(0, Math.ceil(most / 2)) + "…" + name.slice(1 - Math.floor(most / 2)) : name));
    const counts = new Map();
    for (const text of short) counts.set(text, (counts.get(text) ?? 0) + 1);
    return short.map((text, place) => (counts.get(text) > 1 ? names[place] : text));
  }
  const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#7F7FFF", "#D55E00", "#8C8C8C"];
  const KINDS = {
    rho: ["share of the past that was kept", "0 %", "100 %"],
    moved: ["how far blocks moved, on a logarithmic scale", "0.0001 nats", "10,000 nats"],
  };
  const MARKS = { // of each kind of event: its colour and its line
    abrupt: ["--vermilion", "solid"], gradual: ["--orange", "dash"], recurring: ["--purple", "dashdot"],
    new: ["--green", "longdash"], outlier: ["--soft", "dot"], provisional: ["--soft", "dot"],
  };
  const SCALE = ["#00204d", "#31446b", "#666970", "#958f78", "#cbba69", "#ffea46"]; // Cividis
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
  const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", pen = document.createElement("canvas").getContext("2d");
  const wide = (text) => { pen.font = "12px " + FONT; return pen.measureText(text).width; };
  const room = () => document.querySelector("main").clientWidth;
  function wrapped(text, most) { // lines of so many pixels, broken where words end if possible
    const lines = [];
    let rest = text;
    while (wide(rest) > most && rest.length > 1) {
      let end = 1;
      while (end < rest.length && wide(rest.slice(0, end + 1)) <= most) end++;
      const at = 1 + Math.max(...[..." _|=,/-."].map((letter) => rest.lastIndexOf(letter, end - 1)));
      if (at > end / 2) end = at;
      lines.push(rest.slice(0, end).trim());
      rest = rest.slice(end).trim();
    }
    return [...lines, rest].filter((one) => one);
  }
  function left() { // one margin for all figures, so that a batch stands at the same place in each
    const one = shown.overview;
    if (one.margin?.room !== room()) {
      const isMap = Object.values(one.maps).some((map) => !map.shared), longest = isMap ? Math.max(0, ...one.blocks.map(wide)) : 0;
      one.margin = { room: room(), left: Math.round(Math.min(Math.max(longest + 16, 66), Math.max(room() * 0.3, 66))) };
    }
    return one.margin.left;
  }
  function layout(labels, more) {
    const [places, texts] = ticks(labels, room() - left());
    const axis = { gridcolor: colour("--line"), zeroline: false, automargin: true };
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("--ink"), size: 12, family: FONT }, showlegend: false, hovermode: "closest", ...more,
      margin: { l: left(), r: 16, t: 12, b: 52, ...more?.margin },
      xaxis: {
        ...axis, title: { text: "batch", standoff: 6 }, tickvals: places, range: [-0.5, labels.length - 0.5],
        ticktext: texts, tickangle: 0, automargin: "bottom", ...more?.xaxis,
      },
      yaxis: { ...axis, ...more?.yaxis },
      yaxis99: { domain: [0, 1], range: [0, 1], visible: false, fixedrange: true }, // where lines from top to bottom are drawn
    };
  }
  function tall(id, pixels) { // the height of a figure, of its element and in pixels
    get(id).style.height = pixels + "px";
    return pixels;
  }

  // ---- ticks: where a year, a month, a day begins, if the labels of batches are dates
  const DATE = /^(\d{4})(?:-(\d\d)(?:-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d))?)?)?)?$/, DAY = 864e5;
  const steps = [
    ...[1, 5, 10, 30, 60, 180, 360, 720].map((minutes) => ["minute", (at) => Math.floor(at / (minutes * 6e4))]),
    ["day", (at) => Math.floor(at / DAY)],
    ["day", (at) => Math.floor((at / DAY + 3) / 7)], // weeks start on Monday
    ...[1, 3, 6].map((months) => ["month", (at) => Math.floor((new Date(at).getUTCFullYear() * 12 + new Date(at).getUTCMonth()) / months)]),
    ...[1, 2, 5, 10, 20, 50, 100, 200, 500].map((years) => ["year", (at) => Math.floor(new Date(at).getUTCFullYear() / years)]),
  ];
  const said = (at, format) => new Date(at).toLocaleString("en-GB", { timeZone: "UTC", ...format });
  const TIMES = {
    minute: [{ hour: "2-digit", minute: "2-digit" }, { day: "numeric", month: "short" }],
    day: [{ day: "numeric", month: "short" }, { year: "numeric" }],
    month: [{ month: "short" }, { year: "numeric" }],
    year: [{ year: "numeric" }, null],
  };
  function moments(labels) {
    const found = labels.map((label) => {
      const part = DATE.exec(label);
      return part ? Date.UTC(part[1], (part[2] ?? 1) - 1, part[3] ?? 1, part[4] ?? 0, part[5] ?? 0, part[6] ?? 0) : NaN;
    });
    return found.length > 1 && found.every((at, place) => !place || at > found[place - 1]) ? found : null;
  }
  function ticks(labels, width) {
    let most = Math.max(3, Math.floor(width / 56));
    const found = moments(labels);
    for (const [unit, key] of found ? steps : []) {
      const places = [];
      for (let place = 0; place < found.length && places.length <= most; place++)
        if (key(found[place]) !== key(place ? found[place - 1] : found[0] - 1)) places.push(place);
      if (places.length > most || places.length < 2) continue;
      const [small, large] = TIMES[unit];
      return [places, places.map((place, number) => {
        const coarse = (which) => large && said(found[places[which]], large);
        return said(found[place], small) + (large && (!number || coarse(number) !== coarse(number - 1)) ? "<br>" + coarse(number) : "");
      })];
    }
    most = Math.max(3, Math.floor(width / 86));
    const step = Math.max(1, Math.ceil(labels.length / most)), places = labels.map((_, place) => place).filter((place) => place % step === 0);
    const names = distinct(places.map((place) => labels[place]), 18);
    return [places, names.map((name) => wrapped(name, 80).map(plain).join("<br>"))];
  }

  // ---- changes, as lines from top to bottom, and what lines and colours mean
  const kindOf = (mark) => Object.keys(shown.overview.kinds)[mark[2]];
  function markLines(marks, starts, paint = null) {
    const kinds = [...new Set(marks.map(kindOf))];
    return kinds.map((kind) => {
      const at = [...new Set(marks.filter((mark) => kindOf(mark) === kind).map((mark) => column(starts, mark[0])))];
      return {
        x: at.flatMap((place) => [place, place, null]), y: at.flatMap(() => [0, 1, null]), yaxis: "y99", mode: "lines", hoverinfo: "skip",
        line: { color: paint ?? colour(MARKS[kind][0]), width: paint ? 1 : 1.5, dash: paint ? "solid" : MARKS[kind][1] },
      };
    });
  }
  const DASHES = { solid: "", dot: "1.5 3", dash: "6 3", dashdot: "6 3 1.5 3", longdash: "10 3" };
  function legend(id, entries) {
    const drawn = (name, values) => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [key, value] of Object.entries(values)) made.setAttribute(key, value);
      return made;
    };
    get(id).replaceChildren(...entries.map(({ text, paint, dash = "solid", band = false, mark = false, scale = false }) => {
      const item = element("span"), picture = drawn("svg", { width: scale ? 96 : 22, height: 12, "aria-hidden": "true" });
      if (scale) SCALE.forEach((one, place) => picture.append(drawn("rect", { x: 16 * place, width: 16.5, height: 12, fill: one })));
      else if (band) picture.append(drawn("rect", { width: 22, height: 12, fill: paint }));
      else if (mark) picture.append(drawn("circle", { cx: 11, cy: 6, r: 4.5, fill: paint, stroke: "#ffffff", "stroke-width": 1.5 }));
      else picture.append(drawn("line", { x1: 0, x2: 22, y1: 6, y2: 6, stroke: paint, "stroke-width": 2, "stroke-dasharray": DASHES[dash] }));
      item.append(picture, text);
      return item;
    }));
  }
  const markLegend = (marks, more = {}) => [...new Set(marks.map(kindOf))].map((kind) => (
    { text: shown.overview.kinds[kind], paint: colour(MARKS[kind][0]), dash: MARKS[kind][1], ...more }));

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
    const names = distinct(live ? [shown.run.name] : shown.runs.map((run) => run.news.name), 40);
    const style = (place) => ({ color: line(place), width: 1.6, dash: ["solid", "dot", "dash"][Math.floor(place / COLOURS.length) % 3] });
    const drawn = all.map((_, place) => place).filter((place) => all[place].curves[choice.value]);
    const traces = drawn.map((place) => ({
      y: all[place].curves[choice.value], name: plain(names[place]), mode: mode(longest), line: style(place),
      text: all[place].labels.map(plain), hovertemplate: "%{text}: %{y:.4f}<extra>" + plain(names[place]) + "</extra>",
    }));
    const { marks, starts } = shown.overview;
    traces.push(...markLines(marks, starts));
    legend("scores-legend", [
      ...drawn.map((place) => ({ text: drawn.length > 1 ? names[place] : titles[choice.value], paint: style(place).color, dash: style(place).dash })),
      ...markLegend(marks),
    ]);
    Plotly.react("scores-figure", traces, layout(longest, { height: tall("scores-figure", 300), yaxis: { title: { text: "nats a row" } } }), settings);
  }

  function drawMap() {
    const one = shown.overview, kinds = Object.keys(one.maps);
    get("map").hidden = !kinds.length;
    if (!kinds.length) return;
    const choice = get("kind"), before = choice.value;
    if ([...choice.options].map((option) => option.value).join() !== kinds.join())
      choice.replaceChildren(...kinds.map((kind) => new Option(KINDS[kind][0], kind)));
    choice.value = kinds.includes(before) ? before : kinds[0];
    const map = one.maps[choice.value], [title, lowest, highest] = KINDS[choice.value];
    const rows = mapRows(map, one.labels.length), figure = get("map-figure");
    const each = one.step > 1 ? ` A column stands for ${one.step} batches.` : "";
    const text = one.labels.map(plain);
    if (map.shared) {
      get("map-text").textContent = "One share for all blocks." + each;
      get("map-hover").textContent = "";
      legend("map-legend", [{ text: title, paint: line(0) }, ...markLegend(one.marks)]);
      Plotly.react(figure, [
        { y: rows[0], mode: mode(text), line: { color: line(0), width: 1.6 }, text, hovertemplate: "%{text}: %{y:.0%}<extra></extra>" },
        ...markLines(one.marks, one.starts),
      ], layout(one.labels, { height: tall("map-figure", 300), yaxis: { range: [0, 1.02], tickformat: ".0%" } }), settings);
      return;
    }
    get("map-text").textContent = "Choose a row to see its block." + each;
    const margin = { t: 8, b: 52 }, names = distinct(one.blocks, Math.floor((room() < 600 ? 4 : 3) * (left() - 12) / 7));
    const lines = names.map((name) => wrapped(name, left() - 12)), high = 14 * Math.max(1, ...lines.map((some) => some.length)) + 6;
    const total = Math.min(Math.max(rows.length * high, 60), 640), step = Math.max(1, Math.ceil((rows.length * high) / total));
    const places = rows.map((_, place) => place).filter((place) => place % step === 0);
    const marks = one.marks.filter((mark) => mark[3] >= 0);
    legend("map-legend", [{ text: `${title}: ${lowest} to ${highest}`, scale: true }, ...markLegend(marks, { mark: true })]);
    Plotly.react(figure, [{
      type: "heatmap", z: rows, zmin: map.span[0], zmax: map.span[1], colorscale: SCALE.map((paint, place) => [place / (SCALE.length - 1), paint]), zsmooth: false,
      showscale: false, hoverinfo: "none", hoverongaps: false,
    }, ...[...new Set(marks.map(kindOf))].map((kind) => {
      const some = marks.filter((mark) => kindOf(mark) === kind);
      return {
        type: "scatter", mode: "markers", x: some.map((mark) => column(one.starts, mark[0])), y: some.map((mark) => mark[3]), hoverinfo: "skip", cliponaxis: false,
        marker: { size: Math.min(10, Math.max(5, total / rows.length / 2)), color: colour(MARKS[kind][0]), line: { color: "#ffffff", width: 1.5 } },
      };
    })], layout(one.labels, {
      margin, height: tall("map-figure", total + margin.t + margin.b),
      yaxis: { range: [rows.length - 0.5, -0.5], tickvals: places, ticktext: places.map((place) => lines[place].map(plain).join("<br>")), showgrid: false, automargin: false, ticks: "" },
      xaxis: { showgrid: false },
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
    const figure = get("block-figure"), plot = 150, margin = { t: 4, b: 52 };
    const titles = few.map((parameter) => wrapped(parameter.name, room() - left() - 20)), heights = titles.map((some) => plot + 18 + 16 * some.length);
    const total = heights.reduce((sum, one) => sum + one, 0), more = { annotations: [], margin };
    let top = total;
    few.forEach((parameter, place) => {
      const axis = place ? "y" + (place + 1) : "y", end = top - heights[place] + 6, domain = [Math.max(end / total, 0), (end + plot) / total];
      const low = parameter.mean.map((mean, at) => mean === null || parameter.sd[at] === null ? null : mean - reach * parameter.sd[at]);
      const high = parameter.mean.map((mean, at) => mean === null || parameter.sd[at] === null ? null : mean + reach * parameter.sd[at]);
      const quiet = { mode: "lines", line: { width: 0 }, hoverinfo: "skip", yaxis: axis };
      traces.push({ ...quiet, y: low }, { ...quiet, y: high, fill: "tonexty", fillcolor: "rgba(86,180,233,0.35)" }, {
        y: parameter.mean, yaxis: axis, mode: mode(block.labels), line: { color: line(0), width: 1.6 }, text: block.labels.map(plain),
        name: plain(parameter.name), hovertemplate: "%{text}: %{y:.6g}<extra></extra>",
      });
      more.annotations.push({
        text: titles[place].map(plain).join("<br>"), showarrow: false, xref: "paper", x: 0, xanchor: "left", align: "left",
        yref: "paper", y: domain[1], yanchor: "bottom",
      });
      more[axis.replace("y", "yaxis")] = { gridcolor: colour("--line"), zeroline: false, automargin: true, nticks: 5, exponentformat: "power", minexponent: 4, domain };
      top -= heights[place];
    });
    more.xaxis = { anchor: few.length > 1 ? "y" + few.length : "y" };
    const { marks } = shown.overview, own = marks.filter((mark) => mark[3] === block.number), others = marks.filter((mark) => mark[3] !== block.number);
    traces.push(...markLines(others, block.starts, colour("--faint")), ...markLines(own, block.starts));
    for (const mark of own) if (mark[1] > mark[0] && kindOf(mark) === "gradual")
      shapes.push({ type: "rect", x0: column(block.starts, mark[0]), x1: column(block.starts, mark[1]), y0: 0, y1: 1, yref: "paper", line: { width: 0 }, fillcolor: "rgba(230,159,0,0.15)", layer: "below" });
    legend("block-legend", [
      { text: "mean of what is believed", paint: line(0) }, { text: "90 % of what is believed", paint: "rgba(86,180,233,0.35)", band: true },
      ...markLegend(own), ...(others.length ? [{ text: "change of another block", paint: colour("--faint") }] : []),
    ]);
    const pattern = shown.overview.patterns.find((one) => one.block === shown.overview.blocks[block.number]);
    get("block-pattern").textContent = pattern ? `The ${pattern.parameter}: ${pattern.words}.` : "";
    Plotly.react(figure, traces, layout(block.labels, { ...more, shapes, height: tall("block-figure", total + margin.t + margin.b) }), settings);
    figure.dataset.block = shown.overview.blocks[block.number];
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
    get("event-list").tBodies[0].replaceChildren(...order.map((event) => {
      const row = element("tr", undefined, event.kind), when = element("td"), labels = event.first === event.last ? [event.label] : [event.label, " to ", event.last_label];
      when.append(...labels.map((label) => element("span", label, label.length < 14 ? "whole" : undefined)), element("br"), element("span", event.called, "kind"));
      const what = element("td"), number = (value) => element("td", value === null ? "–" : value.toLocaleString("en"), "wide");
      what.append(opens(event.block, event.what));
      row.append(when, what, number(event.size), number(event.evidence));
      return row;
    }));
  }
  function opens(block, text) { // a button that shows a block
    const button = element("button", text);
    button.type = "button";
    button.addEventListener("click", () => {
      const number = shown.overview.blocks.indexOf(block);
      if (number >= 0) choose(number);
    });
    return button;
  }
  function listPatterns() {
    const { patterns } = shown.overview;
    get("patterns").hidden = !patterns.length;
    get("pattern-list").tBodies[0].replaceChildren(...patterns.map((one) => {
      const row = element("tr"), block = element("td"), number = (text) => element("td", text);
      block.append(opens(one.block, one.block));
      row.append(block, element("td", one.words), element("td", one.parameter, "wide"), ...(one.errors ?? ["–", "–", "–"]).map(number));
      return row;
    }));
  }
  function tellStory({ headline, changed, changes, more, said: others }) {
    get("headline").textContent = headline;
    get("headline").hidden = false;
    const list = element("ul");
    list.append(...changes.map((sentence) => element("li", sentence)));
    get("story").replaceChildren(element("p", changed, "lead"), list, ...[more, ...others].filter((one) => one).map((one) => element("p", one)));
  }

  // ---- one of many: a search field and a list
  function offer(list, names, wanted, chosen) {
    const needle = wanted.toLowerCase(), numbers = [];
    for (let number = 0; number < names.length && numbers.length < 300; number++)
      if (names[number].toLowerCase().includes(needle)) numbers.push(number);
    if (chosen !== null && !numbers.includes(chosen) && !wanted) numbers.push(chosen);
    const texts = distinct(numbers.map((number) => names[number]), 60);
    list.replaceChildren(...numbers.map((number, place) => new Option(texts[place], number)));
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
    listPatterns();
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
    } catch { lose(); }
    return null;
  }
  function say(text, lost = false) {
    const status = get("status");
    status.hidden = false;
    status.textContent = text;
    status.classList.toggle("lost", lost);
  }
  function lose() { // a run that has ended may be served no longer, and all of it has been seen
    isLost = true;
    if (shown.news && shown.news.ended !== null && shown.news.reading === null) tellProgress(shown.news);
    else say("The connection is lost; trying again.", true);
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
    if (isLost) parts.push("no longer served");
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
      tellStory(overview.story);
      if (overview.labels.length) await drawAll();
    }
    if (shown.run.key !== key) return; // another run is shown by now, which has begun anew
    rest = setTimeout(() => { asked = false; if (again) { again = false; refresh(); } }, Math.max(300, 10 * (performance.now() - started)));
  }
  function follow(run) {
    Object.assign(shown, { news: null, listed: null, run, overview: { titles: {}, kinds: {}, marks: [], patterns: [], labels: [], starts: [], curves: {}, blocks: [], maps: {} }, block: null, events: [] });
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
    source.onerror = lose;
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
