/** Who waits until something holds of a limiter: that it is idle, or that its queue is short. */
export class Waits {
  #all: { readonly holds: () => boolean; readonly resolve: () => void }[] = [];

  get isEmpty(): boolean {
    return this.#all.length === 0;
  }

  /** Resolves when it holds: at once if it does already, or at one of the next looks. */
  until(holds: () => boolean): Promise<void> {
    if (holds()) return Promise.resolve();
    return new Promise((resolve) => {
      this.#all.push({ holds, resolve });
    });
  }

  look(): void {
    if (this.#all.length === 0) return;
    this.#all = this.#all.filter(({ holds, resolve }) => {
      if (!holds()) return true;
      resolve();
      return false;
    });
  }
}
