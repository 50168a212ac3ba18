// Keeps a page up to date: loads it again every two seconds and replaces the parts that changed. All others stay
// as they are, so nothing flickers, and scroll, focus, selection and opened details stay.
"use strict";
(() => {
  const PERIOD = 2000;
  const PATIENCE = 10000;
  const PAUSE = 300;
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
