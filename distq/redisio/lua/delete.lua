-- Drop what is pending or dead of items, and the failure records of those that nobody holds.
-- With a state other than '', only what is in it. Returns how many items changed.
local ready, dirty, processing, delayed, failures, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local state = ARGV[1]
local items = { unpack(ARGV, 2) }
local call = redis.call
local held = call('ZMSCORE', processing, unpack(items))
for _, key in ipairs({ ready, dirty, delayed, dead }) do call('ZCARD', key) end
call('HLEN', failures)
local states = { ready = { ready }, dirty = { dirty }, delayed = { delayed }, dead = { dead } }
states[''] = { ready, dirty, delayed, dead }
local deleted = 0
for i, item in ipairs(items) do
  local dropped = 0
  for _, key in ipairs(states[state]) do dropped = dropped + call('ZREM', key, item) end
  if dropped > 0 then
    deleted = deleted + 1
    if not held[i] then call('HDEL', failures, item) end
  end
end
return deleted
