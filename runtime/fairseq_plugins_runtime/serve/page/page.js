"use strict";

const $ = (id) => document.getElementById(id);
let models = [];
let limit = 0;
let running = null; // aborts what an earlier click started

async function ask(path, body, signal) {
  const options = body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(path, { ...options, signal });
  const answer = await response.json().catch(() => ({ error: "the service answered " + response.status }));
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

function fill(select, options, wanted) {
  select.replaceChildren(...options.map(([value, text]) => new Option(text, value, false, value === wanted)));
}

function chosen() {
  return models.find((model) => model.source === $("source").value && model.target === $("target").value);
}

function sourceChanged() {
  const targets = models.filter((model) => model.source === $("source").value);
  fill($("target"), targets.map((model) => [model.target, model.names[1]]), $("target").value);
  pairChanged();
}

function pairChanged() {
  const model = chosen();
  $("model").textContent = `${model.kind.replace("_", " ")}, ${model.precision}`;
  $("text").lang = model.source;
  $("translation").lang = model.target;
  clear();
}

function clear() {
  $("trace").hidden = true;
  $("translation").textContent = $("error").textContent = $("status").textContent = "";
}

function counted() {
  const length = [...$("text").value].length;
  $("count").textContent = `${length} of ${limit} characters.`;
}

async function during(work) {
  if (running) running.abort();
  const mine = (running = new AbortController());
  try {
    await work(mine.signal);
  } catch (error) {
    if (mine.signal.aborted) return;
    $("status").textContent = "";
    $("error").textContent = error instanceof TypeError ? "The service does not answer." : error.message;
  }
}

function translate(event) {
  event.preventDefault();
  clear();
  const model = chosen();
  const body = { q: $("text").value, source: model.source, target: model.target };
  const lines = body.q.split(/\r\n|\r|\n/).map((line, number) => [line.trim(), number + 1]).filter(([line]) => line);
  $("status").textContent = "Translating …";
  return during(async (signal) => {
    const answer = await ask("translate", body, signal);
    $("translation").textContent = answer.translatedText;
    $("status").textContent = "";
    if (model.kind !== "slots" || !lines.length) return;
    fill($("line"), lines.map(([line, number]) => [line, `${number}: ${line.slice(0, 40)}`]));
    $("choice").hidden = lines.length === 1;
    await trace(signal);
  });
}

async function trace(signal) {
  const model = chosen();
  const { passes } = await ask("trace", { q: $("line").value, source: model.source, target: model.target }, signal);
  $("slots").replaceChildren(...passes.map((slots, number) => row(slots, passes[number - 1], number)));
  $("trace").hidden = false;
}

function row(slots, before, number) {
  const line = document.createElement("tr");
  line.className = "new";
  line.style.setProperty("--row", number);
  const head = document.createElement("th");
  head.scope = "row";
  const comparable = before && before.length === slots.length;
  const changes = comparable ? slots.filter((slot, place) => slot !== before[place]).length : slots.length;
  const note = document.createElement("small");
  note.textContent = comparable ? `changed ${changes} of ${slots.length}` : `${slots.length} slots`;
  head.append(number ? `Pass ${number}` : "Alignment", note);
  line.append(head, ...slots.map((slot, place) => cell(slot, slots[place - 1], comparable ? before[place] : slot)));
  return line;
}

// A piece that begins a word has "▁" before it: shown as a line on its left.
function shown(slot) {
  return slot.replace(/^▁(?=.)/, "") || "empty";
}

function cell(slot, left, before) {
  const changed = slot !== before;
  const repeats = slot && slot === left;
  const item = document.createElement("td");
  const marks = { blank: !slot, repeats, changed, word: slot.startsWith("▁") };
  item.className = ["slot", ...Object.keys(marks).filter((mark) => marks[mark])].join(" ");
  item.textContent = slot ? shown(slot) : "·";
  item.lang = chosen().target;
  const label = shown(slot) + (repeats ? ", repeated" : "") + (changed ? `, was ${shown(before)}` : "");
  item.title = label;
  if (changed || repeats || !slot) item.setAttribute("aria-label", label);
  return item;
}

async function start() {
  try {
    const answer = await ask("models");
    models = answer.models;
    limit = answer.limits.max_characters;
  } catch (error) {
    $("error").textContent = "The service does not answer.";
    return;
  }
  const sources = new Map(models.map((model) => [model.source, model.names[0]]));
  fill($("source"), [...sources], models[0].source);
  sourceChanged();
  counted();
  $("source").addEventListener("change", sourceChanged);
  $("target").addEventListener("change", pairChanged);
  $("line").addEventListener("change", () => during(trace));
  $("text").addEventListener("input", counted);
  $("form").addEventListener("submit", translate);
  $("text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("form").requestSubmit();
  });
}

start();
