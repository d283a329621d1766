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
  /** Of what was answered, failed, or was given up. */
  readonly done: readonly string[];
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
  /** The last frame that had a place for it. */
  seen: number;
}

/** From a mark to the next. */
const STEP = 11;
/** From a batch to the one below, and the height of one. */
const LINE = 42;
const BATCH = 34;
const RADIUS = 4;
const MOST_MARKS = 700;
const PER_BATCH = 24;
const PER_LANE = 80;
/** How long a batch is seen in its stage before it takes its slot. */
const FORMING_MS = 220;
const FADE_MS = 1300;
/** In which a mark has gone two thirds of its way. */
const TRAVEL_MS = 90;

/** How a frame is drawn. */
interface How {
  /** On the wall clock. */
  readonly now: number;
  readonly dt: number;
  /** The time of the source. */
  readonly clock: number;
  /** Nothing travels. */
  readonly isStill: boolean;
  readonly slots: number;
}

/** Draws one frame; answers whether something moves on by itself. */
type Picture = (model: FlowModel, places: Places, colours: Colours, how: How) => boolean;

/** Draws the marks. Everything it shows is in the texts and tables as well. */
export function createPicture(canvas: CanvasRenderingContext2D): Picture {
  const marks = new Map<FlowItem, Mark>();
  let shown: FlowModel | undefined;
  let frame = 0;
  let moves = false;

  return (model, { width, height, lanes, batches, calls, done }, colours, { now, dt, clock, isStill, slots }) => {
    if (shown !== model) marks.clear();
    shown = model;
    frame++;
    moves = false;
    const numbers = new Map(model.laneParts.map((lane, i) => [lane, i]));
    const lines = Math.max(1, Math.floor(batches.h / LINE));
    canvas.clearRect(0, 0, width, height);
    drawLanes();
    drawCalls();
    drawReturned();
    paint();
    return moves;

    function colourOf(lane: FlowLane): string {
      return colours.lanes[(numbers.get(lane) ?? 0) % colours.lanes.length] as string;
    }

    /** The first of each lane stand at the right, in front of the batches. */
    function drawLanes(): void {
      for (const [lane, i] of numbers) {
        const { x, y, w, h } = lanes[Math.min(i, lanes.length - 1)] as Box;
        const rows = Math.max(1, Math.floor((h - 22) / STEP));
        const most = Math.min(PER_LANE, rows * Math.max(1, Math.floor(w / STEP) - 1));
        let n = 0;
        for (const item of lane.waiting) {
          if (n >= most) break;
          put(item, x + w - STEP * (Math.floor(n / rows) + 0.7), y + 24 + STEP * (n % rows), x);
          n++;
        }
      }
    }

    function drawCalls(): void {
      const count = Math.max(1, Math.min(64, Math.max(slots, model.slots.length)));
      const columns = Math.max(1, Math.min(count, Math.ceil(Math.sqrt((count * calls.w) / Math.max(calls.h, 1)) * 0.75)));
      const w = calls.w / columns - 6;
      const h = Math.min(110, (calls.h - 6) / Math.ceil(count / columns) - 6);
      for (let i = 0; i < count; i++) {
        const x = calls.x + (i % columns) * (w + 6);
        const y = calls.y + 6 + Math.floor(i / columns) * (h + 6);
        outline(x, y, w, h, colours.line);
        const batch = model.slots[i];
        if (!batch) continue;
        const since = clock - batch.startedAt;
        if (!isStill && since >= 0 && since < FORMING_MS) {
          moves = true;
          drawBatch(batch, batches.x + 4, batches.y + 8 + LINE * (lines - 1 - (i % lines)), Math.min(w, batches.w - 8), Math.min(BATCH, h));
        } else drawBatch(batch, x, y, w, h);
      }
    }

    /** What has failed and is to be sent again comes back, with a crack between its parts. */
    function drawReturned(): void {
      const x = batches.x + 4;
      const w = batches.w - 8;
      [...model.returned].slice(-lines).forEach((batch, i) => {
        const y = batches.y + 8 + i * LINE;
        drawBatch(batch, x, y, w, BATCH);
        const parts = Math.min(batch.parts, PER_BATCH);
        for (let part = 1; part < parts; part++) outline(x + (w * part) / parts, y - 3, 0, BATCH + 6, colours.done[1] as string);
      });
    }

    function drawBatch(batch: FlowBatch, x: number, y: number, w: number, h: number): void {
      outline(x, y, w, h, colourOf(batch.lane));
      const columns = Math.max(1, Math.floor((w - 6) / STEP));
      const most = Math.min(PER_BATCH, columns * Math.max(1, Math.floor((h - 6) / STEP)));
      let n = 0;
      for (const item of batch.items) {
        if (item.batch !== batch || !item.isOpen) continue;
        if (n >= most) break;
        put(item, x + 4 + STEP * ((n % columns) + 0.5), y + 4 + STEP * (Math.floor(n / columns) + 0.5), x);
        n++;
      }
    }

    /** Says where an item belongs; it travels there. */
    function put(item: FlowItem, toX: number, toY: number, fromX: number): void {
      let mark = marks.get(item);
      if (!mark) {
        if (marks.size >= MOST_MARKS) return;
        mark = { x: isStill ? toX : fromX, y: toY, toX, toY, colour: '', dieAt: Infinity, seen: 0 };
        marks.set(item, mark);
      }
      Object.assign(mark, { toX, toY, colour: colourOf(item.lane), seen: frame });
    }

    /** Where an item goes that has come to its end; whoever was given up fades where it is. */
    function finish(mark: Mark, { state }: FlowItem): void {
      const row = state === 'fulfilled' ? 0 : state === 'rejected' ? 1 : 2;
      const { x, y, w, h } = done[row] as Box;
      mark.dieAt = now + (isStill ? 500 : FADE_MS);
      mark.colour = colours.done[row] as string;
      if (row === 2) return;
      mark.toX = x + 6 + Math.random() * Math.max(0, w - 12);
      mark.toY = y + 26 + Math.random() * Math.max(0, h - 32);
    }

    function paint(): void {
      // What looks alike is painted at once; those that fade, in four steps.
      const paths = new Map<string, Path2D>();
      for (const [item, mark] of marks) {
        const isOver = !item.isOpen;
        if (isOver && mark.dieAt === Infinity) finish(mark, item);
        const left = mark.dieAt - now;
        // Those that stand too far behind to be seen.
        if (left <= 0 || (!isOver && mark.seen !== frame)) {
          marks.delete(item);
          continue;
        }
        const { x, y, toX, toY } = mark;
        const isThere = isStill || Math.abs(toX - x) + Math.abs(toY - y) <= 0.5;
        const share = isThere ? 1 : 1 - Math.exp(-dt / TRAVEL_MS);
        mark.x += (toX - x) * share;
        mark.y += (toY - y) * share;
        if (isOver || !isThere) moves = true;
        const look = `${Math.min(4, Math.ceil((8 * left) / FADE_MS))}${mark.colour}`;
        const path = paths.get(look) ?? new Path2D();
        paths.set(look, path);
        path.moveTo(mark.x, mark.y);
        path.arc(mark.x, mark.y, RADIUS, 0, 7);
      }
      for (const [look, path] of paths) {
        canvas.globalAlpha = Number(look[0]) / 4;
        canvas.fillStyle = look.slice(1);
        canvas.fill(path);
      }
      canvas.globalAlpha = 1;
    }

    function outline(x: number, y: number, w: number, h: number, colour: string): void {
      canvas.strokeStyle = colour;
      canvas.beginPath();
      canvas.roundRect(x, y, Math.max(0, w), Math.max(0, h), 7);
      canvas.stroke();
    }
  };
}
