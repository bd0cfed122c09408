#!lua
-- Writes what was decided, if nothing has changed since it was read.
--
-- KEYS  1 meta, 2 turn, 3 index, 4 block, then every key that is written
-- ARGV  1 the version at which was decided, 2 its epoch, 3 the mark of the write that led to it
--       4 the mark of this write
--       5 who writes
--       6 "epoch" to begin one, else empty
--       then writes, one behind the other:
--         C command key count arguments…   a plain command
--         H key heads member               notes again where a sorted set begins
--         A ids                            adds tasks to the index, in rising order
--         R ids                            removes tasks from the index
-- gives {1, time in microseconds} when it was written; {0} when another version is there, or the same
--       by another write; {2} when it is another server's turn; {3} when the epoch began on another Redis
--       server, or on this one before it was started again. In these nothing was written.
--
-- Keys are named by their place in KEYS. Every guard stands before the first write, and whatever else
-- may fail though the store is whole: an error behind a write leaves half of it.
local known = redis.call('HMGET', KEYS[1], 'version', 'epoch', 'mark', 'origin')
for at = 1, 3 do
  if (known[at] or '0') ~= ARGV[at] then
    return {0}
  end
end
-- A user may lack the right to these.
local now, info = redis.pcall('TIME'), redis.pcall('INFO', 'replication')
if now.err or type(info) == 'table' then
  return redis.error_reply('TASKLANE ' .. (now.err or info.err))
end
-- Redis gives itself another id when it starts and when it becomes a primary.
local origin = string.match(info, 'master_replid:(%x+)')
if ARGV[6] ~= 'epoch' and known[4] ~= origin then
  return {3}
end
local turn = redis.call('GET', KEYS[2])
if turn and turn ~= ARGV[5] then
  return {2}
end

-- The index is a list of ids in order, cut into blocks. The set KEYS[3] holds the label of each
-- block, which is not above its ids; the hash KEYS[4] holds the ids themselves, 16 bytes each.
local FIRST = string.rep('\0', 16)
local BLOCK_BYTES_MAX = 64 * 16
local open = nil

-- Lua's own comparison of strings follows the language of the machine; this one goes by bytes.
local function less(one, other)
  local a, b, c = struct.unpack('>I6I6I4', one)
  local x, y, z = struct.unpack('>I6I6I4', other)
  if a ~= x then
    return a < x
  end
  if b ~= y then
    return b < y
  end
  return c < z
end

local function close()
  if open and open.changed then
    if open.ids == '' and open.label ~= FIRST then
      redis.call('HDEL', KEYS[4], open.label)
      redis.call('ZREM', KEYS[3], open.label)
    else
      redis.call('HSET', KEYS[4], open.label, open.ids)
      redis.call('ZADD', KEYS[3], 0, open.label)
    end
  end
  open = nil
end

local function find(id)
  if open and not less(id, open.label) and (not open.after or less(id, open.after)) then
    return
  end
  close()
  local label = redis.call('ZREVRANGEBYLEX', KEYS[3], '[' .. id, '-', 'LIMIT', 0, 1)[1] or FIRST
  local after = redis.call('ZRANGEBYLEX', KEYS[3], '(' .. label, '+', 'LIMIT', 0, 1)[1]
  open = {label = label, after = after, ids = redis.call('HGET', KEYS[4], label) or '', changed = false}
end

-- How many bytes of the open block are ids below this one.
local function below(id)
  local low, high = 0, #open.ids / 16
  -- Nearly all come in order.
  if high > 0 and less(string.sub(open.ids, -16), id) then
    return #open.ids
  end
  while low < high do
    local middle = math.floor((low + high) / 2)
    if less(string.sub(open.ids, middle * 16 + 1, middle * 16 + 16), id) then
      low = middle + 1
    else
      high = middle
    end
  end
  return low * 16
end

local function split(at, label)
  local right = string.sub(open.ids, at + 1)
  open.ids = string.sub(open.ids, 1, at)
  local after = open.after
  open.after = label
  local left = open
  open = {label = label, after = after, ids = right, changed = true}
  close()
  open = left
end

local function add(id)
  find(id)
  local at = below(id)
  if string.sub(open.ids, at + 1, at + 16) == id then
    return
  end
  if at == #open.ids and at >= BLOCK_BYTES_MAX then
    -- Behind a full block: the next one begins here.
    local after = open.after
    open.after = id
    close()
    open = {label = id, after = after, ids = id, changed = true}
    return
  end
  open.ids = string.sub(open.ids, 1, at) .. id .. string.sub(open.ids, at + 1)
  open.changed = true
  if #open.ids > BLOCK_BYTES_MAX then
    local half = math.floor(#open.ids / 32) * 16
    split(half, string.sub(open.ids, half + 1, half + 16))
  end
end

-- Ids in rising order that come after all others, as new ones nearly always do: whole blocks at a
-- time. Says whether they were.
local function append(added)
  close()
  local label = redis.call('ZREVRANGEBYLEX', KEYS[3], '+', '-', 'LIMIT', 0, 1)[1] or FIRST
  local ids = redis.call('HGET', KEYS[4], label) or ''
  local first = string.sub(added, 1, 16)
  if less(first, label) or (ids ~= '' and not less(string.sub(ids, -16), first)) then
    return false
  end
  local at, room = 1, BLOCK_BYTES_MAX - #ids
  local blocks, labels = {}, {}
  while at <= #added do
    if room <= 0 then
      label, ids, room = string.sub(added, at, at + 15), '', BLOCK_BYTES_MAX
    end
    blocks[#blocks + 1] = label
    blocks[#blocks + 1] = ids .. string.sub(added, at, at + room - 1)
    labels[#labels + 1] = 0
    labels[#labels + 1] = label
    at, room = at + room, 0
  end
  redis.call('HSET', KEYS[4], unpack(blocks))
  redis.call('ZADD', KEYS[3], unpack(labels))
  return true
end

local function remove(id)
  find(id)
  local at = below(id)
  if string.sub(open.ids, at + 1, at + 16) == id then
    open.ids = string.sub(open.ids, 1, at) .. string.sub(open.ids, at + 17)
    open.changed = true
  end
end

local function note_head(key, heads, member)
  local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  if first[2] then
    redis.call('ZADD', heads, first[2], member)
  else
    redis.call('ZREM', heads, member)
  end
end

if ARGV[6] == 'epoch' then
  redis.call('HSET', KEYS[1], 'origin', origin)
end
local at = 7
while at <= #ARGV do
  local kind = ARGV[at]
  if kind == 'C' then
    local count = tonumber(ARGV[at + 3])
    redis.call(ARGV[at + 1], KEYS[tonumber(ARGV[at + 2])], unpack(ARGV, at + 4, at + 3 + count))
    at = at + 4 + count
  elseif kind == 'H' then
    note_head(KEYS[tonumber(ARGV[at + 1])], KEYS[tonumber(ARGV[at + 2])], ARGV[at + 3])
    at = at + 4
  else
    local ids = ARGV[at + 1]
    if kind == 'R' or not append(ids) then
      local change = kind == 'A' and add or remove
      for position = 1, #ids, 16 do
        change(string.sub(ids, position, position + 15))
      end
      close()
    end
    at = at + 2
  end
end
redis.call('HSET', KEYS[1], 'version', string.format('%.0f', ARGV[1] + 1), 'mark', ARGV[4])
return {1, string.format('%.0f', now[1] * 1000000 + now[2])}
