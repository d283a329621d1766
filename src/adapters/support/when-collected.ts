let registry: FinalizationRegistry<() => void> | undefined;

/**
 * Calls back when the object has been collected; never, on platforms that cannot tell. `gone` must not hold the object. An engine collects when it
 * needs the memory, so this is the last net and no way to end anything.
 */
export function whenCollected(object: object, gone: () => void): void {
  if (typeof FinalizationRegistry !== 'function') return;
  registry ??= new FinalizationRegistry((callback) => {
    callback();
  });
  registry.register(object, gone);
}
