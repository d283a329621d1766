import { WINDOW_SCRIPT } from './window-script.js';

/** The clock of Redis, in whole ms. */
const REDIS_TIME = `(function() local time = call('TIME'); return time[1] * 1000 + floor(time[2] / 1000) end)()`;

/** Lua: what both parts use. */
const HEAD = `
local call, sub = redis.call, string.sub
local floor, ceil, max, min, huge = math.floor, math.ceil, math.max, math.min, math.huge
local clockKey, scopeKey, partsKey, ownerKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local VERSION = 1
`;

/**
 * Lua: what a store decides, as `CreditLedger` does. It reads and reckons first and writes last, so that it never stops half-way.
 *
 * Fields of `scope`: `w` texts of windows by key, `n` number of the last window, `q` the waiting owners, in the order in which they came, `owed` and
 * `waitedAt` by lane + 1, `held` heldUntil, `epoch`, `lessons`, `lessonAt`, `kept` keptUntil. Of one that waits: `o` owner, `l` lane, `s` since, `t`
 * seenAt, `d` dueAt, `n` by number of the window what it needs, `p` the largest part of a limit that this is.
 */
const LEDGER_SCRIPT = `
local ASK_AGAIN_MS, LATE_MS, LAPSE_MS, FORGET_MS, LESSON_MS, LONGEST_LOST_MS = 500, 100, 1500, 600000, 300000, 600000
-- Without its clock a store counts as lost, so this is kept longer than the rest.
local CLOCK_MS = 604800000
local ROUNDING = 1e-9

local function jsonNumber(number)
  return number >= MOST and 'null' or string.format('%.17g', number)
end

local function jsonList(numbers)
  local texts = {}
  for i, number in ipairs(numbers) do texts[i] = jsonNumber(number) end
  return '[' .. table.concat(texts, ',') .. ']'
end

-- The window of a key, if there is one.
local function known(state, key)
  local w = state.windows[key]
  if not w and state.scope.w[key] then
    w = windowFrom(state.scope.w[key])
    state.windows[key] = w
  end
  return w
end

local function windowOf(state, limit, guardMs)
  local scope, now = state.scope, state.now
  local w = known(state, limit.key)
  if not w then
    scope.n = scope.n + 1
    local isLost = limit.windowMs <= LONGEST_LOST_MS and now < state.lostAt + spanMs(limit, guardMs)
    w = windowNew(scope.n, limit, guardMs, now, isLost)
    state.windows[limit.key] = w
    state.isNew = true
  end
  advance(w, limit, guardMs, now, #scope.q > 0)
  w.u, w.f = now, 4 * (limit.windowMs + guardMs) + FORGET_MS
  scope.kept = max(scope.kept, now + 2 * (limit.windowMs + guardMs))
  return w
end

-- Forgets windows that no question has named for long: of them nothing is left to remember.
local function forgetWindows(state)
  for key, text in pairs(state.scope.w) do
    local w = windowFrom(text)
    if not state.windows[key] and state.now - w.u > w.f then
      forgetParts(w, w.hi + 1)
      state.scope.w[key] = nil
    end
  end
end

-- Each limit as it was declared, or as it was learned where that is less.
local function learnedLimits(scope, limits)
  for _, limit in ipairs(limits) do
    limit.amount = min(limit.amount, scope.lessons[limit.key] or huge)
    limit.partMs = max(20, ceil(limit.windowMs / 500))
  end
  return limits
end

local function learn(state, question)
  local scope = state.scope
  if state.now - scope.lessonAt > LESSON_MS then scope.lessons = {} end
  if question.lessons and question.epoch == scope.epoch then
    scope.epoch, scope.lessonAt = scope.epoch + 1, state.now
    for key, amount in pairs(question.lessons) do
      amount = amount == cjson.null and huge or amount
      if amount > 0 then scope.lessons[key] = amount end
    end
  end
  return learnedLimits(scope, question.limits)
end

-- The largest part of a limit that these amounts are.
local function partOf(amounts, limits)
  local part = 0
  for _, limit in ipairs(limits) do part = max(part, amounts[limit.column + 1] / limit.amount) end
  return part
end

local function isOwedTo(scope, lane, part)
  local owed = scope.owed[lane + 1] or 0
  return owed > 0 and owed >= min(1, part) * (1 - ROUNDING)
end

local function owe(scope, question, granted, others)
  for i, share in ipairs(question.floors) do
    local lane = i - 1
    local isMeant = lane == question.lane
    for _, other in ipairs(others) do isMeant = isMeant or other.l == lane end
    if isMeant then
      local earned = lane == question.lane and share - 1 or share
      scope.owed[i] = max(0, min(1, (scope.owed[i] or 0) + earned * granted))
    end
  end
end

local function answerOf(state, limits, question, holdMs, first)
  local scope, all = state.scope, {}
  for i in ipairs(question.most) do all[i] = huge end
  for _, limit in ipairs(limits) do
    if question.lane >= limit.fromLane then
      local w, column = known(state, limit.key), limit.column + 1
      all[column] = min(all[column], w and left(w, limit) or limit.amount)
    end
  end
  local lessons = {}
  for key, amount in pairs(scope.lessons) do lessons[#lessons + 1] = cjson.encode(key) .. ':' .. jsonNumber(amount) end
  return '{' .. first .. ',"left":' .. jsonList(all) .. ',"holdMs":' .. jsonNumber(holdMs) .. ',"epoch":' .. jsonNumber(scope.epoch)
    .. ',"lessons":{' .. table.concat(lessons, ',') .. '}}'
end

local function waitOf(state, limits, question, waitMs, holdMs)
  return answerOf(state, limits, question, holdMs, '"waitMs":' .. jsonNumber(waitMs))
end

local function decide(state, question, limits, holdMs)
  local scope, now, lane, least = state.scope, state.now, question.lane, question.least
  local windows, others, place, since = {}, {}, #scope.q + 1, now
  for i, limit in ipairs(limits) do windows[i] = windowOf(state, limit, question.guardMs) end
  for i, each in ipairs(scope.q) do
    if each.o ~= question.owner then others[#others + 1] = each
    else
      place = i
      if each.l == lane then since = each.s end
    end
  end
  if now - (scope.waitedAt[lane + 1] or now) > LAPSE_MS then scope.owed[lane + 1] = 0 end
  scope.waitedAt[lane + 1] = now
  local part = partOf(least, limits)
  local isOwed = isOwedTo(scope, lane, part)
  local before, dueAt = {}, huge
  for _, other in ipairs(others) do
    if now < other.d + LATE_MS then
      local isOtherOwed = isOwedTo(scope, other.l, other.p)
      local isBefore = isOtherOwed
      if isOtherOwed == isOwed then isBefore = other.l < lane or (other.l == lane and other.s < since) end
      if isBefore then
        before[#before + 1] = other
        dueAt = min(dueAt, other.d)
      end
    end
  end
  local waitMs, rooms = holdMs, {}
  for i, amount in ipairs(question.most) do rooms[i] = amount end
  for i, limit in ipairs(limits) do
    if lane >= limit.fromLane then
      local w, column, ahead = windows[i], limit.column + 1, 0
      for _, other in ipairs(before) do
        if other.l >= limit.fromLane then ahead = ahead + (other.n[w.i] or 0) end
      end
      waitMs = max(waitMs, waitMsOf(w, limit, least[column], ahead, now))
      if ahead > 0 and least[column] + ahead > limit.amount then waitMs = max(waitMs, dueAt + LATE_MS - now) end
      rooms[column] = min(rooms[column], room(w, limit, now) - ahead)
    end
  end
  if waitMs > 0 then
    local wholeMs = max(1, ceil(waitMs))
    local needs = {}
    for i, limit in ipairs(limits) do
      local number = windows[i].i
      if needs[number] == nil then needs[number] = least[limit.column + 1] end
    end
    scope.q[place] = { o = question.owner, l = lane, s = since, t = now, d = now + min(wholeMs, ASK_AGAIN_MS), n = needs, p = part }
    return waitOf(state, limits, question, wholeMs, holdMs)
  end
  if place <= #scope.q then table.remove(scope.q, place) end
  for i, amount in ipairs(rooms) do rooms[i] = max(least[i], amount) end
  for i, limit in ipairs(limits) do
    if lane >= limit.fromLane then grant(windows[i], limit, rooms[limit.column + 1], now) end
  end
  owe(scope, question, partOf(rooms, limits), others)
  return answerOf(state, limits, question, 0, '"credit":' .. jsonNumber(now) .. ',"amounts":' .. jsonList(rooms))
end

local function ask(state, question)
  local scope, owner = state.scope, state.owner
  if question.number == owner.asked and owner.answer then return owner.answer end
  local limits = learn(state, question)
  local holdMs = max(0, scope.held - state.now)
  -- One that was overtaken by a later one on its way.
  if question.number < owner.asked then return waitOf(state, limits, question, 1, holdMs) end
  owner.asked = question.number
  owner.answer = decide(state, question, limits, holdMs)
  return owner.answer
end

local function correct(state, message)
  if message.number <= state.owner.corrected then return 'null' end
  state.owner.corrected = message.number
  for _, limit in ipairs(learnedLimits(state.scope, message.limits)) do
    local w = windowOf(state, limit, message.guardMs)
    for _, each in ipairs(message.corrections) do
      local delta = each.amounts[limit.column + 1] or 0
      if delta ~= 0 and each.lane >= limit.fromLane then correctWindow(w, limit, delta, each.credit) end
    end
  end
  return 'null'
end

local function hold(state, message)
  local scope, ms = state.scope, message.ms == cjson.null and huge or message.ms
  scope.held = ms == 0 and -huge or max(scope.held, state.now + ms)
  scope.kept = max(scope.kept, scope.held)
  return 'null'
end

local function stateAt(time)
  local state = { windows = {}, isNew = false }
  local clock = call('GET', clockKey)
  if clock then
    local version, before, behind, lostAt, kept = struct.unpack('<ddddd', clock)
    if version ~= VERSION or #clock ~= 40 then error('another version') end
    -- Time does not go back, and does not stand still where that of Redis does go back.
    state.behind, state.lostAt, state.clockKept = max(behind, before - time), lostAt, kept
  else state.behind, state.clockKept = 0, 0 end
  local now = time + state.behind
  if not (now < MOST) then error('no time') end
  state.now, state.lostAt = now, state.lostAt or LOST_AT
  local text = call('GET', scopeKey)
  local scope = {
    v = VERSION, w = {}, n = 0, q = {}, owed = {}, waitedAt = {}, held = -huge, epoch = 0, lessons = {}, lessonAt = -huge, kept = 0,
  }
  if text then scope = cmsgpack.unpack(text) end
  if scope.v ~= VERSION then error('another version') end
  local waiting = {}
  for _, each in ipairs(scope.q) do
    if now - each.t <= LAPSE_MS then waiting[#waiting + 1] = each end
  end
  scope.q, scope.kept = waiting, max(scope.kept, now + FORGET_MS)
  state.scope = scope
  if not ownerKey then return state end
  local owner = call('GET', ownerKey)
  if owner then
    local version, seenAt, asked, corrected = struct.unpack('<dddd', owner)
    if version ~= VERSION then error('another version') end
    if now - seenAt <= FORGET_MS then state.owner = { asked = asked, corrected = corrected, answer = #owner > 32 and sub(owner, 33) } end
  end
  state.owner = state.owner or { asked = -1, corrected = -1, answer = false }
  return state
end

-- Longest time that Redis takes for the end of a key.
local LONGEST_MS = 2 ^ 56

local function store(key, text, forMs)
  if forMs < LONGEST_MS then call('SET', key, text, 'PX', ceil(forMs)) else call('SET', key, text) end
end

local function inChunks(command, values, count)
  for from = 1, #values, count do call(command, partsKey, unpack(values, from, min(#values, from + count - 1))) end
end

local function save(state)
  local scope, owner, now = state.scope, state.owner, state.now
  local clockKept = max(state.clockKept, scope.kept, now + CLOCK_MS)
  for key, w in pairs(state.windows) do scope.w[key] = windowText(w) end
  local set, removed = {}, {}
  for field, amount in pairs(written) do
    if amount then
      set[#set + 1] = field
      set[#set + 1] = amount
    else removed[#removed + 1] = field end
  end
  local scopeText = cmsgpack.pack(scope)
  -- What may fail comes first: Redis may have no memory left, or a key of another type.
  inChunks('HSET', set, 2 * CHUNK)
  inChunks('HDEL', removed, 2 * CHUNK)
  store(clockKey, struct.pack('<ddddd', VERSION, now, state.behind, state.lostAt, clockKept), clockKept - now)
  store(scopeKey, scopeText, scope.kept - now)
  if owner then
    store(ownerKey, struct.pack('<dddd', VERSION, now, owner.asked, owner.corrected) .. (owner.answer or ''), FORGET_MS)
  end
  if #set == 0 then return end
  if scope.kept - now < LONGEST_MS then call('PEXPIRE', partsKey, ceil(scope.kept - now)) else call('PERSIST', partsKey) end
end

local operations = { ask = ask, correct = correct, hold = hold }
local isWell, state, answer = pcall(function()
  local message = cjson.decode(ARGV[2])
  local state = stateAt(TIME_NOW)
  local answer = operations[ARGV[1]](state, message)
  if state.isNew then forgetWindows(state) end
  return state, answer
end)
if not isWell then
  local reason = type(state) == 'table' and state.err or tostring(state)
  -- What Redis says begins with a code.
  if string.find(reason, '^%u%u+ ') then return redis.error_reply(reason) end
  return redis.error_reply('ERR the keys of this store hold something that this version of Sluice has not written (' .. reason .. ')')
end
-- What a message has made of a window must be there to count on.
for _, w in pairs(state.windows) do
  if not (max(w.s, -w.s) < MOST and max(w.d, -w.d) < MOST and max(w.l, -w.l) < MOST) then
    return redis.error_reply('ERR amounts that cannot be counted')
  end
end
save(state)
return answer
`;

/**
 * The program that Redis runs for each message: `KEYS` are the clock, the scope, its parts and, but for a pause, the owner; `ARGV` are what is asked and the
 * message as JSON. It answers with JSON.
 *
 * @param now - Lua: the time in ms
 * @param lostAt - Lua: until when grants may have been made that are not known, of a store that has no state
 */
export function creditScript(now = REDIS_TIME, lostAt = 'now'): string {
  return HEAD + WINDOW_SCRIPT + LEDGER_SCRIPT.replace('TIME_NOW', () => now).replace('LOST_AT', () => lostAt);
}
