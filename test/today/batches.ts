/** `batchMap` and `batchMapFrom`. */

export type { BatchMapFromOptions, BatchMapOptions, BatchWork, GatedBatchOptions, SplitOptions } from '../../operators/index.js';
export { batchMap, batchMapFrom } from '../../operators/index.js';
