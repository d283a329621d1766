import * as z from 'zod';
import { createLimiter, lanes } from '../../operators/index.js';
import { createToolRunner } from '../../src/pipelines/create-tool-runner.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, misspelt, unknown, wrong } from '../support/misuse.js';

const known =
  'tools, concurrency, limiter, lane, guard, budget, timeoutMs, retry, classify, maxQueued, maxResultChars, abortGraceMs, name, onEvent, scheduler, random';
const fields =
  'name, description, parameters, jsonSchema, execute, format, concurrency, timeoutMs, cost, readOnly, idempotent, retry, classify, runsTools';

const tool = { name: 'read', description: 'Reads.', parameters: z.unknown(), execute: () => 'text' };
const call = { id: 'a', name: 'read', input: {} };

/** Says one thing of a tool. */
const ofTool = (field: string) => (value: never) => createToolRunner({ tools: [{ ...tool, [field]: value }] });
const ofCall = (field: string) => (value: never) => createToolRunner({ tools: [tool] }).run([{ ...call, [field]: value }]);
const ofRun = (field: string) => (value: never) => createToolRunner({ tools: [tool] }).run([call], { [field]: value });

const positive = 'a number > 0 or Infinity';
const count = 'a whole number >= 1 or Infinity';
const notPositive = [NaN, 0, -1, -Infinity, '1000', null, true, {}];
const notCount = [NaN, 0, -1, 1.5, -Infinity, '4', null, true, {}];
const limiter = createLimiter({ queue: lanes([{ name: 'now' }, { name: 'later' }]) });

export const rows: MisuseTable = {
  operator: 'createToolRunner',
  create: (options: never) => createToolRunner(Object(options) === options ? { tools: [tool], ...(options as object) } : options),
  calls: {
    ...Object.fromEntries(
      [
        'name',
        'description',
        'parameters',
        'jsonSchema',
        'execute',
        'format',
        'cost',
        'concurrency',
        'timeoutMs',
        'readOnly',
        'idempotent',
        'classify',
        'runsTools',
        'timeout',
        'priority',
      ].map((field) => [`tools[0].${field}`, ofTool(field)]),
    ),
    'tools[0]': (value: never) => createToolRunner({ tools: [value] }),
    'tools[1].name': (name: never) => createToolRunner({ tools: [tool, { ...tool, name }] }),
    'options.retry.maxAttempts': (maxAttempts: never) => createToolRunner({ tools: [tool], retry: { maxAttempts } }),
    'own.tools[0].retry.maxAttempts': (maxAttempts: never) => createToolRunner({ tools: [{ ...tool, retry: { maxAttempts } }] }),
    'alone.tools[0].classify': ofTool('classify'),
    'once.tools[0].classify': (classify: never) => createToolRunner({ tools: [{ ...tool, retry: false, classify }] }),
    'addTools.tools': (tools: never) => {
      createToolRunner({ tools: [tool] }).addTools(tools);
    },
    'addTools.tools[0].name': (name: never) => {
      createToolRunner({ tools: [tool] }).addTools([{ ...tool, name }]);
    },
    'removeTools.names': (names: never) => {
      createToolRunner({ tools: [tool] }).removeTools(names);
    },
    'batch.tools[0].concurrency': (concurrency: never) => createToolRunner({ tools: [{ ...tool, runsTools: true, concurrency }] }),
    'run.calls': (calls: never) => createToolRunner({ tools: [tool] }).run(calls),
    'runAllAsync.calls': (calls: never) => createToolRunner({ tools: [tool] }).runAllAsync(calls),
    'calls[0].id': ofCall('id'),
    'calls[0].name': ofCall('name'),
    'run.run options': (options: never) => createToolRunner({ tools: [tool] }).run([call], options),
    'mapCalls.run options': (options: never) => createToolRunner({ tools: [tool] }).mapCalls(options),
    'run.signal': ofRun('signal'),
    'run.deadlineMs': ofRun('deadlineMs'),
    'run.key': ofRun('key'),
    'run.timeoutMs': ofRun('timeoutMs'),
    'drain.timeoutMs': (timeoutMs: never) => createToolRunner({ tools: [tool] }).drain({ timeoutMs }),
    'shutdownOn.signal': (signal: never) => createToolRunner({ tools: [tool] }).shutdownOn(signal),
  },
  rows: [
    ...badly('tools', 'an array', NaN, 0, 'read', null, undefined, {}, () => tool),
    ...badly('tools[0]', 'an object', null, undefined, 5, 'read'),
    ...badly('tools[0].name', 'a non-empty string', '', null, undefined, 5, {}),
    ...wrong('tools[1].name', 'two tools are called `read`', 'Rename one of them.', 'read'),
    ...badly('tools[0].description', 'a non-empty string', '', null, undefined, 5, {}),
    ...badly('tools[0].parameters', 'a schema with `safeParse` or `~standard`', null, undefined, 5, {}, { type: 'object' }),
    ...badly('tools[0].execute', 'a function', null, undefined, 5, 'run', {}),
    ...badly('tools[0].format', 'a function', null, 5, 'json', {}),
    ...badly('tools[0].cost', 'a function', null, 5, 'much', {}),
    ...badly('tools[0].classify', 'a function', null, 5, 'fatal', {}),
    ...wrong('alone.tools[0].classify', '`{option}` needs `retry` of the same tool', 'Add it, or remove `{option}`.', () => ({
      class: 'fatal',
    })),
    ...wrong('once.tools[0].classify', '`{option}` needs `retry` of the same tool', 'Add it, or remove `{option}`.', () => ({
      class: 'fatal',
    })),
    ...badly('addTools.tools', 'an array', null, undefined, 5, tool),
    ...wrong('addTools.tools[0].name', 'two tools are called `read`', 'Rename one of them.', 'read'),
    ...badly('addTools.tools[0].name', 'a non-empty string', '', null),
    ...badly('removeTools.names', 'an array of strings', null, undefined, 'read', [5]),
    ...badly('tools[0].concurrency', count, ...notCount),
    ...badly('tools[0].timeoutMs', positive, ...notPositive),
    ...['readOnly', 'idempotent', 'runsTools'].flatMap((field) => badly(`tools[0].${field}`, 'true or false', null, 0, 1, 'yes', {})),
    ...unknown('tools[0].priority', fields, 5),
    ...misspelt('tools[0].timeout', 'tools[0].timeoutMs', 5),
    ...badly('concurrency', count, ...notCount),
    { option: 'concurrency', value: 0.5, expected: 'a whole number >= 1 or Infinity', besides: { limiter } },
    ...badly('limiter', 'a limiter made by createLimiter or createAccount', null, 5, 'limiter', {}),
    ...wrong('lane', '`{option}` needs `limiter`', 'Add it, or remove `{option}`.', 'now', null, 5),
    { option: 'lane', value: 'soon', expected: 'a lane of the limiter (now, later)', besides: { limiter } },
    ...badly('options.retry.maxAttempts', count, ...notCount),
    ...badly('own.tools[0].retry.maxAttempts', count, ...notCount),
    ...wrong(
      'batch.tools[0].concurrency',
      '`{option}` cannot be combined with `runsTools`',
      'Remove the limit: such a tool takes no slot.',
      2,
    ),
    ...badly('tools[0].jsonSchema', 'an object', null, 'text', 5, true),
    ...badly('budget', 'a budget made by createBudget', null, 5, {}, { usd: 5 }),
    ...badly('guard', 'a function', true, null, 'yes', {}),
    ...badly('timeoutMs', positive, ...notPositive),
    ...badly('retry', 'an object or false', null, true, 3, 'twice'),
    ...badly('classify', 'a function', null, true, 'fatal', {}),
    ...badly('maxQueued', 'a whole number >= 0 or Infinity', NaN, -1, 1.5, -Infinity, '10', null, true),
    ...badly('maxResultChars', count, ...notCount),
    ...badly('abortGraceMs', 'a number of milliseconds >= 0 or Infinity', NaN, -1, -Infinity, '10', null, true),
    ...badly('onEvent', 'a function', console, 'log', null),
    ...badly('scheduler', 'an rxjs scheduler', 5, null, {}, { now: () => 0 }),
    ...badly('random', 'a function', null, 0.5, 'chance', {}),
    ...badly('name', 'a non-empty string', '', 5, null),
    ...unknown('priority', known, 5),
    ...misspelt('timeout', 'timeoutMs', 5),
    ...badly('run.calls', 'an array', null, undefined, 5, 'read', {}, call),
    ...badly('runAllAsync.calls', 'an array', null, undefined, 5, 'read', {}, call),
    ...badly('calls[0].id', 'a non-empty string', '', null, undefined, 5, {}),
    ...badly('calls[0].name', 'a string', null, undefined, 5, {}),
    ...badly('run.run options', 'an object', null, 5, 'fast'),
    ...badly('mapCalls.run options', 'an object', null, 5, 'fast'),
    ...badly('run.signal', 'an AbortSignal', null, 5, {}, new AbortController()),
    ...badly('run.deadlineMs', 'a number of milliseconds >= 0 or Infinity', NaN, -1, -Infinity, '10', null, true),
    ...badly('run.key', 'a non-empty string', '', 5, null, {}),
    ...unknown('run.timeoutMs', 'context, key, signal, deadlineMs', 5),
    ...badly('drain.timeoutMs', 'a number of milliseconds >= 0 or Infinity', NaN, -1, '5', null),
    ...badly('shutdownOn.signal', 'an AbortSignal', undefined, null, 5, {}),
  ],
};
