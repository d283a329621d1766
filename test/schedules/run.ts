import { SharedLimiter } from '../world/limits.js';
import { Supply } from '../world/pipe.js';
import { SUBJECTS } from '../world/subjects.js';
import { World } from '../world/world.js';
import { chooser, type Plan, script } from './plan.js';

/** Runs a schedule to its end; answers what was wrong, nothing when all is well. */
export async function runPlan(plan: Plan, log?: string[]): Promise<readonly string[]> {
  const world = new World(chooser(plan.seed), plan.traps);
  world.log = log;
  const supply = new Supply(world);
  world.try(() => {
    const limiter = plan.hasLimiter ? new SharedLimiter(world) : undefined;
    plan.subjects.forEach((name, i) => {
      world.try(() => {
        SUBJECTS[name](world, supply, script(plan.seed, i, !NO_VALUES.has(name)), limiter);
      });
    });
  });
  for (const step of plan.steps) {
    if (world.clock.ranAway) break;
    switch (step.do) {
      case 'act':
        world.try(() => {
          world.act(step.actor, step.act);
        });
        break;
      case 'pass':
        await world.pass(world.clock.passed + step.ms);
        break;
      case 'jump':
        // What was granted by the old time is heard of before.
        await world.turn();
        world.clock.jump(step.ms);
        break;
      case 'setBack':
        await world.turn();
        world.clock.setBack(step.ms, step.unseenMs);
        await world.turn();
        break;
      case 'sleep':
        await world.turn();
        world.clock.sleep(step.ms);
    }
  }
  await world.finish();
  return world.problems;
}

/** Their work is an Observable, as RxJS has it. */
const NO_VALUES: ReadonlySet<string> = new Set(['switchLatest', 'hedge', 'speculate', 'bulkheadMap']);

/** The shortest plan that still shows one of the problems: steps and traps are dropped, one after the other. */
export async function shrink(plan: Plan, problems: readonly string[]): Promise<Plan> {
  const stillBad = async (smaller: Plan): Promise<boolean> => (await runPlan(smaller)).some((problem) => problems.includes(problem));
  let best = plan;
  for (let isShorter = true; isShorter; ) {
    isShorter = false;
    for (const part of ['traps', 'steps'] as const) {
      for (let i = best[part].length - 1; i >= 0; i--) {
        const smaller = { ...best, [part]: best[part].filter((_, at) => at !== i) };
        if (!(await stillBad(smaller))) continue;
        best = smaller;
        isShorter = true;
      }
    }
  }
  return best;
}

/** A failing seed as a person wants to read it. */
export async function explain(plan: Plan): Promise<string> {
  const problems = await runPlan(plan);
  const small = await shrink(plan, problems);
  const log: string[] = [];
  await runPlan(small, log);
  return [
    `Seed ${plan.seed}: ${problems.join('; ')}`,
    `SLUICE_SEED=${plan.seed} npx vitest run --project host test/schedules`,
    `${small.subjects.join(' and ')}${small.hasLimiter ? ', one limiter' : ''}; ${small.steps.length} of ${plan.steps.length} steps, traps: ${JSON.stringify(small.traps)}`,
    small.steps.map((step) => (step.do === 'act' ? step.act : `${step.do} ${step.ms}`)).join(', '),
    ...log.slice(0, 120),
  ].join('\n');
}
