import type { Observable } from 'rxjs';
import {
  type AnyStage,
  type BatchRules,
  createMemoryJournal,
  createStages,
  type DocumentFulfilled,
  type DocumentOf,
  type DocumentRejected,
  type DocumentResult,
  type ItemFulfilled,
  type ItemRejected,
  type ItemResult,
  type JournalEntry,
  type LevelLoad,
  type RequestContext,
  type Stage,
  type StageContext,
  type StageItem,
  type StageJournal,
  type StageOutput,
  type StageResult,
  type StageRules,
  type StageState,
  type Stages,
  type StagesOptions,
  type StagesRules,
  type StagesSnapshot,
  type StageWork,
  type StepsContext,
} from 'sluice';
import { createLimiter } from 'sluice/operators';

interface Paper {
  readonly title: string;
}

const rules: StageRules<Paper> = { name: 'ask', concurrency: 3, scope: 'perBatch', timeoutMs: 1_000, cost: ({ title }) => ({ tokens: title.length }) };
const ask: StageWork<Paper, Paper, string[]> = {
  work: ({ title }: Paper, { attempt, signal, documentId }: StageContext<Paper>) =>
    Promise.resolve([`${documentId} ${title} ${attempt} ${String(signal.aborted)}`]),
};
const asking: Stage<Paper, Paper, string[], true> = { ...rules, ...ask, expands: true };
const answering: Stage<Paper, string, number> = {
  name: 'answer',
  steps: (question: string, context: StepsContext<Paper>) => context.request(({ attempt }: RequestContext) => Promise.resolve(question.length + attempt)),
};
same<string>()({} as StageOutput<string[], true>);

const journal: StageJournal = createMemoryJournal();
const entry: JournalEntry = { documentId: '0', stage: 'ask', item: '', value: [] };
void journal.append(entry);
const batches: BatchRules<Paper> = {
  concurrency: 4,
  scheduling: 'priority',
  priority: ({ title }) => title.length,
};
const shared: StagesRules<Paper> = { batches, journal, limiter: createLimiter({ concurrency: 2 }), id: ({ title }) => title };
const options: StagesOptions<Paper, readonly [typeof asking, typeof answering]> = { ...shared, stages: [asking, answering] };
const stages: Stages<Paper, number> = createStages(options);
same<Observable<StageResult<Paper, number>>>()(stages.run([{ title: 'tea' }]));

// types of each stage come from the one before it
same<Stages<string, number>>()(
  createStages({
    stages: [
      { name: 'words', expands: true, work: (text: string) => Promise.resolve(text.split(' ')) },
      { name: 'count', work: (word) => Promise.resolve(word.length) },
    ],
  }),
);
const listed: readonly AnyStage<Paper>[] = [asking];
same<Paper>()({} as DocumentOf<typeof asking>);
createStages({ stages: listed }).close();

const told = (item: ItemFulfilled<number> | ItemRejected): unknown => (item.status === 'fulfilled' ? item.value : item.reason);
const ended = (result: DocumentFulfilled<Paper, number> | DocumentRejected<Paper, number>): readonly ItemResult<number>[] => result.items;
export const read = (result: StageResult<Paper, number>): unknown =>
  result.type === 'item' ? told(result) : ended(result satisfies DocumentResult<Paper, number>);
export const nameOf = ({ item, stage }: StageItem<Paper>): string => `${stage} ${item}`;

const snapshot: StagesSnapshot = stages.snapshot();
const state: StageState | undefined = snapshot.stages['ask'];
const load: LevelLoad = snapshot.requests;
export const waiting: number = load.heldByRate + (state?.queued ?? 0);
