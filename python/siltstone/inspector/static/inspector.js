// The script of the inspector. A page is whole without it, but for the first exchange of the token:
// it writes times in the reader's zone, follows the store live, and answers keys.
"use strict";
(() => {
  const body = document.body;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const stored = {
    get: (name) => { try { return localStorage.getItem(name); } catch { return null; } },
    set: (name, value) => { try { localStorage.setItem(name, value); } catch { /* it holds for this page */ } },
  };

  // Dark and light: the choice of the system, until somebody chooses.
  const theme = stored.get("siltstone-theme");
  if (theme) document.documentElement.dataset.theme = theme;
  const turn = () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = document.documentElement.dataset.theme || (dark ? "dark" : "light");
    document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
    stored.set("siltstone-theme", document.documentElement.dataset.theme);
  };

  // The token stands in the fragment, which is never sent by itself.
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) history.replaceState(null, "", location.pathname + location.search);
  if (body.dataset.page === "unlock" && token) {
    fetch("/unlock", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token }),
    }).then(async (answer) => {
      if (answer.ok) location.replace(location.href);  // a reload would go to where this page was scrolled
      else document.getElementById("unlock-said").textContent = await answer.text();
    }, () => { document.getElementById("unlock-said").textContent = "The inspector does not answer: is it still running?"; });
  }

  // An exported file has all pages in one: it shows the one that the address names.
  const sheets = all(".sheet");
  const turnTo = () => {
    const named = decodeURIComponent(location.hash.slice(1));
    const target = named && document.getElementById(named);
    const sheet = (target && target.closest(".sheet")) || sheets[0];
    sheets.forEach((each) => { each.hidden = each !== sheet; });
    if (target) target.scrollIntoView(); else scrollTo(0, 0);
    if (target && target.matches(".item")) { target.tabIndex = -1; target.focus({ preventScroll: true }); }
  };
  if (sheets.length) { addEventListener("hashchange", turnTo); turnTo(); }

  // Times in the reader's zone; the time as the page had it stays in the title.
  const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
  const today = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
  const times = (within) => all("time:not([data-told])", within).forEach((each) => {
    const when = new Date(each.dateTime);
    if (Number.isNaN(when.getTime())) return;
    each.title = `${clock.format(when)}, ${each.textContent}`;
    const same = when.toDateString() === new Date().toDateString();
    each.textContent = same ? `today, ${today.format(when)}` : clock.format(when);
    each.dataset.told = "1";
  });
  times(document);
  // On paper "today" is another day's tomorrow.
  addEventListener("beforeprint", () => all("time[data-told]").forEach((each) => {
    each.dataset.screen = each.textContent;
    each.textContent = clock.format(new Date(each.dateTime));
  }));
  addEventListener("afterprint", () => all("time[data-screen]").forEach((each) => {
    each.textContent = each.dataset.screen;
    delete each.dataset.screen;
  }));

  // The drawing: the figures under the pointer, or under the arrow keys.
  let place = -1;
  const rows = () => all(".sheet:not([hidden]) .turns tr[data-start], body:not([data-page=export]) .turns tr[data-start]").reverse();
  const tell = (plot, index) => {
    const found = rows();
    if (!found.length) return;
    place = Math.max(0, Math.min(found.length - 1, index));
    const row = found[place];
    const value = (name) => row.querySelector(`[data-figure="${name}"]`).textContent;
    const said = plot.closest("figure").querySelector(".chart-said");
    said.textContent = `Turn ${row.querySelector("th").textContent}: messages ${row.dataset.start} to ${row.dataset.end - 1} said ${value("said")} tokens; ${value("context")} tokens were in context after it.`;
    const last = Number(plot.dataset.end || found[found.length - 1].dataset.end);
    let line = plot.querySelector(".cursor");
    if (!line) {
      line = document.createElementNS("http://www.w3.org/2000/svg", "line");
      line.setAttribute("class", "cursor");
      line.setAttribute("y1", "8"); line.setAttribute("y2", "208");
      plot.prepend(line);
    }
    for (const end of ["x1", "x2"]) line.setAttribute(end, `${100 * row.dataset.end / last}%`);
  };
  document.addEventListener("pointermove", (event) => {
    const plot = event.target.closest && event.target.closest(".plot");
    const found = plot ? rows() : [];
    if (!found.length) return;
    const box = plot.getBoundingClientRect();
    const last = Number(plot.dataset.end || found[found.length - 1].dataset.end);
    const seq = (event.clientX - box.left) / box.width * last;
    const index = found.findIndex((row) => seq < row.dataset.end);
    tell(plot, index < 0 ? found.length - 1 : index);
  });

  // Live: when the store has changed, the page is asked for anew, and its changed parts are replaced.
  const sign = document.querySelector(".live");
  const show = (word, kind) => {
    if (!sign) return;
    sign.hidden = false; sign.className = `live ${kind}`;
    if (sign.textContent !== word) sign.textContent = word;
  };
  let stamp = null, source = null, busy = false, again = false, retry = 0;
  const swap = (now, next) => {
    const open = new Set(all("details[open]", now).map((each) => mark(each)));
    const was = new Set(all(".item", now).map((each) => key(each)));
    const held = now.contains(document.activeElement) ? mark(document.activeElement) : null;
    const fields = new Map(all("input, select", now).filter((each) => each === document.activeElement).map((each) => [each.name, each.value]));
    now.replaceChildren(...next.childNodes);
    all("details", now).forEach((each) => { if (open.has(mark(each))) each.open = true; });
    all(".item", now).forEach((each) => { if (!was.has(key(each))) each.classList.add("fresh"); });
    all("input, select", now).forEach((each) => { if (fields.has(each.name)) each.value = fields.get(each.name); });
    if (held) { const found = all("a, button, input, select, summary, .item, .plot", now).find((each) => mark(each) === held); if (found) found.focus({ preventScroll: true }); }
    times(now);
  };
  const key = (each) => each.id || each.dataset.session || each.dataset.compaction || each.dataset.start || each.textContent.trim().slice(0, 80);
  const mark = (each) => {
    const item = each.closest(".item");
    const within = item || each.closest("section") || body;
    return `${item ? key(item) : within.id}/${each.tagName}/${all(each.tagName, within).indexOf(each)}`;
  };
  const refresh = async () => {
    if (busy) { again = true; return; }
    busy = true;
    const began = performance.now();
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      const next = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (next.body.dataset.page === "unlock" || next.body.dataset.page === "") { location.reload(); return; }
      const parts = all("[data-part]");
      const fresh = all("[data-part]", next);
      if (parts.map((each) => each.id).join() === fresh.map((each) => each.id).join()) {
        parts.forEach((each, at) => swap(each, document.importNode(fresh[at], true)));
      } else swap(document.getElementById("main"), document.importNode(next.getElementById("main"), true));
      const subject = document.getElementById("subject"), other = next.getElementById("subject");
      if (subject && other) swap(subject, document.importNode(other, true));
      document.title = next.title;
      body.dataset.updates = String(Number(body.dataset.updates || 0) + 1);
    } catch { /* the stream tells when the inspector is there again */ }
    // A page that takes long is asked for less often, so that who looks takes little from who works.
    const rest = Math.min(650, 9 * (performance.now() - began));
    setTimeout(() => { busy = false; if (again) { again = false; refresh(); } }, rest);
  };
  const listen = () => {
    if (!body.dataset.live || source || document.hidden) return;
    source = new EventSource(body.dataset.live);
    source.addEventListener("stamp", (event) => {
      retry = 0; show("live", "on");
      if (stamp !== null && stamp !== event.data) refresh();
      stamp = event.data;
    });
    source.onerror = () => {
      show("not connected", "off");
      if (source && source.readyState === EventSource.CLOSED) {
        source = null;
        setTimeout(listen, Math.min(8000, 500 * 2 ** retry++));
      }
    };
  };
  const rest = () => { if (source) { source.close(); source = null; } };
  document.addEventListener("visibilitychange", () => (document.hidden ? rest() : listen()));
  addEventListener("pagehide", rest);
  addEventListener("pageshow", listen);
  listen();

  // Forms that ask for another page as soon as something is chosen; empty fields stay out of the address.
  document.addEventListener("change", (event) => {
    const form = event.target.closest("form[data-auto]");
    if (form && event.target.matches("select, input[type=checkbox]")) form.requestSubmit();
  });
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method === "post") {
      // Sent by the script: without referrers a form of its own would not say where it comes from.
      event.preventDefault();
      const sent = new URLSearchParams(new FormData(form));
      form.querySelector("button").disabled = true;
      fetch(form.action, { method: "POST", body: sent }).then(async (answer) => {
        const text = await answer.text();
        const next = new DOMParser().parseFromString(text, "text/html").getElementById("main");
        const main = document.getElementById("main");
        if (next) main.replaceChildren(...document.importNode(next, true).childNodes); else main.textContent = text;
        times(main); main.focus();
      }, () => { form.append("The inspector does not answer. Nothing is known of what was done: look at the log."); });
      return;
    }
    if (form.method !== "get") return;
    all("input, select", form).forEach((each) => { if (each.value === "" || (each.name === "namespace" && each.value === "*")) each.disabled = true; });
    setTimeout(() => all("input, select", form).forEach((each) => { each.disabled = false; }));
  });
  // The messages to forget are named by hand.
  document.addEventListener("input", (event) => {
    const field = event.target.closest("[data-name]");
    if (field) field.form.querySelector("button").disabled = field.value !== field.dataset.name;
  });
  all("[data-name]").forEach((field) => { field.form.querySelector("button").disabled = field.value !== field.dataset.name; });

  // Keys.
  const step = (by) => {
    const items = all(".item").filter((each) => each.offsetParent !== null);
    if (!items.length) return;
    const at = items.findIndex((each) => each === document.activeElement || each.contains(document.activeElement));
    const next = items[Math.max(0, Math.min(items.length - 1, at < 0 ? (by > 0 ? 0 : items.length - 1) : at + by))];
    next.tabIndex = -1;
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  };
  const go = (selector) => { const found = document.querySelector(selector); if (found) found.click(); return Boolean(found); };
  const acts = {
    theme: turn,
    keys: () => { const keys = document.getElementById("keys"); if (keys.open) keys.close(); else keys.showModal(); },
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-act]");
    if (button) acts[button.dataset.act]();
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const plot = event.target.closest(".plot");
    if (plot && (event.key === "ArrowLeft" || event.key === "ArrowRight")) {
      tell(plot, place + (event.key === "ArrowLeft" ? -1 : 1));
      event.preventDefault();
      return;
    }
    if (event.target.closest("input, select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (document.querySelector("dialog[open]") && event.key !== "?") return;
    const known = {
      j: () => step(1), k: () => step(-1), "?": acts.keys,
      "/": () => { const field = document.querySelector("[data-search]"); if (field) { field.focus(); field.select(); } else go('.tabs a[href*="search"]'); },
      "[": () => go('a[rel="prev"]'), "]": () => go('a[rel="next"]'),
      s: () => go('.top nav a:nth-child(1)'), h: () => go('.top nav a:nth-child(2)'),
      Enter: () => {
        if (!event.target.matches(".item")) return false;
        const link = event.target.querySelector("a[href], summary");
        if (link) link.click();
        return true;
      },
    };
    for (const digit of "1234") known[digit] = () => go(`.tabs a:nth-child(${digit})`);
    if (known[event.key] && known[event.key]() !== false) event.preventDefault();
  });
})();
