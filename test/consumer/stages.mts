import { type Observable, of } from 'rxjs';
import {
  type AnyStage,
  createStages,
  type DocumentResult,
  type ItemResult,
  type JournalEntry,
  type Stage,
  type StageContext,
  type StageJournal,
  type Stages,
  type StagesOptions,
  type StagesSnapshot,
} from 'sluice';
import { createLimiter } from 'sluice/operators';

interface Paper {
  readonly title: string;
}
const asking: Stage<Paper, Paper, string[], true> = {
  name: 'ask',
  concurrency: 3,
  scope: 'perBatch',
  timeoutMs: 1_000,
  cost: ({ title }) => ({ tokens: title.length }),
  work: ({ title }: Paper, { attempt, signal, documentId }: StageContext<Paper>) => Promise.resolve([`${documentId} ${title} ${attempt} ${String(signal.aborted)}`]),
  expands: true,
};
const answering: Stage<Paper, string, number> = {
  name: 'answer',
  steps: (question, context) => context.request(({ attempt }) => Promise.resolve(question.length + attempt)),
};

const entries: JournalEntry[] = [];
const journal: StageJournal = {
  recall: (documentId) => entries.filter((entry) => entry.documentId === documentId),
  append: (entry) => void entries.push(entry),
};
const options: StagesOptions<Paper> = {
  batches: { concurrency: 4, scheduling: 'priority', priority: ({ title }) => title.length },
  journal,
  limiter: createLimiter({ concurrency: 2 }),
  id: ({ title }) => title,
};
const stages: Stages<Paper, number> = createStages([asking, answering], options);
same<Observable<ItemResult<number> | DocumentResult<Paper, number>>>()(stages.run([{ title: 'tea' }]));

// types of each stage come from the one before it
same<Stages<string, number>>()(
  createStages([
      { name: 'words', expands: true, work: (text: string) => Promise.resolve(text.split(' ')) },
      { name: 'count', work: (word) => Promise.resolve(word.length) },
    ]),
);
createStages([{ name: 'ask', concurrency: of(3), work: (text: string) => text.length }], { batches: { concurrency: of(2) } }).close();
const listed: readonly AnyStage<Paper>[] = [asking];
createStages(listed).close();

const told = (item: ItemResult<number>): unknown => (item.status === 'fulfilled' ? item.value : item.reason);
export const read = (result: DocumentResult<Paper, number>): readonly unknown[] => result.items.map(told);

const snapshot: StagesSnapshot = stages.snapshot();
export const waiting: number = snapshot.requests.heldByRate + (snapshot.stages['ask']?.queued ?? 0);
export const average: number = snapshot.documents.meanMs + (snapshot.stages['ask']?.meanMs ?? 0);
