import { afterEach, beforeEach, expect } from 'vitest';

/** Lets every promise that can settle do so. */
export async function settle(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

/** After every test of the file: expects no unhandled rejection. */
export function expectNoUnhandledRejections(): void {
  const unhandled: unknown[] = [];
  const collect = (reason: unknown): void => {
    unhandled.push(reason);
  };

  beforeEach(() => {
    process.on('unhandledRejection', collect);
  });

  afterEach(async () => {
    await settle();
    process.off('unhandledRejection', collect);
    expect(unhandled.splice(0)).toEqual([]);
  });
}
