import type { Batcher, BatchWork } from '../../operators/index.js';
import { createBatcher, fixed, lruCache, robust } from '../../operators/index.js';

export interface User {
  readonly id: number;
  readonly name: string;
}

export function createUsers(fetchUsers: BatchWork<number, User>): Batcher<number, User> {
  return createBatcher(fetchUsers, {
    maxSize: 20,
    concurrency: 4,
    window: fixed(10),
    repair: robust(),
    cache: lruCache(1000, { ttlMs: 60_000 }),
  });
}
