// The parts of the page that need no browser.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./modules.mjs";
import { readFileSync } from "node:fs";
import { MAY_LOAD } from "../serve-page.mjs";

const measured = { periods: 0, judged: 0, missed: 0, due_ns: 0, delivered_ns: 0, short_ns: 0, shortfalls: [], lost: 0 };
const promise = (slice_ns, period_ns, more = {}) => ({
  slice_ns,
  period_ns,
  cpus: 1,
  gang: false,
  limit: "soft",
  mechanism: "auto",
  ...more,
});
const vm = (id, more = {}) => ({
  id,
  name: id,
  kind: "qemu",
  generation: 1,
  desired: { paused: false },
  state: { phase: "none" },
  measured,
  ...more,
});

test("a duration is read with its unit, and a wrong one has a reason and a remedy", async () => {
  const { readDuration, exactDuration, shortDuration } = await load("quantity");
  const read = (text) => readDuration(text, "slice", "2ms");
  for (const [text, ns] of [["2ms", 2e6], ["500 us", 5e5], ["1.5µs", 1500], ["7ns", 7], ["1min", 60e9], [".5s", 5e8]]) {
    assert.deepEqual(read(text), { value: ns }, text);
  }
  for (const [text, error] of [
    ["", "the slice is missing"],
    ["2", "2 has no unit"],
    ["2h", "h is no unit of time"],
    ["0ms", "the slice is zero"],
    ["fast", "fast is no time"],
    ["-1ms", "-1ms is no time"],
  ]) {
    assert.equal(read(text).error, error);
    assert.ok(read(text).help, text);
  }
  for (const ns of [1, 999, 1000, 1234567, 2e6, 10e6, 60e9, 600e9, 61e9, 123456789012]) {
    assert.equal(read(exactDuration(ns)).value, ns, exactDuration(ns));
  }
  assert.deepEqual([2e6, 1.5e9, 600e9, 61e9].map(exactDuration), ["2ms", "1.5s", "10min", "61s"]);
  assert.deepEqual([123, 1234, 12_345_678, 2e9].map(shortDuration), ["123ns", "1.23us", "12.3ms", "2.00s"]);
});

test("a slider has both ends of its range, and its steps have two digits", async () => {
  const { toSlider, fromSlider, SLICE, PERIOD, STEPS } = await load("quantity");
  for (const range of [SLICE, PERIOD]) {
    assert.deepEqual([fromSlider(0, range), fromSlider(STEPS, range)], [range.least, range.most]);
    for (let at = 0, before = 0; at <= STEPS; at += 1) {
      const ns = fromSlider(at, range);
      assert.ok(ns >= before && Number(ns.toPrecision(2)) === ns, `${ns}`);
      assert.ok(Math.abs(toSlider(ns, range) - at) <= 8, `${at}`);
      before = ns;
    }
  }
});

test("a key moves a slider from every value in its direction", async () => {
  const { moved, toSlider, SLICE } = await load("quantity");
  for (let ns = SLICE.least, count = 0; ns < SLICE.most; count += 1) {
    const next = moved(ns, toSlider(ns, SLICE) + 1, SLICE);
    assert.ok(next > ns && count < 1000, `${ns} up: ${next}`);
    assert.ok(moved(next, toSlider(next, SLICE) - 1, SLICE) < next, `${next} down`);
    ns = next;
  }
});

test("a draft changes only touched fields, so it can be applied on top of another change", async () => {
  const { applied, shownValue, simplified } = await load("draft");
  const before = { promise: promise(2e6, 10e6), weight: 50, paused: false };
  const other = { promise: promise(3e6, 20e6, { limit: "hard" }), paused: false };
  assert.deepEqual(applied({ slice: "4ms" }, before), { ...before, promise: promise(4e6, 10e6) });
  assert.deepEqual(applied({ slice: "4ms" }, other), { ...other, promise: promise(4e6, 20e6, { limit: "hard" }) });
  assert.deepEqual(applied({ promise: false, cap: "150%" }, before), { weight: 50, cap_percent: 150, paused: false });
  assert.deepEqual(applied({ weight: "" }, before), { promise: before.promise, paused: false });
  assert.equal(shownValue("slice", {}, [before, before]), "2ms");
  assert.equal(shownValue("slice", {}, [before, other]), undefined);
  assert.deepEqual(simplified({ slice: "2ms", period: "9ms" }, [before]), { period: "9ms" });
});

test("a draft that cannot be has the field, the reason and the remedy of each mistake", async () => {
  const { applied } = await load("draft");
  const mistakes = (draft, desired = { paused: false }) => applied(draft, desired).map(({ field, error }) => [field, error]);
  assert.deepEqual(mistakes({ slice: "2ms" }), [["period", "the period is missing"]]);
  assert.deepEqual(mistakes({ slice: "2", period: "1h" }), [["slice", "2 has no unit"], ["period", "h is no unit of time"]]);
  assert.deepEqual(mistakes({ slice: "3ms", period: "2ms" }), [["slice", "the slice exceeds the period"]]);
  assert.deepEqual(mistakes({ weight: "0" }), [["weight", "the weight is out of range"]]);
  assert.ok(!Array.isArray(applied({ slice: "3ms", period: "2ms", cpus: "2" }, { paused: false })));
  assert.match(applied({ slice: "3ms", period: "2ms" }, { paused: false }, 90)[0].help, /at most 1.8ms/);
});

test("VMs are sorted by numbers in names, and a VM without a value comes last in both directions", async () => {
  const { ordered, matches } = await load("rows");
  const kept = (id, slice) => vm(id, { state: { phase: "kept" }, desired: { promise: promise(slice, 10e6), paused: false } });
  const entries = [vm("vm10"), kept("vm2", 2e6), kept("vm1", 1e6)].map((vm) => ({ vm, sample: undefined }));
  const sort = (column, isDescending) => ordered(entries, "", { column, isDescending });
  assert.deepEqual(sort("name", false), ["vm1", "vm2", "vm10"]);
  assert.deepEqual(sort("granted", true), ["vm2", "vm1", "vm10"]);
  assert.deepEqual(sort("granted", false), ["vm1", "vm2", "vm10"]);
  assert.deepEqual(ordered(entries, "vm1 state:none", { column: "name", isDescending: false }), ["vm10"]);
  assert.ok(matches(vm("a", { process: { pid: 4711 } }), "471 QEMU") && !matches(vm("a"), "kind:process"));
});

test("the address of the page has what the page shows", async () => {
  const { parse, print, DEFAULT } = await load("address");
  assert.equal(print(DEFAULT), "");
  const shown = {
    view: "history",
    query: "web state:kept",
    sorting: { column: "missed", isDescending: true },
    selected: ["pid:7", "a&b"],
    range: { from_ms: 1000, to_ms: 2000 },
  };
  assert.deepEqual(parse(print(shown)), shown);
  assert.deepEqual(parse("?view=x&sort=y&last=-1&from=3&to=2"), DEFAULT);
});

test("messages of the stream are read across the pieces in which they arrive", async () => {
  const { MessageReader } = await load("server-events");
  const text = ": alive\n\nid: 7\nevent: state\ndata: {\"a\":1}\n\nevent: vms\r\ndata: 1\r\ndata:2\r\n\r\n";
  const expected = [
    { name: "state", data: '{"a":1}', id: "7" },
    { name: "vms", data: "1\n2" },
  ];
  for (const length of [1, 3, text.length]) {
    const reader = new MessageReader();
    const read = [];
    for (let at = 0; at < text.length; at += length) read.push(...reader.read(text.slice(at, at + length)));
    assert.deepEqual(read, expected);
  }
});

test("samples are rates, and a new promise begins at zero", async () => {
  const { Samples } = await load("samples");
  const samples = new Samples();
  const time = (ran_ns, waited_ns) => ({ ran_ns, waited_ns, dispatches: ran_ns / 1e6 });
  const usage = (ran_ns) => ({ id: "a", pid: 1, vcpus: 1, of_vcpus: time(ran_ns, ran_ns / 4), of_others: time(9, 9) });
  samples.add(0, usage(0), { ...measured, periods: 10, judged: 10, missed: 4 });
  assert.equal(samples.recent(), undefined);
  samples.add(1e9, usage(5e8), { ...measured, periods: 20, judged: 20, missed: 5 });
  assert.deepEqual([samples.recent().used, samples.recent().waited, samples.recent().missed], [0.5, 0.125, 1]);
  const { latency } = await load("rows");
  assert.deepEqual([latency(samples.recent()), latency(undefined)], [250e3, undefined]);
  samples.add(2e9, usage(5e8), { ...measured, periods: 2, judged: 2, missed: 2 });
  assert.deepEqual([samples.recent().used, samples.recent().missed, samples.recent().judged], [0.25, 3, 12]);
});

test("a reply that has overtaken the stream stays until the stream has it, or begins again", async () => {
  const { applyVms, rows } = await load("store");
  const generation = () => rows.get("a").vm.peek().generation;
  const message = (generation) => ({ at_ms: 0, vms: [vm("a", { generation })], gone: [] });
  applyVms(message(4), true);
  rows.get("a").vm.value = vm("a", { generation: 6 });
  applyVms(message(5), false);
  assert.equal(generation(), 6);
  applyVms(message(7), false);
  assert.equal(generation(), 7);
  applyVms(message(1), true);
  assert.equal(generation(), 1, "a service without its state counts anew");
});

test("a change is undone to the state before, or to what the VM carries", async () => {
  const { undo, description } = await load("change-log");
  const changed = (number, by, before, desired) => ({ number, at_ms: 0, vm: "a", event: "changed", by, before, desired });
  const [nothing, weight, more] = [{ paused: false }, { weight: 5, paused: false }, { weight: 9, paused: false }];
  const all = [changed(1, "label-file", nothing, weight), changed(2, "uid:0", weight, more), changed(3, "uid:0", more, nothing)];
  assert.deepEqual(undo(all[2], all), { id: "a", desired: more, isLast: true });
  assert.deepEqual(undo(all[1], all), { id: "a", desired: nothing, isLast: false });
  assert.equal(undo(changed(4, "uid:0", weight, weight), all), undefined);
  assert.equal(description(all[1]), "weight 5 → weight 9");
});

test("a recording finds the thread at a time, and zooms around it", async () => {
  const { NOTHING, extended, runAt, totals, zoomed } = await load("recording");
  const timeline = (from_ns) => ({
    from_ns,
    length_ns: 100,
    cpus: [{ cpu: 0, stretches: [[0, 40, 0], [50, 100, 1]] }],
    threads: [{ tid: 7, is_vcpu: true }, { tid: 8, is_vcpu: false }],
    lost: 1,
  });
  const two = extended(extended(NOTHING, timeline(1000), 1e9), timeline(1200), 1e9);
  assert.equal(runAt(two, 0, 1060).tid, 8);
  assert.equal(runAt(two, 0, 1045), undefined);
  assert.equal(runAt(two, 0, 1150), undefined);
  assert.equal(runAt(two, 0, 1210).tid, 7);
  assert.deepEqual(totals(two, { from: 1000, to: 1060 }).map(({ tid, ran }) => [tid, ran]), [[7, 40], [8, 10]]);
  assert.equal(extended(two, timeline(1400), 250).spans.length, 2);
  const overlapping = extended(extended(NOTHING, timeline(1000), 1e9), timeline(1060), 1e9);
  assert.deepEqual(totals(overlapping, { from: 1000, to: 1160 }).map(({ tid, ran, runs }) => [tid, ran, runs]), [[8, 100, 2], [7, 40, 1]]);
  assert.deepEqual(extended(overlapping, timeline(1000), 1e9).spans, overlapping.spans);
  const whole = { from: 0, to: 1e9 };
  assert.deepEqual(zoomed(whole, 0.5, 0, whole), { from: 0, to: 5e8 });
  assert.deepEqual(zoomed({ from: 0, to: 5e8 }, 4, 1e8, whole), whole);
});

test("the history of a range comes from the finest grid that reaches back to it", async () => {
  const { gridFor, columns } = await load("past");
  const grids = [
    { interval_ms: 1000, from_ms: 700_000, length: 2 },
    { interval_ms: 15_000, from_ms: 100_000, length: 1 },
  ];
  assert.deepEqual([800_000, 699_500, 500_000, 0].map((from) => gridFor(grids, from)), [0, 0, 1, 1]);
  const series = { judged: [4, null], missed: [1, null], due_us: [100, null], delivered_us: [90, null], short_us: [2000, null] };
  const { times, vms } = columns({ grids, vms: [{ id: "a", name: "a", series: [series] }] }, 0, () => true);
  assert.deepEqual(times, [700.5, 701.5]);
  assert.deepEqual(vms[0].values, { missed: [25, null], delivered: [90, null], short: [2, null] });
});

test("a preview has what is in force, and a VM of unknown demand is always runnable", async () => {
  const { previewRequest } = await load("preview");
  const promise = { slice_ns: 9e6, period_ns: 10e6, cpus: 1, gang: false, limit: "soft", mechanism: "auto" };
  const vm = (id, phase) => ({ id, process: { pid: 1 }, desired: { promise, paused: false }, state: { phase } });
  const demand = { vms: [{ id: "kept", period_left_ns: 7, threads: [{ is_vcpu: true, is_observed: true, bursts: [[0, 1, 2]] }] }] };
  const cpus = { cpus: [{ cpu: 0, promises: [] }, { cpu: 1, promises: [{ vm: "kept" }] }] };
  const observed = { host: { cpus: 2 }, policy: { name: "edf", knobs: {} }, cpus, demand };
  const all = [vm("kept", "kept"), vm("refused", "refused")];
  const { vms } = previewRequest(observed, all, new Map());
  assert.deepEqual(vms.map(({ desired }) => desired.promise?.slice_ns), [9e6, undefined]);
  assert.deepEqual(vms.map(({ threads }) => threads[0].is_observed), [true, false]);
  assert.deepEqual(vms.map(({ cpus }) => cpus), [[1], []]);
  assert.deepEqual(vms.map(({ period_left_ns }) => period_left_ns), [7, undefined]);
  const changed = previewRequest(observed, all, new Map([["refused", { promise, paused: false }]]));
  assert.deepEqual(changed.vms.map(({ is_changed }) => is_changed), [false, true]);
  assert.equal(changed.vms[1].desired.promise.slice_ns, 9e6);
});

test("the pages of the tests may load what the pages of the program may", () => {
  const program = readFileSync(new URL("../../../crates/page/src/assets.rs", import.meta.url), "utf8");
  const [, text] = /MAY_LOAD: &str = "([^"]+)"/.exec(program);
  assert.equal(MAY_LOAD, text.replace(/\\\n\s*/g, ""));
});
