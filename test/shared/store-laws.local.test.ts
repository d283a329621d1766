import { join } from 'node:path';
import { describe, it } from 'vitest';
import { creditStoreLaws } from '../../marbles/index.js';
import { storeLaws } from '../../marbles/store-laws/rules.js';
import { localStore } from '../../src/shared/local-store.js';
import { sized } from '../support/deep.js';
import { testFolder } from './support/processes.js';

/** Long enough that the steps of a schedule fit into one of them on a busy machine. */
const WINDOW_MS = 400;

const TITLES = storeLaws.filter(({ appliesTo }) => appliesTo === undefined).map(({ title }) => title);

describe('the store of one machine, in real time', () => {
  // They mostly wait.
  it.concurrent.for(TITLES)('%s', async (title, { expect, onTestFinished }) => {
    const folder = testFolder(onTestFinished);
    let stores = 0;
    const make = () => ({ store: localStore({ name: 'tested', folder: join(folder, String(++stores)) }) });
    const options = { only: [title], schedules: sized(1, 5), windowMs: WINDOW_MS };
    await expect(creditStoreLaws(make, options)).resolves.toEqual([title]);
  });
});
