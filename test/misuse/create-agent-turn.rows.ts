import { EMPTY } from 'rxjs';
import * as z from 'zod';
import { createAgentTurn } from '../../src/frontend/create-agent-turn.js';
import { createToolRunner } from '../../src/pipelines/create-tool-runner.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

const known = 'model, tools, guard, needsApproval, speculate, history, toContent, unfinished, maxSteps, timeoutMs, deadlineMs, scheduler';

const model = () => EMPTY;
const about = { description: 'A tool.', parameters: z.unknown(), execute: () => 'text' };
const tools = [
  { name: 'read', readOnly: true, ...about },
  { name: 'write', ...about },
];
const turns = () => createAgentTurn({ model, tools });
const ofAsk = (option: string) => (value: never) => turns().ask('hello', { [option]: value });
const ofGuess = (option: string) => (value: never) => turns().speculate({ name: 'read', input: {} }, { [option]: value });
const ofAnswer = (option: string) => (value: never) => turns().answer('call_1', true, { [option]: value });
const speculating = (option: string) => (value: never) =>
  createAgentTurn({ model, tools, speculate: { tools: ['read'], [option]: value } });

const positive = 'a number > 0 or Infinity';
const count = 'a whole number >= 1 or Infinity';
const notPositive = [NaN, 0, -1, -Infinity, '1000', null, true, {}];
const notCount = [NaN, 0, -1, 1.5, -Infinity, '4', null, true, {}];
const notKey = ['', null, 5, {}];
const question = { role: 'user', content: 'hello' };
const call = { id: 'call_1', name: 'read', input: {} };
const notTaken = (problem: string) => `a conversation that a model takes (${problem})`;

export const rows: MisuseTable = {
  operator: 'createAgentTurn',
  create: (options: never) => createAgentTurn(Object(options) === options ? { model, tools, ...(options as object) } : options),
  calls: {
    'own.guard': (guard: never) => createAgentTurn({ model, tools: createToolRunner({ tools }), guard }),
    'of.speculate.tools': speculating('tools'),
    'of.speculate.tools[0]': (name: never) => createAgentTurn({ model, tools, speculate: { tools: [name] } }),
    'of.speculate.ttlMs': speculating('ttlMs'),
    'of.speculate.maxHeld': speculating('maxHeld'),
    'of.speculate.ms': speculating('ms'),
    'ask.intent': (intent: never) => turns().ask(intent),
    'ask.ask options': (options: never) => turns().ask('hello', options),
    'ask.key': ofAsk('key'),
    'ask.signal': ofAsk('signal'),
    'ask.lane': ofAsk('lane'),
    'resume.ask options': (options: never) => turns().resume(options),
    'guess.key': ofGuess('key'),
    'guess.lane': ofGuess('lane'),
    'answer.allowed': (allowed: never) => turns().answer('call_1', allowed),
    'answer.key': ofAnswer('key'),
    'answer.scope': ofAnswer('scope'),
    'answer.lane': ofAnswer('lane'),
    'stop.key': (key: never) => {
      turns().stop(key);
    },
    'forget.key': (key: never) => {
      turns().forget(key);
    },
    'history.key': (key: never) => turns().history(key),
    'history.open': (open: never) => turns().history('a', { open }),
    'store.key': (key: never) => turns().store(key),
    'store.reduce': (reduce: never) => turns().store('a', reduce, 0),
    'store.pace': (pace: never) => turns().store('a', (view: number) => view, 0, pace),
    'store.stopsTurn': (stopsTurn: never) => turns().store('a', { stopsTurn }),
    'reduced.stopsTurn': (stopsTurn: never) => turns().store('a', (view: number) => view, 0, { stopsTurn }),
    'drain.timeoutMs': (timeoutMs: never) => turns().drain({ timeoutMs }),
    'shutdownOn.signal': (signal: never) => turns().shutdownOn(signal),
  },
  rows: [
    ...badly('model', 'a function', null, 5, 'gpt', {}),
    ...badly('tools', 'an array of tools, or a runner of createToolRunner', null, 5, 'read', {}, tools[0]),
    ...badly('guard', 'a function', null, 5, 'yes', {}),
    ...badly('own.guard', 'absent when `tools` is a runner: give it to the runner', () => true),
    ...badly('needsApproval', 'a function', null, 5, 'yes', {}),
    ...badly('speculate', 'an object', null, 5, 'read'),
    ...badly('of.speculate.tools', 'an array of names', null, undefined, 5, 'read', {}),
    ...badly('of.speculate.tools[0]', 'the name of a tool that is `readOnly`', 'write', 'raed', '', null, undefined, 5),
    ...badly('of.speculate.ttlMs', positive, ...notPositive),
    ...badly('of.speculate.maxHeld', count, ...notCount),
    ...badly('of.speculate.ms', 'absent (known options: tools, ttlMs, maxHeld)', 5),
    ...badly('history', 'an array of messages, or a function', null, 5, 'hello', {}),
    ...badly('history', notTaken('history[0]: a role that is neither user, assistant nor tool'), [{ role: 'system', content: 'x' }]),
    ...badly('history', notTaken('history[0]: a question without a word'), [{ role: 'user', content: ' ' }], [{ role: 'user' }]),
    ...badly('history', notTaken('history[0]: something opaque that is no block with its place'), [
      { role: 'assistant', content: 'x', toolCalls: [], opaque: [{ protocol: 'anthropic', block: {} }] },
    ]),
    ...badly('history', notTaken('history[0]: an answer without a word'), [{ role: 'assistant', content: '', toolCalls: [] }]),
    ...badly('history', notTaken('history[0]: no text and no list of calls'), [{ role: 'assistant', content: 'x' }]),
    ...badly('history', notTaken('history[1]: the result of a call that was not asked for'), [
      question,
      { role: 'tool', toolCallId: 'call_1', content: 'x' },
    ]),
    ...badly('history', notTaken('history[1]: a message before the results of all calls'), [
      { role: 'assistant', content: '', toolCalls: [call] },
      question,
    ]),
    ...badly('history', notTaken('history[0]: a call with the id of another'), [
      { role: 'assistant', content: '', toolCalls: [call, call] },
    ]),
    ...badly('history', notTaken('history[0]: a call without an id or a name'), [
      { role: 'assistant', content: '', toolCalls: [{ ...call, id: '' }] },
    ]),
    ...badly('toContent', 'a function', null, 5, 'text', {}),
    ...badly('unfinished', "one of 'keep', 'drop'", null, 5, 'forget', true),
    ...badly('maxSteps', count, ...notCount),
    ...badly('timeoutMs', positive, ...notPositive),
    ...badly('deadlineMs', positive, ...notPositive),
    ...badly('scheduler', 'an rxjs scheduler', 5, null, {}, { now: () => 0 }),
    ...badly('lane', `absent (known options: ${known})`, 'user'),
    ...badly('ask.intent', 'a text, or a list of parts, with something in it', '', ' ', [], null, undefined, 5, {}),
    ...badly('ask.ask options', 'an object', null, 5, 'fast'),
    ...badly('ask.key', 'a non-empty string', ...notKey),
    ...badly('ask.signal', 'an AbortSignal', null, 5, {}, new AbortController()),
    ...badly('ask.lane', 'absent (known options: key, signal, context)', 'user'),
    ...badly('resume.ask options', 'an object', null, 5, 'fast'),
    ...badly('guess.key', 'a non-empty string', ...notKey),
    ...badly('guess.lane', 'absent (known options: key, context)', 'user'),
    ...badly('answer.allowed', 'true, false or a text', null, undefined, 1, {}),
    ...badly('answer.key', 'a non-empty string', ...notKey),
    ...badly('answer.scope', "one of 'call', 'tool'", null, 5, 'turn'),
    ...badly('answer.lane', 'absent (known options: key, scope)', 'user'),
    ...badly('stop.key', 'a non-empty string', ...notKey),
    ...badly('forget.key', 'a non-empty string', ...notKey),
    ...badly('history.key', 'a non-empty string', ...notKey),
    ...badly('history.open', 'true or false', null, 1, 'yes', {}),
    ...badly('store.key', 'a non-empty string', ...notKey),
    ...badly('store.reduce', 'a function, or the options of a store', null, 5, 'frame'),
    ...badly('store.pace', 'the options of a store', null, 5, true, 'frame', () => true),
    ...badly('store.stopsTurn', 'true or false', null, 0, NaN, 'no', {}),
    ...badly('reduced.stopsTurn', 'true or false', null, 0, NaN, 'no', {}),
    ...badly('drain.timeoutMs', 'a number of milliseconds >= 0 or Infinity', NaN, -1, '5', null),
    ...badly('shutdownOn.signal', 'an AbortSignal', undefined, null, 5, {}),
  ],
};
