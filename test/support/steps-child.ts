import { Session } from 'node:inspector/promises';
import type { Scenario } from './steps.js';

/** Array methods that walk without running a block of ours. */
const WALKS = ['shift', 'unshift', 'splice', 'slice', 'concat', 'indexOf', 'lastIndexOf', 'includes', 'fill', 'sort', 'reverse'] as const;

/** The steps of each scenario in the code of one script. */
export async function countSteps(scenarios: Readonly<Record<string, Scenario>>, url: string): Promise<Record<string, number>> {
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  const counts: Record<string, number> = {};
  for (const [name, setUp] of Object.entries(scenarios)) {
    const run = setUp();
    await session.post('Profiler.takePreciseCoverage');
    const walked = walkedBy(run);
    const { result } = await session.post('Profiler.takePreciseCoverage');
    const blocks = result
      .filter((script) => script.url === url)
      .flatMap(({ functions }) => functions.flatMap(({ ranges }) => ranges.map(({ count }) => count)));
    counts[name] = blocks.reduce((sum, count) => sum + count, walked);
  }
  session.disconnect();
  return counts;
}

/** Elements that the array methods have walked over. */
function walkedBy(run: () => void): number {
  let walked = 0;
  const methods = Array.prototype as unknown as Record<(typeof WALKS)[number], (this: unknown[], ...args: unknown[]) => unknown>;
  const originals = WALKS.map((name) => [name, methods[name]] as const);
  for (const [name, original] of originals) {
    methods[name] = function (...args) {
      walked += this.length;
      return original.apply(this, args);
    };
  }
  try {
    run();
  } finally {
    for (const [name, original] of originals) methods[name] = original;
  }
  return walked;
}
