import { Dice, draw } from '../world/dice.js';
import { LIMITED, NAMES, type Subject } from '../world/subjects.js';
import type { Behaviour } from '../world/work.js';
import { ACTS, type Act, type Choose, type Trap } from '../world/world.js';

export type Step =
  | { readonly do: 'act'; readonly actor: number; readonly act: Act }
  /** Time goes by. */
  | { readonly do: 'pass'; readonly ms: number }
  /** The clock is set. */
  | { readonly do: 'jump'; readonly ms: number }
  /** The clock is set back when it has not been read for a while; no timer is late. */
  | { readonly do: 'setBack'; readonly ms: number; readonly unseenMs: number }
  /** Time goes by in which no timer runs: they are late. */
  | { readonly do: 'sleep'; readonly ms: number };

export interface Plan {
  readonly seed: number;
  readonly subjects: readonly Subject[];
  readonly hasLimiter: boolean;
  readonly steps: readonly Step[];
  readonly traps: readonly Trap[];
}

/** Where traps may stand. Most schedules come by few of them. */
const PLACES = [
  ...[
    'accepted',
    'attemptStarted',
    'attemptEnded',
    'settled',
    'dropped',
    'batchFormed',
    'cancelled',
    'expired',
    'retryScheduled',
    'split',
    'blamed',
  ],
  ...['drained', 'hedged', 'throttled', 'limitChanged', 'breakerChanged', 'pressure', 'swallowed', 'gapSkipped'],
].map((event) => `event:${event}`);
const CALLBACKS = ['work', 'abort', 'teardown', 'next', 'settled', 'complete', 'error', 'refused', 'lease', 'drained', 'pull'];
const ASKED = [
  'weigh',
  'key',
  'key',
  'key',
  'id',
  'lane',
  'classify',
  'window',
  'closeWhen',
  'random',
  'deadlineMs',
  'dedupe',
  'guard',
  'merge',
  'onDrop',
  'splitItem.into',
  'splitItem.join',
];

export function drawPlan(seed: number, only?: readonly Subject[]): Plan {
  const dice = new Dice(seed, 'plan');
  const names = only ?? NAMES;
  const subjects = [dice.pick(names), ...(dice.chance(0.3) ? [dice.pick(names)] : [])];
  const hasLimiter = subjects.some((name) => LIMITED.includes(name)) && dice.chance(0.4);
  const actors = subjects.length + (hasLimiter ? 1 : 0);
  const traps: Trap[] = [];
  const size = dice.pick([0, 0, 1, 1, 1, 2, 3]);
  for (let i = 0; i < size; i++) {
    const places = dice.pick([PLACES, PLACES, CALLBACKS, ASKED]);
    traps.push({
      place: dice.pick(places),
      nth: dice.chance(0.15) ? 'every' : dice.int(0, 3),
      act: places === ASKED && dice.chance(0.4) ? 'send' : dice.pick(ACTS),
      ...(dice.chance(0.2) && { actor: dice.int(0, actors - 1) }),
    });
  }
  // Jobs that leave when others are dropped are often dropped themselves.
  if (dice.chance(0.05)) traps.push({ place: 'event:dropped', nth: 'every', act: 'leave' });
  if (dice.chance(0.05)) {
    // A burst: what one listener sends is told to the next ones, of which one fails the source and another leaves.
    const place = dice.chance(0.5) ? 'event:accepted' : dice.pick(PLACES);
    const first = dice.int(0, 3);
    const acts = [
      'send',
      'send',
      dice.pick(['fail', 'complete', 'close'] as const),
      dice.pick(['leave', 'leave', 'abort'] as const),
    ] as const;
    acts.forEach((act, i) => traps.push({ place, nth: first + Math.max(0, i - 1), act }));
  }
  const steps: Step[] = [];
  const length = Math.min(dice.int(5, 30), dice.int(5, 30));
  while (steps.length < length) steps.push(drawStep(dice, actors));
  const isLimiter = subjects.includes('createLimiter');
  if (dice.chance(isLimiter ? 0.4 : 0.12)) {
    // While much waits, or at any time.
    const at = dice.chance(0.5) ? length : dice.int(0, length);
    const setBack = (): Step => ({
      do: 'setBack',
      ms: dice.pick([7, 300, 3000, 100_000, 3_600_000]),
      unseenMs: dice.pick([0, 2, 4, 7, 7, 20, 300, 30_000]),
    });
    const actor = dice.int(0, actors - 1);
    const more = isLimiter ? dice.int(0, 3) : 0;
    const sends = Array.from({ length: more }, (): Step => ({ do: 'act', actor, act: 'send' }));
    steps.splice(at, 0, ...sends, setBack(), ...(dice.chance(0.3) ? [{ do: 'pass', ms: dice.int(0, 20) } as const, setBack()] : []));
  }
  return { seed, subjects, hasLimiter, steps, traps };
}

function drawStep(dice: Dice, actors: number): Step {
  const kind = dice.next();
  const actor = dice.int(0, actors - 1);
  if (kind < 0.5) return { do: 'act', actor, act: 'send' };
  if (kind < 0.75) return { do: 'pass', ms: dice.pick([0, 1, 1, 2, 3, 5, 10, 20, 50, 200]) };
  if (kind < 0.97) {
    // What ends everything comes seldom, or there is nothing left to happen.
    const act = dice.chance(0.2) ? dice.pick(ACTS) : dice.pick(['leave', 'flush', 'limits', 'pause', 'send', 'abort', 'limits'] as const);
    return act === 'throw' || (act === 'leave' && dice.chance(0.5)) ? { do: 'act', actor, act: 'send' } : { do: 'act', actor, act };
  }
  const ms = dice.pick([1, 7, 40, 300, 100_000]);
  if (kind < 0.985) return { do: 'sleep', ms };
  return { do: 'jump', ms: dice.chance(0.5) ? ms : -ms };
}

/** Half of the time what is usual, else one of the others. */
export function chooser(seed: number): Choose {
  return (name, usual, ...others) => {
    const drawn = draw(seed, name);
    if (drawn < 0.5 || others.length === 0) return usual;
    return others[Math.floor((drawn - 0.5) * 2 * others.length)]!;
  };
}

const FORMS: readonly Behaviour['form'][] = ['observable', 'observable', 'observable', 'promise', 'promise', 'thenable', 'iterable'];
const STATUSES = [400, 400, 503, 503, 429, 401, 413, undefined];

/** What the calls of an actor do: most answer. */
export function script(seed: number, actor: number, takesValues: boolean): (no: number) => Behaviour {
  return (no) => {
    const dice = new Dice(seed, `call ${actor} ${no}`);
    const kind = dice.next();
    const ms = dice.pick([0, 0, 1, 3, 3, 5, 8, 30]);
    const form = takesValues && dice.chance(0.1) ? 'value' : dice.pick(FORMS);
    const call = (does: Behaviour['does'], status?: number): Behaviour => ({
      // An asynchronous iterable answers later, a plain value at once.
      form:
        does === 'thenThrows'
          ? 'thenable'
          : does === 'nothing' || does === 'more' || does === 'never'
            ? form === 'value'
              ? 'observable'
              : form
            : form,
      ms: form === 'value' ? 0 : ms,
      does,
      ...(status !== undefined && { status }),
      ...(dice.chance(0.03) && { badTeardown: true }),
      ...(does === 'fail' && status === 400 && dice.chance(0.3) && { blames: true }),
    });
    if (kind < 0.55) return call('ok');
    if (kind < 0.8) return call('fail', dice.pick(STATUSES));
    if (kind < 0.83) return call('throw', dice.pick(STATUSES));
    if (kind < 0.87) return call('never');
    if (kind < 0.89) return call('thenThrows', dice.pick(STATUSES));
    return call(dice.pick(['shape', 'partial', 'partialById', 'map', 'settled', 'nothing', 'more'] as const));
  };
}
