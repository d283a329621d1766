import type { JournalEntry, StageJournal } from '../../src/pipelines/stages/stages-types.js';

/** A journal that lasts as long as the process. */
export function memoryJournal(): StageJournal {
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
