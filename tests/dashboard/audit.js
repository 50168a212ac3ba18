// What is wrong with a page for who cannot see it, or not well: a small part of what axe looks for.
(() => {
  const wrong = [];
  const named = (element) => `${element.nodeName.toLowerCase()}${element.id ? "#" + element.id : ""}.${element.getAttribute("class") || ""} ${(element.textContent || "").trim().slice(0, 40)}`;
  const shown = (element) => {
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    return style.visibility !== "hidden" && style.display !== "none" && box.width > 1 && box.height > 1;
  };
  const nameOf = (element) => {
    const by = (element.getAttribute("aria-labelledby") || "").split(/\s+/).filter(Boolean);
    const texts = by.map((id) => document.getElementById(id)?.textContent || "");
    const label = element.labels && element.labels.length ? element.labels[0].textContent : "";
    return [element.getAttribute("aria-label"), ...texts, label, element.getAttribute("alt"), element.getAttribute("title"),
      /^(A|BUTTON|SUMMARY|TH)$/.test(element.nodeName) ? element.textContent : ""].map((text) => (text || "").trim()).find(Boolean);
  };
  const colour = (text) => {
    const parts = text.match(/[\d.]+/g).map(Number);
    return { rgb: parts.slice(0, 3), alpha: parts.length > 3 ? parts[3] : 1 };
  };
  const over = (top, below) => top.rgb.map((part, at) => part * top.alpha + below[at] * (1 - top.alpha));
  const ground = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) { layers.push(colour(getComputedStyle(each).backgroundColor)); }
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const light = (rgb) => {
    const [red, green, blue] = rgb.map((part) => part / 255).map((part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const opacity = (element) => {
    let all = 1;
    for (let each = element; each; each = each.parentElement) { all *= Number(getComputedStyle(each).opacity); }
    return all;
  };
  const contrast = (element) => {
    const style = getComputedStyle(element);
    const text = colour(element.closest("svg") ? style.fill : style.color);
    const behind = ground(element);
    const [one, other] = [light(over({ rgb: text.rgb, alpha: text.alpha * opacity(element) }, behind)), light(behind)].sort((a, b) => b - a);
    return (one + 0.05) / (other + 0.05);
  };

  if (!document.documentElement.lang) { wrong.push("no language"); }
  if ([...document.querySelectorAll("h1")].filter(shown).length !== 1) { wrong.push("not one h1"); }
  if (document.querySelectorAll("main").length !== 1) { wrong.push("not one main"); }
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of ids.filter((each, at) => ids.indexOf(each) !== at)) { wrong.push(`twice the id ${id}`); }
  for (const element of document.querySelectorAll("a, button, summary, input:not([type=hidden]), select, textarea, img, svg[role=img]")) {
    if (shown(element) && !nameOf(element)) { wrong.push(`no name: ${named(element)}`); }
  }
  for (const svg of document.querySelectorAll("svg")) { if (svg.getAttribute("role") !== "img") { wrong.push("a picture without a role"); } }
  for (const picture of document.querySelectorAll("figure")) { if (!picture.querySelector("details table")) { wrong.push("no table behind a picture"); } }
  for (const table of document.querySelectorAll("main table")) {
    if (!table.caption) { wrong.push(`no caption: ${named(table)}`); }
  }
  for (const head of document.querySelectorAll("th")) { if (!head.scope) { wrong.push(`no scope: ${named(head)}`); } }
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    if (own && shown(element) && !element.closest("desc, title, script, .modal, .sr-only, .skip") && contrast(element) < 4.5) {
      wrong.push(`contrast ${contrast(element).toFixed(2)}: ${named(element)}`);
    }
  }
  if (document.documentElement.scrollWidth > innerWidth) { wrong.push(`wider than the window: ${document.documentElement.scrollWidth}`); }
  return wrong;
})()
