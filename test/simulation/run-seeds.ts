import { config } from 'rxjs';
import { batchMap } from '../../operators/batch-map.js';
import { batchMapFrom } from '../../operators/batch-map-from.js';
import { createBatcher } from '../../operators/create-batcher.js';
import { createLimiter } from '../../operators/create-limiter.js';
import { check } from './invariants.js';
import type { Fault, Form } from './plan.js';
import { BATCH_MAP_ITEMS, drawPlan } from './plan.js';
import { report } from './report.js';
import type { Operators, Trace } from './world.js';
import { simulate } from './world.js';

export const OPERATORS: Operators = { batchMap, batchMapFrom, createBatcher, createLimiter };

export interface Tally {
  schedules: number;
  calls: number;
  /** Schedules in which `batchMap` was offered all the items it takes to count. */
  long: number;
  fulfilled: number;
  rejected: number;
  /** Schedules in which a fault struck, and those with an operator of each form. */
  readonly strikes: Map<Fault, number>;
  readonly forms: Map<Form, number>;
  /** Of the first schedule that broke a rule. */
  failure: string | undefined;
}

/** Simulates the seeds until one breaks a rule. */
export async function runSeeds(seeds: Iterable<number>, operators: Operators = OPERATORS): Promise<Tally> {
  const tally: Tally = {
    schedules: 0,
    calls: 0,
    long: 0,
    fulfilled: 0,
    rejected: 0,
    strikes: new Map(),
    forms: new Map(),
    failure: undefined,
  };
  const thrown: unknown[] = [];
  const before = config.onUnhandledError;
  config.onUnhandledError = (error) => thrown.push(error);
  // Every schedule makes hundreds of errors, and nobody looks at where.
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    for (const seed of seeds) {
      const trace = simulate(drawPlan(seed), operators);
      // Errors nobody handles, and the promises of `drain`, come after a turn of the real event loop.
      if (trace.drains.asked > 0 || seed % 100 === 0) await new Promise((resolve) => setTimeout(resolve));
      const problems = [...check(trace), ...thrown.map((error) => `unhandled: ${String(error)}`)];
      if (trace.drains.resolved !== trace.drains.asked)
        problems.push(`${trace.drains.asked - trace.drains.resolved} drain() promise(s) never resolved`);
      tally.schedules++;
      tally.calls += trace.calls.length;
      if (offeredToBatchMap(trace) >= BATCH_MAP_ITEMS) tally.long++;
      for (const { result } of trace.settlements) tally[result.ok ? 'fulfilled' : 'rejected']++;
      for (const fault of trace.strikes) tally.strikes.set(fault, (tally.strikes.get(fault) ?? 0) + 1);
      for (const form of new Set(trace.plan.operators.map((operator) => operator.form)))
        tally.forms.set(form, (tally.forms.get(form) ?? 0) + 1);
      if (problems.length === 0) continue;
      tally.failure = report(trace, problems);
      break;
    }
  } finally {
    config.onUnhandledError = before;
    Error.stackTraceLimit = stackTraceLimit;
  }
  return tally;
}

function offeredToBatchMap({ offers, plan }: Trace): number {
  return [...offers.values()].filter(({ op }) => plan.operators[op]?.form === 'batchMap').length;
}
