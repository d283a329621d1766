import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import { checkJson } from '../../src/edge/check.js';

const people = z.array(z.strictObject({ name: z.string().trim().min(1), age: z.int().optional() })).min(1);

describe('checkJson', () => {
  it('takes what the schema describes, as the schema reads it', () => {
    expect(checkJson(people, '[{ "name": " Ada ", "age": 36 }]')).toEqual({ value: [{ name: 'Ada', age: 36 }] });
  });

  it.each([
    ['an empty list', [], 'expected array'],
    ['a blank name', [{ name: ' ' }], '`0.name`'],
    ['half a year', [{ name: 'Ada', age: 36.5 }], '`0.age`'],
    ['a field too many', [{ name: 'Ada', more: 1 }], 'more'],
  ])('refuses %s and says where', (_name, input, place) => {
    const checked = checkJson(people, JSON.stringify(input));
    expect('problem' in checked && checked.problem).toContain(place);
  });

  it('refuses invalid JSON without quoting it', () => {
    expect(checkJson(people, 'secret')).toEqual({ problem: 'not JSON' });
  });
});
