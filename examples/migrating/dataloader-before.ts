import DataLoader from 'dataloader';

export interface User {
  readonly id: number;
  readonly name: string;
}

export function createUsers(fetchUsers: (ids: readonly number[]) => Promise<User[]>, cacheMap: Map<number, Promise<User>>) {
  const loader = new DataLoader<number, User>((ids) => fetchUsers(ids), { maxBatchSize: 20, cacheMap });
  return { load: (id: number) => loader.load(id) };
}
