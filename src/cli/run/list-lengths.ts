import type { JournalEntry } from '../../pipelines/stages/stages-types.js';
import { formatCount } from '../format.js';
import type { RunPlan } from './run-plan.js';

/** Compares lists that came with the `listLength` of their stages. */
export class ListLengths {
  readonly #stages = new Map<string, { readonly wanted: number; lists: number; others: number; least: number; most: number }>();

  constructor(stages: RunPlan['stages']) {
    for (const { name, listLength: wanted } of stages) {
      if (wanted !== undefined) this.#stages.set(name, { wanted, lists: 0, others: 0, least: Infinity, most: 0 });
    }
  }

  add({ stage, value }: Pick<JournalEntry, 'stage' | 'value'>): void {
    const counted = this.#stages.get(stage);
    if (counted === undefined || !Array.isArray(value)) return;
    counted.lists += 1;
    if (value.length === counted.wanted) return;
    counted.others += 1;
    counted.least = Math.min(counted.least, value.length);
    counted.most = Math.max(counted.most, value.length);
  }

  notes(): string[] {
    return [...this.#stages]
      .filter(([, { others }]) => others > 0)
      .map(([name, { wanted, lists, others, least, most }]) => {
        const have = least === most ? formatCount(most) : `${formatCount(least)} to ${formatCount(most)}`;
        return `${formatCount(others)} of ${formatCount(lists)} lists of \`${name}\` do not have ${formatCount(wanted)} elements, but ${have}`;
      });
  }
}
