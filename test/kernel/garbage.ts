import { setImmediate, setTimeout } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** Bytes of what is in use. */
export function heapBytes(): number {
  collect();
  return process.memoryUsage().heapUsed;
}

/** How many of these objects are still reachable. */
export async function countAlive(refs: readonly WeakRef<object>[]): Promise<number> {
  // What was looked at in a job stays until the end of it.
  await setImmediate();
  for (let looks = 1; ; looks++) {
    collect();
    const alive = refs.filter((ref) => ref.deref() !== undefined).length;
    if (alive === 0 || looks === 5) return alive;
    // What V8 is compiling meanwhile holds the values that it has seen.
    await setTimeout(20);
  }
}
