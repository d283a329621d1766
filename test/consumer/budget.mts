import {
  type Budget,
  type BudgetLimit,
  type BudgetOptions,
  type BudgetSnapshot,
  type BudgetStorage,
  createBudget,
  createEmbedder,
  embeddings,
  createAccount,
  chatCompletions,
  createModelCaller,
  type ModelPrices,
  type Reservation,
  type SavedBudget,
  type SharedBudget,
  type SharedBudgetOptions,
} from 'sluice';
import type { BudgetRefusal } from 'sluice/operators';
import { BudgetExceededError, memoryStore } from 'sluice/operators';

const price = { inputUsdPerMillion: 0.1, outputUsdPerMillion: 0.4 };
const prices: ModelPrices = { m: price };
const limit: BudgetLimit = { key: 'team', usd: 5, windowMs: 86_400_000 };
let saved: SavedBudget | undefined;
const store: BudgetStorage = {
  load: () => saved,
  save: (next: SavedBudget) => {
    saved = next;
  },
};
const options: BudgetOptions = { limits: [limit], prices, storage: store, onEvent: ({ type }) => type };
const budget: Budget = createBudget(options);

const call = { model: 'm', inputTokens: 100, outputTokens: 20, key: 'team' };
const reservation: Reservation = budget.reserve(call);
reservation.settle({ inputTokens: 90, outputTokens: 10 });
reservation.release();

const ofAll: SharedBudgetOptions = { limits: [limit], prices, store: memoryStore(), name: 'team' };
const shared: SharedBudget = createBudget(ofAll);
shared.reserve(call).subscribe((reserved: Reservation) => {
  reserved.settle();
});
createAccount({ budget: shared });
// @ts-expect-error -- the store keeps what is spent
createBudget({ store: memoryStore(), storage: store });

const port = budget;
createModelCaller({ call: chatCompletions({ baseUrl: 'http://127.0.0.1/v1', model: 'm' }), budget: port, limiter: createAccount({ concurrency: 4 }) });
const spend = { budget: port };
createEmbedder({ call: embeddings({ baseUrl: 'http://127.0.0.1/v1', model: 'e' }), limiter: createAccount(spend) });

const snapshot: BudgetSnapshot = budget.snapshot();
export const left = snapshot.limits.map(({ unit, spent, limit: most }) => `${most - spent} ${unit}`);
export const isOver = (error: unknown): boolean => error instanceof BudgetExceededError;
export const missing = ({ asked, left }: BudgetRefusal): number => asked - left;
