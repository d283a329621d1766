import { appendFileSync, chmodSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { diskError, errorCode } from '../journal/file-error.js';
import { OWN_FILE_MODE } from '../journal/file-mode.js';
import { MARK } from '../journal/lines.js';
import type { BudgetStorage, SavedBudget } from '../pipelines/create-budget.js';
import { CliError, EXIT } from './exit.js';

/** By which a file of ours is known. */
const KIND = 'sluice-budget';

/** Lines are added up to that; then one takes the place of all. */
const MOST_CHARS = 1_000_000;

/**
 * Keeps a budget in a file, whose last whole line counts: a killed process leaves the last state, or the one before and a line that is torn. One
 * process at a time has the file; whoever runs holds a lock for it.
 *
 * @param shown what the user knows the path as.
 * @throws CliError, from its methods: exit code 2 when the file is none of a budget, 4 when it cannot be read or written.
 */
export function budgetFile(path: string, shown = path): BudgetStorage {
  const next = `${path}.tmp`;
  /** Of the file; Infinity while what it ends in is not known. */
  let chars = Infinity;
  return {
    load: () => {
      const text = readText(path, shown);
      return text === undefined ? undefined : savedIn(text, shown);
    },
    save: (saved) => {
      const line = `${JSON.stringify({ kind: KIND, ...saved })}\n`;
      const isNew = chars + line.length > MOST_CHARS;
      const before = isNew ? 0 : chars;
      chars = Infinity;
      try {
        if (isNew) {
          rmSync(next, { force: true });
          writeFileSync(next, line, { mode: OWN_FILE_MODE });
          chmodSync(next, (statSync(path, { throwIfNoEntry: false })?.mode ?? OWN_FILE_MODE) & 0o777);
          renameSync(next, path);
        } else appendFileSync(path, line, { mode: OWN_FILE_MODE });
        chars = before + line.length;
      } catch (error) {
        rmSync(next, { force: true });
        throw diskError(`write the budget \`${shown}\``, error);
      }
    },
  };
}

function readText(path: string, shown: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').replace(MARK, '');
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw diskError(`read the budget \`${shown}\``, error);
  }
}

function savedIn(text: string, shown: string): SavedBudget {
  const lines = text.split('\n');
  try {
    // Behind the last line feed there is nothing, or a line that is torn.
    const { kind, limits } = Object(JSON.parse(lines.at(-2) ?? '')) as { readonly kind?: unknown; readonly limits?: SavedBudget['limits'] };
    if (kind === KIND && limits !== undefined) return { limits };
  } catch {
    // No JSON either.
  }
  throw new CliError(EXIT.usage, `\`${shown}\` is there already and holds no budget; give another name, or remove it first`);
}
