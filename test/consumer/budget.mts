import {
  type Budget,
  type BudgetCall,
  type BudgetLimit,
  type BudgetLimitSnapshot,
  type BudgetOptions,
  type BudgetPort,
  type BudgetSnapshot,
  type BudgetStorage,
  type BudgetWarning,
  createBudget,
  createEmbedder,
  chatCompletions, createModelCaller,
  type EmbedderSpend,
  type ModelPrice,
  type ModelPrices,
  type Reservation,
  type SavedBudget,
} from 'sluice';
import { BudgetExceededError } from 'sluice/operators';

const price: ModelPrice = { inputUsdPerMillion: 0.1, outputUsdPerMillion: 0.4 };
const prices: ModelPrices = { m: price };
const limit: BudgetLimit = { key: 'team', usd: 5, windowMs: 86_400_000 };
let saved: SavedBudget | undefined;
const store: BudgetStorage = {
  load: () => saved,
  save: (next: SavedBudget) => {
    saved = next;
  },
};
const options: BudgetOptions = { limits: [limit], prices, storage: store, onWarn: ({ left, resetsAt }: BudgetWarning) => left + resetsAt };
const budget: Budget = createBudget(options);

const call: BudgetCall = { model: 'm', inputTokens: 100, outputTokens: 20, key: 'team' };
const reservation: Reservation = budget.reserve(call);
reservation.settle({ inputTokens: 90, outputTokens: 10 });
reservation.release();

const port: BudgetPort = budget;
createModelCaller({ call: chatCompletions({ baseUrl: 'http://127.0.0.1/v1', model: 'm' }), budget: port });
const spend: EmbedderSpend = { budget: port };
createEmbedder({ baseUrl: 'http://127.0.0.1/v1', model: 'e', ...spend });

const snapshot: BudgetSnapshot = budget.snapshot();
export const left = snapshot.limits.map(({ unit, spent, limit: most }: BudgetLimitSnapshot) => `${most - spent} ${unit}`);
export const isOver = (error: unknown): boolean => error instanceof BudgetExceededError;
