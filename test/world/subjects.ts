import { batchMapActor, type Script } from './batches.js';
import { backpressureActor, batchActor, coalesceActor, conflateActor, mergeLanesActor, rateLimitActor, resequenceActor } from './flows.js';
import { IntakeActor } from './intake.js';
import { SharedLimiter } from './limits.js';
import { BatcherActor } from './loads.js';
import type { Supply } from './pipe.js';
import { breakerActor, hedgeActor, policyActor, settleAllActor, speculateActor, switchLatestActor } from './racing.js';
import { slotsActor } from './slots.js';
import type { Actor, World } from './world.js';

type Limited = SharedLimiter | undefined;

/** Everything that takes `onEvent`, by its name. */
export const SUBJECTS = {
  batch: (world: World, supply: Supply) => batchActor(world, supply),
  batchMap: (world: World, supply: Supply, script: Script, limiter: Limited) => batchMapActor(world, supply, script, limiter, 'batchMap'),
  batchMapFrom: (world: World, supply: Supply, script: Script, limiter: Limited) =>
    batchMapActor(world, supply, script, limiter, 'batchMapFrom'),
  createBatcher: (world: World, supply: Supply, script: Script, limiter: Limited) => new BatcherActor(world, supply, script, limiter),
  mergeLanes: (world: World, supply: Supply) => mergeLanesActor(world, supply),
  bulkheadMap: (world: World, supply: Supply, script: Script, limiter: Limited) => slotsActor(world, supply, script, limiter),
  settleAll: (world: World, supply: Supply, script: Script) => settleAllActor(world, supply, script),
  switchLatest: (world: World, supply: Supply, script: Script) => switchLatestActor(world, supply, script),
  hedge: (world: World, supply: Supply, script: Script, limiter: Limited) => hedgeActor(world, supply, script, limiter),
  speculate: (world: World, supply: Supply, script: Script) => speculateActor(world, supply, script),
  rateLimit: (world: World, supply: Supply, _script: Script, limiter: Limited) =>
    rateLimitActor(world, supply, limiter ?? new SharedLimiter(world)),
  backpressure: (world: World, supply: Supply) => backpressureActor(world, supply),
  conflateWhileBusy: (world: World, supply: Supply) => conflateActor(world, supply),
  coalesce: (world: World, supply: Supply) => coalesceActor(world, supply),
  resequence: (world: World, supply: Supply) => resequenceActor(world, supply),
  createLimiter: (world: World) => new SharedLimiter(world),
  createBreaker: (world: World, supply: Supply, script: Script) => breakerActor(world, supply, script),
  policy: (world: World, supply: Supply, script: Script, limiter: Limited) => policyActor(world, supply, script, limiter),
  createIntake: (world: World, supply: Supply) => new IntakeActor(world, supply),
} satisfies Record<string, (world: World, supply: Supply, script: Script, limiter: Limited) => Actor>;

export type Subject = keyof typeof SUBJECTS;
export const NAMES = Object.keys(SUBJECTS) as Subject[];

/** Those whose calls may take permits of a limiter that is shared. */
export const LIMITED: readonly Subject[] = ['batchMap', 'batchMapFrom', 'createBatcher', 'bulkheadMap', 'hedge', 'policy', 'rateLimit'];

/** Those that call work. */
export const WORKING: readonly Subject[] = [
  'batchMap',
  'batchMapFrom',
  'createBatcher',
  'bulkheadMap',
  'settleAll',
  'switchLatest',
  'hedge',
  'speculate',
  'createBreaker',
  'policy',
];
