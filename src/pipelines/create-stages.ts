import { FlowStages } from './stages/flow-stages.js';
import type { AnyStage, DocumentOf, Stage, StageOutput, Stages, StagesOptions } from './stages/stages-types.js';

export { STAGES_DEFAULTS } from './defaults.js';
export type * from './stages/stages-types.js';

/**
 * Bulk work of several levels, declared once: documents in progress, the stages of each, and the requests of all, under one limiter. Papers are
 * generated from, answered and graded; documents are cut up, extracted from and merged.
 *
 * - **Documents**: so many in progress, the next is read when one is over. `scheduling` says whose request goes first.
 * - **Stages**: an item enters the next stage as soon as it has left the one before; a stage that `expands` makes many items of one. So many
 *   requests of a stage at a time, for all documents or for each.
 * - **Requests** wait for a slot of their stage and a permit of the `limiter` together, and hold neither while they wait for the other. The latest stage
 *   goes first, and in it what has been begun: finishing comes before beginning.
 * - **Steps** of an item follow one another in `steps`, each `request` with its own slot and permit, nothing held in between.
 * - **Emits when** an item is over, and when a document is. Every item settles once, whatever came of it.
 * - **All or nothing**: a failed item is the end of its document, whose other items are aborted at once, unless the stage says `allowPartialFailure`.
 * - **Holds at most** the documents in progress with their items (and `batches.maxQueued` read ahead), whatever the size of the input.
 * - **Resumes** what a `journal` remembers: no value in it is asked for again.
 * - **Errors when** the input fails, with its error and when what was read is over; when the journal does, at once; when a changing
 *   `concurrency` fails or is out of range before all was read; when the pipeline is closed before (`ClosedError`).
 * - **On unsubscribe** nothing is read any more, what waits is gone and every signal aborts.
 *
 * @beta
 * @param stages - one after the other: what a stage answers is the item of the next
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option or a stage is unknown or out of range.
 * @example
 * ```ts
 * import { createStages } from 'sluice';
 * import { createLimiter } from 'sluice/operators';
 *
 * const limiter = createLimiter({ concurrency: 10 });
 * const stages = createStages(
 *   [
 *     { name: 'ask', expands: true, work: (paper: string) => Promise.resolve([`what is ${paper}?`, `why ${paper}?`]) },
 *     { name: 'answer', concurrency: 5, work: (question) => Promise.resolve(question.length) },
 *   ],
 *   { limiter, batches: { concurrency: 3 } },
 * );
 * const seen: unknown[] = [];
 * await stages.run(['tea', 'rain']).forEach((result) => {
 *   if (result.type === 'document') seen.push(result.items.map((item) => item.status === 'fulfilled' && item.value));
 * });
 * seen; // => [[12, 8], [13, 9]]
 * ```
 * @example Steps that follow one another, each a request of its own.
 * ```ts
 * import { createStages } from 'sluice';
 *
 * const extract = async (text: string, round: number) => text.split(' ').slice(0, round);
 * const stages = createStages([
 *   {
 *     name: 'extract',
 *     steps: async (text: string, context) => {
 *       let found: string[] = [];
 *       for (let round = 1; round <= 3; round++) found = await context.requestAsync(() => extract(text, round));
 *       return found;
 *     },
 *   },
 * ]);
 * const seen: unknown[] = [];
 * await stages.run(['an otter holds hands']).forEach((result) => {
 *   if (result.type === 'item' && result.status === 'fulfilled') seen.push(result.value);
 * });
 * seen; // => [['an', 'otter', 'holds']]
 * ```
 */
export function createStages<Doc, A, const EA extends boolean = false>(
  stages: readonly [Stage<Doc, Doc, A, EA>],
  options?: StagesOptions<Doc>,
): Stages<Doc, StageOutput<A, EA>>;
export function createStages<Doc, A, B, const EA extends boolean = false, const EB extends boolean = false>(
  stages: readonly [Stage<Doc, Doc, A, EA>, Stage<Doc, StageOutput<A, EA>, B, EB>],
  options?: StagesOptions<Doc>,
): Stages<Doc, StageOutput<B, EB>>;
export function createStages<
  Doc,
  A,
  B,
  C,
  const EA extends boolean = false,
  const EB extends boolean = false,
  const EC extends boolean = false,
>(
  stages: readonly [Stage<Doc, Doc, A, EA>, Stage<Doc, StageOutput<A, EA>, B, EB>, Stage<Doc, StageOutput<B, EB>, C, EC>],
  options?: StagesOptions<Doc>,
): Stages<Doc, StageOutput<C, EC>>;
export function createStages<
  Doc,
  A,
  B,
  C,
  D,
  const EA extends boolean = false,
  const EB extends boolean = false,
  const EC extends boolean = false,
  const ED extends boolean = false,
>(
  stages: readonly [
    Stage<Doc, Doc, A, EA>,
    Stage<Doc, StageOutput<A, EA>, B, EB>,
    Stage<Doc, StageOutput<B, EB>, C, EC>,
    Stage<Doc, StageOutput<C, EC>, D, ED>,
  ],
  options?: StagesOptions<Doc>,
): Stages<Doc, StageOutput<D, ED>>;
/** A list that was made elsewhere, or is longer: its types are not known. */
export function createStages<const S extends readonly AnyStage[]>(
  stages: number extends S['length'] ? S : never,
  options?: StagesOptions<DocumentOf<S[number]>>,
): Stages<DocumentOf<S[number]>, unknown>;
export function createStages(stages: readonly AnyStage[], options: StagesOptions<unknown> = {}): Stages<unknown, unknown> {
  return new FlowStages(stages, options);
}
