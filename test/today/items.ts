/** One call per item: `bulkheadMap`, `concatMapBy`, `settleAll`. */

export type { BulkheadMapOptions, ConcatMapByOptions, SettleAllOptions } from '../../operators/index.js';
export { BULKHEAD_MAP_DEFAULTS, bulkheadMap, concatMapBy, settleAll } from '../../operators/index.js';
