import type { Observable, SchedulerLike } from 'rxjs';
import type {
  Classify,
  Cost,
  FlowEvent,
  FlowSink,
  Handle,
  Limiter,
  PullSource,
  ResponseLike,
  RetryOptions,
  Usage,
  WorkOutcome,
  WorkResult,
} from '../../../operators/index.js';

/** Context of every stage's work on an item. */
export interface StageItem<Doc = unknown> {
  readonly document: Doc;
  readonly documentId: string;
  /** Where the item comes from in its document: `''` is the document itself, `'3'` the fourth item made of it, `'3.0'` the first of that one's. */
  readonly item: string;
  /** Name of the stage. */
  readonly stage: string;
  /** By stage, what came of the stages before on the way to this item; of one that expands the part that this item is, or was made of. */
  readonly earlier: Readonly<Record<string, unknown>>;
  /** Aborts when the result is no longer needed: it timed out, its document has failed, or the consumer has left. Made on the first look. */
  readonly signal: AbortSignal;
}

/** Context of one request. Its functions may be destructured. */
export interface RequestContext {
  /** Aborts when the attempt has timed out, or the result is no longer needed. Made on the first look. */
  readonly signal: AbortSignal;
  /** 1 on the first attempt. */
  readonly attempt: number;
  /** When this attempt is cut off, on the scheduler; Infinity when it is not. */
  readonly deadlineAt: number;
  /** Replaces the estimated token cost by the real one. */
  readonly settle: (usage: Usage) => void;
  /** Lets the limiter read `retry-after` and rate-limit headers from a response. */
  readonly observe: (response: ResponseLike) => void;
  /** Stops the clock of `timeoutMs`, while the work waits for something else than its call, until the returned function is called. `deadlineMs` keeps running. */
  readonly pauseTimeout: () => () => void;
}

/**
 * Context of the `work` of a stage.
 * @beta
 */
export interface StageContext<Doc = unknown> extends StageItem<Doc>, RequestContext {
  readonly signal: AbortSignal;
}

/** Context of the `steps` of a stage. Its functions may be destructured. */
export interface StepsContext<Doc = unknown> extends StageItem<Doc> {
  /**
   * Makes a request: it waits for a slot of the stage and a permit of the limiter together, is cut off after `timeoutMs` and tried again as the
   * stage says. Made for each subscriber. Nothing is held between two of them.
   */
  readonly request: <R, W = never>(
    work: ((context: RequestContext) => WorkResult<R>) | ((context: RequestContext) => W),
    cost?: Cost,
  ) => Observable<WorkOutcome<R, W>>;
  /** The same as a promise of the last value. */
  readonly requestAsync: <R, W = never>(
    work: ((context: RequestContext) => WorkResult<R>) | ((context: RequestContext) => W),
    cost?: Cost,
  ) => Promise<WorkOutcome<R, W>>;
}

/** What a stage goes by. */
export interface StageRules<In = never> {
  /** In events, results and the journal: another name is another stage. */
  readonly name: string;
  /** Whether the work answers a list, each part of which is an item for the next stage. @defaultValue false */
  readonly expands?: boolean;
  /** Most requests of this stage at a time; an Observable changes it while running. @defaultValue Infinity, and before its first value */
  readonly concurrency?: number | Observable<number>;
  /** Whether that is for all documents together or for each by itself. @defaultValue 'shared' */
  readonly scope?: 'shared' | 'perBatch';
  /** Longest attempt of a request, from its permit to its end, in ms. @defaultValue 120000 */
  readonly timeoutMs?: number;
  /** Longest time of an item in this stage, in ms: waiting, pauses and all steps included. @defaultValue Infinity */
  readonly deadlineMs?: number;
  /**
   * With true a failed item is a result of its own, and the other items of its document continue. With false it is the end of its document: all or
   * nothing, and whatever else is under way for it is aborted. @defaultValue false
   */
  readonly allowPartialFailure?: boolean;
  /** When and how often a failed request is made again; a pause holds no slot and no permit. @defaultValue 3 attempts, 200 ms doubling to 20 s with full jitter, without a `budget` */
  readonly retry?: RetryOptions | false;
  /** What a request takes from the limiter; `steps` may say it for each. @defaultValue one slot and one request */
  readonly cost?: Cost | ((item: In) => Cost);
  /** Whether its requests need nothing of the limiter, because they are none: cutting a text, writing a file. @defaultValue false */
  readonly local?: boolean;
}

/** The work of a stage is one request, `work`, or makes its own, `steps`. */
export type StageWork<Doc, In, W> =
  | {
      /** One request: called with a slot and a permit in hand. A promise, the last value of a stream, or what it returns otherwise. */
      readonly work: (item: In, context: StageContext<Doc>) => WorkResult<W>;
      readonly steps?: undefined;
    }
  | {
      /** Several requests, one after the other as a rule: called with nothing in hand, each `request` takes and gives back its own. */
      readonly steps: (item: In, context: StepsContext<Doc>) => WorkResult<W>;
      readonly work?: undefined;
    };

/**
 * One stage. `W` is what its work answers, `E` whether that is a list of items.
 * @beta
 */
export type Stage<Doc, In, W, E extends boolean = boolean> = Omit<StageRules<In>, 'expands'> & { readonly expands?: E } & StageWork<
    Doc,
    In,
    W
  >;

/** What the next stage gets. */
export type StageOutput<W, E extends boolean> = E extends true ? (W extends readonly (infer Part)[] ? Part : never) : W;

/**
 * A stage whose types are not known: of a list that was made elsewhere.
 * @beta
 */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- whatever the one before answers
export type AnyStage<Doc = any> = Stage<Doc, any, unknown>;

/** What documents are, by the stages they go through. */
export type DocumentOf<S extends AnyStage> = S extends Stage<infer Doc, never, unknown> ? Doc : never;

export interface BatchRules<Doc> {
  /** Most documents in progress; an Observable changes it while running: a lower one lets what is in progress end. @defaultValue 4, and before its first value */
  readonly concurrency?: number | Observable<number>;
  /**
   * Which document goes first when several want the same slot: `'fair'` the one that came first, `'priority'` the one whose `priority` is highest,
   * `'roundRobin'` each in turn. @defaultValue 'fair'
   */
  readonly scheduling?: 'fair' | 'priority' | 'roundRobin';
  /** A higher number goes first. Only with `scheduling: 'priority'`. */
  readonly priority?: (document: Doc) => number;
  /** Documents read ahead, so that the next one can be chosen. Only with `scheduling: 'priority'`. @defaultValue 100 */
  readonly maxQueued?: number;
}

/**
 * Options of `createStages`.
 * @beta
 */
export interface StagesOptions<Doc> {
  readonly batches?: BatchRules<Doc>;
  /** The request level: shared with everything else that calls the same account. @defaultValue none */
  readonly limiter?: Limiter;
  /** Lane of that limiter. @defaultValue its last one */
  readonly lane?: string;
  /** What is known already, and what is to be remembered. @defaultValue none */
  readonly journal?: StageJournal;
  /** Name of a document, for results and the journal. @defaultValue its position in the input */
  readonly id?: (document: Doc) => string;
  /** Sorts errors into those worth another try and those that are not. @defaultValue `classifyError` */
  readonly classify?: Classify;
  /** @defaultValue none */
  readonly onEvent?: FlowSink;
  /** Stands in events as `instance`. @defaultValue a number */
  readonly name?: string;
  /** Clock and timers. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Source of jitter, 0 to 1. @defaultValue `Math.random` */
  readonly random?: () => number;
}

/**
 * One value that is known: what a stage answered for an item.
 * @beta
 */
export interface JournalEntry {
  readonly documentId: string;
  readonly stage: string;
  /** As in {@link StageItem}. */
  readonly item: string;
  readonly value: unknown;
}

/**
 * Where values outlive the process. Failures are not remembered: they are tried again.
 * @beta
 */
export interface StageJournal {
  /** What is known of a document, asked once, when it is begun. */
  recall(documentId: string): readonly JournalEntry[] | PromiseLike<readonly JournalEntry[]>;
  /** Its answer, or the end of its promise, says that the value is safe: only then the item continues. A throw or a rejection ends the run. */
  append(entry: JournalEntry): void | PromiseLike<void>;
}

interface StageResultBase {
  readonly documentId: string;
  /** Position of the document in the input, from 0. */
  readonly documentIndex: number;
}

interface ItemResultBase extends StageResultBase {
  readonly type: 'item';
  /** As in {@link StageItem}. */
  readonly item: string;
  /** The last stage it was in. */
  readonly stage: string;
  /** By stage, all that came of it and of what it was made of. */
  readonly values: Readonly<Record<string, unknown>>;
}

export interface ItemFulfilled<Out> extends ItemResultBase {
  readonly status: 'fulfilled';
  readonly value: Out;
}

export interface ItemRejected extends ItemResultBase {
  readonly status: 'rejected';
  /** Its own error; `ClosedError` when another item's was the end of its document (that is the `cause`), or the pipeline was closed. */
  readonly reason: unknown;
}

/**
 * An item is over. Told at once.
 * @beta
 */
export type ItemResult<Out> = ItemFulfilled<Out> | ItemRejected;

interface DocumentBase<Doc, Out> extends StageResultBase {
  readonly type: 'document';
  readonly document: Doc;
  /** All its items, in their order. */
  readonly items: readonly ItemResult<Out>[];
}

export interface DocumentFulfilled<Doc, Out> extends DocumentBase<Doc, Out> {
  readonly status: 'fulfilled';
}

export interface DocumentRejected<Doc, Out> extends DocumentBase<Doc, Out> {
  readonly status: 'rejected';
  /** The error that was its end, or of its first item when all have failed. */
  readonly reason: unknown;
}

/**
 * A document is over, with all its items.
 * @beta
 */
export type DocumentResult<Doc, Out> = DocumentFulfilled<Doc, Out> | DocumentRejected<Doc, Out>;

export type StageResult<Doc, Out> = ItemResult<Out> | DocumentResult<Doc, Out>;

/** What waits and runs at one level. */
export interface LevelLoad {
  /** Waiting: documents that were read ahead, and those of an input that is an array; requests that were asked for. */
  readonly queued: number;
  /** Of those: waiting for a rate of the limiter, or for the end of a pause. */
  readonly heldByRate: number;
  /** Of those: waiting for a slot, of the stage or of the limiter. */
  readonly heldBySlot: number;
  /** Documents in progress, requests under way. */
  readonly executing: number;
}

/** One stage at one moment. */
export interface StageState extends LevelLoad {
  /** Most requests at a time. */
  readonly concurrency: number;
  /** Items in this stage: those that wait to be begun, wait for a request or between two, and those that have one under way. */
  readonly admitted: number;
  readonly done: number;
  readonly failed: number;
  /** Average time of the items that are done, in ms, from their entry into the stage: waiting, pauses and all steps included. 0 before the first. */
  readonly meanMs: number;
}

/** @beta */
export interface StagesSnapshot {
  /** `failed` are documents that were rejected, `done` all others that are over. `meanMs` is the average time of both in progress, 0 before the first. */
  readonly documents: LevelLoad & { readonly concurrency: number; readonly done: number; readonly failed: number; readonly meanMs: number };
  readonly stages: Readonly<Record<string, StageState>>;
  /** Requests of all stages but the local ones; `concurrency` is that of the limiter. */
  readonly requests: LevelLoad & { readonly concurrency: number };
}

/** @beta */
export interface Stages<Doc, Out> extends Handle {
  /**
   * Takes documents through the stages, and reads on only while fewer than `batches.concurrency` are in progress. Emits every item and every
   * document when it is over, whatever came of it; completes when all are. Errors when the input or the journal fails. Unsubscribing aborts.
   *
   * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when the input cannot be read piece by piece
   */
  run(documents: PullSource<Doc>): Observable<StageResult<Doc, Out>>;
  snapshot(): StagesSnapshot;
  /** The same events as `onEvent`. Completes when the pipeline has drained or was closed. */
  readonly events: Observable<FlowEvent>;
}
