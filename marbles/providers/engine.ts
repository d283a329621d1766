import type { SchedulerLike } from 'rxjs';
import { defer, map, Observable, toArray } from 'rxjs';
import { CallLog } from '../call-log.js';
import { FakeProviderError } from '../fake-call.js';
import { seededRandom } from '../random.js';
import type { GiveBack } from './books.js';
import { Ledger } from './books.js';
import type { CheckedOptions } from './options.js';
import { checkedOptions } from './options.js';
import type { Accident, Failure, Generated, ModelQuestion, Refusal, Rules } from './rules.js';
import { fieldsOf } from './rules.js';
import type {
  ProviderAnswer,
  ProviderBody,
  ProviderCall,
  ProviderEvent,
  ProviderFate,
  ProviderFaults,
  ProviderOptions,
  ProviderReply,
  ProviderRequest,
  ProviderSimulation,
} from './types.js';
import type { ProviderUnit } from './units.js';

/** Opens a provider that follows `rules`. */
export function openProvider(rules: Rules, options: ProviderOptions): ProviderSimulation {
  const machine = new Machine(rules, checkedOptions(options));
  return {
    name: rules.name,
    request: machine.request,
    send: machine.send,
    workOne: machine.workOne,
    books: machine.booksOf(undefined),
    booksOf: (model) => machine.booksOf(model),
    setFaults: machine.setFaults,
    calls: machine.log.calls,
    get inFlight() {
      return machine.log.running;
    },
    get maxInFlight() {
      return machine.log.peak;
    },
    get refused() {
      return machine.refused;
    },
  };
}

/** The provider's clock: the scheduler's, `speed` times as fast. */
class Clock {
  #origin: number | undefined;
  #last = -Infinity;

  constructor(
    readonly scheduler: SchedulerLike,
    readonly speed: number,
    readonly startsAt: number | undefined,
    readonly onSetBack: () => void,
  ) {}

  readonly now = (): number => {
    const client = this.scheduler.now();
    // Entering virtual time sets the clock back to 0.
    if (client < this.#last) {
      this.#origin = client;
      this.#last = client;
      this.onSetBack();
    }
    this.#last = client;
    this.#origin ??= client;
    return (this.startsAt ?? this.#origin) + (client - this.#origin) * this.speed;
  };

  readonly clientMs = (ms: number): number => ms / this.speed;
}

type Open<C> = { -readonly [K in keyof C]: C[K] };

class Machine {
  readonly log: CallLog<ProviderRequest, ProviderCall>;
  refused = 0;
  readonly #rules: Rules;
  readonly #options: CheckedOptions;
  readonly #clock: Clock;
  readonly #pools = new Map<string | undefined, Ledger>();
  readonly #random: () => number;
  #faults: ProviderFaults;
  #refusesUntil: number | undefined;
  #serial = 0;

  constructor(rules: Rules, options: CheckedOptions) {
    this.#rules = rules;
    this.#options = options;
    this.#faults = options.faults;
    this.#random = seededRandom(options.seed);
    this.#clock = new Clock(options.scheduler, options.speed, options.startsAt, () => {
      for (const pool of this.#pools.values()) pool.restart();
    });
    this.log = new CallLog(() => options.scheduler.now(), options.maxCalls);
    for (const model of [undefined, ...rules.models])
      this.#pools.set(model, new Ledger(this.#clock.now, (now) => rules.meters(model, now)));
  }

  booksOf(model: string | undefined): Ledger {
    return this.#pools.get(model) ?? (this.#pools.get(undefined) as Ledger);
  }

  readonly setFaults = (faults: ProviderFaults): void => {
    this.#faults = this.#options.checkFaults(faults);
    this.#refusesUntil = undefined;
  };

  readonly request = (request: ProviderRequest, signal?: AbortSignal): Observable<ProviderEvent> =>
    new Observable((subscriber) => {
      const number = ++this.#serial;
      const id = request.id ?? request.headers?.['x-client-request-id'] ?? `req_${String(number)}`;
      const [path = '', query = ''] = request.path.split('?');
      const { tokensOf } = this.#options;
      const route = this.#rules.route({ id, number, method: request.method ?? 'POST', path, query, body: request.body, tokensOf });
      const question = route.kind === 'model' ? route.question : undefined;
      const details = { id, model: question?.model ?? '', status: undefined, fate: 'running' as ProviderFate, outputTokens: 0 };
      let record: Open<ProviderCall> | undefined;
      const admitted: { run?: Run } = {};
      const close = this.log.open(
        subscriber,
        signal,
        (opened) => (record = { ...opened, ...details, inputTokens: question?.inputTokens ?? 0 }),
        request,
        () => {
          subscriber.error(signal?.reason);
        },
      );
      // A signal that had aborted before the request has ended it by now.
      if (subscriber.closed || record === undefined) return;
      const opened: Open<ProviderCall> = record;
      const end = (fate: ProviderFate): void => {
        if (opened.fate !== 'running') return;
        opened.fate = fate;
        close(fate === 'answered' || fate === 'free' ? 'ok' : fate === 'left' ? 'cancelled' : 'failed');
      };
      subscriber.add(() => {
        if (opened.fate !== 'running') return;
        admitted.run?.settle(opened.outputTokens);
        end('left');
      });
      const after = (ms: number, work: () => void): void => {
        subscriber.add(this.#options.scheduler.schedule(work, this.#clock.clientMs(ms)));
      };
      const whole = (status: number, headers: Readonly<Record<string, string>>, body: unknown, fate: ProviderFate): void => {
        opened.status = status;
        end(fate);
        subscriber.next({ type: 'head', status, headers: { 'content-type': 'application/json', ...headers } });
        subscriber.next({ type: 'chunk', text: JSON.stringify(body) });
        subscriber.complete();
      };
      if (question === undefined) {
        after(0, () => {
          const headers = this.#rules.headers(this.#told(id));
          if (route.kind === 'free') whole(route.status ?? 200, headers, route.body, 'free');
          else if (route.kind === 'bad')
            whole(route.failure.status, { ...headers, ...route.failure.headers }, route.failure.body, 'rejected');
        });
        return;
      }
      const books = this.booksOf(question.model);
      books.arrivals += 1;
      const verdict = this.#judge(question, books);
      const headers = {
        ...this.#rules.headers(this.#told(id, question.endpoint, books)),
        ...('failure' in verdict ? verdict.failure.headers : {}),
      };
      if ('failure' in verdict) {
        const { failure, fate } = verdict;
        after(fate === 'refused' ? 0 : this.#options.latencyOf(question), () => {
          whole(failure.status, headers, failure.body, fate);
        });
        return;
      }
      const { run } = verdict;
      admitted.run = run;
      this.#answer({ question, run, opened, end, after, whole, headers, subscriber });
    });

  readonly send: ProviderSimulation['send'] = (request, signal) => this.request(request, signal).pipe(toArray(), map(replyOf));

  readonly workOne: ProviderSimulation['workOne'] = (given, context) =>
    defer(() => {
      const request = isRequest(given) ? given : { path: this.#rules.mainPath(given), body: given };
      return this.send(request, context?.signal).pipe(
        map((reply) => {
          context?.observe?.({ status: reply.status, headers: reply.headers });
          if (reply.status >= 400) throw errorOf(reply);
          return reply.body;
        }),
      );
    });

  #told(id: string, endpoint?: string, books?: Ledger) {
    const { now, clientMs } = this.#clock;
    return { id, endpoint, meters: books?.meters ?? [], now: now(), clientNow: this.#options.scheduler.now(), clientMs };
  }

  /** Decides on a request as it comes in, and charges it. */
  #judge(question: ModelQuestion, books: Ledger): Judged {
    const faults = this.#faults;
    const accident = this.#accident(question);
    const refused = (failure: Failure): Judged => {
      this.refused += 1;
      books.refused += 1;
      for (const [unit, amount] of amountsOf(this.#rules.onRefusal)) {
        const taken = Math.min(amount, Math.max(0, books.level(unit)));
        if (taken > 0) books.charge(question.id, unit, taken, 'refused');
      }
      return { failure, fate: 'refused' };
    };
    const now = this.#clock.now();
    if (faults.refuseForMs !== undefined) this.#refusesUntil ??= now + faults.refuseForMs;
    if (this.#refusesUntil !== undefined && now < this.#refusesUntil) {
      return refused(this.#rules.pause(question, this.#hint(this.#refusesUntil - now)));
    }
    if (accident === 'quota' || accident === 'flexBusy') {
      const failure = this.#rules.accident(accident, question);
      return failure.status === 429 ? refused(failure) : { failure, fate: 'rejected' };
    }
    const answer = this.#options.answerOf(question);
    const arrival = this.#rules.onArrival(question, answer.cacheReadTokens ?? 0);
    const limit = this.#options.enforce ? this.#limit(question, books, arrival) : undefined;
    if (limit !== undefined) {
      books.refusedByLimit += 1;
      const { meter, amount } = limit;
      // Told after the refusal itself was charged, so that a client that waits as told is admitted.
      const judged = refused({ status: 429, body: undefined });
      const waitMs = meter.waitMs(amount, now);
      return {
        ...judged,
        failure: this.#rules.refusal({ ...limit, waitMs, left: meter.level(now), hintMs: this.#hint(waitMs) }),
      };
    }
    const run = new Run(question, books, arrival, this.#rules, answer.cacheReadTokens ?? 0);
    const failing = accident === 'serverError' || accident === 'overloaded';
    const { status = 200, message = 'The request was rejected.' } = answer;
    if (failing || status >= 400) {
      if (!this.#rules.keepsFailed) run.refund();
      const failure = failing ? this.#rules.accident(accident, question) : this.#rules.rejection(status, message, question);
      return { failure, fate: failing ? 'failed' : 'rejected' };
    }
    run.generated = this.#generated(question, answer);
    run.cutAfter = accident === 'cut' ? Math.floor(run.generated.pieces.length / 2) : undefined;
    run.breaksInStream = accident === 'overloadedInStream' && question.streamed && this.#rules.errorEvent !== undefined;
    return { run };
  }

  /** The limit that refuses longest. */
  #limit(
    question: ModelQuestion,
    books: Ledger,
    arrival: Partial<Record<ProviderUnit, number>>,
  ): Omit<Refusal, 'hintMs' | 'left'> | undefined {
    const now = this.#clock.now();
    // What is charged as it is generated must not be used up.
    const asked = { ...arrival, ...(this.#rules.asGenerated !== undefined && question.generates && { [this.#rules.asGenerated]: 1 }) };
    let longest: Omit<Refusal, 'hintMs' | 'left'> | undefined;
    for (const meter of books.meters) {
      const amount = asked[meter.unit] ?? 0;
      const waitMs = amount > 0 ? meter.waitMs(amount, now) : 0;
      if (waitMs > (longest?.waitMs ?? 0)) longest = { meter, amount, waitMs, question };
    }
    return longest;
  }

  #hint(waitMs: number): number | undefined {
    return this.#faults.hints === false ? undefined : this.#clock.clientMs(waitMs);
  }

  #accident(question: ModelQuestion): Accident | 'cut' | 'overloadedInStream' | undefined {
    const { quota, flexBusy = 0, serverErrors = 0, overloaded = 0, cut = 0, overloadedInStream = 0 } = this.#faults;
    const draw = this.#random();
    const flexDraw = this.#random();
    if (quota === true) return 'quota';
    if (question.flex && flexDraw < flexBusy) return 'flexBusy';
    let left = draw;
    for (const [kind, share] of Object.entries({ serverError: serverErrors, overloaded, cut, overloadedInStream })) {
      if (left < share) return kind as Accident;
      left -= share;
    }
    return undefined;
  }

  #generated(question: ModelQuestion, answer: ProviderAnswer): Generated {
    const { tokensOf } = this.#options;
    const most = question.maxOutputTokens ?? Infinity;
    const wanted = question.generates ? (answer.outputTokens ?? tokensOf(answer.text ?? '')) : 0;
    const outputTokens = Math.min(wanted, most);
    const full = answer.text ?? 'word'.repeat(wanted);
    const text = wanted > most ? full.slice(0, Math.floor((full.length * most) / wanted)) : full;
    const count = Math.max(1, Math.min(this.#options.pieces, outputTokens));
    const part = (of: number, index: number): number => Math.floor((of * index) / count);
    return {
      text,
      outputTokens,
      reasoningTokens: Math.min(answer.reasoningTokens ?? 0, outputTokens),
      cacheReadTokens: answer.cacheReadTokens ?? 0,
      cacheWriteTokens: answer.cacheWriteTokens ?? 0,
      cacheWrite1hTokens: answer.cacheWrite1hTokens ?? 0,
      finish: wanted > most ? 'length' : 'stop',
      pieces: Array.from({ length: count }, (_, index) => ({
        text: text.slice(part(text.length, index), part(text.length, index + 1)),
        tokens: part(outputTokens, index + 1) - part(outputTokens, index),
      })),
      usage: this.#random() >= (this.#faults.noUsage ?? 0),
    };
  }

  /** Generates an answer, piece by piece, and sends it. */
  #answer({ question, run, opened, end, after, whole, headers, subscriber }: Answering): void {
    const generated = run.generated as Generated;
    const { pieces } = generated;
    const wording = this.#rules.word(question, generated);
    const { streamed } = question;
    const send = (text: string): void => {
      if (text !== '') subscriber.next({ type: 'chunk', text });
    };
    const cut = (): void => {
      run.settle(opened.outputTokens);
      end('cut');
      subscriber.error(new FakeProviderError('the connection was cut', undefined, {}, 'ECONNRESET'));
    };
    const next = (index: number): void => {
      if (run.cutAfter === index) {
        cut();
        return;
      }
      const piece = pieces[index];
      if (piece === undefined) {
        run.settle(opened.outputTokens);
        if (!streamed) {
          whole(200, headers, wording.whole(), 'answered');
          return;
        }
        end('answered');
        send(wording.closing());
        subscriber.complete();
        return;
      }
      after(piece.tokens * this.#options.msPerOutputToken, () => {
        opened.outputTokens += piece.tokens;
        run.generate(piece.tokens);
        if (streamed) send(wording.piece(piece.text));
        if (!subscriber.closed) next(index + 1);
      });
    };
    after(this.#options.latencyOf(question), () => {
      if (!streamed) {
        next(0);
        return;
      }
      opened.status = 200;
      subscriber.next({ type: 'head', status: 200, headers: { ...headers, 'content-type': 'text/event-stream; charset=utf-8' } });
      if (run.breaksInStream) {
        run.refund();
        end('failed');
        send(this.#rules.errorEvent as string);
        subscriber.complete();
        return;
      }
      send(wording.opening());
      if (!subscriber.closed) next(0);
    });
  }
}

type Judged = { readonly run: Run } | { readonly failure: Failure; readonly fate: 'refused' | 'rejected' | 'failed' };

interface Answering {
  readonly question: ModelQuestion;
  readonly run: Run;
  readonly opened: Open<ProviderCall>;
  readonly end: (fate: ProviderFate) => void;
  readonly after: (ms: number, work: () => void) => void;
  readonly whole: (status: number, headers: Readonly<Record<string, string>>, body: unknown, fate: ProviderFate) => void;
  readonly headers: Readonly<Record<string, string>>;
  readonly subscriber: {
    readonly closed: boolean;
    next(event: ProviderEvent): void;
    error(error: unknown): void;
    complete(): void;
  };
}

/** An admitted request: what it was charged, and what it makes. */
class Run {
  generated: Generated | undefined;
  /** The connection breaks before this piece. */
  cutAfter: number | undefined;
  breaksInStream = false;
  readonly #charged = new Map<ProviderUnit, { amount: number; readonly giveBack: GiveBack }>();

  constructor(
    readonly question: ModelQuestion,
    readonly books: Ledger,
    arrival: Partial<Record<ProviderUnit, number>>,
    readonly rules: Rules,
    readonly cacheReadTokens: number,
  ) {
    for (const [unit, amount] of amountsOf(arrival)) {
      this.#charged.set(unit, { amount, giveBack: books.charge(question.id, unit, amount, 'arrival') });
    }
  }

  /** The request failed: its tokens come back, the request itself does not. */
  refund(): void {
    for (const [unit, charge] of this.#charged) {
      if (unit === 'requests' || unit === 'requestsPerDay') continue;
      charge.giveBack(charge.amount, 'failed');
      charge.amount = 0;
    }
  }

  generate(tokens: number): void {
    const unit = this.rules.asGenerated;
    if (unit !== undefined && tokens > 0) this.books.charge(this.question.id, unit, tokens, 'generated');
  }

  /** The request has ended after so much output. */
  settle(outputTokens: number): void {
    const final = this.rules.settles?.(this.question, outputTokens, this.cacheReadTokens) ?? {};
    for (const [unit, amount] of amountsOf(final)) {
      const charge = this.#charged.get(unit);
      const back = (charge?.amount ?? 0) - amount;
      if (back > 0) charge?.giveBack(back, 'settled');
      else if (back < 0) this.books.charge(this.question.id, unit, -back, 'settled');
      if (charge !== undefined) charge.amount = amount;
    }
  }
}

function amountsOf(amounts: Partial<Record<ProviderUnit, number>>): [ProviderUnit, number][] {
  return Object.entries(amounts) as [ProviderUnit, number][];
}

function isRequest(given: ProviderRequest | ProviderBody): given is ProviderRequest {
  return typeof given.path === 'string';
}

function replyOf(events: readonly ProviderEvent[]): ProviderReply {
  const head = events.find((event) => event.type === 'head') as Extract<ProviderEvent, { type: 'head' }>;
  const text = events.map((event) => (event.type === 'chunk' ? event.text : '')).join('');
  const isJson = head.headers['content-type']?.startsWith('application/json') === true;
  return { status: head.status, headers: head.headers, body: isJson ? (JSON.parse(text) as unknown) : text };
}

/** The error that a client makes of a response: with the provider's body, as SDKs have it. */
function errorOf({ status, headers, body }: ProviderReply): FakeProviderError {
  const error = fieldsOf(fieldsOf(body)['error']);
  const code = error['code'] ?? error['type'];
  return new FakeProviderError(
    typeof error['message'] === 'string' ? error['message'] : `status ${String(status)}`,
    status,
    headers,
    typeof code === 'string' ? code : undefined,
    body,
  );
}
