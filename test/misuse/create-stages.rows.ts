import { createLimiter, lanes, tokenBucket } from '../../operators/index.js';
import { createStages } from '../../src/pipelines/create-stages.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, misspelt, unknown, wrong } from '../support/misuse.js';

const known = 'batches, limiter, lane, journal, id, classify, onEvent, name, scheduler, random';
const fields = 'name, work, steps, expands, concurrency, scope, timeoutMs, deadlineMs, allowPartialFailure, retry, cost, local';

const stage = { name: 'answer', work: (question: string) => question };
/** Counts a unit of its own. */
const counting = createLimiter({ rates: [tokenBucket({ unit: 'images', amount: 5, windowMs: 1000 })] });
const limiter = createLimiter({ queue: lanes([{ name: 'now' }, { name: 'later' }]) });

/** Says one thing of a stage, or of how documents are taken. */
const ofStage = (field: string) => (value: never) => createStages([{ ...stage, [field]: value }]);
const ofBatches =
  (field: string, besides = {}) =>
  (value: never) =>
    createStages([stage], { batches: { ...besides, [field]: value } });

const byPriority = { scheduling: 'priority', priority: () => 0 };
const count = 'a whole number >= 1 or Infinity';
const notCount = [NaN, 0, -1, 1.5, -Infinity, '4', null, true, {}];
const positive = 'a number > 0 or Infinity';
const notPositive = [NaN, 0, -1, -Infinity, '1000', null, true, {}];
const journal = { recall: () => [], append: () => undefined };

export const rows: MisuseTable = {
  operator: 'createStages',
  create: (options: never) => createStages([stage], options),
  calls: {
    ...Object.fromEntries([...fields.split(', '), 'retries'].map((field) => [`stages[0].${field}`, ofStage(field)])),
    stages: (stages: never) => createStages(stages),
    'stages[0]': (value: never) => createStages([value]),
    'stages[1].name': (name: never) => createStages([stage, { ...stage, name }]),
    'none.stages[0].work': () => createStages([{ name: 'answer' } as never]),
    'local.stages[0].cost': (cost: never) => createStages([{ ...stage, local: true, cost }]),
    'stages[0].cost.tokens': (tokens: never) => createStages([{ ...stage, cost: { tokens } }]),
    'stages[0].cost.slots': (slots: never) => createStages([{ ...stage, cost: { slots } }]),
    'stages[0].cost.requests': (requests: never) => createStages([{ ...stage, cost: { requests } }]),
    'stages[0].cost.tokns': (tokns: never) => createStages([{ ...stage, cost: { tokns } }]),
    'counted.stages[0].cost.image': (image: never) => createStages([{ ...stage, cost: { image } }], { limiter: counting }),
    'stages[0].retry.maxAttempts': (maxAttempts: never) => createStages([{ ...stage, retry: { maxAttempts } }]),
    'stages[0].retry': ofStage('retry'),
    'options.batches.concurrency': ofBatches('concurrency'),
    'options.batches.scheduling': ofBatches('scheduling'),
    'options.batches.priority': ofBatches('priority', { scheduling: 'priority' }),
    'options.batches.maxQueued': ofBatches('maxQueued', byPriority),
    'fair.batches.priority': ofBatches('priority'),
    'fair.batches.maxQueued': ofBatches('maxQueued'),
    'options.batches.size': ofBatches('size'),
    'run.input': (input: never) => createStages([stage]).run(input),
    'drain.timeoutMs': (timeoutMs: never) => createStages([stage]).drain({ timeoutMs }),
    'shutdownOn.signal': (signal: never) => createStages([stage]).shutdownOn(signal),
  },
  rows: [
    ...badly('stages', 'a list of at least one stage', null, undefined, 5, 'answer', {}, [], stage),
    ...badly('stages[0].name', 'a non-empty string', '', null, undefined, 5, {}),
    ...wrong('stages[1].name', 'two stages are called `answer`', 'Rename one of them.', 'answer'),
    ...badly('stages[0].work', 'a function', null, 5, 'run', {}),
    ...badly('none.stages[0].work', 'a function', undefined),
    ...badly('stages[0].steps', 'a function', null, 5, 'run', {}),
    ...wrong('stages[0].steps', '`{option}` cannot be combined with `work`', 'Remove one of them.', () => 1),
    ...['expands', 'allowPartialFailure', 'local'].flatMap((field) => badly(`stages[0].${field}`, 'true or false', null, 0, 1, 'yes', {})),
    ...badly('stages[0].concurrency', count, ...notCount),
    ...badly('stages[0].scope', "one of 'shared', 'perBatch'", 'perDocument', null, 5, {}),
    ...badly('stages[0].timeoutMs', positive, ...notPositive),
    ...badly('stages[0].deadlineMs', positive, ...notPositive),
    ...badly('stages[0].cost', 'an object', null, 5, 'much', true),
    ...['tokens', 'slots', 'requests'].flatMap((unit) =>
      badly(`stages[0].cost.${unit}`, 'a finite number >= 0', NaN, -1, Infinity, '5', null, {}),
    ),
    ...misspelt('stages[0].cost.tokns', 'stages[0].cost.tokens', 5),
    ...unknown('counted.stages[0].cost.image', 'slots, requests, tokens, inputTokens, outputTokens', 5),
    ...wrong('local.stages[0].cost', '`{option}` cannot be combined with `local`', 'Remove one of them: a local stage makes no requests.', {
      tokens: 5,
    }),
    ...unknown('stages[0].retries', fields, 5),
    ...badly('stages[0].retry', 'an object or false', null, true, 3, 'twice'),
    ...badly('stages[0].retry.maxAttempts', count, ...notCount),
    ...badly('batches', 'an object', null, 5, 'fair'),
    ...badly('options.batches.concurrency', count, ...notCount),
    ...badly('options.batches.scheduling', "one of 'fair', 'priority', 'roundRobin'", 'round_robin', null, 5, {}),
    ...badly('options.batches.priority', 'a function', undefined, null, 5, 'high', {}),
    ...badly('options.batches.maxQueued', 'a whole number >= 0 or Infinity', NaN, -1, 1.5, '10', null, true),
    ...wrong('fair.batches.priority', "`{option}` needs `scheduling: 'priority'`", 'Add it, or remove `{option}`.', () => 0),
    ...wrong('fair.batches.maxQueued', "`{option}` needs `scheduling: 'priority'`", 'Add it, or remove `{option}`.', 5),
    ...unknown('options.batches.size', 'concurrency, scheduling, priority, maxQueued', 5),
    ...badly('limiter', 'a limiter made by createLimiter or createAccount', null, 5, 'limiter', {}),
    ...wrong('lane', '`{option}` needs `limiter`', 'Add it, or remove `{option}`.', 'now', null, 5),
    { option: 'lane', value: 'soon', expected: 'a lane of the limiter (now, later)', besides: { limiter } },
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
    ...unknown('documents', known, 5),
    ...badly('run.input', 'an Iterable, an AsyncIterable or a ReadableStream', null, undefined, 5, {}),
    ...badly('drain.timeoutMs', 'a number of milliseconds >= 0 or Infinity', NaN, -1, '5', null),
    ...badly('shutdownOn.signal', 'an AbortSignal', undefined, null, 5, {}),
  ],
};
