// Measures one case in a process of its own, so that no other case has taught the compiler anything: node measure-case.mjs <case> <rounds>.
// Without a case it tells their names.
import { cases } from './cases.js';
import type { Gate, Times } from './harness.js';
import { measure } from './harness.js';

export interface Measured {
  readonly title: string;
  readonly n: number;
  readonly gates: readonly Gate[];
  readonly times: Readonly<Record<string, Times>>;
}

const [name, rounds] = process.argv.slice(2);
const told = name === undefined ? Object.keys(cases) : await measured(name);
process.stdout.write(JSON.stringify(told));

async function measured(name: string): Promise<Measured> {
  const one = cases[name]!;
  const { title, n, gates = [] } = one;
  return { title, n, gates, times: await measure(one, Number(rounds)) };
}
