import { noop, tap } from 'rxjs';
import { check, streamOf } from '../../../operators/build.js';
import type { Classify, PolicyContext, ResponseLike, Usage, WorkResult } from '../../../operators/index.js';
import type { EntryEnd, Progress } from '../../account/entry.js';
import { asGranted, Entry, endOf } from '../../account/entry.js';
import type { Ledger } from '../../account/ledger.js';
import type { Reservation } from '../../pipelines/budget/budget-types.js';
import { withReservation } from '../../pipelines/budget/reserving.js';
import type { AccountedCall } from './accounted-call.js';

/** Context of an adapter's work for its attempt. */
export interface EnteredAttempt extends Omit<PolicyContext, 'restartTimeout' | 'pauseTimeout'> {
  /** How far the answer is, for one that may break off. */
  readonly follow: (progress: Progress) => void;
  /** The answer has said its last word, though its connection may not have ended. */
  readonly whole: () => void;
}

/** What the attempts of an adapter are written down in. */
export interface EntryRules {
  readonly ledger: Ledger;
  readonly classify: Classify;
  now(): number;
}

/** Fractions of a millisecond that two readings of a clock may differ by. */
const TOLERANCE_MS = 0.001;

/** Makes of the work of an adapter work whose attempts are written down in the ledger: charged before, settled at their end, with a record each. */
export function entering(adapter: string, rules: EntryRules) {
  const prefix = hex(Math.random());
  let made = 0;
  const nextId = (): string => prefix + (++made).toString(16).padStart(8, '0');

  return <R>(
    work: (attempt: EnteredAttempt) => WorkResult<R>,
    facts: AccountedCall['facts'],
  ): ((context: PolicyContext) => WorkResult<R>) => {
    if (facts === undefined) return (context) => work(notEntered(context));
    const traceId = facts.traceId ?? prefix + prefix + nextId();
    return (context) => {
      const { attempt, queuedMs } = context;
      const about = { traceId, spanId: nextId(), attempt, queuedMs };
      const reserving = rules.ledger.reserveFor(facts, () => context.lease?.release('unused'));
      return withReservation(reserving, context, (reservation) => {
        const entry = enter(new EntryOf(rules, facts, about, context), reservation);
        return settledBy(
          entry,
          () => work(new Entered(context, entry)),
          (error) => endOf(error, classOf(adapter, rules, error, attempt)),
        );
      });
    };
  };
}

class EntryOf {
  constructor(
    readonly rules: EntryRules,
    readonly facts: NonNullable<AccountedCall['facts']>,
    readonly about: ConstructorParameters<typeof Entry>[2],
    readonly context: PolicyContext,
  ) {}
}

function enter({ rules, facts, about, context }: EntryOf, reservation: Reservation | undefined): Entry {
  const entry = new Entry(rules.ledger, asGranted(facts, context.lease), about, context.settle, () => rules.now(), reservation);
  context.whenAborted = () => {
    entry.left(cutOff(context, rules.now()));
  };
  return entry;
}

/** Undefined when the caller has left. */
function cutOff({ deadlineAt }: PolicyContext, now: number): EntryEnd | undefined {
  return now + TOLERANCE_MS >= deadlineAt ? { status: 'timeout', errorCode: 'FLOW_ATTEMPT_TIMEOUT' } : undefined;
}

/** Makes the call, whose end is that of the entry. */
function settledBy<R>(entry: Entry, work: () => WorkResult<R>, judge: (error: unknown) => EntryEnd): WorkResult<R> {
  const answered = (): void => {
    entry.answered();
  };
  const failed = (error: unknown): void => {
    entry.failed(error, judge(error));
  };
  let answer: WorkResult<R>;
  try {
    answer = work();
  } catch (error) {
    failed(error);
    throw error;
  }
  // A promise stays one: it keeps its permit until it is really over.
  if (check.isPromise(answer)) {
    answer.then(answered, failed);
    return answer;
  }
  const stream = streamOf<R>(answer);
  if (stream) return stream.pipe(tap({ error: failed, complete: answered }));
  answered();
  return answer;
}

function classOf(operator: string, rules: EntryRules, error: unknown, attempt: number) {
  return check.verdict(operator, rules.classify, error, { size: 1, attempt, aborted: false, epochMs: rules.now() }).class;
}

/** The attempt, whose usage goes to the ledger. */
class Entered implements EnteredAttempt {
  readonly attempt: number;
  readonly deadlineAt: number;
  readonly queuedMs: number;
  readonly lease: PolicyContext['lease'];
  readonly settle: (usage: Usage) => void;
  readonly observe: (response: ResponseLike) => void;
  readonly follow: (progress: Progress) => void;
  readonly whole: () => void;
  readonly #context: PolicyContext;

  constructor(context: PolicyContext, entry: Entry) {
    this.#context = context;
    ({ attempt: this.attempt, deadlineAt: this.deadlineAt, queuedMs: this.queuedMs, lease: this.lease } = context);
    this.observe = (response) => {
      entry.observe(response);
      context.observe(response);
    };
    this.settle = (usage) => {
      entry.report(usage);
    };
    this.follow = (progress) => {
      entry.follow(progress);
    };
    this.whole = () => {
      entry.answered();
    };
  }

  get signal(): AbortSignal {
    return this.#context.signal;
  }

  get whenAborted(): PolicyContext['whenAborted'] {
    return this.#context.whenAborted;
  }

  set whenAborted(aborted: PolicyContext['whenAborted']) {
    this.#context.whenAborted = aborted;
  }

  get giveBack(): PolicyContext['giveBack'] {
    return this.#context.giveBack;
  }

  set giveBack(giveBack: PolicyContext['giveBack']) {
    this.#context.giveBack = giveBack;
  }
}

/** Of what no model answers nothing is written down, and what it says of tokens was not spent by it. */
function notEntered(context: PolicyContext): EnteredAttempt {
  return Object.defineProperties(context, {
    settle: { value: noop, configurable: true },
    follow: { value: noop, configurable: true },
    whole: { value: noop, configurable: true },
  }) as unknown as EnteredAttempt;
}

function hex(random01: number): string {
  return Math.floor(random01 * 0x100000000)
    .toString(16)
    .padStart(8, '0');
}
