import { fileJournal } from '../../src/journal/file-journal.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'fileJournal',
  create: fileJournal,
  calls: { path: (value) => fileJournal(value) },
  optionless: true,
  rows: badly('path', 'a non-empty string', undefined, null, '', 5, NaN, {}, ['jobs.journal']),
};
