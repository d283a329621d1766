import { createLimiter, lanes } from '../../operators/index.js';
import { createStages } from '../../src/pipelines/create-stages.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

const known = 'stages, batches, limiter, lane, journal, id, classify, onEvent, name, scheduler, random';
const fields = 'name, work, steps, expands, concurrency, scope, timeoutMs, deadlineMs, allowPartialFailure, retry, cost, local';

const stage = { name: 'answer', work: (question: string) => question };
const limiter = createLimiter({ queue: lanes([{ name: 'now' }, { name: 'later' }]) });

/** Says one thing of a stage, or of how documents are taken. */
const ofStage = (field: string) => (value: never) => createStages({ stages: [{ ...stage, [field]: value }] });
const ofBatches =
  (field: string, besides = {}) =>
  (value: never) =>
    createStages({ stages: [stage], batches: { ...besides, [field]: value } });

const byPriority = { scheduling: 'priority', priority: () => 0 };
const count = 'a whole number >= 1 or Infinity';
const notCount = [NaN, 0, -1, 1.5, -Infinity, '4', null, true, {}];
const positive = 'a number > 0 or Infinity';
const notPositive = [NaN, 0, -1, -Infinity, '1000', null, true, {}];
const journal = { recall: () => [], append: () => undefined };

export const rows: MisuseTable = {
  operator: 'createStages',
  create: (options: never) => createStages(Object(options) === options ? { stages: [stage], ...(options as object) } : options),
  calls: {
    ...Object.fromEntries([...fields.split(', '), 'retries'].map((field) => [`stages[0].${field}`, ofStage(field)])),
    'stages[0]': (value: never) => createStages({ stages: [value] }),
    'stages[1].name': (name: never) => createStages({ stages: [stage, { ...stage, name }] }),
    'none.stages[0].work': () => createStages({ stages: [{ name: 'answer' } as never] }),
    'local.stages[0].cost': (cost: never) => createStages({ stages: [{ ...stage, local: true, cost }] }),
    'stages[0].cost.tokens': (tokens: never) => createStages({ stages: [{ ...stage, cost: { tokens } }] }),
    'stages[0].cost.slots': (slots: never) => createStages({ stages: [{ ...stage, cost: { slots } }] }),
    'stages[0].cost.requests': (requests: never) => createStages({ stages: [{ ...stage, cost: { requests } }] }),
    'options.retry.maxAttempts': (maxAttempts: never) => createStages({ stages: [{ ...stage, retry: { maxAttempts } }] }),
    'stages[0].retry': ofStage('retry'),
    'options.retry': ofStage('retry'),
    'options.batches.concurrency': ofBatches('concurrency'),
    'options.batches.scheduling': ofBatches('scheduling'),
    'options.batches.priority': ofBatches('priority', { scheduling: 'priority' }),
    'options.batches.maxQueued': ofBatches('maxQueued', byPriority),
    'fair.batches.priority': ofBatches('priority'),
    'fair.batches.maxQueued': ofBatches('maxQueued'),
    'options.batches.size': ofBatches('size'),
    'run.input': (input: never) => createStages({ stages: [stage] }).run(input),
    'drain.timeoutMs': (timeoutMs: never) => createStages({ stages: [stage] }).drain({ timeoutMs }),
    'shutdownOn.signal': (signal: never) => createStages({ stages: [stage] }).shutdownOn(signal),
  },
  rows: [
    ...badly('stages', 'a list of at least one stage', null, undefined, 5, 'answer', {}, [], stage),
    ...badly('stages[0].name', 'a non-empty string', '', null, undefined, 5, {}),
    ...badly('stages[1].name', 'one that no stage before has', 'answer'),
    ...badly('stages[0].work', 'a function', null, 5, 'run', {}),
    ...badly('none.stages[0].work', 'a function', undefined),
    ...badly('stages[0].steps', 'a function', null, 5, 'run', {}),
    ...badly('stages[0].steps', 'absent beside `work`', () => 1),
    ...['expands', 'allowPartialFailure', 'local'].flatMap((field) => badly(`stages[0].${field}`, 'true or false', null, 0, 1, 'yes', {})),
    ...badly('stages[0].concurrency', count, ...notCount),
    ...badly('stages[0].scope', "one of 'shared', 'perBatch'", 'perDocument', null, 5, {}),
    ...badly('stages[0].timeoutMs', positive, ...notPositive),
    ...badly('stages[0].deadlineMs', positive, ...notPositive),
    ...badly('stages[0].cost', 'an object', null, 5, 'much', true),
    ...['tokens', 'slots', 'requests'].flatMap((unit) =>
      badly(`stages[0].cost.${unit}`, 'a finite number >= 0', NaN, -1, Infinity, '5', null, {}),
    ),
    ...badly('local.stages[0].cost', 'absent in a `local` stage', { tokens: 5 }),
    ...badly('stages[0].retries', `absent (known options: ${fields})`, 5),
    ...badly('options.retry', 'an object or false', null, true, 3, 'twice'),
    ...badly('options.retry.maxAttempts', count, ...notCount),
    ...badly('batches', 'an object', null, 5, 'fair'),
    ...badly('options.batches.concurrency', count, ...notCount),
    ...badly('options.batches.scheduling', "one of 'fair', 'priority', 'roundRobin'", 'round_robin', null, 5, {}),
    ...badly('options.batches.priority', 'a function', undefined, null, 5, 'high', {}),
    ...badly('options.batches.maxQueued', 'a whole number >= 0 or Infinity', NaN, -1, 1.5, '10', null, true),
    ...badly('fair.batches.priority', "absent without `scheduling: 'priority'`", () => 0),
    ...badly('fair.batches.maxQueued', "absent without `scheduling: 'priority'`", 5),
    ...badly('options.batches.size', 'absent (known options: concurrency, scheduling, priority, maxQueued)', 5),
    ...badly('limiter', 'a limiter made by createLimiter', null, 5, 'limiter', {}),
    ...badly('lane', 'absent without a `limiter`', 'now', null, 5),
    { option: 'lane', value: 'soon', expected: 'a lane the limiter has (now,later)', besides: { limiter } },
    ...badly(
      'journal',
      'an object with `recall` and `append`',
      null,
      5,
      [],
      'file',
      { recall: journal.recall },
      { append: journal.append },
    ),
    ...badly('id', 'a function', null, 5, 'name', {}),
    ...badly('classify', 'a function', null, true, 'fatal', {}),
    ...badly('onEvent', 'a function', console, 'log', null),
    ...badly('name', 'a non-empty string', '', 5, null),
    ...badly('scheduler', 'an rxjs scheduler', 5, null, {}, { now: () => 0 }),
    ...badly('random', 'a function', null, 0.5, 'chance', {}),
    ...badly('documents', `absent (known options: ${known})`, 5),
    ...badly('run.input', 'an Iterable, an AsyncIterable or a ReadableStream', null, undefined, 5, {}),
    ...badly('drain.timeoutMs', 'a number of milliseconds >= 0 or Infinity', NaN, -1, '5', null),
    ...badly('shutdownOn.signal', 'an AbortSignal', undefined, null, 5, {}),
  ],
};
