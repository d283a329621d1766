import { of } from 'rxjs';
import * as z from 'zod';
import { anthropic, azure, createWorker, fakeProvider, gemini, openai } from '../../marbles/index.js';
import * as operators from '../../operators/index.js';
import { childOf, createBatcher, createIntake, createLimiter, keyedLimiter, lanes, policy, retryFailed } from '../../operators/index.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import { createBatchTool, parseConfig } from '../../src/edge/index.js';
import * as sluice from '../../src/index.js';
import { createToolRunner } from '../../src/pipelines/create-tool-runner.js';
import { createGptTokenCounter } from '../../src/tokenizers/gpt.js';
import { misuseTables } from './misuse.js';

/** Where options are given: to the function itself, or within one of its options. */
export interface Site {
  readonly operator: string;
  readonly within: string;
  readonly give: (options: never) => unknown;
}

const tool = { name: 'read', description: 'Reads.', parameters: z.unknown(), execute: () => 'text' };
const stage = { name: 'answer', work: () => 'text' };
const call = () => of('text');
const client = sluice.chatCompletions({ baseUrl: 'http://127.0.0.1/v1', model: 'm' });
const embedding = { baseUrl: 'http://127.0.0.1/v1', model: 'm' };
const prices = { m: { inputUsdPerMillion: 1 } };
const turns = () => sluice.createAgentTurn({ model: () => of(), tools: createToolRunner({ tools: [tool] }) });
const load = { documents: 1, stages: [{ name: 'a' }] };

function site(operator: string, within: string, give: (options: never) => unknown): Site {
  return { operator, within, give };
}

const nested: readonly Site[] = [
  site('childOf', '', (options) => childOf(createLimiter(), options)),
  site('keyedLimiter', '', keyedLimiter),
  site('keyedLimiter', '', (options) => keyedLimiter(createLimiter(), options)),
  site('createLimiter', '', (job) => createLimiter().tryAcquire(job)),
  site('createLimiter', '', (limits) => {
    createLimiter().setLimits(limits);
  }),
  site('createLimiter', '', (options) => createLimiter().whenQueued(options)),
  site('createLimiter', '', (options) => createLimiter().drain(options)),
  site('createAccount', '', sluice.createAccount),
  site('createAccount', 'models[0].', (limits: object) => operators.createAccount({ models: [{ model: 'm', ...limits }] })),
  site('createAccount', 'models[0].', (limits: object) => sluice.createAccount({ models: [{ model: 'm', ...limits }] })),
  site('createAccount', 'dayStartsAt.', (dayStartsAt) => sluice.createAccount({ dayStartsAt })),
  site('createAccount', 'lanes[0].', (lane: object) => sluice.createAccount({ lanes: [{ name: 'a', ...lane }] })),
  site('createAccount', 'provider.', (provider) => sluice.createAccount({ provider })),
  site('lanes', 'lanes[0].', (lane: object) => lanes([{ name: 'a', ...lane }])),
  site('mergeLanes', 'lanes[0].', (lane: object) => operators.mergeLanes([{ name: 'a', source: of(1), ...lane }])),
  site('retryFailed', '', (retry) => operators.robust({ retry })),
  site('divideAndConquer', '', (divide) => operators.robust({ divide })),
  site('createBreaker', 'opens.', (opens) => operators.createBreaker({ opens })),
  site('createBreaker', 'closes.', (closes) => operators.createBreaker({ closes })),
  site('createBatcher', '', (options) => createBatcher((items: readonly string[]) => of(items)).load('a', options)),
  site('createIntake', '', (options) => createIntake<string>().offer('a', options)),
  site('retryFailed', '', (retry) => policy({ retry: retryFailed(retry) })),
  site('policy', '', (how) => policy()(() => of(1), how)),
  site('limitFetch', 'retry.', (retry) => limitFetch({ retry })),
  site('limitFetch', 'job.', (job) => limitFetch({ limiter: createLimiter(), job })),
  site('limitFetch', 'provider.', (provider) => limitFetch({ provider })),
  site('withJob', 'job.', (job) => sluice.withJob(job, () => 1)),
  site('createModelCaller', '', (options: object) => sluice.createModelCaller({ call: client, ...options })),
  site('createModelCaller', 'call.', (options: object) => sluice.createModelCaller({ call: { ...client, ...options } })),
  site('createModelCaller', 'retry.', (retry) => sluice.createModelCaller({ call, retry })),
  site('answerCache', '', (options: object) => sluice.answerCache({ key: String, ...options })),
  site('createModelCaller', 'fixAnswer.', (fixAnswer) => sluice.createModelCaller({ call, parse: String, fixAnswer })),
  site('createModelCaller', 'lanes[0].', (lane: object) => sluice.createModelCaller({ call, lanes: [{ name: 'a', ...lane }] })),
  site('createModelCaller', '', (options) => sluice.createModelCaller({ call }).call('a', options)),
  site('callAll', '', (options) => sluice.callAll(sluice.createModelCaller({ call }), { a: 'a' }, options)),
  site('chatCompletions', '', (options: object) => sluice.chatCompletions({ ...embedding, ...options })),
  site('createEmbedder', '', (options: object) => sluice.createEmbedder({ call: () => of([]), ...options })),
  site('createEmbedder', 'call.', (options: object) => sluice.createEmbedder({ call: { ...sluice.embeddings(embedding), ...options } })),
  site('embeddings', '', (options: object) => sluice.embeddings({ ...embedding, ...options })),
  site('createStages', 'batches.', (batches) => sluice.createStages([stage], { batches })),
  site('createStages', 'stages[0].', (options: object) => sluice.createStages([{ ...stage, ...options }])),
  site('createStages', 'stages[0].retry.', (retry) => sluice.createStages([{ ...stage, retry }])),
  site('createToolRunner', 'tools[0].', (options: object) => sluice.createToolRunner({ tools: [{ ...tool, ...options }] })),
  site('createToolRunner', 'retry.', (retry) => sluice.createToolRunner({ tools: [tool], retry })),
  site('createToolRunner', '', (options) => sluice.createToolRunner({ tools: [tool] }).runAllAsync([], options)),
  site('defineTool', '', (options: object) => sluice.defineTool({ ...tool, ...options })),
  site('createBatchTool', '', createBatchTool),
  site('createAgentTurn', 'speculate.', (options: object) =>
    sluice.createAgentTurn({ model: () => of(), tools: createToolRunner({ tools: [tool] }), speculate: { tools: [], ...options } }),
  ),
  site('createAgentTurn', '', (options) => turns().ask('hello', options)),
  site('createAgentTurn', '', (options) => turns().history('a', options)),
  site('createBudget', 'limits[0].', (limit) => sluice.createBudget({ prices, limits: [limit] })),
  site('createBudget', "prices['m'].", (price) => sluice.createBudget({ prices: { m: price }, limits: [] })),
  site('explainThroughput', '', sluice.explainThroughput),
  site('explainThroughput', 'stages[0].', (options: object) => sluice.explainThroughput({ ...load, stages: [{ name: 'a', ...options }] })),
  site('explainThroughput', 'limits.', (limits) => sluice.explainThroughput({ ...load, limits })),
  site('createTokenEstimator', '', sluice.createTokenEstimator),
  site('createGptTokenCounter', '', createGptTokenCounter),
  site('parseConfig', '', (options) => parseConfig('name: a', options)),
  site('fakeProvider', '', (options: object) => fakeProvider({ answer: String, ...options })),
  site('fakeProvider', 'latencyMs.', (latencyMs) => fakeProvider({ answer: String, latencyMs })),
  site('fakeProvider', 'errorRate.', (errorRate) => fakeProvider({ answer: String, errorRate })),
  site('fakeProvider', '', (options: object) => fakeProvider({ provider: openai(), ...options })),
  site('fakeProvider', 'faults.', (faults) => fakeProvider({ provider: openai(), faults })),
  ...Object.entries({ openai, anthropic, gemini, azure }).map(([name, make]) => site(name, '', make as Site['give'])),
  ...Object.entries({ openai, anthropic, gemini, azure }).map(([name, make]) =>
    site(name, 'models.m.', (limits) => make({ models: { m: limits } })),
  ),
  site('createWorker', '', createWorker),
];

/** What a table leaves out that a function must have. */
const REQUIRED: Readonly<Record<string, object>> = { backpressure: { ready: of(true) }, conflateWhileBusy: { ready: of(true) } };

/** Where every function takes options; that of a table in `test/misuse` first. */
export async function optionSites(): Promise<readonly Site[]> {
  const tables = (await misuseTables()).filter(({ optionless }) => optionless === undefined);
  const complete = (operator: string, options: object): never => ({ ...REQUIRED[operator], ...options }) as never;
  return [...tables.map(({ operator, create }) => site(operator, '', (options) => create(complete(operator, options)))), ...nested];
}

/** The message for options; promises tell it in their rejection. */
export async function said(give: Site['give'], options: object): Promise<string> {
  try {
    await give(options as never);
    return 'nothing';
  } catch (error) {
    return (error as Error).message;
  }
}

const UNKNOWN = /^(\w+): unknown option `([^`]*)xyzzyx`( in `[\w ]+`)?\. (?:Known options: (.*)\.|.*)$/;

/** Names of the options that there are, and what the error for an unknown one says of the place. */
export async function optionsOf({ operator, within, give }: Site): Promise<{ readonly known: readonly string[]; readonly where: string }> {
  const message = await said(give, { xyzzyx: 1 });
  const [, named, place, where = '', known] = UNKNOWN.exec(message) ?? [];
  if (named !== operator || place !== within || known === undefined) throw new Error(`unlike the error of an unknown option: ${message}`);
  return { known: known.split(', '), where };
}
