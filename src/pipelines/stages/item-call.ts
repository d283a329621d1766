import type { Subscriber } from 'rxjs';
import { defer, lastValueFrom, Observable, Subscription } from 'rxjs';
import { ask } from '../../../operators/build.js';
import type { Cost, Policy, PolicyContext, ResponseLike, Usage, WorkResult } from '../../../operators/index.js';
import type { StageLevel } from './stage-level.js';
import type { Claim, Claimant, Rank } from './stage-permits.js';
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
  /** Makes its requests in a stage. */
  requestIn(level: StageLevel): Policy;
  rankIn(level: StageLevel, hasBegun: boolean): Rank;
  /** It has had a permit. */
  granted(): void;
  /** It has had its first permit, or needs none. */
  begun(item: Item): void;
  answered(item: Item, value: unknown): void;
  failed(item: Item, error: unknown): void;
}

/** The work of one stage for one item: a request, or several. */
export class ItemCall implements Claim {
  readonly item: Item;
  readonly level: StageLevel;
  readonly claimant: ItemHost;
  hasBegun = false;
  #isOver = false;
  /** Requests it has made, and those that are not over. */
  #steps = 0;
  readonly #requests = new Set<Subscriber<unknown>>();
  #work = Subscription.EMPTY;

  constructor(host: ItemHost, level: StageLevel, item: Item) {
    this.claimant = host;
    this.level = level;
    this.item = item;
  }

  get rank(): Rank {
    return this.claimant.rankIn(this.level, this.hasBegun);
  }

  start(): void {
    let last: unknown;
    const work = new Subscription();
    this.#work = work;
    const observer = {
      next: (value: unknown) => {
        last = value;
      },
      error: (error: unknown) => {
        this.#end();
        this.claimant.failed(this.item, error);
      },
      complete: () => {
        this.#end();
        this.claimant.answered(this.item, last);
      },
    };
    work.add(defer(() => this.#all()).subscribe(observer));
  }

  /** Under a slot and a permit, made again as the stage says. Nothing of it outlives the item. */
  request<R>(work: (attempt: PolicyContext) => WorkResult<R>, given?: Cost, deadlineMs?: number): Observable<R> {
    const { level, item, claimant } = this;
    const cost = costOption('cost', given, level.limiter);
    const attempted = (attempt: PolicyContext): WorkResult<R> => {
      this.#begun();
      if (!level.config.local) claimant.granted();
      return work(attempt);
    };
    return new Observable<R>((subscriber) => {
      if (this.#isOver) {
        subscriber.error(abortError());
        return;
      }
      const step = this.#steps++;
      const id = `${String(claimant.index)}:${item.path}:${level.name}${step === 0 ? '' : `#${String(step + 1)}`}`;
      this.#requests.add(subscriber);
      subscriber.add(() => {
        this.#requests.delete(subscriber);
      });
      const how = { id, job: { key: this, cost }, ...(deadlineMs !== undefined && { deadlineMs }) };
      claimant
        .requestIn(level)<R>(attempted, how)
        .subscribe(subscriber as Subscriber<unknown>);
    });
  }

  /** Its result is not wanted any more. */
  stop(): void {
    this.#isOver = true;
    this.#work.unsubscribe();
    this.#leaveRequests();
  }

  /** The one request, or the steps. */
  #all(): Observable<unknown> {
    const { item, level } = this;
    const { work, steps, cost, deadlineMs } = level.config;
    const { input } = item;
    const leftMs = deadlineMs === Infinity ? undefined : Math.max(0, item.enteredAt + deadlineMs - level.now());
    if (work === undefined) {
      const all = steps as NonNullable<typeof steps>;
      return level.inTime((context) => all(input, new Steps(this, context)), leftMs === undefined ? {} : { deadlineMs: leftMs });
    }
    const charged = typeof cost === 'function' ? ask(NAME, 'cost', cost as (item: unknown) => Cost, input) : cost;
    return this.request((attempt) => work(input, new Work(this, attempt) as never), charged, leftMs);
  }

  #begun(): void {
    if (this.hasBegun) return;
    this.hasBegun = true;
    this.claimant.begun(this.item);
  }

  #end(): void {
    this.#isOver = true;
    this.#leaveRequests();
    this.#begun();
  }

  #leaveRequests(): void {
    for (const request of [...this.#requests]) request.error(abortError());
  }
}

function abortError(): DOMException {
  return new DOMException('This operation was aborted', 'AbortError');
}

/** Context of all work on an item. */
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
  readonly #told: PolicyContext;

  constructor(call: ItemCall, told: PolicyContext) {
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

  get pauseTimeout(): () => () => void {
    return this.#told.pauseTimeout;
  }
}

class Steps extends About implements StepsContext {
  readonly #told: PolicyContext;

  constructor(call: ItemCall, told: PolicyContext) {
    super(call);
    this.#told = told;
  }

  get signal(): AbortSignal {
    return this.#told.signal;
  }

  readonly request = (<R>(work: (context: RequestContext) => WorkResult<R>, cost?: Cost) =>
    this.call.request(work, cost)) as StepsContext['request'];

  readonly requestAsync = (<R>(work: (context: RequestContext) => WorkResult<R>, cost?: Cost): Promise<R> => {
    const answer = lastValueFrom(this.request(work, cost));
    // As with all rejections here: without a handler it is not reported as unhandled.
    answer.catch(() => undefined);
    return answer;
  }) as StepsContext['requestAsync'];
}
