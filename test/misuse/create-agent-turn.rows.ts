import { EMPTY } from 'rxjs';
import * as z from 'zod';
import { createAgentTurn } from '../../src/frontend/create-agent-turn.js';
import { createToolRunner } from '../../src/pipelines/create-tool-runner.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown, wrong } from '../support/misuse.js';

const known = 'model, tools, needsApproval, speculate, history, unfinished, maxSteps, policy, estimateTokens, scheduler';

const model = () => EMPTY;
const about = { description: 'A tool.', parameters: z.unknown(), execute: () => 'text' };
const list = [
  { name: 'read', readOnly: true, ...about },
  { name: 'write', ...about },
];
const tools = createToolRunner({ tools: list });
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
const INVALID = 'Correct or remove this message.';

export const rows: MisuseTable = {
  operator: 'createAgentTurn',
  create: (options: never) => createAgentTurn(Object(options) === options ? { model, tools, ...(options as object) } : options),
  calls: {
    'of.speculate.tools': speculating('tools'),
    'of.speculate.tools[0]': (name: never) => createAgentTurn({ model, tools, speculate: { tools: [name] } }),
    'of.speculate.ttlMs': speculating('ttlMs'),
    'of.speculate.maxQueued': speculating('maxQueued'),
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
    'answer.appliesTo': ofAnswer('appliesTo'),
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
    ...badly('tools', '`createToolRunner({ tools })`', null, 5, 'read', {}, list, list[0]),
    ...badly('needsApproval', 'a function', null, 5, 'yes', {}),
    ...badly('speculate', 'an object', null, 5, 'read'),
    ...badly('of.speculate.tools', 'an array of names', null, undefined, 5, 'read', {}),
    ...badly('of.speculate.tools[0]', 'the name of a tool that is `readOnly`', 'write', 'raed', '', null, undefined, 5),
    ...badly('of.speculate.ttlMs', positive, ...notPositive),
    ...badly('of.speculate.maxQueued', count, ...notCount),
    ...unknown('of.speculate.ms', 'tools, ttlMs, maxQueued', 5),
    ...badly('history', 'an array of messages, or a function', null, 5, 'hello', {}),
    ...wrong('history', '`history[0]` has an unknown role', INVALID, [{ role: 'system', content: 'x' }]),
    ...wrong('history', '`history[0]` is an empty question', INVALID, [{ role: 'user', content: ' ' }], [{ role: 'user' }]),
    ...wrong('history', '`history[0]` has an invalid `opaque` entry', INVALID, [
      { role: 'assistant', content: 'x', toolCalls: [], opaque: [{ protocol: 'anthropic', block: {} }] },
    ]),
    ...wrong('history', '`history[0]` is an empty answer', INVALID, [{ role: 'assistant', content: '', toolCalls: [] }]),
    ...wrong('history', '`history[0]` has neither text nor tool calls', INVALID, [{ role: 'assistant', content: 'x' }]),
    ...wrong('history', '`history[1]` is a result without its call', INVALID, [
      question,
      { role: 'tool', toolCallId: 'call_1', content: 'x' },
    ]),
    ...wrong('history', '`history[1]` comes before the results of all tool calls', INVALID, [
      { role: 'assistant', content: '', toolCalls: [call] },
      question,
    ]),
    ...wrong('history', '`history[0]` has a tool call whose `id` is used twice', INVALID, [
      { role: 'assistant', content: '', toolCalls: [call, call] },
    ]),
    ...wrong('history', '`history[0]` has a tool call without `id` or `name`', INVALID, [
      { role: 'assistant', content: '', toolCalls: [{ ...call, id: '' }] },
    ]),
    ...badly('unfinished', "one of 'keep', 'drop'", null, 5, 'forget', true),
    ...badly('maxSteps', count, ...notCount),
    ...badly('policy', 'a function', null, 5, {}, 'fast'),
    ...badly('estimateTokens', 'a function', null, 5, {}, 'text'),
    ...badly('scheduler', 'an rxjs scheduler', 5, null, {}, { now: () => 0 }),
    ...unknown('lane', known, 'user'),
    ...badly('ask.intent', 'a text, or a list of parts, with something in it', '', ' ', [], null, undefined, 5, {}),
    ...badly('ask.ask options', 'an object', null, 5, 'fast'),
    ...badly('ask.key', 'a non-empty string', ...notKey),
    ...badly('ask.signal', 'an AbortSignal', null, 5, {}, new AbortController()),
    ...unknown('ask.lane', 'key, signal, context', 'user'),
    ...badly('resume.ask options', 'an object', null, 5, 'fast'),
    ...badly('guess.key', 'a non-empty string', ...notKey),
    ...unknown('guess.lane', 'key, context', 'user'),
    ...badly('answer.allowed', 'true, false or a text', null, undefined, 1, {}),
    ...badly('answer.key', 'a non-empty string', ...notKey),
    ...badly('answer.appliesTo', "one of 'call', 'tool'", null, 5, 'turn'),
    ...unknown('answer.lane', 'key, appliesTo', 'user'),
    ...badly('stop.key', 'a non-empty string', ...notKey),
    ...badly('forget.key', 'a non-empty string', ...notKey),
    ...badly('history.key', 'a non-empty string', ...notKey),
    ...badly('history.open', 'true or false', null, 1, 'yes', {}),
    ...badly('store.key', 'a non-empty string', ...notKey),
    ...badly('store.reduce', 'a function, or an object of options', null, 5, 'frame'),
    ...badly('store.pace', 'an object of options', null, 5, true, 'frame', () => true),
    ...badly('store.stopsTurn', 'true or false', null, 0, NaN, 'no', {}),
    ...badly('reduced.stopsTurn', 'true or false', null, 0, NaN, 'no', {}),
    ...badly('drain.timeoutMs', 'a number of milliseconds >= 0 or Infinity', NaN, -1, '5', null),
    ...badly('shutdownOn.signal', 'an AbortSignal', undefined, null, 5, {}),
  ],
};
