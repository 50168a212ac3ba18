// Keeps a page up to date: loads it again every two seconds and replaces the parts that changed. All others stay
// as they are, so nothing flickers, and scroll, focus, selection and opened details stay.
"use strict";
(() => {
  const PERIOD = 2000;
  const PATIENCE = 10000;
  const PAUSE = 300; // between the steps of a repair, so that people can stop it
  const live = document.getElementById("live");
  const trouble = document.getElementById("trouble");
  let timer = 0;
  let silentSince = null;

  function say(text) {
    if (live.textContent !== text) { live.textContent = text; }
  }

  function unchanging(name, element) {
    // what the reader did to the page: opened, chose
    return (name === "open" && element.nodeName === "DETAILS") || (name === "checked" && element.nodeName === "INPUT");
  }

  function takeAttributes(here, there) {
    for (const { name } of Array.from(here.attributes)) {
      if (!there.hasAttribute(name) && !unchanging(name, here)) { here.removeAttribute(name); }
    }
    for (const { name, value } of Array.from(there.attributes)) {
      if (here.getAttribute(name) !== value && !unchanging(name, here)) { here.setAttribute(name, value); }
    }
  }

  function alike(here, there) {
    return here.nodeType === there.nodeType && here.nodeName === there.nodeName && (here.id || "") === (there.id || "");
  }

  function takeChildren(here, there) {
    const named = new Map();
    for (const child of here.children) { if (child.id) { named.set(child.id, child); } }
    let place = here.firstChild;
    for (const wanted of Array.from(there.childNodes)) {
      const moved = wanted.id ? named.get(wanted.id) : null;
      if (moved && moved !== place && moved.parentNode === here) {
        here.insertBefore(moved, place);
        place = moved;
      }
      if (place && alike(place, wanted)) {
        take(place, wanted);
        place = place.nextSibling;
      } else {
        here.insertBefore(document.importNode(wanted, true), place);
      }
    }
    while (place) {
      const next = place.nextSibling;
      place.remove();
      place = next;
    }
  }

  // Make an element that is here the same as one that came.
  function take(here, there) {
    if (here.isEqualNode(there)) { return; }
    if (here.nodeType === Node.ELEMENT_NODE && here.hasAttribute("data-own")) { return; } // filled below; a screen reader would read it again
    if (here.nodeType === Node.ELEMENT_NODE) {
      takeAttributes(here, there);
      takeChildren(here, there);
    } else if (here.nodeValue !== there.nodeValue) {
      here.nodeValue = there.nodeValue;
    }
  }

  function show(text) {
    const page = new DOMParser().parseFromString(text, "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const other = page.getElementById(part.id);
      if (other) { take(part, other); }
    }
    if (document.title !== page.title) { document.title = page.title; }
    document.dispatchEvent(new Event("updated"));
  }

  function complain(why) {
    silentSince = silentSince || new Date();
    trouble.textContent = `${why} What you see is as of ${silentSince.toLocaleTimeString()}.`;
    trouble.hidden = false;
    say("not live");
  }

  async function look() {
    const cancel = new AbortController();
    const late = setTimeout(() => cancel.abort(), PATIENCE);
    try {
      const answer = await fetch(location.href, { headers: { "X-Live": "1" }, signal: cancel.signal, cache: "no-store" });
      const text = await answer.text();
      // to the last page, say, where this one is gone
      if (answer.redirected && answer.url !== location.href.split("#")[0]) { location.assign(answer.url); return; }
      if (!answer.ok) { complain(text.trim()); return; }
      show(text);
      silentSince = null;
      trouble.hidden = true;
      say("live");
    } catch {
      complain("The dashboard does not answer.");
    } finally {
      clearTimeout(late);
    }
  }

  async function round() {
    clearTimeout(timer);
    if (document.hidden) { say("paused while hidden"); return; }
    await look();
    timer = setTimeout(round, PERIOD);
  }

  // a repair of many items goes on by itself; a page that asks for a confirmation stays as it is
  const nextStep = document.getElementById("next-step");
  if (nextStep) { setTimeout(() => nextStep.requestSubmit(), PAUSE); }
  if (!document.querySelector("main[data-live]")) { return; }

  document.addEventListener("visibilitychange", () => { if (!document.hidden) { round(); } });
  timer = setTimeout(round, PERIOD);
  say("live");
})();

// Shows the values of a picture at the pointer, at a touch, or where the arrow keys lead.
(() => {
  let read = null; // the picture, and the time whose values are shown

  function timesOf(svg) {
    let time = 0;
    return svg.dataset.times.split(" ").map((step) => (time += Number(step)));
  }

  function nearest(times, time) {
    return times.reduce((best, each, at) => Math.abs(each - time) < Math.abs(times[best] - time) ? at : best, 0);
  }

  function written(time, times) {
    const text = new Date(time * 1000).toISOString();
    const isLong = times[times.length - 1] - times[0] > 100000;
    return `${isLong ? text.slice(5, 16).replace("T", " ") : text.slice(11, 19)} UTC`;
  }

  function hide() {
    if (!read) { return; }
    const line = read.svg.querySelector(".place");
    if (line) { line.removeAttribute("x1"); line.removeAttribute("x2"); }
    read.svg.parentNode.querySelector(".reading").hidden = true;
    read = null;
  }

  function draw() {
    if (!read) { return; }
    const { svg } = read;
    if (!svg.isConnected || !svg.dataset.times) { read = null; return; }
    const times = timesOf(svg);
    const at = nearest(times, read.time);
    const [left, right] = [Number(svg.dataset.left), Number(svg.dataset.right)];
    const x = left + (right - left) * (times[at] - times[0]) / ((times[times.length - 1] - times[0]) || 1);
    for (const end of ["x1", "x2"]) { svg.querySelector(".place").setAttribute(end, x); }
    const values = Array.from(svg.querySelectorAll("[data-values]"), (line) => `${line.dataset.title} ${line.dataset.values.split(" ")[at]}`);
    const output = svg.parentNode.querySelector(".reading");
    const text = [written(times[at], times), ...values].join("\n");
    if (output.textContent !== text) { output.textContent = text; }
    output.hidden = false;
    const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    const isLate = x > (left + right) / 2; // then the values are on the other side of the line
    output.style.left = `${x * scale + (isLate ? -8 - output.offsetWidth : 8)}px`;
  }

  function show(svg, time) {
    if (read && read.svg !== svg) { hide(); }
    read = { svg, time };
    draw();
  }

  function pointed(event) {
    const svg = event.target instanceof Element ? event.target.closest("svg[data-times]") : null;
    if (!svg) { hide(); return; }
    const times = timesOf(svg);
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
    const part = (x - Number(svg.dataset.left)) / (Number(svg.dataset.right) - Number(svg.dataset.left));
    show(svg, times[0] + part * (times[times.length - 1] - times[0]));
  }

  function chosen(event) {
    const svg = event.target instanceof Element ? event.target.closest("svg[data-times]") : null;
    if (event.key === "Escape") { hide(); }
    if (!svg) { return; }
    const times = timesOf(svg);
    const last = times.length - 1;
    const at = read && read.svg === svg ? nearest(times, read.time) : last;
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, PageUp: at - 10, PageDown: at + 10, Home: 0, End: last }[event.key];
    if (to === undefined) { return; }
    event.preventDefault();
    show(svg, times[Math.max(0, Math.min(last, to))]);
  }

  document.addEventListener("pointermove", pointed);
  document.addEventListener("pointerdown", pointed);
  document.addEventListener("keydown", chosen);
  document.addEventListener("focusout", hide);
  document.addEventListener("updated", draw);
})();

// Copies a command; where the browser does not allow that, it is selected, to be copied by hand.
(() => {
  document.documentElement.classList.add("scripted");
  document.addEventListener("click", async (event) => {
    const button = event.target instanceof Element ? event.target.closest("[data-copies]") : null;
    if (!button) { return; }
    const field = document.getElementById(button.dataset.copies);
    const status = button.parentNode.querySelector("[role=status]");
    field.select();
    try {
      await navigator.clipboard.writeText(field.value);
      status.textContent = "Copied.";
    } catch {
      status.textContent = "Selected: copy it by the keyboard.";
    }
    setTimeout(() => { status.textContent = ""; }, 3000);
  });
})();
