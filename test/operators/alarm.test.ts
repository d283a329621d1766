import fc from 'fast-check';
import type { SchedulerLike } from 'rxjs';
import { asyncScheduler, queueScheduler, Subscription, VirtualTimeScheduler } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import { Alarm, schedulerOption } from '../../operators/shell/alarm.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { FlowConfigError } from '../today.js';

describe('Alarm', () => {
  it('rings once, at the time set last', () => {
    virtualTime(({ flush, now }) => {
      const rings: number[] = [];
      const alarm = new Alarm(asyncScheduler, () => rings.push(now()));
      alarm.set(50);
      alarm.set(20);
      alarm.set(30);
      flush();
      expect(rings).toEqual([30]);
      alarm.set(40);
      flush();
      expect(rings).toEqual([30, 40]);
    });
  });

  it('rings at once for a time that has passed', () => {
    virtualTime(({ advance, flush, now }) => {
      const rings: number[] = [];
      const alarm = new Alarm(asyncScheduler, () => rings.push(now()));
      advance(100);
      alarm.set(60);
      flush();
      expect(rings).toEqual([100]);
    });
  });

  it('leaves nothing behind after clear or Infinity', () => {
    virtualTime(({ advance, pending }) => {
      let rings = 0;
      const alarm = new Alarm(asyncScheduler, () => (rings += 1));
      alarm.clear();
      for (const stop of [
        () => {
          alarm.clear();
        },
        () => {
          alarm.set(Infinity);
        },
      ]) {
        alarm.set(alarm.now() + 50);
        stop();
        expect(pending()).toBe(0);
      }
      advance(1000);
      expect(rings).toBe(0);
    });
  });

  it('may be set again by what it rings', () => {
    virtualTime(({ flush, now }) => {
      const rings: number[] = [];
      const alarm: Alarm = new Alarm(asyncScheduler, () => {
        rings.push(now());
        if (rings.length < 3) alarm.set(alarm.now() + 10);
      });
      alarm.set(10);
      flush();
      expect(rings).toEqual([10, 20, 30]);
    });
  });

  it('needs one timer for a million changes to a later time, and one more for an earlier one', () => {
    const scheduler = new CountingScheduler();
    const alarm = new Alarm(scheduler, () => undefined);
    for (let at = 100; at < 1_000_100; at++) alarm.set(at);
    expect(scheduler.delays).toEqual([100]);
    alarm.set(40);
    expect(scheduler.delays).toEqual([100, 40]);
    expect(scheduler.actions).toHaveLength(1);
  });

  it('rounds up to whole milliseconds, which is all a host timer can do', () => {
    const scheduler = new CountingScheduler();
    const rings: number[] = [];
    const alarm = new Alarm(scheduler, () => rings.push(scheduler.now()));
    alarm.set(10.2);
    scheduler.flush();
    expect(scheduler.delays).toEqual([11]);
    expect(rings).toEqual([11]);
  });

  it('waits in parts for longer than a host timer can', () => {
    const scheduler = new CountingScheduler();
    const rings: number[] = [];
    const alarm = new Alarm(scheduler, () => rings.push(scheduler.now()));
    const longest = 2 ** 31 - 1;
    alarm.set(3 * longest + 7);
    scheduler.flush();
    expect(scheduler.delays).toEqual([longest, longest, longest, 7]);
    expect(rings).toEqual([3 * longest + 7]);
  });

  it('keeps its clock going when the scheduler’s is set back', () => {
    const scheduler = new CountingScheduler();
    const alarm = new Alarm(scheduler, () => undefined);
    scheduler.frame = 1000;
    expect(alarm.now()).toBe(1000);
    scheduler.offset = -700;
    expect(alarm.now()).toBe(1000);
    scheduler.frame = 1050;
    expect(alarm.now()).toBe(1050);
    scheduler.offset = -1000;
    expect(alarm.now()).toBe(1050);
  });

  it('rings in time when the clock is set back while it waits', () => {
    const scheduler = new CountingScheduler();
    const rings: number[] = [];
    const alarm = new Alarm(scheduler, () => rings.push(scheduler.frame));
    scheduler.frame = 5000;
    alarm.set(alarm.now() + 20);
    scheduler.offset = -4000;
    scheduler.flush();
    expect(rings).toEqual([5020]);
    expect(alarm.now()).toBe(5020);
  });

  it('survives a scheduler that runs a delay of 0 at once', () => {
    let rings = 0;
    const immediate: SchedulerLike = { now: () => 0, schedule: queueScheduler.schedule.bind(queueScheduler) };
    const alarm: Alarm = new Alarm(immediate, () => {
      rings += 1;
      if (rings === 1) alarm.set(0);
    });
    alarm.set(0);
    expect(rings).toBe(2);
    alarm.set(0);
    expect(rings).toBe(3);
  });

  it('can still be cleared when such a scheduler made it ring and it was set again', () => {
    const later = new VirtualTimeScheduler();
    const immediate: SchedulerLike = {
      now: () => later.now(),
      schedule: (work, delay = 0, state) => {
        if (delay > 0) return later.schedule(work as () => void, delay, state);
        (work as () => void)();
        return Subscription.EMPTY;
      },
    };
    const alarm: Alarm = new Alarm(immediate, () => {
      alarm.set(50);
    });
    alarm.set(0);
    expect(later.actions).toHaveLength(1);
    alarm.clear();
    expect(later.actions).toHaveLength(0);
  });

  it('rings exactly once per wait, never early, whatever is set when', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(50), fc.oneof(fc.nat(80), fc.constant(undefined))), { maxLength: 30 }), (steps) => {
        virtualTime(({ advance, flush, now }) => {
          let wanted = Infinity;
          const alarm = new Alarm(asyncScheduler, () => {
            expect(now()).toBe(wanted);
            wanted = Infinity;
          });
          for (const [waitMs, delayMs] of steps) {
            advance(waitMs);
            expect(wanted).toBeGreaterThan(now());
            wanted = delayMs === undefined ? Infinity : now() + delayMs;
            alarm.set(wanted);
            if (delayMs === 0) advance(0);
          }
          flush();
          expect(wanted).toBe(Infinity);
        });
      }),
    );
  });
});

describe('schedulerOption', () => {
  it('takes a scheduler and defaults to asyncScheduler', () => {
    const scheduler = new VirtualTimeScheduler();
    expect(schedulerOption('batch', 'scheduler', scheduler)).toBe(scheduler);
    expect(schedulerOption('batch', 'scheduler', undefined)).toBe(asyncScheduler);
  });

  it.each([[5], [null], [{}], [{ now: () => 0 }], [{ schedule: () => undefined }]])('refuses %o', (value) => {
    expect(() => schedulerOption('batch', 'scheduler', value as never)).toThrow(FlowConfigError);
  });
});
