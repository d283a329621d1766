import type { Observable } from 'rxjs';
import { AsyncSubject, EMPTY, Observable as Source, tap } from 'rxjs';
import type { FlowEvent } from '../../../operators/index.js';
import type { Call, Item, Setting } from './setting.js';

/** What a recipe is given. */
export interface PlainSetting extends Omit<Setting, 'onEvent' | 'random' | 'tally'> {
  /** Nothing: an error that is swallowed so that the stream lives on. Says which callers will never hear of it. */
  readonly giveUp: (batch: readonly Item[]) => Observable<never>;
}

/** One batch, for as long as somebody may send it again. */
interface Sent {
  readonly id: string;
  readonly attempt: number;
  readonly endedAt: number;
}

const OPERATOR = 'rxjs';

type Outcome = Extract<FlowEvent, { type: 'attemptEnded' }>['outcome'];
const OUTCOMES: Readonly<Record<number, Outcome>> = { 400: 'itemFault', 429: 'throttled', 503: 'transient' };

/**
 * Tells of a recipe of plain RxJS what our operators tell of themselves, by looking at its edges: what goes in, the calls it makes, what comes out.
 */
export function reported(setting: Setting, recipe: (setting: PlainSetting) => Observable<Item>): Observable<Item> {
  const { tally, scheduler, onEvent } = setting;
  const open = new Map<number, { readonly item: Item; readonly at: number }>();
  const sent = new WeakMap<readonly Item[], Sent>();
  let batches = 0;
  let executing = 0;
  let waiting = 0;

  const tell = (event: Told): void => {
    onEvent({ ...event, operator: OPERATOR, instance: 'rxjs', at: scheduler.now() });
  };

  const isReplaced = (): void => {
    for (const { item } of open.values()) {
      if (tally.isWanted(item)) continue;
      open.delete(item.index);
      tell({ type: 'cancelled', lane: item.lane, seq: item.index, count: 1 });
    }
  };

  const accepted = (item: Item): void => {
    isReplaced();
    open.set(item.index, { item, at: scheduler.now() });
    tell({ type: 'accepted', lane: item.lane, seq: item.index, queued: ++waiting });
  };

  const call: Call = (batch, info) =>
    new Source((subscriber) => {
      const before = sent.get(batch);
      const startedAt = scheduler.now();
      const about = {
        lane: batch[0]?.lane ?? '',
        batchId: String(++batches), // A promise goes on for items that have been replaced: nobody's call.
        seqs: batch.map(({ index }) => index).filter((index) => open.has(index)),
        size: batch.length,
      };
      const attempt = (before?.attempt ?? 0) + 1;
      const weight = batch.reduce((sum, { tokens }) => sum + tokens, 0);
      const formed = { ...about, ...(before && { parentBatchId: before.id }), weight };
      if (before) {
        const delayMs = startedAt - before.endedAt;
        tell({ ...about, batchId: before.id, type: 'retryScheduled', class: 'transient', attempt: before.attempt, delayMs });
        tell({ ...formed, type: 'batchFormed', reason: 'retry', waitMs: delayMs });
      } else {
        waiting -= batch.length;
        const oldest = Math.min(...batch.map(({ index }) => open.get(index)?.at ?? startedAt));
        tell({
          ...formed,
          type: 'batchFormed',
          reason: batch.length === setting.scenario.maxSize ? 'size' : 'time',
          waitMs: startedAt - oldest,
        });
      }
      tell({ ...formed, type: 'attemptStarted', attempt, splitDepth: 0, executing: ++executing });
      let isOver = false;
      const ended = (outcome: Outcome): void => {
        if (isOver) return;
        isOver = true;
        executing--;
        sent.set(batch, { id: about.batchId, attempt, endedAt: scheduler.now() });
        tell({ ...about, type: 'attemptEnded', attempt, outcome, latencyMs: scheduler.now() - startedAt });
      };
      subscriber.add(() => {
        ended('cancelled');
      });
      subscriber.add(
        setting.call(batch, info).subscribe({
          next: (answers) => {
            subscriber.next(answers);
          },
          error: (error: unknown) => {
            ended(OUTCOMES[(error as { status?: number }).status ?? 0] ?? 'failed');
            subscriber.error(error);
          },
          complete: () => {
            ended('ok');
            subscriber.complete();
          },
        }),
      );
    });

  const giveUp = (batch: readonly Item[]): Observable<never> => {
    tally.lose(batch);
    const seqs = batch.map(({ index }) => index);
    for (const seq of seqs) open.delete(seq);
    tell({ type: 'swallowed', lane: batch[0]?.lane ?? '', batchId: sent.get(batch)?.id ?? '', seqs });
    return EMPTY;
  };

  return recipe({ ...setting, items: setting.items.pipe(tap(accepted)), call, giveUp }).pipe(
    tap({
      next: (item) => {
        const since = open.get(item.index);
        if (!since) return;
        open.delete(item.index);
        tell({ type: 'settled', lane: item.lane, seq: item.index, outcome: 'fulfilled', attempts: 1, totalMs: scheduler.now() - since.at });
      },
      complete: () => {
        tell({ type: 'drained' });
      },
    }),
  );
}

/** What a promise is: under way from now on, and nobody can stop it. */
export function promised<T>(work: Observable<T>): Observable<T> {
  const promise = new AsyncSubject<T>();
  work.subscribe(promise);
  return promise;
}

type Told = Unsigned<FlowEvent>;
type Unsigned<E> = E extends unknown ? Omit<E, 'operator' | 'at' | 'instance'> : never;
