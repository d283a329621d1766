import type { Subscriber } from 'rxjs';
import { Observable } from 'rxjs';
import { DeadlineError } from '../../../operators/errors.js';
import type { AttemptContext } from '../../../operators/policy.js';
import { Alarm, abortReason, ask, Call, connect, lastOf } from '../../../operators/toolkit.js';
import type { Cost, ResponseLike, Usage, WorkResult } from '../../../operators/types.js';
import type { Claim, Claimant } from './gate.js';
import type { StageLevel } from './stage-level.js';
import { costOption, NAME } from './stages-options.js';
import type { RequestContext, StageContext, StepsContext } from './stages-types.js';

/** What came of the stages so far, the last one first. */
export interface StageValue {
  readonly stage: string;
  readonly value: unknown;
  readonly before: StageValue | undefined;
}

/** One item on its way through the stages. */
export class Item {
  stage = 0;
  /** Counted there. */
  isAdmitted = false;
  /** When it came into its stage. */
  enteredAt = 0;

  constructor(
    readonly position: readonly number[],
    public input: unknown,
    public values: StageValue | undefined,
  ) {}

  get path(): string {
    return this.position.join('.');
  }

  get earlier(): Record<string, unknown> {
    const earlier: [string, unknown][] = [];
    for (let at = this.values; at; at = at.before) earlier.unshift([at.stage, at.value]);
    return Object.fromEntries(earlier);
  }

  compare({ position }: Item): number {
    const at = this.position.findIndex((n, i) => n !== position[i]);
    return at === -1 ? this.position.length - position.length : (this.position[at] as number) - (position[at] ?? -1);
  }
}

/** What an item's work needs of its document. */
export interface ItemHost extends Claimant {
  readonly id: string;
  readonly index: number;
  readonly document: unknown;
  /** It has had its first permit, or needs none. */
  begun(item: Item): void;
  answered(item: Item, value: unknown): void;
  failed(item: Item, error: unknown): void;
}

/** The work of one stage for one item: a request, or several. */
export class ItemCall extends Call<unknown> {
  hasBegun = false;
  readonly item: Item;
  readonly level: StageLevel;
  readonly claimant: ItemHost;
  /** Requests it has made, and those that are not over. */
  #steps = 0;
  readonly #requests = new Set<Subscriber<unknown>>();
  #alarm: Alarm | undefined;

  constructor(host: ItemHost, level: StageLevel, item: Item) {
    super();
    this.claimant = host;
    this.level = level;
    this.item = item;
  }

  start(): void {
    const { deadlineMs } = this.level.config;
    if (deadlineMs !== Infinity) {
      this.#alarm = new Alarm(this.level.scheduler, () => {
        const elapsedMs = this.level.now() - this.item.enteredAt;
        this.stop();
        this.failed(new DeadlineError(NAME, deadlineMs, elapsedMs));
      });
      this.#alarm.set(this.#alarm.now() + this.item.enteredAt + deadlineMs - this.level.now());
    }
    this.begin();
  }

  work(): WorkResult<unknown> {
    const { work, steps, cost } = this.level.config;
    const { input } = this.item;
    if (work === undefined) return (steps as NonNullable<typeof steps>)(input, new Steps(this));
    const charged = typeof cost === 'function' ? ask(NAME, 'cost', cost as (item: unknown) => Cost, input) : cost;
    return this.request((attempt) => work(input, new Work(this, attempt) as never), charged);
  }

  /** Under a slot and a permit, tried again as the stage says. Nothing of it outlives the item. */
  request<R>(work: (attempt: AttemptContext) => WorkResult<R>, given?: Cost): Observable<R> {
    const { level, item, claimant } = this;
    const cost = costOption('cost', given);
    return new Observable<R>((subscriber) => {
      if (!this.isOpen) {
        subscriber.error(abortReason());
        return;
      }
      const step = this.#steps++;
      const id = `${String(claimant.index)}:${item.path}:${level.name}${step === 0 ? '' : `#${String(step + 1)}`}`;
      const request = new StageRequest(this);
      this.#requests.add(subscriber);
      subscriber.add(() => {
        this.#requests.delete(subscriber);
        request.over();
      });
      connect(level.request(work, { job: { lane: level.name, key: request, cost } }, id), subscriber, {
        next: (value) => {
          subscriber.next(value);
        },
        complete: () => {
          request.tell(() => {
            subscriber.complete();
          });
        },
      });
    });
  }

  begun(): void {
    if (this.hasBegun) return;
    this.hasBegun = true;
    this.claimant.begun(this.item);
  }

  done(value: unknown): void {
    this.#end();
    this.claimant.answered(this.item, value);
  }

  failed(error: unknown): void {
    this.#end();
    this.claimant.failed(this.item, error);
  }

  override stop(): void {
    this.#alarm?.clear();
    super.stop();
    this.#leaveRequests();
  }

  #end(): void {
    this.#alarm?.clear();
    this.#leaveRequests();
    this.begun();
  }

  #leaveRequests(): void {
    for (const request of [...this.#requests]) request.error(abortReason());
  }
}

/** One request of it, until its answer has been told. */
class StageRequest implements Claim {
  readonly #call: ItemCall;
  #isOver = false;
  #isTelling = false;
  #free: (() => void) | undefined;

  constructor(call: ItemCall) {
    this.#call = call;
  }

  get claimant(): Claimant {
    return this.#call.claimant;
  }

  get hasBegun(): boolean {
    return this.#call.hasBegun;
  }

  begun(): void {
    this.#call.begun();
  }

  answered(free: () => void): void {
    if (this.#isOver) free();
    else this.#free = free;
  }

  /** Tells the end: whoever hears of it may ask for what comes next. */
  tell(complete: () => void): void {
    this.#isTelling = true;
    complete();
    this.#isTelling = false;
    this.over();
  }

  over(): void {
    if (this.#isTelling) return;
    this.#isOver = true;
    this.#free?.();
  }
}

/** What all work is told about its item. */
abstract class About {
  protected readonly call: ItemCall;

  constructor(call: ItemCall) {
    this.call = call;
  }

  get document(): unknown {
    return this.call.claimant.document;
  }

  get documentId(): string {
    return this.call.claimant.id;
  }

  get item(): string {
    return this.call.item.path;
  }

  get stage(): string {
    return this.call.level.name;
  }

  get earlier(): Readonly<Record<string, unknown>> {
    return this.call.item.earlier;
  }
}

class Work extends About implements StageContext {
  readonly attempt: number;
  readonly deadlineAt: number;
  readonly settle: (usage: Usage) => void;
  readonly observe: (response: ResponseLike) => void;
  readonly #told: AttemptContext;

  constructor(call: ItemCall, told: AttemptContext) {
    super(call);
    this.attempt = told.attempt;
    this.deadlineAt = told.deadlineAt;
    this.settle = told.settle;
    this.observe = told.observe;
    this.#told = told;
  }

  get signal(): AbortSignal {
    return this.#told.signal;
  }
}

class Steps extends About implements StepsContext {
  get signal(): AbortSignal {
    return this.call.signal;
  }

  readonly request = (<R>(work: (context: RequestContext) => WorkResult<R>, cost?: Cost) =>
    this.call.request(work, cost)) as StepsContext['request'];

  readonly requestAsync = (<R>(work: (context: RequestContext) => WorkResult<R>, cost?: Cost): Promise<R> => {
    const answer = lastOf(this.request(work, cost));
    // As all other rejections here: one that nobody listens to kills nobody.
    answer.catch(() => undefined);
    return answer;
  }) as StepsContext['requestAsync'];
}
