import { Alarm } from '../../shell/alarm.js';

/** The alarm clock of a limiter. Everything between one look at it and the next happens at the same time. */
export class LimiterClock extends Alarm {
  /** When it was last looked at. */
  time = this.now();

  read(): number {
    this.time = this.now();
    return this.time;
  }
}
