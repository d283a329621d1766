import type { Observable, Subscriber } from 'rxjs';
import { count } from '../../options/options.js';
import type { Settled } from '../../options/types.js';
import { connect } from '../../shell/connect.js';
import { SlotEngine } from './slot-engine.js';
import type { SlotConfig } from './slot-options.js';

/** One subscription of an operator that runs one piece of work per item. */
export function runInSlots<T, R>(config: SlotConfig<T, R>, source: Observable<T>, to: Subscriber<Settled<T, R> | R>): void {
  const engine = new SlotEngine<T, R>(config, to);
  if (config.concurrency$) {
    connect(config.concurrency$, to, {
      next: (concurrency) => {
        try {
          engine.setConcurrency(count(config.operator, 'concurrency', concurrency));
        } catch (error) {
          engine.fail(error);
        }
      },
      error: (error) => {
        engine.fail(error);
      },
      // The last value stays in force.
      complete: () => undefined,
    });
  }
  connect(source, to, engine);
}
