import { type Observable, of, Subject } from 'rxjs';
import { fromNative, type NativeObservable, type ToNativeOptions, toNative } from 'sluice/interop';
import {
  type BackpressureOptions,
  backpressure,
  type CacheMap,
  type CoalesceOptions,
  type ConflateWhileBusyOptions,
  coalesce,
  conflateWhileBusy,
  createBatcher,
  createIntake,
  type Handle,
  type Intake,
  type IntakeOptions,
  type IntakeSnapshot,
  isFlowError,
  lanes,
  type LoadCache,
  type LruCacheOptions,
  lruCache,
  type ObservableIterable,
  type OfferOptions,
  type ResequenceOptions,
  resequence,
  SequenceError,
  type Settled,
  type Store,
  type ToAsyncIterableOptions,
  type ToReadableStreamOptions,
  type ToStoreOptions,
  toAsyncIterable,
  toReadableStream,
  toStore,
} from 'sluice/operators';
import { UnfinishedToolCallError } from 'sluice/operators';

interface Token {
  readonly at: number;
  readonly text: string;
}

const tokens: Observable<Token> = of({ at: 0, text: 'hel' }, { at: 1, text: 'lo' });
const merge = (first: Token, { text }: Token): Token => ({ ...first, text: first.text + text });
const ready = new Subject<boolean>();

// Between a source and a consumer that is slower
const pressing: BackpressureOptions<Token> = {
  ready,
  overflow: 'dropOldest',
  onDrop: (item, policy) => console.warn(item.text, policy),
};
same<Observable<Token>>()(tokens.pipe(backpressure(pressing)));
const conflating: ConflateWhileBusyOptions<Token, string[]> = {
  ready,
  seed: ({ text }) => [text],
  merge: (texts, { text }) => [...texts, text],
  overflow: 'dropOldest',
};
same<Observable<string[]>>()(tokens.pipe(conflateWhileBusy(conflating)));
const coalescing: CoalesceOptions<Token> = { merge, pace: 'time', compatible: (pending, next) => pending.at < next.at };
same<Observable<Token>>()(tokens.pipe(coalesce(coalescing)));
const sequencing: ResequenceOptions = { onGap: 'skip', maxWaitMs: 100 };
same<Observable<Token>>()(tokens.pipe(resequence(({ at }) => at, sequencing)));

export function explain(error: unknown): string {
  if (error instanceof SequenceError) return `${error.missingCount} missing from ${error.sequence}, ${error.held} held`;
  if (error instanceof UnfinishedToolCallError) return error.ids.join();
  return isFlowError(error, 'FLOW_SEQUENCE_GAP') ? error.operator : 'another';
}

// Producers that can wait
const intakeOptions: IntakeOptions<Token> = { maxQueued: 10, queue: lanes([{ name: 'a' }], { by: () => 'a' }) };
const intake: Intake<Token> = createIntake(intakeOptions);
const offering: OfferOptions = { lane: 'a', signal: new AbortController().signal };
same<Promise<boolean>>()(intake.offer({ at: 0, text: 'a' }, offering));
same<IntakeSnapshot>()(intake.snapshot());
const handle: Handle = intake;
const draining = { timeoutMs: 100 };
same<Intake<Token>>()(intake.shutdownOn(new AbortController().signal, draining));

// The cache of a batcher
const bounds: LruCacheOptions = { ttlMs: 1000 };
const bounded: LoadCache = lruCache(100, bounds);
const lengths = (items: readonly string[]) => of(items.map(({ length }) => length));
const own: CacheMap<number> = new Map<string, number>();
same<Promise<number>>()(createBatcher(lengths, { cache: own }).loadAsync('a'));
same<Promise<Settled<string, number>[]>>()(createBatcher(lengths, { dedupe: (item) => item }).loadManyAsync(['a']));
same<number>()(createBatcher(lengths, { dedupe: (item) => item, cache: bounded }).prime('a', 1).snapshot().cached);

// To and from what the platform has
const iterating: ToAsyncIterableOptions = { maxQueued: 10 };
const iterable: ObservableIterable<Token> = toAsyncIterable(tokens, iterating);
const iterator = iterable[Symbol.asyncIterator]();

export async function read(): Promise<string[]> {
  const texts: string[] = [];
  for await (const { text } of iterable) texts.push(text);
  const next = await iterator.next();
  if (!next.done) same<Token>()(next.value);
  await iterator[Symbol.asyncDispose]();
  return texts;
}

const streaming: ToReadableStreamOptions = { maxQueued: 10 };
same<ReadableStream<Token>>()(toReadableStream(tokens, streaming));
const storing: ToStoreOptions = { pace: 'frame', keepAliveMs: 50 };
same<Store<Token | undefined>>()(toStore(tokens, undefined, storing));
const shown = toStore<Token, undefined>(tokens, undefined);
same<() => Token | undefined>()(shown.getSnapshot);
same<Store<number>>()(shown.select((token) => token?.at ?? 0, Object.is));

const native: NativeObservable<Token> = {
  subscribe: (observer?) => observer?.next?.({ at: 0, text: 'a' }),
};
same<Observable<Token>>()(fromNative(native));
