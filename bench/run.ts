import { cpus } from 'node:os';
import { batchBySize, batchBySizeOrTime, callsOfOne, callsOfTwenty, growth, loadsInWaves, promiseForm } from './cases.js';
import { measure, table } from './harness.js';

const ROUNDS = 5;

console.log(
  `node ${process.version}, ${String(cpus().length)} × ${cpus()[0]?.model ?? 'unknown'}; CPU time, median of ${String(ROUNDS)} interleaved rounds\n`,
);

const cases = [
  batchBySize(1e6),
  batchBySizeOrTime(1e6),
  callsOfOne(1e4),
  callsOfTwenty(1e5),
  promiseForm(1e4),
  promiseForm(1e5),
  loadsInWaves(1e5),
];
for (const one of cases) {
  const rows = await measure(one, ROUNDS);
  console.log(
    `${one.name}\n${table(
      ['contestant', 'ns per item', 'ratio'],
      rows.map((row) => [row.name, row.nsPerItem.toFixed(0), row.ratio.toFixed(2)]),
    )}\n`,
  );
}

const sizes = [1e4, 1e5, 1e6];
const costs: number[] = [];
for (const size of sizes) costs.push((await measure(growth(size), 3))[0]?.nsPerItem ?? NaN);
const rows = sizes.map((size, i) => [
  size.toLocaleString('en'),
  (costs[i] as number).toFixed(0),
  ((costs[i] as number) / (costs[0] as number)).toFixed(2),
]);
console.log(
  `cost per item as the queue grows (batchMap, three lanes, calls of 20)\n${table(['queued', 'ns per item', 'ratio to 10,000'], rows)}`,
);
