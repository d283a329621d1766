import { FLOW_NAMES } from '../../src/adapters/otel/names.js';
import { createOtel } from '../../src/adapters/otel.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, misspelt, unknown } from '../support/misuse.js';

const observed = { snapshot: () => ({}) };

export const rows: MisuseTable = {
  operator: 'createOtel',
  create: createOtel,
  calls: {
    'observe.name': (value) => createOtel().observe(value, observed),
    'observe.observed.snapshot': (value) => createOtel().observe('limiter', { snapshot: value }),
    'given.tracer.startSpan': (startSpan) => createOtel({ tracer: { startSpan } as never }),
    'given.meter.createHistogram': (createHistogram) => createOtel({ meter: { createHistogram } as never }),
    'given.names.callSpan': (callSpan) => createOtel({ names: { callSpan } }),
    'given.names.speed': (speed) => createOtel({ names: { speed } as never }),
    'given.names.call': (call) => createOtel({ names: { call } as never }),
  },
  rows: [
    ...badly('given.tracer.startSpan', 'a function', 5, undefined, {}),
    ...badly('given.meter.createHistogram', 'a function', 5, undefined, {}),
    ...badly('names', 'an object', 5, null, 'gen_ai'),
    ...badly('given.names.callSpan', 'a non-empty string', '', 5, null),
    ...unknown('given.names.speed', Object.keys(FLOW_NAMES).join(', '), 'x'),
    ...misspelt('given.names.call', 'names.callSpan', 'call'),
    ...badly('modelAttributes', 'an object', 5, null, 'openai'),
    ...badly('maxLabels', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '5', null),
    ...badly('maxOpen', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '5', null),
    ...unknown('prefix', 'tracer, meter, names, modelAttributes, maxLabels, maxOpen', 'x'),
    ...badly('observe.name', 'a non-empty string', '', 5, null, undefined),
    ...badly('observe.observed.snapshot', 'a function', 5, null, undefined, {}),
  ],
};
