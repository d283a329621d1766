import fc from 'fast-check';
import { expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { Lease, Limiter } from '../../operators/index.js';
import { childOf, createLimiter, heldBy, isFlowError, keyedLimiter } from '../../operators/index.js';
import { sized } from '../support/deep.js';

/** Two limiters that know nothing of each other, a limiter with two below it, one of them with one of its own, and three keys. */
const ABOVE = [undefined, undefined, undefined, 2, 2, 3, undefined, undefined, undefined] as const;

interface Plan {
  readonly at: number;
  readonly slots: number;
  readonly lastsMs: number;
  /** What it asks for while it has its lease: one after the other, or all at once. */
  readonly asksFor: readonly Plan[];
  readonly isTogether: boolean;
}

const { plan } = fc.letrec<{ plan: Plan }>((tie) => ({
  plan: fc.record({
    at: fc.nat({ max: ABOVE.length - 1 }),
    slots: fc.constantFrom(1, 1, 1, 2),
    lastsMs: fc.nat({ max: 3 }),
    asksFor: fc.oneof({ maxDepth: 4 }, fc.constant([]), fc.array(tie('plan'), { maxLength: 3 })),
    isTogether: fc.boolean(),
  }),
}));

function makeLimiters(slots: readonly number[]): Limiter[] {
  const of = (at: number): { readonly concurrency: number } => ({ concurrency: slots[at] as number });
  const [first, second, account] = [createLimiter(of(0)), createLimiter(of(1)), createLimiter(of(2))];
  const child = childOf(account, of(3));
  const keys = keyedLimiter({ concurrency: 1 });
  const ofKeys = ['a', 'b', 'c'].map((key) => keys.of(key));
  for (const [i, limiter] of ofKeys.entries()) limiter.setLimits(of(6 + i));
  return [first, second, account, child, childOf(account, of(4)), childOf(child, of(5)), ...ofKeys];
}

/** Work with a lease, or that waits for one, and what it waits for itself. */
class Work {
  lease: Lease | undefined = undefined;
  /** What its lease takes: all there is where it asked for more. */
  taken = 0;
  isOver = false;
  readonly asked: Work[] = [];
  readonly levels: readonly number[];

  constructor(readonly plan: Plan) {
    const levels: number[] = [];
    for (let at: number | undefined = plan.at; at !== undefined; at = ABOVE[at]) levels.push(at);
    this.levels = levels;
  }

  get holds(): boolean {
    return this.lease !== undefined && !this.isOver;
  }
}

/** The waiting work that can never be served, found from the whole state each time. */
function stuckOf(all: readonly Work[], slots: readonly number[]): ReadonlySet<Work> {
  const stuck = new Set(all.filter((work) => work.lease === undefined && !work.isOver));
  const endsOnceServed = (work: Work): boolean => work.asked.every((each) => each.isOver || (!stuck.has(each) && endsOnceServed(each)));
  const canBeServed = (work: Work): boolean =>
    work.levels.every((level) => {
      const holders = all.filter((each) => each.holds && each.levels.includes(level));
      // A job never overtakes earlier jobs of its own limiter. In a limiter above, it gets its place when the limits below let it go, so any job may be ahead.
      const ahead = level === work.plan.at ? all.slice(0, all.indexOf(work)) : all.filter((each) => each !== work);
      if (ahead.some((each) => stuck.has(each) && each.levels.includes(level))) return false;
      const used = holders.reduce((sum, each) => sum + each.taken, 0);
      return used === 0 || used + work.plan.slots <= (slots[level] as number) || holders.some(endsOnceServed);
    });
  for (let served: Work[] | undefined; served?.length !== 0; ) {
    served = [...stuck].filter(canBeServed);
    for (const work of served) stuck.delete(work);
  }
  return stuck;
}

const slotsOfAll = fc.array(fc.integer({ min: 1, max: 3 }), { minLength: ABOVE.length, maxLength: ABOVE.length });
const changes = fc.array(
  fc.record({ atMs: fc.nat({ max: 8 }), of: fc.nat({ max: ABOVE.length - 1 }), concurrency: fc.integer({ min: 1, max: 3 }) }),
  { maxLength: 3 },
);
const roots = fc.array(fc.record({ atMs: fc.nat({ max: 4 }), plan }), { minLength: 1, maxLength: 6 });

it('work that holds a lease and waits for others is served, or refused where it could never be granted', () => {
  let refused = 0;
  fc.assert(
    fc.property(slotsOfAll, changes, roots, (concurrencies, allChanges, begins) => {
      virtualTime(({ scheduler, flush }) => {
        const slots = [...concurrencies];
        const limiters = makeLimiters(slots);
        const all: Work[] = [];
        const begin = (own: Plan, outer: Work | undefined, ended: () => void): void => {
          const work = new Work(own);
          all.push(work);
          outer?.asked.push(work);
          const end = (): void => {
            work.isOver = true;
            work.lease?.release();
            ended();
          };
          const askFor = (next: number): void => {
            if (own.isTogether) {
              let left = own.asksFor.length;
              const one = (): void => {
                if (--left <= 0) scheduler.schedule(end, own.lastsMs);
              };
              if (left === 0) one();
              for (const each of own.asksFor) begin(each, work, one);
              return;
            }
            const each = own.asksFor[next];
            if (each === undefined) scheduler.schedule(end, own.lastsMs);
            else
              begin(each, work, () => {
                askFor(next + 1);
              });
          };
          const holder = outer?.lease && { holder: heldBy(outer.lease) };
          (limiters[own.at] as Limiter).acquire({ cost: { slots: own.slots }, ...holder }).subscribe({
            next: (lease) => {
              work.lease = lease;
              work.taken = Math.min(own.slots, ...work.levels.map((at) => slots[at] as number));
              askFor(0);
            },
            error: (error: unknown) => {
              expect(isFlowError(error, 'FLOW_NESTED_ACQUIRE')).toBe(true);
              expect(stuckOf(all, slots).has(work)).toBe(true);
              refused++;
              // Jobs refused at the same time blocked each other.
              scheduler.schedule(end);
            },
          });
        };
        for (const { atMs, plan: own } of begins)
          scheduler.schedule(() => {
            begin(own, undefined, () => undefined);
          }, atMs);
        for (const { atMs, of, concurrency } of allChanges)
          scheduler.schedule(() => {
            slots[of] = concurrency;
            limiters[of]?.setLimits({ concurrency });
          }, atMs);
        flush();
        expect(all.filter((work) => !work.isOver)).toEqual([]);
        expect(limiters.map((limiter) => limiter.executing + limiter.snapshot().queued)).toEqual(limiters.map(() => 0));
      });
    }),
    { numRuns: sized(300, 20_000) },
  );
  expect(refused).toBeGreaterThan(0);
});
