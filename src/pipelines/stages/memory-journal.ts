import type { JournalEntry, StageJournal } from './stages-types.js';

/**
 * A journal that lasts as long as the process: for tests, and for a pipeline that is run again over the same documents.
 *
 * @example
 * ```ts
 * import { createMemoryJournal, createStages } from 'sluice';
 *
 * let calls = 0;
 * const journal = createMemoryJournal();
 * const stages = createStages({ journal, stages: [{ name: 'count', work: (text: string) => text.length + 0 * calls++ }] });
 * await stages.run(['tea', 'rain']).forEach(() => undefined);
 * await stages.run(['tea', 'rain']).forEach(() => undefined);
 * calls; // => 2
 * ```
 */
export function createMemoryJournal(): StageJournal {
  const known = new Map<string, JournalEntry[]>();
  return {
    recall: (documentId) => known.get(documentId) ?? [],
    append: (entry) => {
      const entries = known.get(entry.documentId);
      if (entries) entries.push(entry);
      else known.set(entry.documentId, [entry]);
    },
  };
}
