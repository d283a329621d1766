/** `sluice/journal`: a journal of `createStages` in a file, for Node.js. */

export type { JournalEntry, StageJournal } from '../pipelines/stages/stages-types.js';
export type { FileJournal } from './file-journal.js';
export { fileJournal } from './file-journal.js';
