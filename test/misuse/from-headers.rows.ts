import { fromHeaders } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'fromHeaders',
  create: (options) => fromHeaders(options),
  rows: [...badly('rates', 'true or false', 0, 'no', null), ...badly('pauses', 'absent (known options: rates)', true)],
};
