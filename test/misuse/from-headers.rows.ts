import { fromHeaders } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'fromHeaders',
  create: (options) => fromHeaders(options),
  rows: [...badly('learn', 'true or false', 0, 'no', null), ...unknown('pauses', 'learn', true)],
};
