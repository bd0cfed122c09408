#!lua flags=no-writes
-- Reads many things at one moment.
--
-- KEYS  1 meta, 2 task, 3 record, then every key that is read
-- ARGV  1 the time in microseconds, empty for the server's own
--       2 the version that must be there, empty for any, 3 its epoch, 4 the mark of who wrote it
--       then reads, one behind the other:
--         C command key count arguments…   what the command gives
--         S key key                        members of both sets
--         F key depth                      the first of a lane, with their tasks and records
--         L key key id count               blocks of the index from an id on back: labels and ids
--         P key max score member limit     the next of a sorted set after a position, up to a score
-- gives {version, time, meta, {one answer per read}}; only {version} if it is another one
--
-- Keys are named by their place in KEYS. Nothing is written.
local meta = redis.call('HMGET', KEYS[1], 'version', 'last', 'epoch', 'lanes', 'queues', 'last_key', 'latest', 'format', 'floor', 'mark')
local version = meta[1] or '0'
if ARGV[2] ~= '' and (ARGV[2] ~= version or ARGV[3] ~= (meta[3] or '0') or ARGV[4] ~= (meta[10] or '0')) then
  return {version}
end
local time = ARGV[1]
if time == '' then
  local now = redis.call('TIME')
  time = string.format('%.0f', now[1] * 1000000 + now[2])
end

-- Lua passes no more than some thousands of arguments.
local FIELDS_MAX = 4000

local function fields(key, names)
  if #names <= FIELDS_MAX then
    return redis.call('HMGET', key, unpack(names))
  end
  local values = {}
  for at = 1, #names, FIELDS_MAX do
    local part = redis.call('HMGET', key, unpack(names, at, math.min(at + FIELDS_MAX - 1, #names)))
    for position = 1, #part do
      values[#values + 1] = part[position]
    end
  end
  return values
end

local function lane(key, depth)
  local found = redis.call('ZRANGE', key, 0, depth - 1, 'WITHSCORES')
  if #found == 0 then
    return {found, {}, {}}
  end
  local ids = {}
  for at = 1, #found, 2 do
    ids[#ids + 1] = string.sub(found[at], 9)
  end
  return {found, fields(KEYS[2], ids), fields(KEYS[3], ids)}
end

local function blocks(index, block, id, count)
  local labels = redis.call('ZREVRANGEBYLEX', index, '[' .. id, '-', 'LIMIT', 0, count)
  if #labels == 0 then
    return {}
  end
  return redis.call('HMGET', block, unpack(labels))
end

-- Lua's own comparison of strings follows the language of the machine; this one goes by bytes.
local function less(one, other)
  for at = 1, math.min(#one, #other) do
    local a, b = string.byte(one, at), string.byte(other, at)
    if a ~= b then
      return a < b
    end
  end
  return #one < #other
end

-- Those of one score may be many: the position names the last one seen among them.
local function page(key, max, score, member, limit)
  limit = tonumber(limit)
  if score == '' then
    return redis.call('ZRANGEBYSCORE', key, '-inf', max, 'WITHSCORES', 'LIMIT', 0, limit)
  end
  local start = redis.call('ZCOUNT', key, '-inf', '(' .. score)
  if redis.call('ZSCORE', key, member) == score then
    start = redis.call('ZRANK', key, member) + 1
  end
  local answer = {}
  local highest = tonumber(max)
  while #answer < 2 * limit do
    local found = redis.call('ZRANGE', key, start, start + limit - 1, 'WITHSCORES')
    for at = 1, #found, 2 do
      if tonumber(found[at + 1]) > highest or #answer >= 2 * limit then
        return answer
      end
      if found[at + 1] ~= score or less(member, found[at]) then
        answer[#answer + 1] = found[at]
        answer[#answer + 1] = found[at + 1]
      end
    end
    if #found < 2 * limit then
      return answer
    end
    start = start + limit
  end
  return answer
end

local answers = {}
local at = 5
while at <= #ARGV do
  local kind = ARGV[at]
  local answer
  if kind == 'C' then
    local count = tonumber(ARGV[at + 3])
    answer = redis.call(ARGV[at + 1], KEYS[tonumber(ARGV[at + 2])], unpack(ARGV, at + 4, at + 3 + count))
    at = at + 4 + count
  elseif kind == 'S' then
    answer = redis.call('ZINTER', 2, KEYS[tonumber(ARGV[at + 1])], KEYS[tonumber(ARGV[at + 2])])
    at = at + 3
  elseif kind == 'F' then
    answer = lane(KEYS[tonumber(ARGV[at + 1])], tonumber(ARGV[at + 2]))
    at = at + 3
  elseif kind == 'L' then
    answer = blocks(KEYS[tonumber(ARGV[at + 1])], KEYS[tonumber(ARGV[at + 2])], ARGV[at + 3], ARGV[at + 4])
    at = at + 5
  elseif kind == 'P' then
    answer = page(KEYS[tonumber(ARGV[at + 1])], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5])
    at = at + 6
  else
    return redis.error_reply('TASKLANE unknown read')
  end
  answers[#answers + 1] = answer
end
return {version, time, meta, answers}
