import { limitEmbeddingModel } from '../../src/adapters/ai-sdk.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';
import { nested } from './call-rules.js';
import { EMBEDDING_RULES, embeddingRows } from './embedding-rules.js';

export const rows: MisuseTable = {
  operator: 'limitEmbeddingModel',
  create: (options) => limitEmbeddingModel({ doEmbed: () => undefined } as never, nested(options) as never),
  rows: [
    ...embeddingRows,
    ...badly('rejected', "one of 'throw', 'empty'", 'skip', NaN, 0, -1, null, true, {}),
    ...unknown('breaker', `${EMBEDDING_RULES}, rejected`, {}),
  ],
};
