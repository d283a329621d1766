import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Host, visibleHost } from '../../src/cli/host.js';
import { visible, visibleName } from '../../src/cli/visible.js';

const acted = (text: string): boolean =>
  // oxlint-disable-next-line no-control-regex -- they are what is looked for
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/.test(text);

describe('what a terminal acts upon', () => {
  it('is visible, whatever the text', () => {
    const signs = fc.constantFrom(
      '\u001b[2J',
      '\u009b31m',
      '\u0007',
      '\r',
      '\b',
      '\u007f',
      '\u202e',
      '\u2066',
      '\u2028',
      '\u2029',
      '\n',
      '\t',
      'a',
      'ä',
      '👩‍👩‍👧',
      '"',
      '\\',
    );
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ unit: 'binary' }),
          fc.array(signs).map((all) => all.join('')),
        ),
        (text) => {
          expect(acted(visible(text))).toBe(false);
          expect(visibleName(text)).not.toMatch(/[\n\t]/);
          // JSON says the same.
          expect(JSON.parse(visible(JSON.stringify({ [text]: [text] })))).toEqual({ [text]: [text] });
        },
      ),
    );
  });

  it('leaves text as it is', () => {
    for (const text of ['one\n\ttwo', 'שלום', '日本語', '👩‍👩‍👧', '\u200e', 'C:\\u001b']) expect(visible(text)).toBe(text);
  });

  it('is visible on both streams of the command; the live display has its own', () => {
    const written: string[] = [];
    const stream = { write: (text: string) => written.push(text) } as unknown as NodeJS.WriteStream;
    const raw: Host = { argv: [], env: {}, stdout: stream, stderr: stream, cwd: () => '/', on: () => undefined, off: () => undefined };
    const host = visibleHost(raw);
    host.stdout.write('\u001b[2J');
    host.stderr.write('\u009b');
    host.terminal?.write('\u001b[1A');
    host.exitCode = 3;
    expect(written).toEqual(['\\u001b[2J', '\\u009b', '\u001b[1A']);
    expect(raw.exitCode).toBe(3);
  });
});
