import { counted } from '../format.js';
import type { StageKey } from './run-plan.js';

/** Answers of one stage. */
interface StageAnswers {
  readonly stage: string;
  readonly answers: number;
}

/** What has changed of the stages since the last run, and what that means for the answers in the journal. */
export interface StageChange {
  readonly changed: readonly string[];
  readonly added: readonly string[];
  readonly removed: readonly string[];
  /** Of models. */
  readonly kept: readonly StageAnswers[];
  /** Those that no answer which is kept takes the place of. */
  readonly again: readonly StageAnswers[];
}

/** Answers of models in a journal, by stage. */
export class AnswerCounts {
  /** To what is asked now. */
  readonly kept = new Map<string, number>();
  /** To something else, since the stages last changed. */
  readonly #others = new Map<string, number>();

  add(stage: string, isKept: boolean): void {
    const counts = isKept ? this.kept : this.#others;
    counts.set(stage, (counts.get(stage) ?? 0) + 1);
  }

  changed(): void {
    this.#others.clear();
  }

  /** @param before the stages of the last run. */
  changeOf(before: readonly StageKey[], now: readonly StageKey[]): StageChange {
    const keys = new Map(before.map(({ name, key }) => [name, key]));
    const names = now.map(({ name }) => name);
    const answers = (counts: (stage: string) => number): StageAnswers[] =>
      names.map((stage) => ({ stage, answers: counts(stage) })).filter((one) => one.answers > 0);
    return {
      changed: now.flatMap(({ name, key }) => (keys.has(name) && keys.get(name) !== key ? [name] : [])),
      added: names.filter((name) => !keys.has(name)),
      removed: [...keys.keys()].filter((name) => !names.includes(name)),
      kept: answers((stage) => this.kept.get(stage) ?? 0),
      again: answers((stage) => (this.#others.get(stage) ?? 0) - (this.kept.get(stage) ?? 0)),
    };
  }
}

/**
 * Says what a run does because of it.
 *
 * @param output what the user calls the output.
 */
export function changeNote({ changed, added, removed, kept, again }: StageChange, output: string): string {
  const names = (stages: readonly string[], what: string): string[] =>
    stages.length === 0 ? [] : [`${stages.map((name) => `\`${name}\``).join(', ')} ${stages.length === 1 ? 'is' : 'are'} ${what}`];
  const counts = (stages: readonly StageAnswers[], what: string): string[] =>
    stages.map(({ stage, answers }) => `${counted(answers, 'answer')} of \`${stage}\` ${answers === 1 ? 'is' : 'are'} ${what}`);
  const about = [...names(changed, 'changed'), ...names(added, 'new'), ...names(removed, 'removed')].join(', ');
  const answers = [...counts(kept, 'kept'), ...counts(again, 'asked again')].join(', ');
  return `the stages are not those of the last run (${about}): ${answers}; the output begins anew, and \`${output}.before\` has what stood in it`;
}
