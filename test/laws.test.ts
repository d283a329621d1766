import { describe, expect, it } from 'vitest';
import { laws } from '../marbles/laws.js';
import { roster } from '../marbles/roster.js';

describe.each(roster)('$operator', (subject) => {
  it.each(laws.filter((law) => law.appliesTo(subject)))('$title', (law) => {
    expect(() => {
      law.check(subject);
    }).not.toThrow();
  });
});
