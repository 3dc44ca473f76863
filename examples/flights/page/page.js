/** Delays of airlines as Spark writes them to a topic: each message is one day of one carrier, and is added up here. */

import { connect, jsonOf } from "/client/index.js";

const DAY_MS = 24 * 60 * 60 * 1000;
const FIRST_DAY_MS = Date.UTC(2013, 0, 1);
const DAYS = 365;
/** A day whose flights are so many minutes late, on average, is as red as any. */
const RED_MINUTES = 60;

const count = new Intl.NumberFormat("en");
const carriers = new Map();
const seen = new Set();
const days = new Set();
let repeated = 0;
let drawing = 0;

const element = (id) => document.getElementById(id);

function showState(state, reason) {
  const status = element("status");
  status.dataset.state = state;
  status.textContent = { open: "live", waiting: "connecting again", closed: "over" }[state];
  if (reason) status.textContent += `: ${reason.message}`;
}

function take(delay) {
  const name = `${delay.day} ${delay.carrier}`;
  if (seen.has(name)) repeated += 1;
  seen.add(name);
  days.add(delay.day);
  if (!carriers.has(delay.carrier)) carriers.set(delay.carrier, new Carrier(delay));
  carriers.get(delay.carrier).add(delay);
  drawing ||= requestAnimationFrame(draw);
}

class Carrier {
  flights = 0;
  cancelled = 0;
  arrived = 0;
  late = 0;
  minutes = 0;

  constructor({ carrier, airline }) {
    this.row = document.createElement("tr");
    this.row.dataset.carrier = carrier;
    const title = document.createElement("th");
    title.scope = "row";
    title.textContent = airline;
    this.row.append(title);
    this.cells = ["flights", "mean", "late", "cancelled"].map((name) => {
      const cell = document.createElement("td");
      cell.className = "number";
      cell.dataset.value = name;
      this.row.append(cell);
      return cell;
    });
    this.year = document.createElement("canvas");
    this.year.width = DAYS;
    this.year.height = 1;
    this.year.role = "img";
    this.year.ariaLabel = `Mean delays of ${airline}, day by day`;
    const cell = document.createElement("td");
    cell.append(this.year);
    this.row.append(cell);
  }

  add(delay) {
    for (const name of ["flights", "cancelled", "arrived", "late", "minutes"]) this[name] += delay[name];
    if (delay.arrived === 0) return;
    const at = (Date.parse(delay.day) - FIRST_DAY_MS) / DAY_MS;
    const lateness = Math.min(1, Math.max(0, delay.minutes / delay.arrived / RED_MINUTES));
    const pen = this.year.getContext("2d");
    pen.fillStyle = `hsl(${170 - 170 * lateness} ${30 + 45 * lateness}% ${70 - 22 * lateness}%)`;
    pen.fillRect(at, 0, 1, 1);
  }

  draw() {
    const texts = [
      count.format(this.flights),
      minutes(this),
      percent(this.late, this.arrived),
      percent(this.cancelled, this.flights),
    ];
    for (const [index, text] of texts.entries()) this.cells[index].textContent = text;
  }
}

const minutes = ({ minutes, arrived }) => (arrived ? `${(minutes / arrived).toFixed(1)} min` : "–");
const percent = (part, whole) => (whole ? `${((100 * part) / whole).toFixed(1)} %` : "–");

function draw() {
  drawing = 0;
  const all = [...carriers.values()].sort((one, two) => two.flights - one.flights);
  const total = { flights: 0, minutes: 0, arrived: 0 };
  for (const carrier of all) {
    carrier.draw();
    for (const name of Object.keys(total)) total[name] += carrier[name];
  }
  const body = element("airlines");
  if (all.some((carrier, index) => body.children[index] !== carrier.row)) {
    body.replaceChildren(...all.map((carrier) => carrier.row));
  }
  element("flights").textContent = count.format(total.flights);
  element("days").textContent = count.format(days.size);
  element("mean").textContent = minutes(total);
  element("results").textContent = count.format(seen.size);
  element("repeated").textContent = count.format(repeated);
}

async function asked(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(await answer.text());
  return answer;
}

try {
  const { url, stream, topic } = await (await asked("/settings")).json();
  const client = await connect({ url, token: async () => (await asked("/token")).text(), onState: showState });
  const delays = await client.subscribe({ topics: [{ stream, topic, start: "first" }] });
  for await (const message of delays) take(jsonOf(message));
} catch (error) {
  showState("closed", error);
}
