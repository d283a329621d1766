/**
 * Lua: one limit of a store, as `CountedWindow` has it. What was granted in each part is a field of the hash `partsKey`; the rest is a table `w`, so that a
 * question reads only the parts that leave the window or that it has to wait for. The state of the scope has it as a text of numbers.
 *
 * Fields of `w`: `i` number of the window, `s` sum of the parts, `p` latest part, `c` what was granted in it (-1: still to be read), `lo` and `hi`
 * first and last part with a grant. Times and debt: `d` debt, `da` debtAt, `ev` evenUntil, `g` guardMs, `ga` guardAt, `u` when it was used last, `f`
 * how long it is kept. Of a calendar window: `e` endsAt, `cf` countsFrom, `l` late, `lf` lateFrom.
 */
export const WINDOW_SCRIPT = `
local EPSILON, EVEN_BURST, AWAITED_PARTS, SAME_WINDOW = 1e-6, 0.01, 2, 0.5
-- Fields that one command reads, writes or removes.
local CHUNK = 64
-- Where more parts lie between the first and the last one, all fields are read instead.
local WIDE = 4096
-- Above this, sums are no longer exact.
local MOST = 2 ^ 53
-- The sum is added up anew after so many parts: sums of fractions that come and go drift.
local RECOUNT = 16

-- By number of the window: its parts as far as they were read, and its least debt.
local read, leastDebt = {}, {}
-- By field, what is to be written; false removes it.
local written = {}

local function partsOf(limit, guardMs)
  return ceil(limit.windowMs / limit.partMs) + ceil(guardMs / limit.partMs) + 1
end

local function spanMs(limit, guardMs)
  return partsOf(limit, guardMs) * limit.partMs
end

local function readAll(w)
  local parts, all, prefix = read[w.i], call('HGETALL', partsKey), w.i .. ':'
  for i = 1, #all, 2 do
    if sub(all[i], 1, #prefix) == prefix then
      local part = tonumber(sub(all[i], #prefix + 1))
      if parts[part] == nil then parts[part] = tonumber(all[i + 1]) end
    end
  end
  local sorted = {}
  for part in pairs(parts) do sorted[#sorted + 1] = part end
  table.sort(sorted)
  return sorted
end

local function readParts(w, from, to)
  local parts, missing, fields = read[w.i], {}, {}
  for part = from, to do
    if parts[part] == nil then
      missing[#missing + 1] = part
      fields[#fields + 1] = w.i .. ':' .. part
    end
  end
  if #missing == 0 then return end
  local values = call('HMGET', partsKey, unpack(fields))
  for i, part in ipairs(missing) do parts[part] = tonumber(values[i] or 0) end
end

-- Visits the parts that have something, the oldest first, until visit returns true.
local function eachPart(w, to, visit)
  local parts = read[w.i]
  if to - w.lo >= WIDE then
    for _, part in ipairs(readAll(w)) do
      if part > to then return end
      if part >= w.lo and parts[part] ~= 0 and visit(part, parts[part]) then return end
    end
    return
  end
  for from = w.lo, to, CHUNK do
    local last = min(to, from + CHUNK - 1)
    readParts(w, from, last)
    for part = from, last do
      if parts[part] ~= 0 and visit(part, parts[part]) then return end
    end
  end
end

-- What was granted in a part is never less than nothing. Answers by how much it has changed.
local function change(w, part, delta)
  readParts(w, part, part)
  local before = read[w.i][part]
  local by = max(delta, -before)
  if by == 0 then return 0 end
  w.s = w.s + by
  read[w.i][part] = before + by
  if part == w.p then w.c = before + by end
  written[w.i .. ':' .. part] = before + by
  if w.hi < w.lo then w.lo, w.hi = part, part else w.lo, w.hi = min(w.lo, part), max(w.hi, part) end
  return by
end

local function forgetParts(w, oldest)
  if w.hi < w.lo or w.lo >= oldest then return end
  local before = w.lo
  eachPart(w, min(oldest - 1, w.hi), function(part, granted)
    w.s = w.s - granted
    read[w.i][part] = 0
    written[w.i .. ':' .. part] = false
  end)
  if oldest > w.hi then
    w.lo, w.hi, w.s = 0, -1, 0
    return
  end
  w.lo = oldest
  if floor(before / RECOUNT) == floor(oldest / RECOUNT) then return end
  local sum = 0
  eachPart(w, w.hi, function(_, granted) sum = sum + granted end)
  w.s = sum
end

-- Goes on to a part. What was granted in one that is new need not be read.
local function begin(w, part)
  if part ~= w.p then w.p, w.c = part, part > w.hi and 0 or -1 end
  if w.c >= 0 then read[w.i][part] = w.c end
end

local NUMBERS = '<dddddddddddddddddd'

local function windowText(w)
  return struct.pack(NUMBERS, w.i, w.s, w.p, w.c, w.lo, w.hi, w.d, w.da, w.ev, w.g, w.ga, w.u, w.f, w.e, w.cf, w.l, w.lf, VERSION)
end

local function windowFrom(text)
  local i, s, p, c, lo, hi, d, da, ev, g, ga, u, f, e, cf, l, lf, version = struct.unpack(NUMBERS, text)
  -- A loop over parts beyond would never end.
  if version ~= VERSION or not (max(lo, -lo, hi, -hi, p, -p) < MOST) then error('another version') end
  read[i] = read[i] or {}
  return {
    i = i, s = s, p = p, c = c, lo = lo, hi = hi, d = d, da = da, ev = ev, g = g, ga = ga, u = u, f = f, e = e, cf = cf, l = l, lf = lf,
  }
end

-- Most that is saved up.
local function burstOf(limit)
  return min(limit.amount, limit.burst or limit.amount * EVEN_BURST)
end

local function windowNew(i, limit, guardMs, now, isLost)
  read[i] = {}
  local w = {
    i = i, s = 0, p = 0, c = 0, lo = 0, hi = -1, d = 0, da = now, g = guardMs, ga = now,
    ev = isLost and now + spanMs(limit, guardMs) or -huge, e = -huge, cf = -huge, l = 0, lf = huge,
  }
  if isLost then w.d = 2 * burstOf(limit) / limit.amount + (AWAITED_PARTS - 1) / partsOf(limit, guardMs) end
  return w
end

local function isEven(w, limit, now)
  return not limit.endsInMs and (limit.burst ~= nil or now < w.ev)
end

-- What is saved up.
local function level(w, limit, now)
  return burstOf(limit) - w.d * limit.amount
end

local function oldestPart(w, limit)
  return limit.endsInMs and w.p or w.p - partsOf(limit, w.g) + 1
end

-- Goes on to the calendar window that ends then.
local function roll(w, limit, endsAt, now)
  local laterMs = endsAt - w.e
  if laterMs <= limit.windowMs * SAME_WINDOW then
    if laterMs >= -limit.windowMs * SAME_WINDOW then w.e = min(w.e, endsAt) end
    return
  end
  local isNext = laterMs < limit.windowMs * (1 + SAME_WINDOW)
  local carried = isNext and w.l or 0
  w.cf = isNext and min(now, w.lf) or now
  w.e, w.l, w.lf = endsAt, 0, huge
  begin(w, w.p + 1)
  change(w, w.p, carried)
end

local function advance(w, limit, guardMs, now, isAwaited)
  if guardMs >= w.g or now - w.ga > spanMs(limit, w.g) then w.g, w.ga = guardMs, now end
  begin(w, limit.endsInMs and w.p or floor(now / limit.partMs))
  if limit.endsInMs then roll(w, limit, now + limit.endsInMs, now) end
  forgetParts(w, oldestPart(w, limit))
  leastDebt[w.i] = isAwaited and -AWAITED_PARTS / partsOf(limit, w.g) or 0
  w.d = max(leastDebt[w.i], w.d - (now - w.da) / spanMs(limit, w.g))
  w.da = now
end

local function left(w, limit)
  return limit.amount - w.s
end

-- What may be granted now.
local function room(w, limit, now)
  if isEven(w, limit, now) then return min(left(w, limit), level(w, limit, now)) end
  return left(w, limit)
end

local function windowWaitMs(w, limit, cost, now)
  local missing = w.s + cost - limit.amount
  if missing <= EPSILON then return 0 end
  if limit.endsInMs then return max(1, limit.endsInMs) end
  local at = now
  eachPart(w, w.hi, function(part, granted)
    missing = missing - granted
    at = (part + partsOf(limit, w.g)) * limit.partMs
    return missing <= EPSILON
  end)
  return at - now
end

-- In how many ms so much can be granted after what is ahead of it; 0 for now.
local function waitMsOf(w, limit, cost, ahead, now)
  local byWindow = windowWaitMs(w, limit, min(limit.amount, cost + ahead), now)
  if not isEven(w, limit, now) then return byWindow end
  local missing = ahead + min(cost, burstOf(limit)) - level(w, limit, now)
  local byPace = missing <= EPSILON and 0 or missing / limit.amount * spanMs(limit, w.g)
  return max(byWindow, limit.burst and byPace or min(byPace, w.ev - now))
end

local function grant(w, limit, amount, now)
  change(w, w.p, amount)
  w.d = w.d + amount / limit.amount
  if not limit.endsInMs or now < w.e - w.g then return end
  w.l = w.l + amount
  w.lf = min(w.lf, now)
end

-- Changes what a credit of that time has cost. What has left the window changes nothing.
local function correctWindow(w, limit, delta, at)
  local part = w.p
  if limit.endsInMs then
    if at < w.cf then return end
  else
    part = min(part, floor(at / limit.partMs))
    if part < oldestPart(w, limit) then return end
  end
  local by = change(w, part, delta)
  w.d = max(leastDebt[w.i], w.d + by / limit.amount)
  if at >= w.lf then w.l = max(0, w.l + by) end
end
`;
