import { createStages } from 'sluice';
import { type FileJournal, fileJournal, type JournalEntry, type StageJournal } from 'sluice/journal';
import { isFlowError, JournalError } from 'sluice/operators';

export async function queue(): Promise<void> {
  const journal: FileJournal = await fileJournal('jobs.journal');
  const port: StageJournal = journal;
  createStages([{ name: 'send', work: (job: string) => job.length }], { journal, id: (job) => job });
  createStages([{ name: 'send', work: (job: string) => job.length }], { journal: port });
  same<Promise<readonly JournalEntry[]>>()(journal.recall('a'));
  same<number>()(journal.damagedLines);
  await journal[Symbol.asyncDispose]();
}
// @ts-expect-error -- a journal has a path
export const pathless = (): unknown => fileJournal();

export const reasonOf = (error: unknown): JournalError['reason'] | undefined =>
  isFlowError(error, 'FLOW_JOURNAL') ? error.reason : undefined;
same<'disk' | 'busy' | 'foreign' | 'value' | undefined>()(reasonOf(new JournalError('fileJournal', 'busy', 'open')));
