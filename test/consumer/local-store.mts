import { createAccount, createLimiter, type MemoryStore, memoryStore, perMinute, type SavedCredit, shared, type SharedStore } from 'sluice/operators';
import { localStore, type LocalStoreOptions } from 'sluice/local-store';

const options: LocalStoreOptions = { name: 'openai:prod', folder: '/run/user/1000/limits' };
const store: SharedStore = localStore(options);
createLimiter({ rates: shared(store, [perMinute('tokens', 200_000)]) });
createAccount({ tokensPerMinute: 200_000, store });
// @ts-expect-error -- a store has a name
localStore({});

// A store that continues where another one has ended
const memory: MemoryStore = memoryStore({ startsEmpty: true });
const saved: SavedCredit = memory.save();
same<MemoryStore>()(memoryStore({ restore: saved }));
