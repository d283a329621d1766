import type { FlowModel } from './flow-model.js';
import type { FlowBatch, FlowItem, FlowLane } from './flow-parts.js';

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly w: number;
  readonly h: number;
}

/** Where things are, as the page has laid them out; lanes and outcomes in rows. */
export interface Places {
  readonly width: number;
  readonly height: number;
  readonly lanes: readonly Box[];
  readonly batches: Box;
  readonly calls: Box;
  readonly done: readonly Box[];
}

export interface Colours {
  readonly lanes: readonly string[];
  readonly ok: string;
  readonly bad: string;
  readonly gone: string;
  readonly line: string;
}

/** One item on its way. */
interface Mark {
  x: number;
  y: number;
  toX: number;
  toY: number;
  colour: string;
  /** When it disappears, on the wall clock. */
  dieAt: number;
  seen: number;
}

/** The box around the items of a call. */
interface Frame {
  x: number;
  y: number;
  seen: number;
  readonly bornAt: number;
}

const STEP = 11;
const RADIUS = 4;
const MOST_MARKS = 700;
const PER_BATCH = 24;
const PER_LANE = 80;
/** How long a batch is seen in its stage before it takes its slot. */
const FORMING_MS = 220;
const FADE_MS = 1300;
/** In which a mark has gone two thirds of its way. */
const TRAVEL_MS = 90;

/** Draws the marks. Everything it shows is in the tables as well. */
export class Picture {
  readonly #marks = new Map<number, Mark>();
  readonly #frames = new Map<number, Frame>();
  #model: FlowModel | undefined;
  #lastFinished = 0;
  #frame = 0;
  #meanMs = 0;
  #dt = 0;
  #now = 0;
  #isStill = false;
  #moves = false;
  #colourOf: (lane: FlowLane) => string = () => '';

  /** Draws one frame; answers whether something moves on by itself. @param clock the time of the source */
  draw(
    canvas: CanvasRenderingContext2D,
    model: FlowModel,
    places: Places,
    colours: Colours,
    how: { readonly now: number; readonly dt: number; readonly clock: number; readonly isStill: boolean; readonly slots: number },
  ): boolean {
    if (this.#model !== model) this.#begin(model);
    this.#frame++;
    this.#now = how.now;
    this.#dt = how.dt;
    this.#isStill = how.isStill;
    this.#moves = false;
    canvas.clearRect(0, 0, places.width, places.height);
    this.#lanes(model, places, colours);
    const lanes = new Map(model.laneParts.map(({ name }, i) => [name, i]));
    this.#colourOf = (lane) => colours.lanes[(lanes.get(lane.name) ?? 0) % colours.lanes.length] as string;
    this.#calls(canvas, model, places, colours, how);
    this.#returned(canvas, model, places, colours);
    this.#done(model, places, colours);
    this.#paint(canvas);
    return this.#moves;
  }

  #begin(model: FlowModel): void {
    this.#model = model;
    this.#marks.clear();
    this.#frames.clear();
    this.#lastFinished = model.finishedCount;
    this.#meanMs = 0;
  }

  /** The first of each lane stand at the right, in front of the batches. */
  #lanes(model: FlowModel, { lanes }: Places, colours: Colours): void {
    model.laneParts.forEach((lane, i) => {
      const box = lanes[Math.min(i, lanes.length - 1)];
      if (box === undefined) return;
      const colour = colours.lanes[i % colours.lanes.length] as string;
      const rows = Math.max(1, Math.floor((box.h - 22) / STEP));
      const columns = Math.max(1, Math.floor(box.w / STEP) - 1);
      let n = 0;
      for (const item of lane.waiting) {
        if (n >= rows * columns || n >= PER_LANE) break;
        const x = box.x + box.w - STEP * (Math.floor(n / rows) + 0.7);
        this.#put(item, x, box.y + 24 + STEP * (n % rows), colour, box.x);
        n++;
      }
    });
  }

  #calls(
    canvas: CanvasRenderingContext2D,
    model: FlowModel,
    { calls: box, batches }: Places,
    colours: Colours,
    { slots, clock }: { readonly slots: number; readonly clock: number },
  ): void {
    const count = Math.max(1, Math.min(64, Math.max(slots, model.slots.length)));
    const columns = Math.max(1, Math.min(count, Math.ceil(Math.sqrt((count * box.w) / Math.max(box.h, 1)) * 0.75)));
    const rows = Math.ceil(count / columns);
    const w = box.w / columns - 6;
    const h = Math.min(110, (box.h - 6) / rows - 6);
    const lines = Math.max(1, Math.floor(batches.h / 42));
    canvas.lineWidth = 1;
    canvas.strokeStyle = colours.line;
    canvas.beginPath();
    for (let i = 0; i < count; i++)
      canvas.roundRect(box.x + (i % columns) * (w + 6), box.y + 6 + Math.floor(i / columns) * (h + 6), w, h, 7);
    canvas.stroke();
    for (let i = 0; i < count; i++) {
      const x = box.x + (i % columns) * (w + 6);
      const y = box.y + 6 + Math.floor(i / columns) * (h + 6);
      const batch = model.slots[i];
      if (batch === undefined) continue;
      const frame = this.#frameOf(batch, batches.x + 4, batches.y + 8 + 42 * (lines - 1 - (batch.slot % lines)));
      const isForming = !this.#isStill && this.#now - frame.bornAt < FORMING_MS;
      if (isForming) this.#moves = true;
      else Object.assign(frame, { x, y });
      const width = isForming ? Math.min(w, batches.w - 8) : w;
      this.#batch(canvas, batch, frame, { w: width, h: isForming ? Math.min(34, h) : h }, this.#colourOf(batch.lane));
      // How far it is, if it takes as long as others did.
      const share = this.#meanMs === 0 ? 0.5 : Math.min(1, Math.max(0, clock - batch.startedAt) / this.#meanMs);
      canvas.fillStyle = this.#colourOf(batch.lane);
      canvas.globalAlpha = 0.35;
      if (!isForming) canvas.fillRect(frame.x + 4, frame.y + h - 4, Math.max(0, (width - 8) * share), 2);
      canvas.globalAlpha = 1;
    }
    for (const [key, frame] of this.#frames) if (frame.seen !== this.#frame) this.#frames.delete(key);
    const last = model.ended.at(-1);
    if (last && last.latencyMs > 0) this.#meanMs = this.#meanMs === 0 ? last.latencyMs : 0.9 * this.#meanMs + 0.1 * last.latencyMs;
  }

  /** What has failed and is to be sent again comes back, with a crack between its parts. */
  #returned(canvas: CanvasRenderingContext2D, model: FlowModel, { batches: box }: Places, colours: Colours): void {
    const all = [...model.returned].slice(-Math.max(1, Math.floor(box.h / 42)));
    all.forEach((batch, i) => {
      const frame = this.#frameOf(batch, box.x + 4, box.y);
      const size = { w: box.w - 8, h: 34 };
      Object.assign(frame, { x: box.x + 4, y: box.y + 8 + i * 42 });
      this.#batch(canvas, batch, frame, size, this.#colourOf(batch.lane));
      canvas.strokeStyle = colours.bad;
      for (let part = 1; part < batch.parts; part++) {
        const x = frame.x + (size.w * part) / batch.parts;
        canvas.beginPath();
        canvas.moveTo(x - 2, frame.y - 2);
        canvas.lineTo(x + 3, frame.y + size.h / 2);
        canvas.lineTo(x - 2, frame.y + size.h + 2);
        canvas.stroke();
      }
    });
  }

  #batch(
    canvas: CanvasRenderingContext2D,
    batch: FlowBatch,
    frame: Frame,
    { w, h }: { readonly w: number; readonly h: number },
    colour: string,
  ): void {
    canvas.strokeStyle = colour;
    canvas.lineWidth = 1.5;
    round(canvas, frame.x, frame.y, w, h);
    canvas.stroke();
    const columns = Math.max(1, Math.floor((w - 6) / STEP));
    const most = Math.min(PER_BATCH, columns * Math.max(1, Math.floor((h - 6) / STEP)));
    let n = 0;
    for (const item of batch.items) {
      if (item.batch !== batch || !item.isOpen) continue;
      if (n >= most) break;
      this.#put(
        item,
        frame.x + 4 + STEP * ((n % columns) + 0.5),
        frame.y + 4 + STEP * (Math.floor(n / columns) + 0.5),
        this.#colourOf(item.lane),
        frame.x,
      );
      n++;
    }
  }

  #done(model: FlowModel, { done }: Places, colours: Colours): void {
    const fresh = Math.min(model.finishedCount - this.#lastFinished, model.finished.length);
    this.#lastFinished = model.finishedCount;
    for (const item of fresh > 0 ? model.finished.slice(-fresh) : []) {
      const mark = this.#marks.get(item.key);
      if (mark === undefined) continue;
      mark.dieAt = this.#now + (this.#isStill ? 500 : FADE_MS);
      const row = item.state === 'fulfilled' ? 0 : item.state === 'rejected' ? 1 : 2;
      const box = done[row] as Box;
      mark.colour = [colours.ok, colours.bad, colours.gone][row] as string;
      // Whoever was given up fades where it is.
      if (row === 2 && item.state !== 'lost') continue;
      mark.toX = box.x + 6 + ((item.key * 53) % Math.max(1, box.w - 12));
      mark.toY = box.y + 26 + ((item.key * 29) % Math.max(1, box.h - 32));
    }
  }

  /** Says where an item belongs; it travels there. */
  #put(item: FlowItem, x: number, y: number, colour: string, fromX: number): void {
    let mark = this.#marks.get(item.key);
    if (mark === undefined) {
      if (this.#marks.size >= MOST_MARKS) return;
      mark = { x: this.#isStill ? x : fromX, y, toX: x, toY: y, colour, dieAt: Infinity, seen: 0 };
      this.#marks.set(item.key, mark);
    }
    mark.toX = x;
    mark.toY = y;
    mark.colour = colour;
    mark.seen = this.#frame;
  }

  #frameOf(batch: FlowBatch, x: number, y: number): Frame {
    let frame = this.#frames.get(batch.key);
    if (frame === undefined) {
      frame = { x, y, seen: 0, bornAt: this.#now };
      this.#frames.set(batch.key, frame);
    }
    frame.seen = this.#frame;
    return frame;
  }

  #travel(thing: { x: number; y: number }, x: number, y: number): void {
    const share = this.#isStill ? 1 : 1 - Math.exp(-this.#dt / TRAVEL_MS);
    thing.x += (x - thing.x) * share;
    thing.y += (y - thing.y) * share;
    if (Math.abs(x - thing.x) + Math.abs(y - thing.y) > 0.5) this.#moves = true;
    else Object.assign(thing, { x, y });
  }

  #paint(canvas: CanvasRenderingContext2D): void {
    const paths = new Map<string, Path2D>();
    for (const [key, mark] of this.#marks) {
      const isDying = mark.dieAt < Infinity;
      const left = mark.dieAt - this.#now;
      // Those that stand too far behind to be seen.
      if (left <= 0 || (!isDying && mark.seen !== this.#frame)) {
        this.#marks.delete(key);
        continue;
      }
      this.#travel(mark, mark.toX, mark.toY);
      if (isDying) this.#moves = true;
      // In four steps: what looks alike is painted at once.
      const name = `${isDying ? String(Math.min(4, Math.ceil((8 * left) / FADE_MS))) : '4'}${mark.colour}`;
      const alike = paths.get(name) ?? new Path2D();
      paths.set(name, alike);
      alike.moveTo(mark.x + RADIUS, mark.y);
      alike.arc(mark.x, mark.y, RADIUS, 0, 7);
    }
    for (const [name, path] of paths) {
      canvas.globalAlpha = Number(name[0]) / 4;
      canvas.fillStyle = name.slice(1);
      canvas.fill(path);
    }
    canvas.globalAlpha = 1;
  }
}

function round(canvas: CanvasRenderingContext2D, x: number, y: number, w: number, h: number): void {
  canvas.beginPath();
  canvas.roundRect(x, y, Math.max(0, w), Math.max(0, h), 7);
}
