import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
/** Collects once; what was collected is told later, in turns of their own. */
export const collectNow = runInNewContext('gc') as () => void;

/** Collects until `done`, or for two seconds. */
export async function collectGarbage(done: () => boolean): Promise<void> {
  for (let turn = 0; turn < 100; turn++) {
    collectNow();
    await sleep(20);
    if (done()) return;
  }
}
