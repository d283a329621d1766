import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** Collects until `done`, or for two seconds: what was collected is told later, in turns of their own. */
export async function collectGarbage(done: () => boolean): Promise<void> {
  for (let turn = 0; turn < 100; turn++) {
    collect();
    await sleep(20);
    if (done()) return;
  }
}
