import type { Batcher, BatchWork } from '../../operators/index.js';
import { createBatcher } from '../../operators/index.js';

export interface User {
  readonly id: number;
  readonly name: string;
}

export function createUsers(fetchUsers: BatchWork<number, User>): Batcher<number, User> {
  return createBatcher(fetchUsers, {
    maxSize: 20,
    concurrency: 4,
    window: { kind: 'fixed', ms: 10 },
    cache: { maxEntries: 1000, ttlMs: 60_000 },
  });
}
