import type { CreditStore } from './credit-store.js';
import { FlowConfigError } from './errors.js';

const PARTS = ['ask', 'correct', 'hold'] as const;

/** A store of credit, of whatever origin. @throws FlowConfigError */
export function requiredStore(operator: string, option: string, store: CreditStore): CreditStore {
  const given = Object(store) as Partial<CreditStore>;
  if (PARTS.every((part) => typeof given[part] === 'function')) return store;
  throw new FlowConfigError(operator, option, 'a store such as memoryStore(), with `ask`, `correct` and `hold`', store);
}
